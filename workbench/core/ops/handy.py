"""Functions of a few operations that programs know by names of their own: casts that clip, shapes that broadcast, packs."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import as_shape, broadcast


@composed
def saturate_cast(value, dtype, name=None):
    """`value` as `dtype`, clipped first to what that type can hold."""
    x, wanted = convert(value), as_dtype(dtype)
    if x.dtype.min < wanted.min:
        x = ops.maximum(x, ops.cast(ops.constant(wanted.min, wanted), x.dtype))
    if x.dtype.max > wanted.max:
        x = ops.minimum(x, ops.cast(ops.constant(wanted.max, wanted), x.dtype))
    return ops.cast(x, wanted, name=name)


@composed
def scalar_mul(scalar, x):
    """A scalar times a tensor, or times the rows of IndexedSlices. ShapeError when `scalar` is none."""
    if isinstance(x, IndexedSlices):
        return IndexedSlices(scalar_mul(scalar, x.values), x.indices, x.dense_shape)
    x = convert(x)
    factor = convert(scalar, None if hasattr(scalar, "op") else x.dtype)
    if factor.shape.rank not in (None, 0):
        raise errors.ShapeError(f"scalar_mul: scalar has shape {factor.shape}; use multiply")
    return ops.multiply(factor if factor.shape.known else ops.ensure_shape(factor, []), x)


@composed
def broadcast_static_shape(shape_x, shape_y):
    """The shape (a TensorShape) to which two static shapes broadcast; ShapeError when they do not."""
    return broadcast([as_shape(shape_x), as_shape(shape_y)], "broadcast_static_shape")


@op("x[r] y[s] -> [_]", types="T:int T -> T", differentiable=False)
def broadcast_dims(x, y):
    """The shape to which the shapes x and y broadcast."""
    try:
        return np.array(np.broadcast_shapes(tuple(x), tuple(y)), x.dtype)
    except ValueError:
        raise errors.InvalidArgumentError(f"broadcast_dynamic_shape: {x.tolist()} and {y.tolist()} do not broadcast; make each "
                                          "axis equal, or 1") from None


@composed
def broadcast_dynamic_shape(shape_x, shape_y):
    """The shape to which two shapes (int vectors) broadcast, at run time."""
    x, y = convert(shape_x), convert(shape_y)
    made = ops.broadcast_dims(x, y)
    lengths = [shape.static[0] for shape in (x.shape, y.shape) if shape.known and shape.rank]
    if len(lengths) == 2:
        made.set_shape([max(lengths)])
    return made


@composed
def parallel_stack(values, name="parallel_stack"):
    """The tensors of one known shape as rows of one: as stack(values)."""
    found = [convert(v) for v in values]
    if not all(v.shape.known for v in found):
        raise errors.ShapeError(f"parallel_stack: shapes {', '.join(str(v.shape) for v in found)} must be known; use set_shape")
    return ops.stack(found, name=name)


@composed
def identity_n(input, name=None):
    """A list of tensors with the same contents."""
    return [ops.identity(x, name=name) for x in input]


@composed
def shape_n(input, out_type="int32", name=None):
    """The shape of each tensor of a list."""
    return [ops.shape(x, out_type, name=name) for x in input]


@composed
def guarantee_const(input, name=None):
    """`input` itself; the caller promises that it never changes."""
    return ops.identity(input, name=name)


@composed
def div_no_nan(x, y, name=None):
    """x / y, and 0 where y is 0, whatever x is there."""
    x = convert(x, None if not hasattr(y, "dtype") or hasattr(x, "op") else y.dtype)
    y = convert(y, None if hasattr(y, "op") else x.dtype)
    zero = ops.equal(y, 0)
    quotient = ops.realdiv(x, ops.where(zero, ops.ones_like(y), y))
    return ops.select(zero, 0, quotient, name=name)


@composed
def ensure_shape(x, shape, name=None):
    """`x` whose static shape is also `shape`; ShapeError where the two contradict, now or in the step."""
    x = ops.identity(x, name=name)
    x.shape = x.shape.merge(as_shape(shape), "ensure_shape")
    return x


@composed
def of_rank(x, rank):
    """`x`, which has `rank` axes where nothing is known of its shape; ShapeError where it has not, in the step."""
    x = convert(x)
    return ops.ensure_shape(x, [None] * rank) if x.shape.rank is None else x


@composed
def floor_div(x, y, name=None):
    """⌊x / y⌋ in the dtype of x."""
    return ops.floordiv(x, y, name=name)
