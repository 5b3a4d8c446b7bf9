"""Counts and orders: histograms, numbers by value, places in sorted rows, rolled and sorted axes."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import add_rows, check_rows
from workbench.core.graph.build import constant_value, convert, front, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape, place


@op("values? value_range[2] nbins[] -> ?", name="histogram_fixed_width_bins", types="T:real T int32 -> @dtype",
    differentiable=False, shape=lambda inputs, attrs: [inputs[0].shape])
def histogram_fixed_width_bins_(values, value_range, nbins, *, dtype="int32"):
    """Which of `nbins` bins of one width each value lies in; the outer bins take what lies beyond the range."""
    low, high = (float(v) for v in value_range)
    _counted(nbins)
    if not low < high:
        raise errors.InvalidArgumentError(f"histogram_fixed_width: value_range is [{low}, {high}]; the first must be less")
    place = np.floor((values.astype(np.float64) - low) / (high - low) * nbins)
    return np.clip(np.nan_to_num(place), 0, nbins - 1).astype(as_dtype(dtype).numpy)


@front("histogram_fixed_width_bins")
def _(bins, values, value_range, nbins=100, dtype="int32", name=None):
    """Which of `nbins` bins of one width over `value_range` each value lies in, in the shape of `values`."""
    x, number = convert(values), ops.cast(nbins, "int32") if hasattr(nbins, "op") else convert(nbins, "int32")
    known = constant_value(number)
    if known is not None:
        _counted(known)
    return bins(x, ops.cast(value_range, x.dtype), number, dtype=as_dtype(dtype), name=name)


def _counted(nbins):
    if nbins <= 0:
        raise errors.InvalidArgumentError(f"histogram_fixed_width: nbins is {nbins}; use a number above 0")


@composed
def histogram_fixed_width(values, value_range, nbins=100, dtype="int32", name=None):
    """How many of the values lie in each of `nbins` bins of one width over `value_range`: [nbins]."""
    places = ops.reshape(ops.histogram_fixed_width_bins(values, value_range, nbins), [-1])
    return ops.unsorted_segment_sum(ops.ones_like(places, dtype), places, nbins, name=name)


def _sized(tensor):
    known = constant_value(tensor)
    return Shape([None if known is None else _size(known)])


def _size(size):
    if size < 0:
        raise errors.InvalidArgumentError(f"bincount: the result would have {size} elements; let maxlength be 0 or more")
    return int(size)


@op("arr? size[] weights? -> ?", name="bincount", types="int32 int32 T:number -> T", differentiable=False,
    shape=lambda inputs, attrs: [_sized(inputs[1])])
def bincount_(arr, size, weights):
    """How often each of 0 … size - 1 occurs, or the sum of the weights where it does; larger ones are left out."""
    flat = arr.reshape(-1)
    if flat.size and flat.min() < 0:
        raise errors.InvalidArgumentError(f"bincount: arr holds {flat.min()}; use no negative number")
    if weights.size not in (0, flat.size):
        raise errors.ShapeError(f"bincount: weights has shape {list(weights.shape)} but arr {list(arr.shape)}; give one weight "
                                "for each number")
    keep = flat < size
    out = np.zeros(_size(size), weights.dtype)
    add_rows(out, flat[keep], weights.reshape(-1)[keep] if weights.size else np.ones(keep.sum(), out.dtype))
    return out


@front("bincount")
def _(bincount, arr, weights=None, minlength=None, maxlength=None, dtype="int32", name=None):
    """How often each number from 0 to the largest occurs in the ints `arr`, or the sum of its `weights`.

    The result has `minlength` elements at least and `maxlength` at most, of `dtype`, or that of the weights.
    """
    x = ops.cast(convert(arr), "int32")
    size = ops.add(ops.reduce_max(ops.concat([ops.reshape(x, [-1]), [-1]], 0)), 1)
    if minlength is not None:
        size = ops.maximum(ops.cast(minlength, "int32"), size)
    if maxlength is not None:
        size = ops.minimum(ops.cast(maxlength, "int32"), size)
    weights = ops.constant([], dtype) if weights is None else convert(weights)
    return bincount(x, size, weights, name=name)


def _unravelled(inputs, attrs):
    return [Shape([None if inputs[1].shape.sizes is None else inputs[1].shape.sizes[0]]) + inputs[0].shape]


@op("indices? dims[r] -> ?", types="T:int T -> T", shape=_unravelled, differentiable=False)
def unravel_index(indices, dims):
    """The index vectors [rank, ...] of positions in a tensor of shape `dims` laid out by rows."""
    size = int(np.prod(dims))
    wrong = (indices < 0) | (indices >= size)
    if wrong.any():
        raise errors.InvalidArgumentError(f"unravel_index: index {np.asarray(indices)[wrong].flat[0]} is outside dims "
                                          f"{dims.tolist()} of {size} elements; stay inside")
    return np.stack(np.unravel_index(indices, tuple(int(d) for d in dims))).astype(indices.dtype)


@op("input? shift? axis? -> ?", types="T int int -> T", shape=lambda inputs, attrs: [inputs[0].shape])
def roll(input, shift, axis):
    """`input` with its elements moved `shift` places along `axis` (numbers, or vectors of one length), around the end."""
    shifts, axes = (tuple(np.atleast_1d(v).tolist()) for v in (shift, axis))
    if shift.ndim > 1 or axis.ndim > 1 or len(shifts) != len(axes) or any(not -input.ndim <= a < input.ndim for a in axes):
        raise errors.InvalidArgumentError(f"roll: shift is {shift.tolist()} and axis {axis.tolist()} for a tensor of rank "
                                          f"{input.ndim}; give one shift for each axis it has")
    return np.roll(input, shifts, axes)


@roll.gradient
def _(node, dy):
    _, shift, axis = node.inputs
    return ops.roll(dy, ops.negative(shift), axis), None, None


def _searched(inputs, attrs):
    rows, values = (t.shape for t in inputs)
    if rows.sizes is not None and values.sizes is not None:
        rows[:-1].merge(values[:-1], "searchsorted: the rows and those of values")
    return [values]


@op("sorted_sequence[...,n] values[...,m] -> ?", types="T:real T -> @out_type", shape=_searched, differentiable=False)
def search_rows(sorted_sequence, values, *, side="left", out_type="int32"):
    """For each value the place in its sorted row before which it belongs, or after equal ones for side "right"."""
    count = math.prod(values.shape[:-1])
    rows = zip(*(v.reshape(count, v.shape[-1]) for v in (sorted_sequence, values)))
    found = [np.searchsorted(row, wanted, side) for row, wanted in rows]
    return np.array(found).reshape(values.shape).astype(as_dtype(out_type).numpy)


@composed
def searchsorted(sorted_sequence, values, side="left", out_type="int32", name=None):
    """Where in the sorted rows [..., n] the `values` [..., m] belong: before equal ones, or after for side "right"."""
    if side not in ("left", "right"):
        raise errors.InvalidArgumentError(f"searchsorted: side is {side!r}; use 'left' or 'right'")
    return ops.search_rows(sorted_sequence, values, side=side, out_type=out_type, name=name)


@composed
def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    """int32: the order in which the elements along `axis` are sorted; equal ones keep their order."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise errors.InvalidArgumentError(f"argsort: direction is {direction!r}; use 'ASCENDING' or 'DESCENDING'")
    x = convert(values)
    return ops.order_along(x, axis=axis, descending=direction == "DESCENDING", name=name)


