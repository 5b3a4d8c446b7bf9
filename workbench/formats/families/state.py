"""Twins of variables, their updates, random numbers and queues."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_value, ops, raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.formats.seeds import read_seeds, written_seeds
from workbench.formats.twins import Node, exporters, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []


# Variables are resource variables there: a read is a snapshot, as it is here. References of TensorFlow 1.x are read too.

@exports("variable")
def _(writer: Any, op: Operation) -> None:
    found = op.attrs
    writer.node(op, "VarHandleOp", [], {
        "dtype": attr("type", found["dtype"]), "shape": attr("shape", found["shape"]),
        "container": attr("s", found["container"]), "shared_name": attr("s", found["shared_name"] or op.name)})


@imports("VariableV2", "Variable", "VarHandleOp")
def _(node: Node) -> Any:
    attrs = {"dtype": node.needed("dtype"), "shape": node.needed("shape"), "shared_name": node.attr("shared_name", ""),
             "container": node.attr("container", "")}
    if attrs["shared_name"] == node.proto.name:      # what is written where no name was asked for
        attrs["shared_name"] = ""
    return get_default_graph().create("variable", (), attrs, node.exact).outputs[0]


@exports("read_variable")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "ReadVariableOp", [writer.ref(op.inputs[0])], {"dtype": attr("type", op.attrs["dtype"])})


@imports("Identity", "ReadVariableOp", "RefIdentity", handles=1)
def _(node: Node) -> Any:
    if len(node.inputs) != 1:
        raise errors.InvalidArgumentError(f"{node.where}: it has {len(node.inputs)} inputs; 1 is needed")
    found = node.inputs[0]
    if found.op.kind != "variable":
        return ops.identity(found, name=node.exact)
    held, wanted = found.op.attrs["dtype"], node.attr("dtype")
    if wanted is not None and as_dtype(wanted) is not as_dtype(held):
        raise errors.InvalidArgumentError(f"{node.where}: Trying to read variable with wrong dtype. Expected {held.name} got "
                                          f"{as_dtype(wanted).name}; read it as {held.name}")
    return ops.read_variable(found, dtype=found.op.attrs["dtype"], shape=found.op.attrs["shape"], name=node.exact)


@imports("VariableShape", handles=1)
def _(node: Node) -> Any:
    held = node.inputs[0].op.attrs
    value = ops.read_variable(node.inputs[0], dtype=held["dtype"], shape=held["shape"])
    return ops.shape(value, node.attr("out_type", as_dtype("int32")), name=node.exact)


rows("is_variable_initialized VarIsInitializedOp handle", handles=1)
rows("is_variable_initialized IsVariableInitialized handle", handles=1, write=False)


@exports("resource_gather")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "ResourceGather", [writer.ref(t) for t in op.inputs], {
        "dtype": attr("type", op.attrs["dtype"]), "Tindices": attr("type", op.inputs[1].dtype)})


@imports("ResourceGather", handles=1)
def _(node: Node) -> Any:
    found = node.inputs[0].op.attrs
    return ops.resource_gather(*node.inputs, dtype=found["dtype"], shape=found["shape"], name=node.exact)


@exports("count_up_to")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "ResourceCountUpTo", [writer.ref(op.inputs[0])], {
        "T": attr("type", op.attrs["dtype"]), "limit": attr("i", op.attrs["limit"])})


@imports("CountUpTo", "ResourceCountUpTo", handles=1)
def _(node: Node) -> Any:
    return ops.count_up_to(node.inputs[0], limit=node.needed("limit"), dtype=node.inputs[0].op.attrs["dtype"], name=node.exact)


# Updates. There they give nothing; what reads the new value here reads the variable afterwards.

_UPDATES = """
    1 assign Assign AssignVariableOp handle value | dtype:value
    1 assign_add AssignAdd AssignAddVariableOp handle value | dtype:value
    1 assign_sub AssignSub AssignSubVariableOp handle value | dtype:value
    1 scatter_add ScatterAdd ResourceScatterAdd handle indices values | dtype:values Tindices:indices
    1 scatter_sub ScatterSub ResourceScatterSub handle indices values | dtype:values Tindices:indices
    1 scatter_update ScatterUpdate ResourceScatterUpdate handle indices values | dtype:values Tindices:indices
    1 scatter_mul ScatterMul ResourceScatterMul handle indices values | dtype:values Tindices:indices
    1 scatter_div ScatterDiv ResourceScatterDiv handle indices values | dtype:values Tindices:indices
    1 scatter_min ScatterMin ResourceScatterMin handle indices values | dtype:values Tindices:indices
    1 scatter_max ScatterMax ResourceScatterMax handle indices values | dtype:values Tindices:indices
    1 scatter_nd_update ScatterNdUpdate ResourceScatterNdUpdate handle indices values | T:values Tindices:indices
    1 scatter_nd_add ScatterNdAdd ResourceScatterNdAdd handle indices values | T:values Tindices:indices
    1 scatter_nd_sub ScatterNdSub ResourceScatterNdSub handle indices values | T:values Tindices:indices
    1 slice_assign StridedSliceAssign ResourceStridedSliceAssign handle begin end strides value | T:value Index:begin \
        begin_mask=begin_mask end_mask=end_mask ellipsis_mask=ellipsis_mask new_axis_mask=new_axis_mask \
        shrink_axis_mask=shrink_axis_mask
    1 apply_gradient_descent ApplyGradientDescent ResourceApplyGradientDescent handle lr grad | T:grad
    2 apply_momentum ApplyMomentum ResourceApplyMomentum handle accum lr grad momentum | T:grad use_nesterov=use_nesterov
    2 apply_adagrad ApplyAdagrad ResourceApplyAdagrad handle accum lr grad | T:grad
    2 sparse_apply_adagrad SparseApplyAdagrad ResourceSparseApplyAdagrad handle accum lr grad indices | T:grad Tindices:indices
    2 sparse_apply_momentum SparseApplyMomentum ResourceSparseApplyMomentum handle accum lr grad indices momentum | \
        T:grad Tindices:indices use_nesterov=use_nesterov
    3 apply_adam ApplyAdam ResourceApplyAdam handle m v beta1_power beta2_power lr beta1 beta2 epsilon grad | T:grad
    3 apply_rms_prop ApplyRMSProp ResourceApplyRMSProp handle ms mom lr rho momentum epsilon grad | T:grad
    3 sparse_apply_rms_prop SparseApplyRMSProp ResourceSparseApplyRMSProp handle ms mom lr rho momentum epsilon grad indices | \
        T:grad Tindices:indices
