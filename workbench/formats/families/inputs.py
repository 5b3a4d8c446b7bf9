"""Twins of what records come from and gradients gather in: readers, ordered queues, barriers, accumulators, session handles."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []


def _shared(op: Operation) -> dict[str, Any]:
    return {key: attr("s", op.attrs[key]) for key in ("container", "shared_name")}


def _read_shared(node: Node) -> dict[str, Any]:
    return {key: node.attr(key, "") for key in ("container", "shared_name")}


# readers

_READERS = {"line": "TextLineReader", "whole": "WholeFileReader", "fixed": "FixedLengthRecordReader",
            "framed": "TFRecordReader", "name": "IdentityReader"}
_LENGTHS = ("record_bytes", "header_bytes", "footer_bytes", "hop_bytes")


@exports("file_reader")
def _(writer: Any, op: Operation) -> None:
    kind, options = op.attrs["kind"], op.attrs["options"]
    attrs = _shared(op)
    if kind == "line":
        attrs["skip_header_lines"] = attr("i", options[0])
    if kind == "fixed":
        attrs |= {key: attr("i", value) for key, value in zip(_LENGTHS, options)}
    if kind == "framed":
        attrs["compression_type"] = attr("s", options[0])
    writer.node(op, _READERS[kind] + "V2", [], attrs | ({"encoding": attr("s", options[4])} if kind == "fixed" and options[4]
                                                        else {}))


@imports(*_READERS.values(), *(f"{theirs}V2" for theirs in _READERS.values()))
def _(node: Node) -> Any:
    kind = next(kind for kind, theirs in _READERS.items() if theirs == node.proto.op.removesuffix("V2"))
    options: tuple[Any, ...] = ()
    if kind == "line":
        options = (node.attr("skip_header_lines", 0),)
    if kind == "fixed":
        options = (*(node.attr(key, 0) for key in _LENGTHS), node.attr("encoding", ""))
    if kind == "framed":
        options = (node.attr("compression_type", ""),)
    return raw("file_reader")(kind=kind, options=options, **_read_shared(node), name=node.exact)


_OF_READERS = """
    reader_read ReaderRead{} reader queue
    reader_read_up_to ReaderReadUpTo{} reader queue most
    reader_num_records_produced ReaderNumRecordsProduced{} reader
    reader_num_work_units_completed ReaderNumWorkUnitsCompleted{} reader
    reader_reset ReaderReset{} reader
    reader_serialize_state ReaderSerializeState{} reader
    reader_restore_state ReaderRestoreState{} reader state
"""
rows(_OF_READERS.format(*[""] * 7), handles=2, write=False)
rows(_OF_READERS.format(*["V2"] * 7), handles=2)


# ordered queues and barriers

@exports("priority_queue", "barrier")
def _(writer: Any, op: Operation) -> None:
    """There the types and shapes of a queue by priority are without those of the priority."""
    first = op.kind == "priority_queue"
    writer.node(op, "PriorityQueueV2" if first else "Barrier", [], {
        "component_types": attr("list(type)", op.attrs["component_types"][first:]),
        "shapes": attr("list(shape)", (op.attrs["shapes"] or ())[first:]), "capacity": attr("i", op.attrs.get("capacity", -1)),
        **_shared(op)})


@imports("PriorityQueue", "PriorityQueueV2", "Barrier")
def _(node: Node) -> Any:
    types, shapes = tuple(node.needed("component_types")), tuple(node.attr("shapes", ()))
    if node.proto.op == "Barrier":
        return get_default_graph().create("barrier", (), {
            "component_types": types, "shapes": shapes, **_read_shared(node)}, node.exact).outputs[0]
    attrs = {"component_types": (as_dtype("int64"), *types), "shapes": ((), *shapes) if shapes or not types else None,
             "capacity": node.attr("capacity", -1), **_read_shared(node)}
    return get_default_graph().create("priority_queue", (), attrs, node.exact).outputs[0]


rows("""
    barrier_insert_many BarrierInsertMany handle keys values | T:values component_index=component_index
    barrier_close BarrierClose handle | cancel_pending_enqueues=cancel_pending_enqueues
    barrier_ready_size BarrierReadySize handle
    barrier_incomplete_size BarrierIncompleteSize handle
    accumulator_num_accumulated AccumulatorNumAccumulated handle
    accumulator_set_global_step AccumulatorSetGlobalStep handle new_global_step
