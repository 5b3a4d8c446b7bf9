"""Twins of arithmetic, comparisons, reductions and products of matrices."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, ops, raw
from workbench.core.graph.dtype import as_dtype, string, variant
from workbench.core.graph.graph import Operation
from workbench.core.graph.opdef import registry
from workbench.formats.twins import Node, exports, importers, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

_UNARY = """
    abs=Abs acos=Acos asin=Asin atan=Atan ceil=Ceil cos=Cos cosh=Cosh erf=Erf erfc=Erfc exp=Exp expm1=Expm1 floor=Floor log=Log
    log1p=Log1p negative=Neg reciprocal=Reciprocal round=Round rsqrt=Rsqrt sigmoid=Sigmoid sign=Sign sin=Sin sinh=Sinh sqrt=Sqrt
    square=Square tan=Tan tanh=Tanh is_finite=IsFinite is_inf=IsInf is_nan=IsNan matrix_determinant=MatrixDeterminant
    matrix_inverse=MatrixInverse cholesky=Cholesky l2_loss=L2Loss invert_permutation=InvertPermutation
"""
_BINARY = """
    add=Add subtract=Sub multiply=Mul divide=RealDiv floordiv=FloorDiv floormod=FloorMod maximum=Maximum minimum=Minimum pow=Pow
    squared_difference=SquaredDifference truncatediv=TruncateDiv truncatemod=TruncateMod equal=Equal not_equal=NotEqual
    greater=Greater greater_equal=GreaterEqual less=Less less_equal=LessEqual
"""
for _pair in _UNARY.split():
    _ours, _theirs = _pair.split("=")
    _name = registry.find(_ours).inputs[0]
    rows(f"{_ours} {_theirs} {_name} | T:{_name}")
for _pair in _BINARY.split():
    _ours, _theirs = _pair.split("=")
    rows(f"{_ours} {_theirs} x y | T:x")

rows("""
    add AddV2 x y | T:x
    reciprocal Inv x | T:x
    truncatemod Mod x y | T:x
""", write=False)
rows("""
    logical_and LogicalAnd x y
    logical_or LogicalOr x y
    logical_not LogicalNot x
    cast Cast x | SrcT:x DstT=dtype
    matmul MatMul a b | T:a transpose_a=transpose_a transpose_b=transpose_b
    cross Cross a b | T:a
    matrix_diag MatrixDiag diagonal | T:diagonal
    matrix_diag_part MatrixDiagPart input | T:input
    matrix_set_diag MatrixSetDiag input diagonal | T:input
    matrix_solve MatrixSolve matrix rhs | T:matrix adjoint=adjoint
    matrix_triangular_solve MatrixTriangularSolve matrix rhs | T:matrix lower=lower adjoint=adjoint
    cumsum Cumsum x axis! | T:x Tidx:axis exclusive=exclusive reverse=reverse
    cumprod Cumprod x axis! | T:x Tidx:axis exclusive=exclusive reverse=reverse
    argmax ArgMax x axis! | T:x Tidx:axis output_type=dtype
    argmin ArgMin x axis! | T:x Tidx:axis output_type=dtype
    segment_sum SegmentSum data segment_ids | T:data Tindices:segment_ids
    check_numerics CheckNumerics x | T:x message=message
