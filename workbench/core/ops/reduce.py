"""Reductions over axes, running sums and products, and segments."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import accumulated, reduced, wide
from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape, place


def _axes(axis, rank, where="Invalid reduction dimension"):
    """The axes that `axis` (None = all, an int or a tuple) means for a rank, as a sorted tuple; `where` begins what TensorFlow
    says of one that is outside."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    for a in given:
        if not -rank <= a < rank:
            raise errors.ShapeError(f"axis: {a} is outside a tensor of rank {rank}; use {-rank} … {rank - 1} ({where} {a} for "
                                    f"input with {rank} dimensions)")
    axes = sorted(a % rank for a in given)
    twice = next((a for a in axes if axes.count(a) > 1), None)
    if twice is not None:
        raise errors.InvalidArgumentError(f"axis: {list(given)} names axis {twice} twice; name each once (Invalid reduction "
                                          f"arguments: Axes contains duplicate dimension: {twice})")
    return tuple(axes)


def _reduced(inputs, attrs):
    dims, axis, keep = inputs[0].shape.sizes, attrs["axis"], attrs.get("keepdims", False)
    if dims is None:
        return [Shape(() if axis is None and not keep else None)]
    axes = _axes(axis, len(dims))
    if keep:
        return [Shape(1 if i in axes else d for i, d in enumerate(dims))]
    return [Shape(d for i, d in enumerate(dims) if i not in axes)]


def _restore(node, dy):
    """`dy` with the reduced axes back as ones, so that it broadcasts against the input."""
    axis = node.attrs["axis"]
    return dy if axis is None or node.attrs["keepdims"] else ops.expand_dims(dy, axis)


def _spread(node, dy):
    return ops.broadcast_to(_restore(node, dy), ops.shape_vector(node.inputs[0]))


def _count(x, axis):
    return int(np.prod([x.shape[a] for a in _axes(axis, x.ndim)], dtype=np.int64))


REDUCE = "x? -> ?"


def _sum_into(x, out, *, axis, keepdims):
    reduced(np.add, x, axis, keepdims, out)


@op(REDUCE, types="T:number -> T", shape=_reduced, into=_sum_into)
def reduce_sum(x, *, axis=None, keepdims=False):
    """The sum over `axis` (None = all, an int or several), 0 over nothing; `keepdims` keeps axes with size 1."""
    return reduced(np.add, x, axis, keepdims)


@reduce_sum.gradient
def _(node, dy):
    return _spread(node, dy)


def _mean_into(x, out, *, axis, keepdims):
    np.copyto(out, _mean(x, axis, keepdims))


def _mean(x, axis, keepdims):
    total, count = np.add.reduce(x, axis=axis, dtype=wide(x.dtype), keepdims=keepdims), _count(x, axis)
    if x.dtype.kind not in "iu":
        return np.divide(total, total.dtype.type(count)).astype(x.dtype, copy=False)
    return (np.sign(total) * (np.abs(total) // max(count, 1))).astype(x.dtype)     # cut towards zero


@op(REDUCE, types="T:number -> T", shape=_reduced, into=_mean_into)
def reduce_mean(x, *, axis=None, keepdims=False):
    """The mean over `axis` (None = all, an int or several), NaN over nothing, cut towards zero for integers;
    `keepdims` keeps axes with size 1."""
    return _mean(x, axis, keepdims)


@reduce_mean.gradient
def _(node, dy):
    x, y = node.inputs[0], node.outputs[0]
    inputs, outputs = x.shape.num_elements(), y.shape.num_elements()
    if inputs is not None and outputs is not None:
        return _spread(node, ops.multiply(dy, outputs / inputs if inputs else 0.0))
    share = ops.realdiv(ops.cast(ops.size(y), "float64"), ops.cast(ops.size(x), "float64"))
    return _spread(node, ops.multiply(dy, ops.cast(share, dy.dtype)))


def _lowest(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _highest(dtype):
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)


def _max_into(x, out, *, axis, keepdims):
    np.maximum.reduce(x, axis=axis, out=out, keepdims=keepdims, initial=_lowest(x.dtype))


@op(REDUCE, types="T:real -> T", shape=_reduced, into=_max_into)
def reduce_max(x, *, axis=None, keepdims=False):
    """The largest element over `axis` (None = all, an int or several); ties share the gradient; `keepdims` keeps axes
    with size 1."""
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims, initial=_lowest(x.dtype))


def _min_into(x, out, *, axis, keepdims):
    np.minimum.reduce(x, axis=axis, out=out, keepdims=keepdims, initial=_highest(x.dtype))


@op(REDUCE, types="T:real -> T", shape=_reduced, into=_min_into)
def reduce_min(x, *, axis=None, keepdims=False):
    """The smallest element over `axis` (None = all, an int or several); ties share the gradient; `keepdims` keeps
    axes with size 1."""
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims, initial=_highest(x.dtype))


