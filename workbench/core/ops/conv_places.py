"""Largest elements and where they lie: pooling with places, between borders drawn by chance, dilation and erosion."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_patches import patches_of
from workbench.core.ops.conv_windows import extents_of, options_of, views, window


def _lowest(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _pooled(inputs, attrs):
    x = inputs[0].shape
    if x.sizes is None:
        return [Shape([None] * 4)]
    (height, *_), (width, *_) = extents_of(x.sizes[1:3], attrs["ksize"], attrs)
    return [Shape([x.sizes[0], height, width, x.sizes[3]])]


@op("x[n,h,w,c] -> ?", types="T:real -> int64", shape=_pooled, differentiable=False)
def largest_places(x, *, ksize, strides, padding, batched=False):
    """Where the first largest element of each window lies: (row · width + column) · channels + channel of its image, or with
    `batched` of all images."""
    attrs = {"strides": strides, "padding": padding}
    windows = views(x, ksize, attrs, _lowest(x.dtype))
    inner = windows.reshape(*windows.shape[:3], ksize[0] * ksize[1], x.shape[3]).argmax(3)
    (_, top, _), (_, left, _) = extents_of(x.shape[1:3], ksize, attrs)
    rows = np.arange(windows.shape[1])[:, None, None] * strides[0] - top + inner // ksize[1]
    columns = np.arange(windows.shape[2])[:, None] * strides[1] - left + inner % ksize[1]
    image = np.arange(len(x))[:, None, None, None] * batched * x.shape[1]
    return ((image + rows) * x.shape[2] + columns) * x.shape[3] + np.arange(x.shape[3])


class MaxPoolWithArgmax(NamedTuple):
    """The largest elements and their places."""

    output: Tensor
    argmax: Tensor


@composed
def max_pool_with_argmax(input, ksize, strides, padding, Targmax="int64", name=None, include_batch_in_index=False):
    """max_pool of images [n, height, width, channels], and for each element int64 or int32 (`Targmax`) where it lies: (row ·
    width + column) · channels + channel; with `include_batch_in_index` the images lie one behind the other."""
    where = "max_pool_with_argmax"
    x = convert(input)
    options = {**options_of(where, strides, padding, "NHWC"), "ksize": window(where, "ksize", ksize, "NHWC")}
    del options["data_format"], options["dilations"]
    places = ops.largest_places(x, **options, batched=bool(include_batch_in_index))
    return MaxPoolWithArgmax(ops.max_pool(x, ksize, strides, padding, name=name), ops.cast(places, Targmax))


def _first_largest(x, axis):
    """The first largest element along an axis; its gradient goes to that one."""
    along = ops.reshape(ops.range(ops.getitem(ops.shape(x), axis)), [-1] + [1] * (x.shape.rank - axis - 1))
    hit = ops.equal(ops.expand_dims(ops.cast(ops.argmax(x, axis=axis), "int32"), axis), along)
    return ops.reduce_sum(ops.select(hit, x, ops.zeros_like(x)), axis=axis)


# morphology

@composed
def dilation2d(input, filter, strides, rates, padding, name=None):
    """The largest sum of images [n, height, width, c] and filter [rows, columns, c] at each place, channel by channel.

    `strides` and `rates` (distances of the filter's elements) are [1, rows, columns, 1]; `padding` "SAME" or "VALID", never the
    largest. Ties are decided for the first.
    """
    x, kernel = ops.of_rank(input, 4), convert(filter)
    images = x.shape.merge(Shape([None] * 4), "dilation2d: the input [n, height, width, channels]")
    places = kernel.shape.merge(Shape([None] * 3), "dilation2d: the filter [rows, columns, channels]")
    images[3:].merge(places[2:], "dilation2d: channels of the input and of the filter")
    if 0 in places.as_list()[:2]:
        raise errors.ShapeError(f"dilation2d: the filter has shape {kernel.shape}; it must have rows and columns")
    options = options_of("dilation2d", strides, padding, "NHWC", rates)
    del options["data_format"]
    height, width, channels = kernel.shape.static if kernel.shape.known else ops.unstack(ops.shape(kernel), 3)

    def cut(images):
        return patches_of(images, (height, width), channels, **options)
    total = cut(x) + ops.reshape(kernel, [height * width, channels])
    if options["padding"] != "VALID":
        low = convert(_lowest(x.dtype.numpy), x.dtype)
        total = ops.select(cut(ops.ones_like(x)) > 0, total, ops.zeros_like(total) + low)
    return ops.identity(_first_largest(total, 3), name=name)


@composed
def erosion2d(value, kernel, strides, rates, padding, name=None):
    """The smallest difference of images [n, height, width, c] and kernel [rows, columns, c]: the dilation of the negative by
    the mirrored kernel, negated. Arguments as for dilation2d."""
    mirrored = ops.reverse(convert(kernel), axis=[0, 1])
    return ops.negative(ops.dilation2d(ops.negative(convert(value)), mirrored, strides, rates, padding), name=name)


# between borders

class FractionalPool(NamedTuple):
    """What was pooled, and the borders of its rows and columns, int64."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


def _windows(x, borders, axis, most, overlapping, size):
    """x with `most` elements behind each border along `axis` in an axis behind it, and which of them belong there."""
    first = ops.expand_dims(borders[:-1], 1)
    last = ops.expand_dims(borders[1:], 1) + (1 if overlapping else 0)
    places = first + ops.cast(ops.range(most), "int64")
    found = ops.gather(x, ops.minimum(places, ops.cast(size, "int64") - 1), axis)
    return found, ops.logical_and(places < last, places < ops.cast(size, "int64"))


def _fractional(where, value, ratio, pseudo_random, overlapping, deterministic, seed, seed2):
    """(windows [n, rows, height, columns, width, c], which elements belong to them, the borders)."""
    x = ops.of_rank(value, 4)
    if len(ratio) != 4 or ratio[0] != 1 or ratio[3] != 1 or min(ratio) < 1:
        raise errors.InvalidArgumentError(f"{where}: pooling_ratio is {list(ratio)}; give [1.0, rows, columns, 1.0], from 1")
    chosen = seed * 1_000_003 + seed2 if seed or seed2 else None
    if chosen is None and deterministic:
        chosen = int(np.random.default_rng().integers(2**31))
    borders, masks, sizes = [], [], ops.shape_vector(x)
    for axis, share in ((1, ratio[1]), (2, ratio[2])):
        size = sizes[axis] if x.shape.as_list()[axis] is None else convert(x.shape.as_list()[axis], "int32")
        seeds = ops.random_seeds(None if chosen is None else chosen + axis)
        borders.append(ops.fractional_borders(size, float(share), pseudo_random, deterministic, *seeds))
    for axis, edges in zip((1, 3), borders):
        size = ops.cast(edges[-1], "int32")
        most = size // (ops.size(edges) - 1) + (2 if overlapping else 1)
        x, mask = _windows(x, edges, axis, most, overlapping, size)
        masks.append(mask)
    inside = ops.logical_and(ops.expand_dims(masks[0], (0, 3, 4, 5)), ops.expand_dims(masks[1], (0, 1, 2, 5)))
    return x, inside, borders


@composed
def fractional_max_pool(value, pooling_ratio, pseudo_random=False, overlapping=False, deterministic=False, seed=0, seed2=0,
                        name=None):
    """The largest elements of images [n, height, width, c] between borders drawn by chance, height / ratio of them.

    `pooling_ratio` is [1.0, rows, columns, 1.0], from 1. Borders are in random order or `pseudo_random`; windows that are
    `overlapping` share them. Drawn anew in each step, or when `deterministic` once. Source: Graham 2015.
    """
    x, inside, borders = _fractional("fractional_max_pool", value, pooling_ratio, pseudo_random, overlapping, deterministic,
                                     seed, seed2)
    low = ops.zeros_like(x) + convert(_lowest(x.dtype.numpy), x.dtype)
    apart = ops.transpose(ops.select(inside, x, low), [0, 1, 3, 2, 4, 5])
    sizes = ops.shape_vector(apart)
    flat = ops.reshape(apart, ops.concat([sizes[:3], [-1], sizes[5:]], 0))
    return FractionalPool(ops.identity(_first_largest(flat, 3), name=name), *borders)


@composed
def fractional_avg_pool(value, pooling_ratio, pseudo_random=False, overlapping=False, deterministic=False, seed=0, seed2=0,
                        name=None):
    """The means of images between borders drawn by chance; arguments as for fractional_max_pool."""
    x, inside, borders = _fractional("fractional_avg_pool", value, pooling_ratio, pseudo_random, overlapping, deterministic,
                                     seed, seed2)
    share = ops.cast(inside, x.dtype)
    count = ops.reduce_sum(share, axis=[2, 4])
    return FractionalPool(ops.divide(ops.reduce_sum(ops.multiply(x, share), axis=[2, 4]), count, name=name), *borders)
