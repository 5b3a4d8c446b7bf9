"""Derivatives of convolutions as functions of their own: by filters and by images, plain, depthwise and dilated."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.opdef import composed
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_late import patches_at_grad
from workbench.core.ops.conv_patches import patches_of
from workbench.core.ops.conv_windows import options_of


@composed
def conv2d_filter_gradient(input, filter_sizes, out_backprop, strides, padding, use_cudnn_on_gpu=True, data_format="NHWC",
                           name=None):
    """The derivative of conv2d by its filter, of shape `filter_sizes`, for the derivative `out_backprop` by its result."""
    wanted = convert(filter_sizes)
    shape = constant_shape(wanted)
    return ops.conv2d_backprop_filter(input, out_backprop, filter_shape=shape.static if shape.known else wanted, name=name,
                                      **options_of("conv2d_backprop_filter", strides, padding, data_format))


@composed
def conv2d_image_gradient(input_sizes, filter, out_backprop, strides, padding, use_cudnn_on_gpu=True, data_format="NHWC",
                          name=None):
    """The derivative of conv2d by its images, of shape `input_sizes`, for the derivative `out_backprop` by its result."""
    return ops.conv2d_transpose(out_backprop, filter, input_sizes, strides, padding, data_format, name=name)


@composed
def atrous_conv2d_transpose(value, filters, output_shape, rate, padding, name=None):
    """The transpose of atrous_conv2d, with filters [height, width, channels out, channels in]: images of `output_shape`."""
    if not isinstance(rate, (int, np.integer)) or rate < 1:
        raise errors.InvalidArgumentError(f"atrous_conv2d_transpose: rate is {rate!r}; use a whole number from 1")
    wanted = convert(output_shape)
    shape = constant_shape(wanted)
    late = shape.sizes is None or None in shape.sizes[1:]
    return ops.conv2d_backprop_input(filters, value, input_shape=wanted if late else shape.sizes, name=name,
                                     **options_of("atrous_conv2d_transpose", 1, padding, "NHWC", int(rate)))


# of each channel by itself

def _inside(where, given, dy, data_format):
    """(a tensor or None, dy) with channels last."""
    if data_format not in ("NHWC", "NCHW"):
        raise errors.InvalidArgumentError(f"{where}: data_format is {data_format!r}; use 'NHWC' or 'NCHW'")
    dy = convert(dy)
    if data_format == "NHWC":
        return given, dy
    return None if given is None else ops.transpose(given, [0, 2, 3, 1]), ops.transpose(dy, [0, 2, 3, 1])


def _in_front(found, data_format, name):
    """Images as they were asked for."""
    return ops.transpose(found, [0, 3, 1, 2], name=name) if data_format == "NCHW" else ops.identity(found, name=name)


def _options(where, strides, padding, data_format):
    options = options_of(where, strides, padding, data_format)
    del options["data_format"]
    return options


def _filter_shape(where, shape):
    return Shape([None] * 4).merge(shape, f"{where}: the filter [height, width, channels, multiplier]")


def _parts(tensor, *last):
    """The rows and columns of a tensor, with its channels apart."""
    return ops.reshape(tensor, ops.concat([ops.getitem(ops.shape(tensor), slice(3)), list(last)], 0))


@composed
def depthwise_filter_gradient(input, filter_sizes, out_backprop, strides, padding, data_format="NHWC", name=None):
    """The derivative of depthwise_conv2d_native by its filter, of shape `filter_sizes` [height, width, channels,
    multiplier]."""
    where = "depthwise_conv2d_native_backprop_filter"
    wanted = convert(filter_sizes)
    shape = _filter_shape(where, constant_shape(wanted))
    x, dy = _inside(where, convert(input), out_backprop, data_format)
    sizes = list(shape.static) if shape.known else ops.unstack(ops.cast(wanted, "int32"), 4)
    height, width, channels, times = sizes
    patches = patches_of(x, (height, width), channels, **_options(where, strides, padding, data_format))
    return ops.reshape(ops.einsum("nhwkc,nhwcm->kcm", patches, _parts(dy, channels, times)), sizes, name=name)


@composed
def depthwise_image_gradient(input_sizes, filter, out_backprop, strides, padding, data_format="NHWC", name=None):
    """The derivative of depthwise_conv2d_native by its images, of shape `input_sizes`."""
    where = "depthwise_conv2d_native_backprop_input"
    kernel, sizes = convert(filter), convert(input_sizes)
    shape = _filter_shape(where, kernel.shape)
    _, dy = _inside(where, None, out_backprop, data_format)
    if data_format == "NCHW":
        sizes = ops.gather(sizes, [0, 2, 3, 1])
    options = _options(where, strides, padding, data_format)
    height, width, channels, times = shape.static if shape.known else ops.unstack(ops.shape(kernel), 4)
    parts = ops.einsum("nhwcm,kcm->nhwkc", _parts(dy, channels, times), ops.reshape(kernel, [height * width, channels, times]))
    if not shape.known:
        found = patches_at_grad(parts, ops.cast(sizes, "int32"), (height, width), **options)
        return _in_front(found, data_format, name)
    flat = _parts(parts, height * width * channels)
    flat.set_shape(Shape([None, None, None, height * width * channels]))
    return _in_front(ops.image_patches_grad(flat, sizes, ksize=(height, width), **options), data_format, name)