""".replace("\\\n", "")


def _new_value(writer: Any, op: Operation) -> None:
    """The value after an update, where somebody reads it."""
    if op.graph.readers(op.outputs[0]):
        writer.rename(op.outputs[0], writer.aux(op, "ReadVariableOp", [writer.ref(op.inputs[0]), f"^{op.name}"], {
            "dtype": attr("type", op.outputs[0].dtype)}))


def _update(write: Any) -> Any:
    def write_and_read(writer: Any, op: Operation) -> None:
        with _each_row_once(writer, op) if op.kind.startswith("sparse_") else contextlib.nullcontext():
            write(writer, op)
        _new_value(writer, op)
    return write_and_read


@contextlib.contextmanager
def _each_row_once(writer: Any, op: Operation) -> Iterator[None]:
    """Where rows are named twice, their gradients are summed before the update, which TensorFlow leaves to its optimizers."""
    grad, indices = (op.inputs[op.definition.inputs.index(name)] for name in ("grad", "indices"))
    kinds = {"T": attr("type", indices.dtype), "out_idx": attr("type", as_dtype("int32"))}
    rows_ = writer.aux(op, "Unique", [writer.ref(indices)], kinds)
    count = writer.aux(op, "Size", [rows_], {"T": kinds["T"], "out_type": kinds["out_idx"]})
    total = writer.aux(op, "UnsortedSegmentSum", [writer.ref(grad), f"{rows_}:1", count], {
        "T": attr("type", grad.dtype), "Tindices": kinds["out_idx"], "Tnumsegments": kinds["out_idx"]})
    with writer.renamed({grad: total, indices: rows_}):
        yield


for _line in _UPDATES.strip().splitlines():
    _handles, _ours, _old, _new, _rest = _line.split(maxsplit=4)
    rows(f"{_ours} {_old} {_rest}", int(_handles), write=False)
    rows(f"{_ours} {_new} {_rest}", int(_handles))
    exporters[_ours] = _update(exporters[_ours])


@exports("assign_freely")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "AssignVariableOp", [writer.ref(t) for t in op.inputs], {"dtype": attr("type", op.inputs[1].dtype)})
    _new_value(writer, op)


@exports("sparse_apply_gradient_descent")
def _(writer: Any, op: Operation) -> None:
    handle, rate, grad, indices = op.inputs
    step = writer.aux(op, "Mul", [writer.ref(grad), writer.ref(rate)], {"T": attr("type", grad.dtype)})
    writer.node(op, "ResourceScatterSub", [writer.ref(handle), writer.ref(indices), step], {
        "dtype": attr("type", grad.dtype), "Tindices": attr("type", indices.dtype)})
    _new_value(writer, op)


@exports("sparse_apply_adam")
def _(writer: Any, op: Operation) -> None:
    with _each_row_once(writer, op):
        _sparse_adam(writer, op)
    _new_value(writer, op)


def _sparse_adam(writer: Any, op: Operation) -> None:
    """As TensorFlow's optimizer writes it: both moments decay in all rows, their rows are added to, and all rows move."""
    handle, m, v, power1, power2, rate, beta1, beta2, epsilon, grad, indices = (writer.ref(t) for t in op.inputs)
    made = op.inputs[9].dtype
    kind, held = {"T": attr("type", made)}, {"dtype": attr("type", made)}
    one = writer.constant(op, "one", made.numpy.type(1), made)

    def do(theirs: str, *inputs: str, attrs: Any = kind) -> str:
        return str(writer.aux(op, theirs, inputs, attrs))

    def moment(place: str, beta: str, addend: str) -> str:
        decayed = do("AssignVariableOp", place, do("Mul", do("ReadVariableOp", place, attrs=held), beta), attrs=held)
        added = do("ResourceScatterAdd", place, indices, do("Mul", addend, do("Sub", one, beta)), f"^{decayed}",
                   attrs={**held, "Tindices": attr("type", op.inputs[10].dtype)})
        return do("ReadVariableOp", place, f"^{added}", attrs=held)

    first, second = moment(m, beta1, grad), moment(v, beta2, do("Mul", grad, grad))
    step = do("RealDiv", do("Mul", rate, do("Sqrt", do("Sub", one, power2))), do("Sub", one, power1))
    change = do("RealDiv", do("Mul", step, first), do("Add", do("Sqrt", second), epsilon))
    writer.node(op, "AssignSubVariableOp", [handle, change], held)