""", handles=1)


# accumulators

_ACCUMULATORS = {"conditional_accumulator": "ConditionalAccumulator",
                 "sparse_conditional_accumulator": "SparseConditionalAccumulator"}


@exports(*_ACCUMULATORS)
def _(writer: Any, op: Operation) -> None:
    attrs = {"dtype": attr("type", as_dtype(op.attrs["dtype"])), "shape": attr("shape", op.attrs["shape"]), **_shared(op)}
    if op.attrs["reduction_type"] != "MEAN":      # which older versions do not know
        attrs["reduction_type"] = attr("s", op.attrs["reduction_type"])
    writer.node(op, _ACCUMULATORS[op.kind], [], attrs)


@imports(*_ACCUMULATORS.values())
def _(node: Node) -> Any:
    ours = next(ours for ours, theirs in _ACCUMULATORS.items() if theirs == node.proto.op)
    return raw(ours)(dtype=node.needed("dtype"), shape=node.needed("shape"), name=node.exact,
                     reduction_type=node.attr("reduction_type", "MEAN"), **_read_shared(node))


@exports("accumulator_apply_gradient")
def _(writer: Any, op: Operation) -> None:
    """Of gradients by rows, which are indices and values here, TensorFlow is told the shape as well: an empty one, unknown."""
    handle, step, *parts = (writer.ref(t) for t in op.inputs)
    dtype = {"dtype": attr("type", op.inputs[-1].dtype)}
    if len(parts) == 1:
        writer.node(op, "AccumulatorApplyGradient", [handle, step, *parts], dtype)
        return
    shape = writer.constant(op, "gradient_shape", (), as_dtype("int64"))
    writer.node(op, "SparseAccumulatorApplyGradient", [handle, step, *parts, shape], {
        **dtype, "has_known_shape": attr("b", False)})


@imports("AccumulatorApplyGradient", "SparseAccumulatorApplyGradient", handles=1)
def _(node: Node) -> Any:
    parts = node.inputs[2:4] if node.proto.op.startswith("Sparse") else node.inputs[2:]
    return raw("accumulator_apply_gradient")(*node.inputs[:2], parts, name=node.exact)


_TAKES = {"accumulator_take_gradient": "AccumulatorTakeGradient",
          "sparse_accumulator_take_gradient": "SparseAccumulatorTakeGradient"}


@exports(*_TAKES)
def _(writer: Any, op: Operation) -> None:
    writer.node(op, _TAKES[op.kind], [writer.ref(t) for t in op.inputs], {"dtype": attr("type", op.outputs[-1].dtype)})
    if len(op.outputs) == 2:
        for tensor, place in zip(op.outputs, ("", ":1")):
            writer.rename(tensor, op.name + place)


@imports(*_TAKES.values(), handles=1)
def _(node: Node) -> Any:
    ours = next(ours for ours, theirs in _TAKES.items() if theirs == node.proto.op)
    found = raw(ours)(*node.inputs, dtype=node.needed("dtype"), shape=node.inputs[0].op.attrs["shape"], name=node.exact)
    return list(found) if ours.startswith("sparse") else found


# values that a session keeps, and sparse tensors in maps

rows("""
    get_session_handle GetSessionHandleV2 value | T:value
    get_session_tensor GetSessionTensor handle | dtype=dtype
    delete_session_tensor DeleteSessionTensor handle
    sparse_map_add AddSparseToTensorsMap indices values shape | T:values container=container shared_name=shared_name
    sparse_map_add_rows AddManySparseToTensorsMap indices values shape | T:values container=container shared_name=shared_name
    sparse_map_take TakeManySparseFromTensorsMap handles | dtype=dtype container=container shared_name=shared_name
""")