""")
rows("unsorted_segment_sum UnsortedSegmentSum data segment_ids num_segments | T:data Tindices:segment_ids "
     "Tnumsegments:num_segments")
rows("in_top_k InTopK predictions targets | T:targets k=k", write=False)


rows("add_n AddN *values | T:values N#values", read=False)


@imports("AddN", "AccumulateNV2")
def _(node: Node) -> Any:
    add = ops.list_add_n if node.inputs[0].dtype is variant else ops.add_n
    return add(node.inputs, name=node.exact)


_sum_of_numbers = importers["Add"]


@imports("Add", "AddV2")
def _(node: Node) -> Any:
    if [t.dtype for t in node.inputs] == [string, string]:
        return ops.string_add(*node.inputs, name=node.exact)
    return _sum_of_numbers(node)


@imports("Div")
def _(node: Node) -> Any:
    divide = ops.truncatediv if node.inputs[0].dtype.is_integer else ops.divide
    return divide(*node.inputs, name=node.exact)


@imports("DivNoNan")
def _(node: Node) -> Any:
    return ops.div_no_nan(*node.inputs, name=node.exact)


@imports("Rint")
def _(node: Node) -> Any:
    return ops.rint(node.inputs[0], name=node.exact)


@imports("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _(node: Node) -> Any:
    turns = [node.attr(key, False) for key in ("adj_x", "adj_y")]
    a, b = (ops.conj(t) if turn and t.dtype.kind == "complex" else t for t, turn in zip(node.inputs, turns))
    return ops.batch_matmul(a, b, *turns, name=node.exact)


@exports("batch_matmul")
def _(writer: Any, op: Operation) -> None:
    """TensorFlow's turns a matrix and takes its conjugate."""
    ranks = [t.shape.sizes[:-2] if t.shape.sizes is not None else None for t in op.inputs]
    kind = "BatchMatMul" if ranks[0] is not None and ranks[0] == ranks[1] else "BatchMatMulV2"      # the latter broadcasts
    texts = [writer.ref(t) for t in op.inputs]
    for position, title in enumerate(("transpose_a", "transpose_b")):
        if op.attrs[title] and op.inputs[position].dtype.kind == "complex":
            texts[position] = writer.aux(op, "Conj", [texts[position]], {"T": attr("type", op.inputs[position].dtype)})
    writer.node(op, kind, texts, {
        "T": attr("type", op.inputs[0].dtype), "adj_x": attr("b", op.attrs["transpose_a"]),
        "adj_y": attr("b", op.attrs["transpose_b"])})


@imports("MatrixInverse")
def _(node: Node) -> Any:
    if not node.attr("adjoint", False):
        return ops.matrix_inverse(node.inputs[0], name=node.exact)
    found = ops.matrix_inverse(node.inputs[0])
    return ops.matrix_transpose(found, conjugate=found.dtype.kind == "complex", name=node.exact)


@exports("logical_xor")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "NotEqual", [writer.ref(t) for t in op.inputs], {"T": attr("type", as_dtype("bool"))})


@exports("contract")
def _(writer: Any, op: Operation) -> None:
    """Two factors at a time: Einsum takes no more. What later factors or the result need is kept."""
    left, _, result = op.attrs["equation"].partition("->")
    terms, texts = left.split(","), [writer.ref(t) for t in op.inputs]
    kind = {"T": attr("type", op.inputs[0].dtype)}
    while len(terms) > 2:
        kept = "".join(dict.fromkeys(c for c in terms[0] + terms[1] if c in "".join(terms[2:]) + result))
        step = {**kind, "N": attr("i", 2), "equation": attr("s", f"{terms[0]},{terms[1]}->{kept}")}
        texts[:2], terms[:2] = [writer.aux(op, "Einsum", texts[:2], step)], [kept]
    equation = f"{','.join(terms)}->{result}"
    writer.node(op, "Einsum", texts, {**kind, "N": attr("i", len(texts)), "equation": attr("s", equation)})


@imports("Einsum")
def _(node: Node) -> Any:
    return raw("contract")(node.inputs, equation=node.needed("equation"), name=node.exact)


def _last_length(writer: Any, op: Operation, x: str, dtype: Any) -> str:
    """The length of the last axis, which the step knows."""
    index = attr("type", as_dtype("int32"))
    dims = writer.aux(op, "Shape", [x], {"T": attr("type", dtype), "out_type": index})
    last, one = (writer.constant(op, "last", np.array([at], np.int32)) for at in (-1, 1))
    found: str = writer.aux(op, "StridedSlice", [dims, last, one, one], {
        "T": index, "Index": index, "shrink_axis_mask": attr("i", 1), "end_mask": attr("i", 1)})
    return found