def _to_extremes(node, dy):
    x, y = node.inputs[0], node.outputs[0]
    chosen = ops.cast(ops.equal(x, _restore(node, y)), x.dtype)
    share = ops.realdiv(dy, ops.reduce_sum(chosen, node.attrs["axis"], node.attrs["keepdims"]))
    return ops.multiply(chosen, _restore(node, share))


reduce_max.gradient(_to_extremes)
reduce_min.gradient(_to_extremes)


def _prod_into(x, out, *, axis, keepdims):
    reduced(np.multiply, x, axis, keepdims, out)


@op(REDUCE, types="T:number -> T", shape=_reduced, into=_prod_into)
def reduce_prod(x, *, axis=None, keepdims=False):
    """The product over `axis` (None = all, an int or several), 1 over nothing; `keepdims` keeps axes with size 1."""
    return reduced(np.multiply, x, axis, keepdims)


@reduce_prod.gradient
def _(node, dy):
    """dy times the product of all other elements, which division would get wrong where an element is 0."""
    x, axis = node.inputs[0], node.attrs["axis"]
    if x.shape.rank is None:
        return ops.multiply(_others_of(x, axis), _restore(node, dy))
    axes = _axes(axis, x.shape.rank)
    order = [i for i in range(x.shape.rank) if i not in axes] + list(axes)
    moved = ops.transpose(x, order)
    sizes = [x.shape.sizes[a] for a in axes]
    columns = ops.reduce_prod(ops.gather(ops.shape(x), axes)) if None in sizes else int(np.prod(sizes))
    others = _others(ops.reshape(moved, [-1, columns]))
    back = ops.transpose(ops.reshape(others, ops.shape_vector(moved)), tuple(np.argsort(order)))
    return ops.multiply(back, _restore(node, dy))


def _others_of(x, axis):
    """For each element of x, whose rank is unknown, the product of all others over `axis`: axis by axis, of what is left."""
    if axis is None:
        return ops.reshape(_others(ops.reshape(x, [1, -1])), ops.shape(x))
    others = ops.ones_like(x)
    for one in (axis,) if isinstance(axis, int) else axis:
        others = ops.multiply(others, ops.reshape(_others(ops.block(x, one)[0]), ops.shape(x)))
        x = ops.reduce_prod(x, one, True)
    return others


def _others(flat):
    """For each element the product of all others along axis 1."""
    return ops.multiply(ops.cumprod(flat, 1, exclusive=True), ops.cumprod(flat, 1, exclusive=True, reverse=True))


@op(REDUCE, types="bool -> bool", shape=_reduced, differentiable=False)
def reduce_any(x, *, axis=None, keepdims=False):
    """Is one element true over `axis` (None = all, an int or several)? `keepdims` keeps axes with size 1."""
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


@op(REDUCE, types="bool -> bool", shape=_reduced, differentiable=False)
def reduce_all(x, *, axis=None, keepdims=False):
    """Are all elements true over `axis` (None = all, an int or several)? `keepdims` keeps axes with size 1."""
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


@op(REDUCE, types="T:float -> T", shape=_reduced)
def reduce_logsumexp(x, *, axis=None, keepdims=False):
    """log Σ exp(x) over `axis` (None = all, an int or several), without overflow; `keepdims` keeps axes with size 1."""
    top = np.max(x, axis=axis, keepdims=True, initial=_lowest(x.dtype))
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.add.reduce(np.exp(x - top), axis=axis, dtype=wide(x.dtype), keepdims=True)
    result = (np.log(total) + top).astype(x.dtype, copy=False)
    return result if keepdims else np.squeeze(result, _axes(axis, x.ndim))


