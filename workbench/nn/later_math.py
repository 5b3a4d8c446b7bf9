"""Mathematics that came after TensorFlow 1.4, of operations that there are: products without NaN, spreads, norms, matrices."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor

__all__ = ["erfcinv", "matvec", "multiply_no_nan", "norm_and_normalized", "pinv", "polyval", "reciprocal_no_nan",
           "reduce_euclidean_norm", "reduce_std", "reduce_variance", "repeat", "where_v2", "xdivy", "xlog1py", "xlogy"]


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Elements of x where the condition holds, else of y: the three broadcast to one shape. With neither the places of what
    is true, int64 [n, rank]. InvalidArgumentError for one of the two alone."""
    if (x is None) != (y is None):
        raise errors.InvalidArgumentError("where_v2: one of x and y is None; give both or neither")
    found: Tensor = ops.where(condition, name=name) if x is None else ops.select(convert(condition), *_pair(x, y), name=name)
    return found


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors, a Python number in the type of the other."""
    if hasattr(y, "dtype") and not hasattr(x, "dtype"):
        second = convert(y)
        return convert(x, second.dtype), second
    first = convert(x)
    return first, convert(y, first.dtype)


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x · y, and 0 where y is 0, though x be infinite or NaN; float, broadcast."""
    a, b = _pair(x, y)
    none = ops.equal(b, 0.0)
    found: Tensor = ops.multiply(ops.select(none, ops.zeros_like(a), a), b, name=name)
    return found


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    value = convert(x)
    found: Tensor = ops.div_no_nan(ops.ones_like(value), value, name=name)
    return found


def _guarded(x: Any, y: Any, factor: Any, name: str | None) -> Tensor:
    """x · factor(y), and 0 where x is 0, whatever y is there; so are its derivatives."""
    a, b = _pair(x, y)
    none = ops.equal(a, 0.0)
    made = factor(ops.select(none, ops.ones_like(a), b))
    return ops.multiply(a, ops.select(none, ops.zeros_like(a), made), name=name)


def xlogy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x · log(y), and 0 where x is 0; float, broadcast."""
    return _guarded(x, y, ops.log, name)


def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x · log(1 + y), and 0 where x is 0; float, broadcast."""
    return _guarded(x, y, ops.log1p, name)


def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0; float, broadcast."""
    return _guarded(x, y, ops.reciprocal, name)


def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """What erfc makes x of; float between 0 and 2."""
    found: Tensor = ops.negative(ops.ndtri(0.5 * convert(x)) * 0.5 ** 0.5, name=name)
    return found


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """coeffs[0] · x^(n-1) + … + coeffs[n-1], by Horner's rule. InvalidArgumentError where coeffs is no list."""
    if not isinstance(coeffs, list):
        raise errors.InvalidArgumentError(f"polyval: coeffs is {type(coeffs).__name__}; give a list of numbers or tensors")
    value = convert(x)
    if not coeffs:
        return ops.zeros_like(value, name=name)
    found = convert(coeffs[0], value.dtype)
    for coefficient in coeffs[1:]:
        found = convert(coefficient, value.dtype) + found * value
    return ops.identity(found, name=name)


# spreads

def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean of the squared distances from the mean, over `axis` (all by default); float."""
    x = convert(input_tensor)
    found: Tensor = ops.reduce_mean(ops.square(x - ops.reduce_mean(x, axis=axis, keepdims=True)), axis=axis,
                                    keepdims=keepdims, name=name)
    return found


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The root of reduce_variance."""
    return ops.sqrt(reduce_variance(input_tensor, axis, keepdims), name=name)


def reduce_euclidean_norm(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The root of the sum of squares over `axis` (all by default); float."""
    squares = ops.reduce_sum(ops.square(convert(input_tensor)), axis=axis, keepdims=keepdims)
    return ops.sqrt(squares, name=name)


# matrices

def matvec(a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, a_is_sparse: bool = False,
           b_is_sparse: bool = False, name: str | None = None) -> Tensor:
    """Matrices a [..., n, m] times vectors b [..., m]: [..., n]. `adjoint_a` conjugates and transposes a; the hints of zeros
    change nothing."""
    matrix, vector = _pair(a, b)
    if adjoint_a:
        matrix = ops.matrix_transpose(ops.conj(matrix))
    found: Tensor = ops.squeeze(ops.matmul(matrix, ops.expand_dims(vector, -1), transpose_a=transpose_a), axis=[-1], name=name)
    return found


def norm_and_normalized(tensor: Any, ord: Any = "euclidean", axis: Any = None,
                        name: str | None = None) -> tuple[Tensor, Tensor]:
    """(tensor / norm, norm) of the norm over `axis`, whose dimensions stay as 1. Known to programs as linalg.normalize."""
    x = convert(tensor)
    length = ops.norm(x, ord=ord, axis=axis, keepdims=True)
    return ops.divide(x, length, name=name), length


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The pseudo-inverse [..., m, n] of matrices [..., n, m]: singular values below rcond · the largest count as 0; rcond is
    10 · max(n, m) · epsilon by default. Source: Moore 1920, Penrose 1955."""
    matrix = convert(a)
    if validate_args and matrix.shape.rank is not None and matrix.shape.rank < 2:
        raise errors.ShapeError(f"pinv: a has shape {matrix.shape} but matrices have two axes or more; give such")
    if rcond is None:
        largest = ops.cast(ops.reduce_max(ops.shape(matrix)[-2:]), matrix.dtype)
        rcond = 10.0 * float(np.finfo(matrix.dtype.numpy).eps) * largest
    s, u, v = ops.svd(matrix)
    limit = convert(rcond, matrix.dtype)[..., None] * ops.reduce_max(s, axis=-1, keepdims=True)
    large = s > limit
    inverse = ops.select(large, 1.0 / ops.select(large, s, ops.ones_like(s)), ops.zeros_like(s))
    found: Tensor = ops.matmul(v * inverse[..., None, :], u, transpose_b=True, name=name)
    return found


def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Each element along `axis` (of the flat tensor by default) as often in a row as `repeats` says, a number for all or
    int [size of the axis]. As numpy.repeat."""
    x = convert(input)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    counts = ops.cast(convert(repeats), "int32")
    size = ops.shape(x)[axis]
    counts = ops.broadcast_to(ops.reshape(counts, [-1]), ops.expand_dims(size, 0))
    marks = ops.sequence_mask(counts)
    places = ops.boolean_mask(ops.tile(ops.expand_dims(ops.range(size), 1), [1, ops.shape(marks)[1]]), marks)
    found: Tensor = ops.gather(x, places, axis=axis, name=name)
    return found
