"""Twins of random draws: of distributions, of orders, of classes."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import ops, raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.formats.seeds import read_seeds, written_seeds
from workbench.formats.twins import Node, exports, imports
from workbench.formats.values import attr

__all__: list[str] = []


@exports("draw_gamma")
def _(writer: Any, op: Operation) -> None:
    shape, alpha = op.inputs
    writer.node(op, "RandomGamma", [writer.ref(shape), writer.ref(alpha)], {
        "S": attr("type", shape.dtype), "T": attr("type", alpha.dtype), **written_seeds(op)})


@imports("RandomGamma")
def _(node: Node) -> Any:
    return raw("draw_gamma")(*node.inputs, **read_seeds(node), name=node.exact)


@exports("draw_poisson")
def _(writer: Any, op: Operation) -> None:
    shape, rate = op.inputs
    writer.node(op, "RandomPoisson", [writer.ref(shape), writer.ref(rate)], {
        "S": attr("type", shape.dtype), "dtype": attr("type", rate.dtype), **written_seeds(op)})


@imports("RandomPoisson", "RandomPoissonV2")
def _(node: Node) -> Any:
    found = raw("draw_poisson")(*node.inputs, **read_seeds(node), name=None)
    wanted = node.attr("dtype", node.inputs[1].dtype)
    return ops.identity(found if found.dtype is wanted else ops.cast(found, wanted), name=node.exact)


@exports("random_permutation")
def _(writer: Any, op: Operation) -> None:
    """The numbers up to the size, shuffled."""
    size = op.inputs[0]
    ends = [writer.constant(op, name, size.dtype.numpy.type(n)) for name, n in (("start", 0), ("step", 1))]
    numbers = writer.aux(op, "Range", [ends[0], writer.ref(size), ends[1]], {"Tidx": attr("type", size.dtype)})
    if op.outputs[0].dtype is not size.dtype:
        numbers = writer.aux(op, "Cast", [numbers], {"SrcT": attr("type", size.dtype), "DstT": attr(
            "type", op.outputs[0].dtype)})
    writer.node(op, "RandomShuffle", [numbers], {"T": attr("type", op.outputs[0].dtype), **written_seeds(op)})


@imports("RandomShuffle")
def _(node: Node) -> Any:
    value = node.inputs[0]
    order = raw("random_permutation")(ops.getitem(ops.shape_vector(value), 0), **read_seeds(node))
    found = ops.gather(value, order, name=node.exact)
    found.set_shape(value.shape)
    return found


# classes

_EVEN = {"uniform": "UniformCandidateSampler", "log_uniform": "LogUniformCandidateSampler"}


def _sampled(op: Operation) -> dict[str, Any]:
    count = op.inputs[0].shape.sizes
    if count is None or count[1] is None:
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} is given an unknown number of true classes; set the shape")
    return {"num_true": attr("i", int(count[1])), "num_sampled": attr("i", op.attrs["num_sampled"]),
            "unique": attr("b", op.attrs["unique"]), **written_seeds(op)}


def _read_sampled(node: Node) -> dict[str, Any]:
    return {"num_sampled": node.needed("num_sampled"), "unique": node.needed("unique"), **read_seeds(node)}


@exports("candidate_sampler")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, _EVEN[op.attrs["distribution"]], [writer.ref(op.inputs[0])], {
        **_sampled(op), "range_max": attr("i", op.attrs["range_max"])})


@imports(*_EVEN.values())
def _(node: Node) -> Any:
    kind = next(kind for kind, theirs in _EVEN.items() if theirs == node.proto.op)
    return list(raw("candidate_sampler")(ops.cast(node.inputs[0], "int64"), distribution=kind,
                                         range_max=node.needed("range_max"), **_read_sampled(node), name=node.exact))


@exports("unigram_sampler")
def _(writer: Any, op: Operation) -> None:
    weights = [float(w) for w in op.attrs["weights"]]
    attrs = {**_sampled(op), "range_max": attr("i", len(weights))}
    if op.attrs["learned"]:
        writer.node(op, "LearnedUnigramCandidateSampler", [writer.ref(op.inputs[0])], attrs)
        return
    writer.node(op, "FixedUnigramCandidateSampler", [writer.ref(op.inputs[0])], {
        **attrs, "vocab_file": attr("s", ""), "distortion": attr("f", 1.0), "num_reserved_ids": attr("i", 0),
        "num_shards": attr("i", 1), "shard": attr("i", 0), "unigrams": attr("list(f)", weights)})


@imports("LearnedUnigramCandidateSampler")
def _(node: Node) -> Any:
    return list(raw("unigram_sampler")(ops.cast(node.inputs[0], "int64"), weights=(1.0,) * node.needed("range_max"),
                                       learned=True, **_read_sampled(node), name=node.exact))


@imports("FixedUnigramCandidateSampler")
def _(node: Node) -> Any:
    found = _read_sampled(node)
    given = {key: node.attr(key, default) for key, default in (
        ("vocab_file", ""), ("distortion", 1.0), ("num_reserved_ids", 0), ("num_shards", 1), ("shard", 0))}
    drawn = ops.fixed_unigram_candidate_sampler(
        ops.cast(node.inputs[0], "int64"), node.needed("num_true"), found["num_sampled"], found["unique"],
        node.needed("range_max"), unigrams=tuple(node.attr("unigrams", [])), **given)
    for key in ("seed", "seed2"):
        drawn[0].op.attrs[key] = found[key]
    return [ops.identity(part, name=node.exact if i == 0 else None) for i, part in enumerate(drawn)]


@exports("call_python", "call_python_once")
def _(writer: Any, op: Operation) -> None:
    """As TensorFlow writes it: the name of a function that only the process which built the graph knows."""
    writer.node(op, "PyFunc" if op.kind == "call_python" else "PyFuncStateless", [writer.ref(t) for t in op.inputs], {
        "token": attr("s", op.attrs["token"]), "Tin": attr("list(type)", [t.dtype for t in op.inputs]),
        "Tout": attr("list(type)", [as_dtype(dtype) for dtype in op.attrs["dtypes"]])})


@imports("PyFunc", "PyFuncStateless")
def _(node: Node) -> Any:
    ours = "call_python" if node.proto.op == "PyFunc" else "call_python_once"
    return raw(ours)(node.inputs, token=node.needed("token"), dtypes=tuple(node.needed("Tout")), name=node.exact)