# random numbers: one standard draw, scaled

_RANDOM = {"random_uniform": "RandomUniform", "random_normal": "RandomStandardNormal", "truncated_normal": "TruncatedNormal"}


@exports(*_RANDOM)
def _(writer: Any, op: Operation) -> None:
    found, shape, dtype = op.attrs, op.inputs[0], op.attrs["dtype"]
    seeds = written_seeds(op)
    attrs = {"T": attr("type", shape.dtype), "dtype": attr("type", dtype), **seeds}
    uniform = op.kind == "random_uniform"
    if uniform and dtype.is_integer:
        bounds = [writer.constant(op, key, dtype.numpy.type(found[key])) for key in ("minval", "maxval")]
        writer.node(op, "RandomUniformInt", [writer.ref(shape), *bounds], {
            "T": attrs["T"], "Tout": attr("type", dtype), **seeds})
        return
    start, scale = (found["minval"], found["maxval"] - found["minval"]) if uniform else (found["mean"], found["stddev"])
    if (start, scale) == (0.0, 1.0):
        writer.node(op, _RANDOM[op.kind], [writer.ref(shape)], attrs)
        return
    kind = {"T": attr("type", dtype)}
    drawn = writer.aux(op, _RANDOM[op.kind], [writer.ref(shape)], attrs)
    scaled = writer.aux(op, "Mul", [drawn, writer.constant(op, "scale", dtype.numpy.type(scale))], kind)
    writer.node(op, "Add", [scaled, writer.constant(op, "start", dtype.numpy.type(start))], kind)


@imports(*_RANDOM.values())
def _(node: Node) -> Any:
    ours = next(name for name, theirs in _RANDOM.items() if theirs == node.proto.op)
    return raw(ours)(node.inputs[0], dtype=node.needed("dtype"), **read_seeds(node), name=node.exact)


@imports("RandomUniformInt")
def _(node: Node) -> Any:
    bounds = [constant_value(t) for t in node.inputs[1:]]
    if bounds[0] is None or bounds[1] is None:
        raise errors.UnimplementedError(f"{node.where}: its bounds are known only at run time; give constants")
    return raw("random_uniform")(node.inputs[0], minval=int(bounds[0]), maxval=int(bounds[1]), dtype=node.inputs[1].dtype,
                                 **read_seeds(node), name=node.exact)


