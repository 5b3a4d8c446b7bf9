"""Comparisons, logic, choice between values, and conversion of element types."""
from __future__ import annotations

import numpy as np

from workbench.core.graph.build import convert, front, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op

COMPARE = "x[...] y[...] -> [...]"
UNARY = "x[...] -> [...]"
ANY, ORDERED, LOGICAL, TEST = "T T -> bool", "T:real T:real -> bool", "bool bool -> bool", "T:float -> bool"


@op(COMPARE, types=ANY, elementwise="x == y", ufunc=np.equal, commutative=True, differentiable=False)
def equal(x, y):
    """Is x = y?"""
    return np.equal(x, y).astype(bool, copy=False)


@op(COMPARE, types=ANY, elementwise="x != y", ufunc=np.not_equal, commutative=True, differentiable=False)
def not_equal(x, y):
    """Is x ≠ y?"""
    return np.not_equal(x, y).astype(bool, copy=False)


@op(COMPARE, types=ORDERED, elementwise="x < y", ufunc=np.less, differentiable=False)
def less(x, y):
    """Is x < y?"""
    return np.less(x, y)


@op(COMPARE, types=ORDERED, elementwise="x <= y", ufunc=np.less_equal, differentiable=False)
def less_equal(x, y):
    """Is x ≤ y?"""
    return np.less_equal(x, y)


@op(COMPARE, types=ORDERED, elementwise="x > y", ufunc=np.greater, differentiable=False)
def greater(x, y):
    """Is x > y?"""
    return np.greater(x, y)


@op(COMPARE, types=ORDERED, elementwise="x >= y", ufunc=np.greater_equal, differentiable=False)
def greater_equal(x, y):
    """Is x ≥ y?"""
    return np.greater_equal(x, y)


@op(COMPARE, types=LOGICAL, ufunc=np.logical_and, commutative=True, differentiable=False)
def logical_and(x, y):
    """Are both true?"""
    return np.logical_and(x, y)


@op(COMPARE, types=LOGICAL, ufunc=np.logical_or, commutative=True, differentiable=False)
def logical_or(x, y):
    """Is one true?"""
    return np.logical_or(x, y)


@op(COMPARE, types=LOGICAL, ufunc=np.logical_xor, commutative=True, differentiable=False)
def logical_xor(x, y):
    """Is exactly one true?"""
    return np.logical_xor(x, y)


@op(UNARY, types="bool -> bool", ufunc=np.logical_not, differentiable=False)
def logical_not(x):
    """Is it false?"""
    return np.logical_not(x)


@op(UNARY, types=TEST, ufunc=np.isnan, differentiable=False)
def is_nan(x):
    """Is it not a number?"""
    return np.isnan(x)


@op(UNARY, types=TEST, ufunc=np.isinf, differentiable=False)
def is_inf(x):
    """Is it infinite?"""
    return np.isinf(x)


@op(UNARY, types=TEST, ufunc=np.isfinite, differentiable=False)
def is_finite(x):
    """Is it neither infinite nor NaN?"""
    return np.isfinite(x)


def _select_into(condition, x, y, out):
    np.copyto(out, y)
    np.copyto(out, x, where=condition)


@op("condition[...] x[...] y[...] -> [...]", types="bool T T -> T", elementwise="x if condition else y",
    into=_select_into)
def select(condition, x, y):
    """x where the condition holds, else y; all three broadcast."""
    return np.where(condition, x, y)


@select.gradient
def _(node, dy):
    condition, x, y = node.inputs
    dx, dz = ops.select(condition, dy, 0), ops.select(condition, 0, dy)
    return None, ops.unbroadcast(dx, x, condition, y), ops.unbroadcast(dz, y, condition, x)


@composed
def where(condition, x=None, y=None, name=None):
    """select(condition, x, y), a condition of rank 1 choosing rows; without x and y the indices of true elements, or of
    numbers that are not 0."""
    if x is None and y is None:
        condition = convert(condition)
        if condition.dtype.is_number:
            condition = ops.not_equal(condition, np.zeros((), condition.dtype.numpy))
        return ops.where_indices(condition, name=name)
    condition = convert(condition, "bool")
    rank, most = condition.shape.rank, _most(_rank(x), _rank(y))
    if rank == 1 and most is not None and most > 1:
        condition = ops.expand_dims(condition, tuple(range(1, most)))
    elif rank in (1, None) and (most is None or most > 1):
        condition = _before_rows(condition, x, y)
    return ops.select(condition, x, y, name=name)


def _most(*ranks):
    return None if None in ranks else max(ranks)


def _before_rows(condition, x, y):
    """The condition, with axes behind a single one for those of a row; its rank or theirs is known to the step alone."""
    behind = ops.maximum(ops.maximum(ops.rank(x), ops.rank(y)) - 1, 0)
    behind = ops.select(ops.equal(ops.rank(condition), 1), behind, 0)
    return ops.reshape(condition, ops.concat([ops.shape(condition), ops.fill(ops.reshape(behind, [1]), 1)], 0))


def _rank(value):
    return convert(value).shape.rank if hasattr(value, "op") or hasattr(value, "__tensor__") else np.ndim(value)


def _cast_into(x, out, *, dtype):
    np.copyto(out, x.real if x.dtype.kind == "c" and not dtype.is_complex else x, casting="unsafe")


@op(UNARY, name="cast", types="any -> @dtype", into=_cast_into)
def cast_(x, *, dtype):
    """x in another dtype; floats are cut towards zero when they become integers."""
    return (x.real if x.dtype.kind == "c" and not dtype.is_complex else x).astype(dtype.numpy)


@cast_.gradient
def _(node, dy):
    dtype = node.inputs[0].dtype
    return ops.cast(dy, dtype) if dtype.is_differentiable else None


@front("cast")
def _(cast, x, dtype, name=None):
    """x in another dtype, x itself when it has that dtype already."""
    x = convert(x)
    return x if x.dtype is as_dtype(dtype) else cast(x, dtype, name=name)


@composed
def zero_fraction(value, name=None):
    """The part of elements that are zero: a float32 scalar."""
    value = convert(value)
    return ops.reduce_mean(ops.cast(ops.equal(value, ops.zeros_like(value)), "float32"), name=name)
