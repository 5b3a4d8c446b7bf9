"""Namespaces of operations by TensorFlow's names: linalg, spectral, bitwise, manip, math, sets, strings, distributions."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.nn import linear_operators, linear_operators_kinds, sparse_ops
from workbench.nn.probability import (
    arcsinh,
    base,
    bijectors,
    bijectors_linear,
    bijectors_simplex,
    counts,
    discrete,
    made,
    normal,
    positive,
    relaxed,
    scalar,
    tools,
    vector,
    wishart,
)
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of

__all__ = ["bitwise", "distributions", "linalg", "manip", "math", "sets", "spectral", "strings"]


def _of(names: str, **more: Any) -> Namespace:
    return Namespace(**{name: getattr(ops, name) for name in names.split()}, **more)


def _adjoint(matrix: Any, name: str | None = None) -> Any:
    """Each matrix of the last two axes turned, its numbers conjugated."""
    return ops.matrix_transpose(ops.conj(convert(matrix)), name=name)


distributions = Namespace(**{name: value for name, value in names_of(
    base, discrete, scalar, vector, counts, made, normal, positive, relaxed, tools, arcsinh, wishart).items()
    if name != "logits_and_probs"}, bijectors=Namespace(**names_of(bijectors, bijectors_linear, bijectors_simplex)))
bitwise = _of("bitwise_and bitwise_or bitwise_xor invert left_shift right_shift")
linalg = _of(
    "cholesky cholesky_solve cross einsum eye logdet matmul matrix_transpose norm qr svd tensordot trace",
    adjoint=_adjoint, band_part=ops.matrix_band_part, det=ops.matrix_determinant, diag=ops.matrix_diag,
    diag_part=ops.matrix_diag_part, eigh=ops.self_adjoint_eig, eigvalsh=ops.self_adjoint_eigvals,
    expm=ops.matrix_exponential, inv=ops.matrix_inverse, l2_normalize=ops.l2_normalize, lstsq=ops.matrix_solve_ls,
    set_diag=ops.matrix_set_diag, slogdet=ops.log_matrix_determinant, solve=ops.matrix_solve,
    tensor_diag=ops.diag, tensor_diag_part=ops.diag_part, transpose=ops.matrix_transpose,
    triangular_solve=ops.matrix_triangular_solve, **names_of(linear_operators, linear_operators_kinds))
manip = _of("batch_to_space_nd gather_nd reshape reverse roll scatter_nd space_to_batch_nd tile")
math = _of("""abs accumulate_n acos acosh add add_n angle asin asinh atan atan2 atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e
    betainc bincount ceil conj cos cosh cumprod cumsum digamma divide equal erf erfc erfinv exp expm1 floor floordiv floormod
    greater greater_equal igamma igammac imag in_top_k invert_permutation is_finite is_inf is_nan l2_normalize lbeta less
    less_equal lgamma log log1p log_sigmoid log_softmax logical_and logical_not logical_or logical_xor maximum minimum mod
    multiply ndtri negative not_equal polygamma pow real reciprocal rint round rsqrt scalar_mul segment_max segment_mean
    segment_min segment_prod segment_sum sigmoid sign sin sinh softmax softplus softsign sqrt square squared_difference
    subtract tan tanh top_k truediv unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod
    unsorted_segment_sqrt_n unsorted_segment_sum zero_fraction zeta""", divide_no_nan=ops.div_no_nan)
spectral = _of("dct fft fft2d fft3d ifft ifft2d ifft3d irfft irfft2d irfft3d rfft rfft2d rfft3d")
sets = Namespace(**{name: getattr(sparse_ops, name) for name in ("set_difference", "set_intersection", "set_size",
                                                                 "set_union")},
                 difference=sparse_ops.set_difference, intersection=sparse_ops.set_intersection, size=sparse_ops.set_size,
                 union=sparse_ops.set_union)
strings = _of("as_string reduce_join regex_replace substr", join=ops.string_join, strip=ops.string_strip,
              to_hash_bucket=ops.string_to_hash_bucket, to_hash_bucket_fast=ops.string_to_hash_bucket_fast,
              to_hash_bucket_strong=ops.string_to_hash_bucket_strong, to_number=ops.string_to_number)
