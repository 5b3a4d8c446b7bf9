"""Rows combined by the number of their segment: sums, products, extremes, means; segments in order or not."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import check_rows, rows_product, wide
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape


def _rows(where):
    def rule(inputs, attrs):
        data, ids, count = inputs
        if data.shape.sizes is None or ids.shape.rank is None:
            return [Shape(None)]
        number = constant_value(count)
        ids.shape.merge(data.shape[:ids.shape.rank], where)
        return [Shape([None if number is None else int(number), *data.shape.sizes[ids.shape.rank:]])]
    return rule


def _folded(where, ufunc, empty, data, segment_ids, count):
    """Row k of the result is `ufunc` of the rows of `data` whose id is k, `empty` where there are none."""
    ids, count = segment_ids.reshape(-1), int(count)
    rows = data.reshape((ids.size, *data.shape[segment_ids.ndim:]))
    if ids.size and ids.max() >= count:
        at = np.unravel_index(int(np.argmax(ids >= count)), segment_ids.shape)
        place = f"[{','.join(map(str, at))}]" if at else ""
        raise errors.InvalidArgumentError(f"{where}: segment_ids{place} = {segment_ids[at]} is out of range [0, {count}); "
                                          "raise num_segments")
    if ufunc is np.add and rows.size > 10_000:      # fewer are added up before SciPy has a matrix
        places = np.flatnonzero(ids >= 0)
        ones = np.ones(len(places), data.dtype)
        return rows_product(ones, ids[places], places, count, rows.reshape(len(rows), -1)).reshape(count, *rows.shape[1:])
    out = np.full((count, *rows.shape[1:]), empty, data.dtype)
    order = np.argsort(ids, kind="stable")
    order = order[np.searchsorted(ids[order], 0):]
    if order.size:
        found, starts = np.unique(ids[order], return_index=True)
        exact = {} if ufunc in (np.maximum, np.minimum) else {"dtype": wide(data.dtype)}
        out[found] = ufunc.reduceat(rows[order], starts, axis=0, **exact).astype(data.dtype, copy=False)
    return out


def _lowest(dtype):
    return as_dtype(dtype).min


def _highest(dtype):
    return as_dtype(dtype).max


# segments in any order: negative ids are left out

UNSORTED = "data? segment_ids? num_segments[] -> ?"


@op(UNSORTED, types="T:number int int -> T", shape=_rows("unsorted_segment_sum"))
def unsorted_segment_sum(data, segment_ids, num_segments):
    """Row k of the result is the sum of the rows of `data` whose id is k; negative ids are left out."""
    return _folded("unsorted_segment_sum", np.add, 0, data, segment_ids, num_segments)


@unsorted_segment_sum.gradient
def _(node, dy):
    return _sent_back(dy, *node.inputs[:2]), None, None


def _sent_back(rows, data, ids):
    """For each row of data the row of its segment, zeros for negative ids."""
    found = ops.gather(rows, ops.maximum(ids, 0))
    return ops.multiply(found, _beside(ops.cast(ops.greater_equal(ids, 0), rows.dtype), data, ids))


def _beside(values, data, ids):
    """A number for each id, or for each segment, with an axis of size 1 for each axis of data that ids have not."""
    if data.shape.rank is not None and ids.shape.rank is not None:
        extra = data.shape.rank - ids.shape.rank
        return ops.expand_dims(values, tuple(range(-extra, 0))) if extra else values
    ones = ops.ones(ops.expand_dims(ops.subtract(ops.rank(data), ops.rank(ids)), 0), "int32")
    return ops.reshape(values, ops.concat([ops.shape(values), ones], 0))


@op(UNSORTED, types="T:real int int -> T", shape=_rows("unsorted_segment_max"))
def unsorted_segment_max(data, segment_ids, num_segments):
    """Row k is the largest of the rows whose id is k, the lowest number of the type where there are none."""
    return _folded("unsorted_segment_max", np.maximum, _lowest(data.dtype), data, segment_ids, num_segments)


@op(UNSORTED, types="T:real int int -> T", shape=_rows("unsorted_segment_min"))
def unsorted_segment_min(data, segment_ids, num_segments):
    """Row k is the smallest of the rows whose id is k, the highest number of the type where there are none."""
    return _folded("unsorted_segment_min", np.minimum, _highest(data.dtype), data, segment_ids, num_segments)


def _to_extremes(node, dy):
    """Rows that are the extreme of their segment share its gradient."""
    data, ids, y = node.inputs[0], node.inputs[1], node.outputs[0]
    at = ops.maximum(ids, 0)
    chosen = ops.logical_and(ops.equal(data, ops.gather(y, at)),
                             _beside(ops.greater_equal(ids, 0), data, ids))
    count = ops.unsorted_segment_sum(ops.cast(chosen, data.dtype), ids, ops.shape(y)[0])
    share = ops.gather(ops.realdiv(dy, ops.maximum(count, 1)), at)
    return ops.where(chosen, share, ops.zeros_like(share)), *[None] * (len(node.inputs) - 1)


unsorted_segment_max.gradient(_to_extremes)
unsorted_segment_min.gradient(_to_extremes)


@op(UNSORTED, types="T:number int int -> T", shape=_rows("unsorted_segment_prod"))
def unsorted_segment_prod(data, segment_ids, num_segments):
    """Row k is the product of the rows whose id is k, 1 where there are none."""
    return _folded("unsorted_segment_prod", np.multiply, 1, data, segment_ids, num_segments)


def _to_factors(node, dy):
    """dy times the product of the other rows: y / x, and for a zero the product of what is not zero, if it is alone."""
    data, ids, y = node.inputs[0], node.inputs[1], node.outputs[0]
    at, count = ops.maximum(ids, 0), ops.shape(y)[0]
    zero = ops.equal(data, 0)
    zeros = ops.gather(ops.unsorted_segment_sum(ops.cast(zero, data.dtype), ids, count), at)
    safe = ops.where(zero, ops.ones_like(data), data)
    others = ops.gather(ops.unsorted_segment_prod(safe, ids, count), at)
    slope = ops.where(zero, others, ops.realdiv(ops.gather(y, at), safe))
    slope = ops.where(ops.greater(zeros, ops.cast(zero, data.dtype)), ops.zeros_like(slope), slope)
    return ops.multiply(_sent_back(dy, data, ids), slope), *[None] * (len(node.inputs) - 1)


unsorted_segment_prod.gradient(_to_factors)


def _counted(data, ids, count):
    """How many rows each segment has, at least 1, beside the rows of the segments."""
    ids = convert(ids)
    number = ops.unsorted_segment_sum(ops.ones_like(ids, data.dtype), ids, count)
    return _beside(ops.maximum(number, 1), data, ids)


@composed
def unsorted_segment_mean(data, segment_ids, num_segments, name=None):
    """Row k is the mean of the rows whose id is k, 0 where there are none."""
    data = convert(data)
    return ops.realdiv(ops.unsorted_segment_sum(data, segment_ids, num_segments), _counted(data, segment_ids, num_segments),
                       name=name)


@composed
def unsorted_segment_sqrt_n(data, segment_ids, num_segments, name=None):
    """Row k is the sum of the rows whose id is k over the root of their number, 0 where there are none."""
    data = convert(data)
    return ops.realdiv(ops.unsorted_segment_sum(data, segment_ids, num_segments),
                       ops.sqrt(_counted(data, segment_ids, num_segments)), name=name)


# segments in ascending order: as many rows as the last id says

def _sorted_rows(inputs, attrs):
    data = inputs[0].shape
    return [Shape(None) if data.sizes is None else Shape([None, *data.sizes[1:]])]


SORTED = "data[n,...] segment_ids[n] -> ?"


def _ascending(where, ufunc, empty, data, segment_ids):
    count = int(segment_ids[-1]) + 1 if segment_ids.size else 0
    if segment_ids.size and count < 1:
        raise errors.InvalidArgumentError(f"{where}: segment ids must be >= 0, but the last of segment_ids is {count - 1}; use "
                                          "ids from 0 on")
    outside, falls = (segment_ids < 0) | (segment_ids >= count), np.diff(segment_ids, prepend=segment_ids[:1]) < 0
    if outside.any() or falls.any():
        at = int(np.argmax(outside | falls))
        fault = (f"Segment id {segment_ids[at]} out of range [0, {count}), possibly because 'segment_ids' input is not sorted. "
                 f"It is segment_ids[{at}], the last of them is {count - 1}" if outside[at] else
                 f"segment ids are not increasing: segment_ids[{at}] is {segment_ids[at]} after {segment_ids[at - 1]}")
        raise errors.InvalidArgumentError(f"{where}: {fault}; sort them, or use unsorted_{where}")
    return _folded(where, ufunc, empty, data, segment_ids, count)


@op(SORTED, types="T:number int -> T", shape=_sorted_rows)
def segment_sum(data, segment_ids):
    """Row k is the sum of the rows of `data` whose id is k; ids ascend."""
    return _ascending("segment_sum", np.add, 0, data, segment_ids)


@segment_sum.gradient
def _(node, dy):
    return ops.gather(dy, node.inputs[1]), None


@op(SORTED, types="T:number int -> T", shape=_sorted_rows)
def segment_prod(data, segment_ids):
    """Row k is the product of the rows of `data` whose id is k, 1 where there are none; ids ascend."""
    return _ascending("segment_prod", np.multiply, 1, data, segment_ids)


segment_prod.gradient(_to_factors)


@op(SORTED, types="T:real int -> T", shape=_sorted_rows)
def segment_max(data, segment_ids):
    """Row k is the largest of the rows of `data` whose id is k, 0 where there are none; ids ascend."""
    return _ascending("segment_max", np.maximum, 0, data, segment_ids)


@op(SORTED, types="T:real int -> T", shape=_sorted_rows)
def segment_min(data, segment_ids):
    """Row k is the smallest of the rows of `data` whose id is k, 0 where there are none; ids ascend."""
    return _ascending("segment_min", np.minimum, 0, data, segment_ids)


segment_max.gradient(_to_extremes)
segment_min.gradient(_to_extremes)


@composed
def segment_mean(data, segment_ids, name=None):
    """Row k is the mean of the rows of `data` whose id is k, 0 where there are none, cut towards 0 for integers; ids
    ascend."""
    return _divided(convert(data), convert(segment_ids), lambda number: number, name)


def _divided(data, ids, by, name):
    number = ops.maximum(ops.segment_sum(ops.ones_like(ids, data.dtype), ids), 1)
    divide = ops.truncatediv if data.dtype.is_integer else ops.realdiv
    total = ops.segment_sum(data, ids)
    made = divide(total, _beside(by(number), data, ids), name=name)
    made.set_shape(total.shape)
    return made


# rows of data chosen first, as for tables

@op("data? indices[n] -> ?", types="T:number int -> T",
    shape=lambda inputs, attrs: [inputs[1].shape + inputs[0].shape[1:] if inputs[0].shape.rank else Shape(None)])
def chosen_rows(data, indices):
    """Rows `indices` of data, with a dense gradient."""
    check_rows("sparse_segment", indices, data.shape[0], "data has {} rows (indices[i] == n out of range)")
    return np.take(data, indices, 0)


@chosen_rows.gradient
def _(node, dy):
    data, indices = node.inputs
    return ops.unsorted_segment_sum(dy, indices, ops.getitem(ops.shape_vector(data), 0)), None


@composed
def sparse_segment_sum(data, indices, segment_ids, name=None, num_segments=None):
    """Row k is the sum of rows `indices` of data whose id in `segment_ids` is k; ids ascend. With `num_segments`, an int
    scalar, that many rows."""
    rows, ids = ops.chosen_rows(data, indices), convert(segment_ids)
    return ops.segment_sum(rows, ids, name=name) if num_segments is None else ops.unsorted_segment_sum(
        rows, ids, num_segments, name=name)


@composed
def sparse_segment_mean(data, indices, segment_ids, name=None, num_segments=None):
    """As sparse_segment_sum, but the means."""
    rows, ids = ops.chosen_rows(data, indices), convert(segment_ids)
    return _divided(rows, ids, lambda number: number, name) if num_segments is None else ops.unsorted_segment_mean(
        rows, ids, num_segments, name=name)


@composed
def sparse_segment_sqrt_n(data, indices, segment_ids, name=None, num_segments=None):
    """As sparse_segment_sum, but each sum over the root of the number of its rows."""
    rows, ids = ops.chosen_rows(data, indices), convert(segment_ids)
    return _divided(rows, ids, ops.sqrt, name) if num_segments is None else ops.unsorted_segment_sqrt_n(
        rows, ids, num_segments, name=name)