def _ordered(inputs, attrs):
    shape = inputs[0].shape
    if shape.rank is not None:
        place(attrs["axis"], shape.rank, "argsort")
    return [shape]


@op("x? -> ?", types="T:real -> int32", shape=_ordered, differentiable=False)
def order_along(x, *, axis, descending):
    """The positions of the elements along `axis` in ascending or descending order; equal ones keep their order."""
    if not descending:
        return np.argsort(x, axis, kind="stable").astype(np.int32)
    back = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.ascontiguousarray(np.flip(x.shape[axis] - 1 - back, axis)).astype(np.int32)


@composed
def sort(values, axis=-1, direction="ASCENDING", name=None):
    """The elements sorted along `axis`."""
    x = convert(values)
    if x.shape.rank is None:
        return ops.along(lambda block: ops.sort(block, 1, direction))(x, axis, name)
    along = place(axis, x.shape.rank, "sort")
    order = [i for i in range(x.shape.rank) if i != along] + [along]
    moved = ops.transpose(x, order)
    made = ops.batch_gather(moved, ops.argsort(moved, direction=direction))
    return ops.transpose(made, [int(i) for i in np.argsort(order)], name=name)


@composed
def batch_gather(params, indices, name=None):
    """params[..., indices[..., i]]: the elements along the last axis of `indices` of rows of params; the axes before agree.

    `params` may have axes after those of `indices`, which come along.
    """
    x, at = convert(params), ops.cast(convert(indices), "int32")
    if not at.shape.rank:
        raise errors.ShapeError(f"batch_gather: indices have shape {at.shape}; their rank must be known and 1 or more: use "
                                "set_shape")
    shape, lead = ops.shape_vector(x), at.shape.rank - 1
    rows = ops.reduce_prod(ops.getitem(ops.shape(at), slice(0, lead)))
    size = ops.getitem(ops.shape(x), lead)
    starts = ops.reshape(ops.multiply(ops.range(rows), size),
                         ops.concat([ops.getitem(ops.shape(at), slice(0, lead)), [1]], 0))
    flat = ops.reshape(x, ops.concat([[rows * size], ops.cast(ops.getitem(shape, slice(lead + 1, None)), "int32")], 0))
    inside = ops.checked_indices(at, size)
    made = ops.gather(flat, ops.add(inside, starts), name=name)
    if x.shape.rank is not None:
        before = at.shape[:lead].merge(x.shape[:lead], "batch_gather: the axes before the last of indices")
        made.set_shape(before + at.shape[lead:] + x.shape[lead + 1:])
    return made


@op("indices? size[] -> ?", types="T:int T -> T", shape=lambda inputs, attrs: [inputs[0].shape], differentiable=False)
def checked_indices(indices, size):
    """`indices`, InvalidArgumentError where one is outside 0 … size - 1."""
    check_rows("batch_gather", indices, int(size))
    return np.array(indices)
