"""The largest k of the last axis, and whether a target is among them."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape


def _top(inputs, attrs):
    dims = inputs[0].shape.sizes
    if attrs["k"] is None and dims != ():
        return [inputs[0].shape] * 2
    if attrs["k"] is not None and attrs["k"] < 0:
        raise errors.InvalidArgumentError(f"top_k: k is {attrs['k']}; Need k >= 0")
    if dims is None:
        return [Shape(None)] * 2
    if not dims or (dims[-1] is not None and dims[-1] < attrs["k"]):
        raise errors.ShapeError(f"top_k: x must have last dimension >= k = {attrs['k']} but its shape is {inputs[0].shape}; "
                                "use a smaller k")
    return [Shape([*dims[:-1], attrs["k"]])] * 2


class TopK(NamedTuple):
    """The largest `values` of the last axis, and their positions there, `indices`."""

    values: Any
    indices: Any


@op("x? -> ? ?", types="T:real -> T int32", shape=_top, results=TopK)
def top_k(x, *, k=1, sorted=True):
    """(values, indices), both [..., k]: the k largest of the last axis, or with None all of it, falling; of equals the
    first comes first."""
    among = _candidates(x, k) if k and 4 * k < x.shape[-1] and x.dtype.kind in "fiu" else None
    order = _falling(x if among is None else np.take_along_axis(x, among, -1))[..., :k]
    if among is not None:
        order = np.take_along_axis(among, order, -1)
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def _falling(x):
    """The positions along the last axis from the largest, NaN before it, to the smallest; of equals the first comes first."""
    return (x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable"))[..., ::-1]


def _candidates(x, k):
    """The rising positions of the k largest of the last axis [..., k], of equals the first; None where one of them is NaN."""
    largest = np.partition(x, x.shape[-1] - k, -1)[..., x.shape[-1] - k:]
    if (largest != largest).any():
        return None
    least = largest[..., :1]
    chosen = x >= least
    if np.count_nonzero(chosen) > largest.size:      # more are equal to the least than there is room for
        equal, above = x == least, x > least
        chosen = above | equal & (equal.cumsum(-1) <= k - above.sum(-1, keepdims=True))
    return np.nonzero(chosen)[-1].reshape(largest.shape)


@top_k.at_run_time("k")
def _(x, k, sorted, name):
    """All of the last axis in order, and of that the first k; InvalidArgumentError where there are fewer."""
    x = convert(x)
    dims = ops.shape(x)
    size = ops.concat([dims[:-1], ops.reshape(ops.cast(k, "int32"), [1])], 0)
    return TopK(*(ops.slice(part, ops.zeros_like(dims), size) for part in ops.top_k(x, None, sorted)))


@top_k.gradient
def _(node, dvalues, _):
    x, positions = node.inputs[0], node.outputs[1]
    columns = ops.getitem(ops.shape_vector(x), -1)
    flat = ops.reshape(positions, ops.stack([-1, columns if node.attrs["k"] is None else node.attrs["k"]]))
    starts = ops.expand_dims(ops.multiply(ops.range(ops.getitem(ops.shape(flat), 0)), columns), 1)
    places = ops.reshape(ops.add(flat, starts), [-1])
    spread = ops.unsorted_segment_sum(ops.reshape(dvalues, [-1]), places, ops.reduce_prod(ops.shape_vector(x)))
    return ops.reshape(spread, ops.shape_vector(x))


@op("predictions[n,c] targets[n] -> [n]", types="T:float int -> bool", differentiable=False)
def in_top_k(predictions, targets, *, k):
    """Are fewer than k predictions of the row larger than the target's? Not where one is infinite or NaN, or where
    there is no such target."""
    if not predictions.shape[1]:
        return np.zeros(len(targets), bool)
    inside = (targets >= 0) & (targets < predictions.shape[1])
    own = predictions[np.arange(len(targets)), np.where(inside, targets, 0)]
    return ((predictions > own[:, None]).sum(1) < k) & inside & np.isfinite(predictions).all(1)


@in_top_k.at_run_time("k")
def _(predictions, targets, k, name):
    """By comparisons: the target's own prediction is the only one that its row of truth values keeps."""
    x, targets = convert(predictions), convert(targets)
    classes = ops.shape(x)[1]
    own = ops.one_hot(targets, classes, True, False, dtype="bool")
    chosen = ops.reduce_sum(ops.where(own, x, ops.zeros_like(x)), 1, True)
    above = ops.reduce_sum(ops.cast(ops.greater(x, chosen), "int32"), 1)
    usable = ops.logical_and(ops.reduce_any(own, 1), ops.reduce_all(ops.is_finite(x), 1))
    return ops.logical_and(ops.less(above, ops.cast(k, "int32")), usable, name=name)