@reduce_logsumexp.gradient
def _(node, dy):
    x, y = node.inputs[0], node.outputs[0]
    return ops.multiply(_restore(node, dy), ops.exp(ops.subtract(x, _restore(node, y))))


def _over_any(kind, x, axes, keepdims, name):
    """Over as many axes as there turn out to be: they are moved behind the others, where they count as one."""
    rank, shape = ops.rank(x), ops.shape(x)
    places = ops.axis_at(ops.reshape(axes, [-1]), rank)
    gone = ops.greater(ops.unsorted_segment_sum(ops.ones_like(places), places, rank), 0)
    kept, each = ops.logical_not(gone), ops.range(rank)
    moved = ops.transpose(x, ops.concat([ops.boolean_mask(each, kept), ops.boolean_mask(each, gone)], 0))
    left = ops.boolean_mask(shape, kept)
    flat = ops.reshape(moved, ops.stack([ops.reduce_prod(left), ops.reduce_prod(ops.boolean_mask(shape, gone))]))
    y = ops.reshape(getattr(ops, kind)(flat, 1), ops.where(gone, ops.ones_like(shape), shape) if keepdims else left, name=name)
    if keepdims and x.shape.rank is not None:
        y.set_shape([None] * x.shape.rank)
    return y


def _late_reduction(kind):
    """Over one axis after the other, kept with size 1 until the end."""
    def build(x, axis, keepdims, name=None):
        x, axis = convert(x), ops.cast(convert(axis), "int32")
        if not axis.shape.known:
            return _over_any(kind, x, axis, keepdims, name)
        axes = ops.scalars(axis)
        y = ops.along(lambda block: getattr(ops, kind)(block, 1, True))(x, axis)
        if keepdims:
            return ops.identity(y, name=name)
        places = ops.stack([ops.axis_at(a, ops.rank(x)) for a in axes])
        kept = ops.equal(ops.unsorted_segment_sum(ops.ones_like(places), places, ops.rank(x)), 0)
        y = ops.reshape(y, ops.boolean_mask(ops.shape(x), kept), name=name)
        if x.shape.rank is not None:
            y.set_shape([None] * (x.shape.rank - len(axes)))
        return y
    return build


for _definition in (reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, reduce_any, reduce_all, reduce_logsumexp):
    _definition.at_run_time("axis")(_late_reduction(_definition.name))


def _position(inputs, attrs):
    return _reduced(inputs, {"axis": 0 if attrs["axis"] is None else attrs["axis"]})


def _positions(find, x, axis, dtype):
    if not x.shape[axis or 0]:
        raise errors.InvalidArgumentError(f"{find.__name__}: axis {axis or 0} of x (shape {list(x.shape)}) is empty; use one "
                                          f"with at least one element (Reduction axis {axis or 0} is empty in shape "
                                          f"[{','.join(map(str, x.shape))}])")
    return find(x, axis=axis or 0).astype(_numpy(dtype), copy=False)


@op(REDUCE, types="T:real -> @dtype", shape=_position, differentiable=False)
def argmax(x, *, axis=0, dtype="int64"):
    """The position of the largest element along `axis`, in the shape of x without it; the first one of equals."""
    return _positions(np.argmax, x, axis, dtype)


@op(REDUCE, types="T:real -> @dtype", shape=_position, differentiable=False)
def argmin(x, *, axis=0, dtype="int64"):
    """The position of the smallest element along `axis`, in the shape of x without it; the first one of equals."""
    return _positions(np.argmin, x, axis, dtype)


def _late_position(kind):
    def build(x, axis, dtype, name):
        x = convert(x)
        block, before, after = ops.block(x, axis)
        y = ops.reshape(getattr(ops, kind)(block, 1, dtype), ops.concat([before, after], 0), name=name)
        if x.shape.rank is not None:
            y.set_shape([None] * (x.shape.rank - 1))
        return y
    return build


argmax.at_run_time("axis")(_late_position("argmax"))
argmin.at_run_time("axis")(_late_position("argmin"))


