"""Sums of rows by the number of their segment."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import wide
from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape


def _rows(inputs, attrs):
    data, ids, count = inputs
    if data.shape.dims is None or ids.shape.rank is None:
        return [Shape(None)]
    number = constant_value(count)
    ids.shape.merge(data.shape[:ids.shape.rank], "unsorted_segment_sum")
    return [Shape([None if number is None else int(number), *data.shape.dims[ids.shape.rank:]])]


@op("data? segment_ids? num_segments[] -> ?", types="T:number int int -> T", shape=_rows)
def unsorted_segment_sum(data, segment_ids, num_segments):
    """Row k of the result is the sum of the rows of `data` whose id is k; negative ids are left out."""
    ids = segment_ids.reshape(-1)
    rows = data.reshape((ids.size, *data.shape[segment_ids.ndim:]))
    if ids.size and ids.max() >= num_segments:
        raise errors.InvalidArgumentError(f"unsorted_segment_sum: segment id {ids.max()} is outside 0 … "
                                          f"{int(num_segments) - 1}; raise num_segments")
    out = np.zeros((int(num_segments), *rows.shape[1:]), data.dtype)
    order = np.argsort(ids, kind="stable")
    order = order[np.searchsorted(ids[order], 0):]
    if order.size:
        found, starts = np.unique(ids[order], return_index=True)
        out[found] = np.add.reduceat(rows[order], starts, axis=0, dtype=wide(data.dtype)).astype(data.dtype, copy=False)
    return out


@unsorted_segment_sum.gradient
def _(node, dy):
    data, ids, _ = node.inputs
    rows = ops.gather(dy, ops.maximum(ids, 0))
    inside = ops.cast(ops.greater_equal(ids, 0), dy.dtype)
    extra = 0 if data.shape.rank is None or ids.shape.rank is None else data.shape.rank - ids.shape.rank
    return ops.multiply(rows, ops.expand_dims(inside, tuple(range(-extra, 0))) if extra else inside), None, None


def _sorted_rows(inputs, attrs):
    data = inputs[0].shape
    return [Shape(None) if data.dims is None else Shape([None, *data.dims[1:]])]


@op("data[n,...] segment_ids[n] -> ?", types="T:number int -> T", shape=_sorted_rows)
def segment_sum(data, segment_ids):
    """Like unsorted_segment_sum with ascending ids, as many rows as the last id says."""
    if (np.diff(segment_ids) < 0).any():
        position = int(np.argmax(np.diff(segment_ids) < 0)) + 1
        raise errors.InvalidArgumentError(f"segment_sum: segment_ids[{position}] is {segment_ids[position]} after "
                                          f"{segment_ids[position - 1]}; sort them, or use unsorted_segment_sum")
    count = int(segment_ids[-1]) + 1 if segment_ids.size else 0
    return unsorted_segment_sum.reference(data, segment_ids, count)


@segment_sum.gradient
def _(node, dy):
    return ops.gather(dy, node.inputs[1]), None