@exports("top_k")
def _(writer: Any, op: Operation) -> None:
    x, k = op.inputs[0], op.attrs["k"]
    count = _last_length(writer, op, writer.ref(x), x.dtype) if k is None else writer.constant(op, "k", np.int32(k))
    writer.node(op, "TopKV2", [writer.ref(x), count], {"T": attr("type", x.dtype), "sorted": attr("b", op.attrs["sorted"])})


@exports("order_along")
def _(writer: Any, op: Operation) -> None:
    # As TensorFlow writes it: places of the largest, of the opposites of the values for those of the smallest
    x, rank, axis, index = op.inputs[0], op.inputs[0].shape.rank, op.attrs["axis"], {"T": attr("type", as_dtype("int32"))}
    kind, taken = {"T": attr("type", x.dtype)}, writer.ref(x)
    if rank is None and axis != -1:
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} orders axis {axis} of a tensor of unknown rank, for which "
                                        "TensorFlow has no operations; order the last axis, or use set_shape")
    order = [i for i in range(rank or 0) if i != axis % rank] + [axis % rank] if rank else []
    turns = order != sorted(order)
    if turns:
        taken = writer.aux(op, "Transpose", [taken, writer.constant(op, "perm", np.array(order, np.int32))], {
            **kind, "Tperm": index["T"]})
    if not op.attrs["descending"]:      # of the smallest integer, the negative is none
        taken = writer.aux(op, "Invert" if x.dtype.is_integer else "Neg", [taken], kind)
    count = _last_length(writer, op, taken, x.dtype)
    places = f"{writer.aux(op, 'TopKV2', [taken, count], {**kind, 'sorted': attr('b', True)})}:1"
    if turns:
        back = writer.constant(op, "back", np.argsort(order).astype(np.int32))
        writer.node(op, "Transpose", [places, back], {**index, "Tperm": index["T"]})
    else:
        writer.node(op, "Identity", [places], index)


@imports("TopKV2", "TopK")
def _(node: Node) -> Any:
    k = node.inputs[1] if node.proto.op == "TopKV2" else node.needed("k")
    return tuple(ops.top_k(node.inputs[0], k=k, sorted=node.attr("sorted", True), name=node.exact))


@exports("in_top_k")
def _(writer: Any, op: Operation) -> None:
    predictions, targets = op.inputs
    text = writer.ref(predictions)
    if predictions.dtype.name != "float32":
        kinds = {"SrcT": attr("type", predictions.dtype), "DstT": attr("type", as_dtype("float32"))}
        text = writer.aux(op, "Cast", [text], kinds)
    k = writer.constant(op, "k", targets.dtype.numpy.type(op.attrs["k"]))
    writer.node(op, "InTopKV2", [text, writer.ref(targets), k], {"T": attr("type", targets.dtype)})


@imports("InTopKV2")
def _(node: Node) -> Any:
    return ops.in_top_k(*node.inputs[:2], node.inputs[2], name=node.exact)


# reductions: an axis of None is all of them

_REDUCTIONS = {"reduce_sum": "Sum", "reduce_mean": "Mean", "reduce_max": "Max", "reduce_min": "Min", "reduce_prod": "Prod",
               "reduce_all": "All", "reduce_any": "Any"}


def _axes(writer: Any, op: Operation, x: Any, text: str) -> str:
    """A constant with the axes, or operations that make all axes of a tensor of unknown rank."""
    axis, rank = op.attrs["axis"], x.shape.rank
    if axis is not None:
        return writer.constant(op, "reduction_indices", np.asarray(axis, np.int32))
    if rank is not None:
        return writer.constant(op, "reduction_indices", np.arange(rank, dtype=np.int32))
    count = writer.aux(op, "Rank", [text], {"T": attr("type", x.dtype)})
    bounds = [writer.constant(op, "range/start", np.int32(0)), count, writer.constant(op, "range/delta", np.int32(1))]
    return writer.aux(op, "Range", bounds, {"Tidx": attr("type", as_dtype("int32"))})


