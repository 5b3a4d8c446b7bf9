"""Twins of special functions, bits, complex numbers, transforms, factorizations and segments."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, ops, raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("""
    acosh Acosh x | T:x
    asinh Asinh x | T:x
    atanh Atanh x | T:x
    atan2 Atan2 y x | T:y
    bessel_i0e BesselI0e x | T:x
    bessel_i1e BesselI1e x | T:x
    betainc Betainc a b x | T:a
    digamma Digamma x | T:x
    erfinv Erfinv x | T:x
    igamma Igamma a x | T:a
    igamma_grad_a IgammaGradA a x | T:a
    igammac Igammac a x | T:a
    lgamma Lgamma x | T:x
    ndtri Ndtri x | T:x
    polygamma Polygamma a x | T:a
    zeta Zeta x q | T:x
    bitwise_and BitwiseAnd x y | T:x
    bitwise_or BitwiseOr x y | T:x
    bitwise_xor BitwiseXor x y | T:x
    invert Invert x | T:x
    left_shift LeftShift x y | T:x
    right_shift RightShift x y | T:x
    complex Complex real imag | T:real Tout>0
    real Real x | T:x Tout>0
    imag Imag x | T:x Tout>0
    angle Angle x | T:x Tout>0
    complex_abs ComplexAbs x | T:x Tout>0
    conj Conj x | T:x
    svd Svd tensor | T:tensor full_matrices=full_matrices compute_uv=compute_uv
    qr Qr input | T:input full_matrices=full_matrices
    log_matrix_determinant LogMatrixDeterminant input | T:input
    matrix_exponential MatrixExponential input | T:input
    segment_max SegmentMax data segment_ids | T:data Tindices:segment_ids
    segment_min SegmentMin data segment_ids | T:data Tindices:segment_ids
    segment_prod SegmentProd data segment_ids | T:data Tindices:segment_ids
    bincount Bincount arr size weights | T:weights
    broadcast_dims BroadcastArgs x y | T:x
    roll Roll input shift axis | T:input Tshift:shift Taxis:axis
    unravel_index UnravelIndex indices dims | Tidx:indices
""")
for _name in ("max", "min", "prod"):
    rows(f"unsorted_segment_{_name} UnsortedSegment{_name.title()} data segment_ids num_segments | T:data "
         "Tindices:segment_ids Tnumsegments:num_segments")


@exports("self_adjoint_eig")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "SelfAdjointEigV2", [writer.ref(op.inputs[0])], {
        "T": attr("type", op.inputs[0].dtype), "compute_v": attr("b", True)})


@imports("SelfAdjointEigV2")
def _(node: Node) -> Any:
    return list(raw("self_adjoint_eig")(node.inputs[0], name=node.exact))


@exports("smallest_least_squares")
def _(writer: Any, op: Operation) -> None:
    inputs = [writer.ref(t) for t in op.inputs]
    writer.node(op, "MatrixSolveLs", [*inputs, writer.constant(op, "l2_regularizer", np.float64(0))], {
        "T": attr("type", op.inputs[0].dtype), "fast": attr("b", False)})


@imports("MatrixSolveLs")
def _(node: Node) -> Any:
    matrix, rhs, regularizer = node.inputs
    if not node.attr("fast", True):
        return raw("smallest_least_squares")(matrix, rhs, name=node.exact)
    known = constant_value(regularizer)
    if known is None:
        raise errors.UnimplementedError(f"{node.where}: l2_regularizer is known only at run time; give a constant")
    return ops.matrix_solve_ls(matrix, rhs, l2_regularizer=float(known), fast=True, name=node.exact)


@exports("search_rows")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "LowerBound" if op.attrs["side"] == "left" else "UpperBound", [writer.ref(t) for t in op.inputs], {
        "T": attr("type", op.inputs[0].dtype), "out_type": attr("type", op.outputs[0].dtype)})


@imports("LowerBound", "UpperBound")
def _(node: Node) -> Any:
    side = "left" if node.proto.op == "LowerBound" else "right"
    return raw("search_rows")(*node.inputs, side=side, out_type=node.attr("out_type", as_dtype("int32")).name, name=node.exact)


# transforms

_SIZES = {1: "", 2: "2D", 3: "3D"}


@exports("fourier")
def _(writer: Any, op: Operation) -> None:
    theirs = f"{'I' * op.attrs['inverse']}FFT{_SIZES[op.attrs['rank']]}"
    writer.node(op, theirs, [writer.ref(op.inputs[0])], {"Tcomplex": attr("type", op.inputs[0].dtype)})


@imports(*(f"{way}FFT{size}" for way in ("", "I") for size in _SIZES.values()))
def _(node: Node) -> Any:
    rank, inverse = _rank(node), node.proto.op.startswith("I")
    return raw("fourier")(node.inputs[0], rank=rank, inverse=inverse, name=node.exact)


@exports("real_fourier", "inverse_real_fourier")
def _(writer: Any, op: Operation) -> None:
    theirs = f"{'' if op.kind == 'real_fourier' else 'I'}RFFT{_SIZES[op.attrs['rank']]}"
    real, pair = (op.inputs[0], op.outputs[0]) if op.kind == "real_fourier" else (op.outputs[0], op.inputs[0])
    wide = real.dtype.name == "float64"      # which older versions, without these attributes, do not take
    writer.node(op, theirs, [writer.ref(t) for t in op.inputs], {
        "Treal": attr("type", real.dtype), "Tcomplex": attr("type", pair.dtype)} if wide else {})


@imports(*(f"{way}RFFT{size}" for way in ("", "I") for size in _SIZES.values()))
def _(node: Node) -> Any:
    ours = "inverse_real_fourier" if node.proto.op.startswith("I") else "real_fourier"
    return raw(ours)(*node.inputs, rank=_rank(node), name=node.exact)


def _rank(node: Node) -> int:
    return next(rank for rank, size in sorted(_SIZES.items(), reverse=True) if node.proto.op.endswith(f"FFT{size}"))