@exports("multinomial")
def _(writer: Any, op: Operation) -> None:
    seeds = written_seeds(op)
    writer.node(op, "Multinomial", [writer.ref(t) for t in op.inputs], {
        "T": attr("type", op.inputs[0].dtype), "output_dtype": attr("type", as_dtype("int64")), **seeds})


@imports("Multinomial")
def _(node: Node) -> Any:
    return raw("multinomial")(*node.inputs, **read_seeds(node), name=node.exact)


# queues

_QUEUES = {"fifo_queue": "FIFOQueueV2", "padding_fifo_queue": "PaddingFIFOQueueV2",
           "random_shuffle_queue": "RandomShuffleQueueV2"}


@exports(*_QUEUES)
def _(writer: Any, op: Operation) -> None:
    found = op.attrs
    attrs = {"component_types": attr("list(type)", found["component_types"]),
             "shapes": attr("list(shape)", found["shapes"] or []), "capacity": attr("i", found["capacity"]),
             "container": attr("s", found["container"]), "shared_name": attr("s", found["shared_name"])}
    if op.kind == "random_shuffle_queue":
        attrs |= {"min_after_dequeue": attr("i", found["min_after_dequeue"]), "seed": attr("i", found["seed"] or 0)}
    writer.node(op, _QUEUES[op.kind], [], attrs)


@imports(*_QUEUES.values(), *(name.removesuffix("V2") for name in _QUEUES.values()))
def _(node: Node) -> Any:
    ours = next(name for name, theirs in _QUEUES.items() if theirs in (node.proto.op, node.proto.op + "V2"))
    shapes = node.attr("shapes") or None
    attrs = {"component_types": tuple(node.needed("component_types")), "shapes": None if shapes is None else tuple(shapes),
             "capacity": node.attr("capacity", -1), "container": node.attr("container", ""),
             "shared_name": node.attr("shared_name", "")}
    if ours == "random_shuffle_queue":
        attrs |= {"min_after_dequeue": node.attr("min_after_dequeue", 0), "seed": node.attr("seed", 0) or None}
    return get_default_graph().create(ours, (), attrs, node.exact).outputs[0]


@exports("queue_enqueue", "queue_enqueue_many")
def _(writer: Any, op: Operation) -> None:
    kind = "QueueEnqueueV2" if op.kind == "queue_enqueue" else "QueueEnqueueManyV2"
    writer.node(op, kind, [writer.ref(t) for t in op.inputs], {
        "Tcomponents": attr("list(type)", [t.dtype for t in op.inputs[1:]])})


@imports("QueueEnqueueV2", "QueueEnqueue", "QueueEnqueueManyV2", "QueueEnqueueMany", handles=1)
def _(node: Node) -> Any:
    ours = "queue_enqueue_many" if "Many" in node.proto.op else "queue_enqueue"
    return get_default_graph().create(ours, node.inputs, {}, node.exact)


_TAKES = {"queue_dequeue": "QueueDequeueV2", "queue_dequeue_many": "QueueDequeueManyV2",
          "queue_dequeue_up_to": "QueueDequeueUpToV2"}


@exports(*_TAKES)
def _(writer: Any, op: Operation) -> None:
    writer.node(op, _TAKES[op.kind], [writer.ref(t) for t in op.inputs], {
        "component_types": attr("list(type)", op.attrs["component_types"])})


@imports(*_TAKES.values(), *(name.removesuffix("V2") for name in _TAKES.values()), handles=1)
def _(node: Node) -> Any:
    ours = next(name for name, theirs in _TAKES.items() if theirs in (node.proto.op, node.proto.op + "V2"))
    attrs = {"component_types": tuple(node.needed("component_types")), "shapes": node.inputs[0].op.attrs.get("shapes")}
    return list(get_default_graph().create(ours, node.inputs, attrs, node.exact).outputs)


rows("""
    queue_close QueueCloseV2 handle | cancel_pending_enqueues=cancel_pending_enqueues
    queue_size QueueSizeV2 handle
    queue_is_closed QueueIsClosedV2 handle
""", handles=1)
rows("""
    queue_close QueueClose handle | cancel_pending_enqueues=cancel_pending_enqueues
    queue_size QueueSize handle
    queue_is_closed QueueIsClosed handle
""", handles=1, write=False)
