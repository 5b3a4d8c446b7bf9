"""Images of integers that stand for numbers of a range: filtered, and windows of them pooled."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.build import front
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.quantized import RANGE, Ranged, limits, places, product_range, wrapped
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_windows import extents_of, options_of, views, window


def _filtered(inputs, attrs):
    images, filter = (t.shape.merge(Shape([None] * 4), "quantized_conv2d") for t in inputs[:2])
    Shape([images[3]]).merge(Shape([filter[2]]), "quantized_conv2d: channels of the images and of the filter")
    if None in filter.sizes[:2]:
        return [Shape([images[0], None, None, filter[3]]), Shape(()), Shape(())]
    (height, *_), (width, *_) = extents_of(images.sizes[1:3], filter.sizes[:2], attrs)
    return [Shape([images[0], height, width, filter[3]]), Shape(()), Shape(())]


@op("input? filter? min_input? max_input? min_filter? max_filter? -> ? ? ?", name="quantized_conv2d", shape=_filtered,
    types=f"A:quantized B:quantized {RANGE} {RANGE} {RANGE} {RANGE} -> @out_type {RANGE} {RANGE}", results=Ranged,
    differentiable=False)
def quantized_conv2d_(input, filter, min_input, max_input, min_filter, max_filter, *, strides, padding, out_type="qint32",
                      dilations=(1, 1)):
    """Images of integers filtered, as integers of a range that holds all such products."""
    attrs = {"strides": strides, "padding": padding, "data_format": "NHWC", "dilations": dilations}
    images = input - places(0.0, min_input, max_input, input.dtype)
    weights = filter - places(0.0, min_filter, max_filter, filter.dtype)
    sums = np.tensordot(views(images, filter.shape[:2], attrs), weights, 3)
    ranges = (min_input, max_input, input.dtype), (min_filter, max_filter, filter.dtype)
    return wrapped(sums, out_type), *product_range(*ranges, out_type)


@front("quantized_conv2d")
def _(quantized_conv2d, input, filter, min_input, max_input, min_filter, max_filter, strides, padding, out_type="qint32",
      name=None, dilations=(1, 1, 1, 1)):
    """quint8 images [batch, height, width, c] filtered by a quint8 filter [height, width, c, channels out].

    Gives (integers of `out_type`, and what the least and the greatest of them stand for), a range that holds all such
    products. strides: [1, height, width, 1]; padding: SAME or VALID.
    """
    options = options_of("quantized_conv2d", strides, padding, "NHWC", dilations)
    del options["data_format"]
    return quantized_conv2d(input, filter, min_input, max_input, min_filter, max_filter, **options,
                            out_type=as_dtype(out_type), name=name)


def _windows(inputs, attrs):
    images = inputs[0].shape.merge(Shape([None] * 4), "quantized pooling")
    (height, *_), (width, *_) = extents_of(images.sizes[1:3], attrs["ksize"], attrs)
    return [Shape([images[0], height, width, images[3]]), Shape(()), Shape(())]


_POOL: dict[str, Any] = {"types": f"Q:quantized {RANGE} {RANGE} -> Q {RANGE} {RANGE}", "shape": _windows, "results": Ranged,
                         "differentiable": False}


@op("input? min_input? max_input? -> ? ? ?", name="quantized_max_pool", **_POOL)
def quantized_max_pool_(input, min_input, max_input, *, ksize, strides, padding):
    """The greatest integer of each window of images [batch, height, width, c]."""
    attrs = {"strides": strides, "padding": padding, "data_format": "NHWC"}
    return views(input, ksize, attrs, np.iinfo(input.dtype).min).max((3, 4)), *limits(min_input, max_input)


@op("input? min_input? max_input? -> ? ? ?", name="quantized_avg_pool", **_POOL)
def quantized_avg_pool_(input, min_input, max_input, *, ksize, strides, padding):
    """The mean of the integers of each window of images [batch, height, width, c], towards 0."""
    attrs = {"strides": strides, "padding": padding, "data_format": "NHWC"}
    totals = views(input.astype(np.float64), ksize, attrs).sum((3, 4))
    counts = views(np.ones((1, *input.shape[1:3], 1)), ksize, attrs).sum((3, 4))
    return np.trunc(totals / counts).astype(input.dtype), *limits(min_input, max_input)


def _pool_front(name):
    @front(name)
    def _(build, input, min_input, max_input, ksize, strides, padding, name=None):
        options = options_of(build.__name__, strides, padding, "NHWC")
        return build(input, min_input, max_input, ksize=window(build.__name__, "ksize", ksize, "NHWC"),
                     strides=options["strides"], padding=options["padding"], name=name)


_pool_front("quantized_max_pool")
_pool_front("quantized_avg_pool")