def _numpy(dtype):
    return getattr(dtype, "numpy", dtype)


@composed
def count_nonzero(x, axis=None, keepdims=False, dtype="int64", name=None):
    """How many elements over `axis` differ from zero."""
    x = convert(x)
    return ops.reduce_sum(ops.cast(ops.not_equal(x, ops.zeros_like(x)), dtype), axis, keepdims, name=name)


# running sums

def _along(inputs, attrs):
    shape = inputs[0].shape
    if shape.rank is not None:
        _axes(attrs["axis"], shape.rank, f"Expected scan axis in the range [{-shape.rank}, {shape.rank}), but got")
    return [shape]


def _running(ufunc, neutral, x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    if exclusive and x.shape[axis]:
        first = np.full_like(np.take(x, [0], axis), neutral)
        x = np.concatenate([first, np.delete(x, -1, axis)], axis)
    result = accumulated(ufunc, x, axis)
    return np.ascontiguousarray(np.flip(result, axis)) if reverse else result


@op("x? -> ?", types="T:number -> T", shape=_along)
def cumsum(x, *, axis=0, exclusive=False, reverse=False):
    """Running sums along `axis`; `exclusive` leaves the element itself out, `reverse` starts at the end."""
    return _running(np.add, 0, x, axis, exclusive, reverse)


@cumsum.at_run_time("axis")
def _(x, axis, exclusive, reverse, name):
    return ops.along(lambda block: ops.cumsum(block, 1, exclusive, reverse))(x, axis, name)


@cumsum.gradient
def _(node, dy):
    a = node.attrs
    return ops.cumsum(dy, a["axis"], a["exclusive"], not a["reverse"])


@op("x? -> ?", types="T:number -> T", shape=_along)
def cumprod(x, *, axis=0, exclusive=False, reverse=False):
    """Running products along `axis`; options as in cumsum."""
    return _running(np.multiply, 1, x, axis, exclusive, reverse)


@cumprod.at_run_time("axis")
def _(x, axis, exclusive, reverse, name):
    return ops.along(lambda block: ops.cumprod(block, 1, exclusive, reverse))(x, axis, name)


@cumprod.gradient
def _(node, dy):
    a, x = node.attrs, node.inputs[0]
    following = dy if a["exclusive"] else ops.multiply(x, dy)
    slopes = ops.carried(x, following, a["axis"], not a["reverse"])      # of what comes behind x; without a division by x
    if not a["exclusive"]:
        slopes = ops.add(slopes, dy)
    return ops.multiply(ops.cumprod(x, a["axis"], True, a["reverse"]), slopes)


def _carried(inputs, attrs):
    shape = inputs[0].shape.merge(inputs[1].shape, "carried: factors and values")
    if shape.rank is not None:
        place(attrs["axis"], shape.rank, "carried")
    return [shape]


@op("factors[...] values[...] -> [...]", types="T:differentiable T -> T", shape=_carried)
def carried(factors, values, *, axis=0, reverse=False):
    """What arrives at each element along `axis`: t[0] = 0 and t[i] = values[i-1] + factors[i-1] t[i-1].

    `reverse` starts at the end. Steps that double their reach (Hillis and Steele 1986) take the logarithm of the length.
    """
    turned = [np.flip(a, axis) if reverse else a for a in (factors, values)]
    factors, t = (np.moveaxis(a, axis, 0).astype(wide(a.dtype), copy=False) for a in turned)
    reach = 1
    while reach < len(t):
        t = np.concatenate([t[:reach], t[reach:] + factors[reach:] * t[:-reach]])
        factors = np.concatenate([factors[:reach], factors[reach:] * factors[:-reach]])
        reach *= 2
    t = np.moveaxis(np.concatenate([np.zeros_like(t[:1]), t[:-1]]), 0, axis).astype(values.dtype, copy=False)
    return np.ascontiguousarray(np.flip(t, axis) if reverse else t)


@carried.gradient
def _(node, dy):
    slopes = ops.carried(node.inputs[0], dy, node.attrs["axis"], not node.attrs["reverse"])
    return ops.multiply(slopes, node.outputs[0]), slopes