@exports(*_REDUCTIONS)
def _(writer: Any, op: Operation) -> None:
    text = writer.ref(op.inputs[0])
    attrs = {"Tidx": attr("type", as_dtype("int32")), "keep_dims": attr("b", op.attrs["keepdims"])}
    if op.inputs[0].dtype.kind != "bool":
        attrs["T"] = attr("type", op.inputs[0].dtype)
    writer.node(op, _REDUCTIONS[op.kind], [text, _axes(writer, op, op.inputs[0], text)], attrs)


@imports(*_REDUCTIONS.values())
def _(node: Node) -> Any:
    x, axes = node.inputs
    if node.proto.op == "Sum" and axes.shape.rank == 1 and axes.shape.num_elements() is None and constant_value(axes) is None:
        return _sum_over(x, axes, node.attr("keep_dims", False), node.exact)
    ours = next(name for name, theirs in _REDUCTIONS.items() if theirs == node.proto.op)
    return getattr(ops, ours)(node.inputs[0], axis=node.inputs[1], keepdims=node.attr("keep_dims", False), name=node.exact)


def _sum_over(x: Any, axes: Any, keep: bool, name: str) -> Any:
    """The sum over as many axes as a vector holds in the step: along them the shape becomes 1."""
    dims, places = ops.shape(x), ops.range(ops.rank(x))
    summed = ops.reduce_any(ops.equal(ops.expand_dims(places, 1), ops.expand_dims(ops.cast(axes, "int32"), 0)), axis=1)
    target = ops.select(summed, ops.ones_like(dims), dims)
    if keep:
        return ops.reduce_to(x, target, name=name)
    return ops.reshape(ops.reduce_to(x, target), ops.boolean_mask(dims, ops.logical_not(summed)), name=name)


@exports("reduce_logsumexp")
def _(writer: Any, op: Operation) -> None:
    x = op.inputs[0]
    kind = {"T": attr("type", x.dtype)}
    axes = _axes(writer, op, x, writer.ref(x))
    tidx = {"Tidx": attr("type", as_dtype("int32"))}
    largest = writer.aux(op, "Max", [writer.ref(x), axes], {**kind, **tidx, "keep_dims": attr("b", True)})
    powers = writer.aux(op, "Exp", [writer.aux(op, "Sub", [writer.ref(x), largest], kind)], kind)
    flags = {**kind, **tidx, "keep_dims": attr("b", op.attrs["keepdims"])}
    total = writer.aux(op, "Log", [writer.aux(op, "Sum", [powers, axes], flags)], kind)
    back = writer.aux(op, "Max", [writer.ref(x), axes], flags, "Max_1")
    writer.node(op, "Add", [total, back], kind)


@exports("reduce_to")
def _(writer: Any, op: Operation) -> None:
    x, shape = op.inputs
    kind, index = {"T": attr("type", x.dtype)}, shape.dtype
    dims = writer.aux(op, "Shape", [writer.ref(x)], {**kind, "out_type": attr("type", index)})
    axes = writer.aux(op, "BroadcastGradientArgs", [writer.ref(shape), dims], {"T": attr("type", index)})
    total = writer.aux(op, "Sum", [writer.ref(x), axes], {**kind, "Tidx": attr("type", index), "keep_dims": attr("b", False)})
    writer.node(op, "Reshape", [total, writer.ref(shape)], {**kind, "Tshape": attr("type", index)})


@exports("carried")
def _(writer: Any, op: Operation) -> None:
    # NOTE: TensorFlow has no such operation; as in its own gradient of cumprod, factors of 0 give NaN there
    factors, values = map(writer.ref, op.inputs)
    kind, axis = {"T": attr("type", op.inputs[0].dtype)}, writer.constant(op, "axis", np.int32(op.attrs["axis"]))
    along = {**kind, "Tidx": attr("type", as_dtype("int32")), "reverse": attr("b", op.attrs["reverse"])}
    product = writer.aux(op, "Cumprod", [factors, axis], {**along, "exclusive": attr("b", False)})
    parts = writer.aux(op, "RealDiv", [values, product], kind)
    before = {**along, "exclusive": attr("b", True)}
    sums = writer.aux(op, "Cumsum", [parts, axis], before)
    writer.node(op, "Mul", [sums, writer.aux(op, "Cumprod", [factors, axis], before)], kind)
