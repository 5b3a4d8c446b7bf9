"""Convolution of each channel of images with filters of its own: depthwise and separable ones, and their derivatives."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import lengths, wide
from workbench.core.graph.build import constant_shape, constant_value, convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_patches import images_of_rank
from workbench.core.ops.conv_windows import extents_of, options_of, scatter, views

# images are [n, height, width, channels], filters [height, width, channels, multiplier], and results [n, rows, columns,
# channels · multiplier]; strides and dilations are (height, width)

CHANNELS = "T:float -> T"


def _filtered(images, filter, attrs):
    n, h, w, channels = images.sizes or (None,) * 4
    rows, columns, own, times = filter.sizes or (None,) * 4
    channels = own if channels is None else channels
    (oh, *_), (ow, *_) = extents_of((h, w), (rows, columns), attrs)
    return Shape([n, oh, ow, None if channels is None or times is None else channels * times])


def _fitting(where, images, filter, dy, attrs):
    """ShapeError where images filtered by `filter` have not the shape of dy; all are shapes."""
    for shape, what in ((images, "images"), (filter, "filter")):
        shape.merge(Shape([None] * 4), f"{where}: the four lengths of the {what}")
    if None not in (images.sizes, filter.sizes):
        Shape([images[3]]).merge(Shape([filter[2]]), f"{where}: channels of the images and of the filter")
    _filtered(images, filter, attrs).merge(dy, f"{where}: images {images} by filters {filter}, and dy")


def _told(tensor, name):
    """The shape that a vector says, as far as it is known before the step."""
    value = constant_value(tensor)
    return constant_shape(tensor) if value is None else Shape(lengths(name, value))


def _images(inputs, attrs):
    filter, dy = inputs[0].shape, inputs[1].shape
    images = _told(inputs[2], "input_shape").merge(Shape([None] * 4), "convolve_channels_back: the four lengths of input_shape")
    if dy.sizes is not None:
        images = images.merge(Shape([dy.sizes[0], None, None, None]), "convolve_channels_back: the number of images and of dy")
    if filter.sizes is not None:
        images = images.merge(Shape([None, None, None, filter.sizes[2]]), "convolve_channels_back: channels of images and the "
                              "filter")
    _fitting("convolve_channels_back", images, filter, dy, attrs)
    return [images]


def _filters(inputs, attrs):
    filter = _told(inputs[2], "filter_shape").merge(Shape([None] * 4), "convolve_channels_filters: the four lengths of "
                                             "filter_shape")
    _fitting("convolve_channels_filters", inputs[0].shape, filter, inputs[1].shape, attrs)
    return [filter]


# A place of the filter at a time, over all images at once: windows are never laid out as a whole, which would copy each image
# as often as there are places.

def _repeated(images, times):
    """Each channel as often as it has filters."""
    return images if times == 1 else np.repeat(images, times, axis=3)


@op("x[n,h,w,c] filter[i,j,c,m] -> ?", types=CHANNELS,
    shape=lambda inputs, attrs: [_filtered(inputs[0].shape, inputs[1].shape, attrs)])
def convolve_channels(x, filter, *, strides, padding, dilations):
    """Cross-correlation of channel c of the images x with each filter of its own [height, width, c, multiplier]."""
    attrs, exact = {"strides": strides, "padding": padding, "dilations": dilations}, wide(x.dtype)
    windows = views(x.astype(exact, copy=False), filter.shape[:2], attrs)
    taps = filter.astype(exact, copy=False).reshape(*filter.shape[:2], math.prod(filter.shape[2:]))
    found = np.zeros((*windows.shape[:3], taps.shape[2]), exact)
    for i, j in np.ndindex(*taps.shape[:2]):
        found += _repeated(windows[:, :, :, i, j], filter.shape[3]) * taps[i, j]
    return found.astype(x.dtype, copy=False)


@convolve_channels.gradient
def _(node, dy):
    x, filter = node.inputs
    return (ops.convolve_channels_back(filter, dy, ops.shape(x), **node.attrs),
            ops.convolve_channels_filters(x, dy, ops.shape(filter), **node.attrs))


@op("filter[i,j,c,m] dy[n,p,q,o] input_shape[4] -> ?", types="T:float T int -> T", shape=_images)
def convolve_channels_back(filter, dy, input_shape, *, strides, padding, dilations):
    """The derivative of convolve_channels by its images, of shape `input_shape`."""
    attrs = {"strides": strides, "padding": padding, "dilations": dilations}
    images = Shape(lengths("input_shape", input_shape))
    _fitting("convolve_channels_back", images, Shape(filter.shape), Shape(dy.shape), attrs)
    exact, (rows, columns, channels, times) = wide(dy.dtype), filter.shape
    taps = filter.astype(exact, copy=False)
    found = np.empty(images.static, dy.dtype)
    for image, result in zip(dy.astype(exact, copy=False), found):
        parts = image.reshape(1, *image.shape[:2], 1, 1, channels, times) * taps
        parts = parts[..., 0] if times == 1 else np.add.reduce(parts, axis=6)
        result[...] = scatter(parts, images.static[1:3], (rows, columns), attrs)[0]
    return found


@convolve_channels_back.gradient
def _(node, ddx):
    filter, dy, _ = node.inputs
    return (ops.convolve_channels_filters(ddx, dy, ops.shape(filter), **node.attrs),
            ops.convolve_channels(ddx, filter, **node.attrs), None)


@op("x[n,h,w,c] dy[n,p,q,o] filter_shape[4] -> ?", types="T:float T int -> T", shape=_filters)
def convolve_channels_filters(x, dy, filter_shape, *, strides, padding, dilations):
    """The derivative of convolve_channels by its filters, of shape `filter_shape`."""
    attrs = {"strides": strides, "padding": padding, "dilations": dilations}
    filter = Shape(lengths("filter_shape", filter_shape))
    _fitting("convolve_channels_filters", Shape(x.shape), filter, Shape(dy.shape), attrs)
    rows, columns, channels, times = filter.static
    windows = views(x.astype(np.float64, copy=False), (rows, columns), attrs)
    found, dy_wide = np.empty((rows, columns, channels * times)), dy.astype(np.float64, copy=False)
    for i, j in np.ndindex(rows, columns):
        found[i, j] = np.add.reduce(_repeated(windows[:, :, :, i, j], times) * dy_wide, axis=(0, 1, 2))
    return found.reshape(filter.static).astype(dy.dtype, copy=False)


@convolve_channels_filters.gradient
def _(node, ddf):
    x, dy, _ = node.inputs
    return ops.convolve_channels_back(ddf, dy, ops.shape(x), **node.attrs), ops.convolve_channels(x, ddf, **node.attrs), None


# what users call

def _last(x, data_format):
    return ops.transpose(x, [0, 2, 3, 1]) if data_format == "NCHW" else x


def _laid_out(function, data_format, name):
    """What `function(name)` gives with channels last, in its format."""
    return ops.transpose(function(None), [0, 3, 1, 2], name=name) if data_format == "NCHW" else function(name)


def _options(where, strides, padding, data_format, dilations=1):
    """(attributes of an operation, data format)"""
    options = options_of(where, strides, padding, data_format, dilations)
    return options, options.pop("data_format")


def _depthwise(where, input, filter, strides, padding, rate, data_format, name):
    options, layout = _options(where, strides, padding, data_format or "NHWC", 1 if rate is None else tuple(rate))
    if max(options["strides"]) > 1 and max(options["dilations"]) > 1:
        raise errors.InvalidArgumentError(f"{where}: strides are {list(options['strides'])} and rate is "
                                          f"{list(options['dilations'])}; one of them must be 1")
    x, kernel = images_of_rank(where, convert(input)), convert(filter)
    if kernel.shape.rank not in (None, 4):
        raise errors.ShapeError(f"{where}: filter has shape {kernel.shape} but rank 4 is needed, [height, width, channels, "
                                "multiplier]; reshape it or use set_shape")
    channels, own = (kernel.shape.sizes or (None,) * 4)[2], x.shape.sizes[1 if layout == "NCHW" else 3]
    if None not in (own, channels) and own != channels:
        raise errors.ShapeError(f"{where}: input has {own} channels but filter axis 2 is {channels}; make them equal")
    return _laid_out(lambda name: ops.convolve_channels(_last(x, layout), kernel, **options, name=name), layout, name)


@composed
def depthwise_conv2d(input, filter, strides, padding, rate=None, name=None, data_format=None):
    """[n, rows, columns, channels · multiplier]: channel c of the images [n, height, width, channels] with each of its own
    filters [height, width, c, multiplier].

    `strides` is [1, s, s, 1], `rate` (rows, columns) the distance between the elements of a filter; one of both is 1.
    `data_format` "NCHW" puts channels second. ShapeError where the channels differ.
    """
    return _depthwise("depthwise_conv2d", input, filter, strides, padding, rate, data_format, name)


@composed
def depthwise_conv2d_native(input, filter, strides, padding, data_format="NHWC", name=None):
    """depthwise_conv2d without a rate."""
    return _depthwise("depthwise_conv2d_native", input, filter, strides, padding, None, data_format, name)


@composed
def separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, rate=None, name=None, data_format=None):
    """depthwise_conv2d, then a convolution by `pointwise_filter` [1, 1, channels · multiplier, outputs] that mixes channels.

    Raises ShapeError where the filters do not fit each other.
    """
    point, depth = convert(pointwise_filter), convert(depthwise_filter)
    if point.shape.rank == depth.shape.rank == 4 and point.shape.known and depth.shape.known:
        wanted = [1, 1, depth.shape.static[2] * depth.shape.static[3]]
        if list(point.shape.static[:3]) != wanted:
            raise errors.ShapeError(f"separable_conv2d: pointwise_filter has shape {point.shape} but depthwise_filter "
                                    f"{depth.shape}; the first must be {wanted[:-1]} and {wanted[-1]} channels deep")
    mixed = _depthwise("separable_conv2d", input, depth, strides, padding, rate, data_format, None)
    return ops.conv2d(mixed, point, 1, "VALID", data_format=data_format or "NHWC", name=name)


@composed
def depthwise_filter_gradient(input, filter_sizes, out_backprop, strides, padding, data_format="NHWC", name=None):
    """The derivative of depthwise_conv2d_native by its filter, of shape `filter_sizes` [height, width, channels,
    multiplier]."""
    options, layout = _options("depthwise_conv2d_native_backprop_filter", strides, padding, data_format)
    x, dy = (_last(convert(t), layout) for t in (input, out_backprop))
    return ops.convolve_channels_filters(x, dy, ops.cast(convert(filter_sizes), "int32"), **options, name=name)


@composed
def depthwise_image_gradient(input_sizes, filter, out_backprop, strides, padding, data_format="NHWC", name=None):
    """The derivative of depthwise_conv2d_native by its images, of shape `input_sizes`."""
    options, layout = _options("depthwise_conv2d_native_backprop_input", strides, padding, data_format)
    sizes, dy = ops.cast(convert(input_sizes), "int32"), _last(convert(out_backprop), layout)
    sizes = ops.gather(sizes, [0, 2, 3, 1]) if layout == "NCHW" else sizes
    return _laid_out(lambda name: ops.convolve_channels_back(filter, dy, sizes, **options, name=name), layout, name)
