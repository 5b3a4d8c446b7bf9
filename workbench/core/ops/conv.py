"""Two-dimensional convolution, plain, transposed and fused with bias and activation, and its derivatives."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import multiplied, wide
from workbench.core.graph.build import constant_shape, convert, front, ops, raw
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.ops.conv_windows import (
    back,
    channels_last,
    extents_of,
    from_last,
    image_shape,
    image_text,
    images_of,
    kernel_shape,
    last,
    options_of,
    scatter,
    views,
)


def _convolved(inputs, attrs):
    return [_convolved_shape(inputs[0].shape, inputs[1].shape, attrs)]


def _convolved_shape(x, kernel, attrs):
    n, h, w, _ = channels_last(x.sizes or [None] * 4, attrs)
    kh, kw, _, out = kernel.sizes or [None] * 4
    (oh, *_), (ow, *_) = extents_of((h, w), (kh, kw), attrs)
    return from_last((n, oh, ow, out), attrs)


def _flat(x):
    """x as a matrix with its last axis as columns."""
    return x.reshape(math.prod(x.shape[:3]), x.shape[3])


def _convolve(x, filter, attrs):
    windows = views(last(x, attrs), filter.shape[:2], attrs)
    columns = windows.reshape(math.prod(windows.shape[:3]), math.prod(windows.shape[3:]))
    rows = multiplied(columns, _flat(filter))
    return rows.reshape(*windows.shape[:3], filter.shape[3])


@op(image_text("x", filter="filter[i,j,c,o]"), name="conv2d", types="T:float -> T", shape=_convolved, fresh=True)
def conv2d_(x, filter, *, strides=(1, 1), padding="SAME", data_format="NHWC", dilations=(1, 1)):
    """Cross-correlation of images with a filter [height, width, channels in, channels out]."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    return back(_convolve(x, filter, attrs), attrs)


def _convolution_gradients(node, dy):
    x, filter = node.inputs[:2]
    options = {k: node.attrs[k] for k in ("strides", "padding", "data_format", "dilations")}
    return (ops.conv2d_backprop_input(filter, dy, input_shape=image_shape(x), **options),
            ops.conv2d_backprop_filter(x, dy, filter_shape=kernel_shape(filter), **options))


conv2d_.gradient(_convolution_gradients)


@front("conv2d")
def _(conv2d, x, filter, strides=1, padding="SAME", use_cudnn_on_gpu=True, data_format="NHWC", dilations=1, name=None):
    """Cross-correlation of float images [batch, height, width, c] with filter [height, width, c, channels out].

    strides, dilations: a number, (height, width) or [1, height, width, 1]; padding: SAME, VALID or ((top, bottom), …).
    """
    return conv2d(x, filter, **options_of("conv2d", strides, padding, data_format, dilations), name=name)


def _image_gradient(inputs, attrs):
    filter, dy = (t.shape for t in inputs)
    return [_convolvable(images_of(dy, attrs), filter, dy, attrs)]


def _convolvable(images, filter, dy, attrs):
    """`images`, after ShapeError if their convolution with the filter has not the shape of dy."""
    if images.sizes is not None:
        channels = channels_last(images.sizes, attrs)[3]
        Shape([filter[2]]).merge(Shape([channels]), "conv2d_backprop_input: channels of the filter and of input_shape")
    _convolved_shape(images, filter, attrs).merge(dy, f"conv2d_backprop_input: the convolution of {images} and dy")
    return images


@op("filter[i,j,c,o] dy[n,_,_,_] -> ?", types="T:float -> T", shape=_image_gradient, fresh=True)
def conv2d_backprop_input(filter, dy, *, input_shape, strides, padding, data_format="NHWC", dilations=(1, 1)):
    """The derivative of conv2d by its images, of shape `input_shape` (batch None = that of dy)."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    dy, number = last(dy, attrs), wide(dy.dtype)
    _, h, w, _c = channels_last(input_shape, attrs)
    parts = multiplied(_flat(dy).astype(number, copy=False), _flat(filter).T.astype(number, copy=False))
    parts = parts.reshape(*dy.shape[:3], *filter.shape[:3])
    return back(scatter(parts, (h, w), filter.shape[:2], attrs).astype(dy.dtype, copy=False), attrs)


@conv2d_backprop_input.gradient
def _(node, ddx):
    filter, dy = node.inputs
    options = {k: v for k, v in node.attrs.items() if k != "input_shape"}
    return (ops.conv2d_backprop_filter(ddx, dy, filter_shape=kernel_shape(filter), **options),
            raw("conv2d")(ddx, filter, **options))


@conv2d_backprop_input.at_run_time("input_shape")
def _(filter, dy, input_shape, name, **options):
    return ops.conv2d_backprop_images(filter, dy, input_shape, **options, name=name)


@op("filter[i,j,c,o] dy[n,_,_,_] input_shape[4] -> ?", types="T:float T int -> T",
    shape=lambda inputs, attrs: [_convolvable(constant_shape(inputs[2]), inputs[0].shape, inputs[1].shape, attrs)])
def conv2d_backprop_images(filter, dy, input_shape, *, strides, padding, data_format="NHWC", dilations=(1, 1)):
    """conv2d_backprop_input of a shape that only the step knows."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    images = _convolvable(Shape(input_shape.tolist()), Shape(filter.shape), Shape(dy.shape), attrs)
    return conv2d_backprop_input.reference(filter, dy, input_shape=images.static, **attrs)


@conv2d_backprop_images.gradient
def _(node, ddx):
    filter, dy, _ = node.inputs
    return (ops.conv2d_backprop_filter(ddx, dy, filter_shape=kernel_shape(filter), **node.attrs),
            raw("conv2d")(ddx, filter, **node.attrs), None)


def _filter_gradient(inputs, attrs):
    x, dy = inputs
    return [_filter_of(x.shape, dy.shape, as_shape(attrs["filter_shape"]), attrs)]


def _filter_of(x, dy, filter, attrs):
    """The shape `filter`, after ShapeError if the convolution of x with it has not the shape of dy."""
    filter = filter.merge(Shape([None] * 4), "conv2d_backprop_filter: the four lengths of filter_shape")
    if x.sizes is not None and filter.sizes is not None:
        channels = channels_last(x.sizes, attrs)[3]
        Shape([filter[2]]).merge(Shape([channels]), "conv2d_backprop_filter: channels of filter_shape and of x")
    _convolved_shape(x, filter, attrs).merge(dy, f"conv2d_backprop_filter: the convolution of {x} and dy")
    return filter


@op(lambda *, data_format, **others: f"x[{'n,c,h,w' if data_format == 'NCHW' else 'n,h,w,c'}] dy[n,_,_,_] -> ?",
    types="T:float -> T", shape=_filter_gradient, fresh=True)
def conv2d_backprop_filter(x, dy, *, filter_shape, strides, padding, data_format="NHWC", dilations=(1, 1)):
    """The derivative of conv2d by its filter, of shape `filter_shape`."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    windows = views(last(x, attrs), filter_shape[:2], attrs)
    dy = last(dy, attrs)
    columns = windows.reshape(math.prod(windows.shape[:3]), math.prod(windows.shape[3:]))
    return multiplied(columns.T, _flat(dy)).reshape(filter_shape)


@conv2d_backprop_filter.at_run_time("filter_shape")
def _(x, dy, filter_shape, name, **options):
    return ops.conv2d_backprop_filters(x, dy, filter_shape, **options, name=name)


@op(lambda *, data_format, **others: f"x[{'n,c,h,w' if data_format == 'NCHW' else 'n,h,w,c'}] dy[n,_,_,_] filter_shape[4] -> ?",
    types="T:float T int -> T",
    shape=lambda inputs, attrs: [_filter_of(inputs[0].shape, inputs[1].shape, constant_shape(inputs[2]), attrs)])
def conv2d_backprop_filters(x, dy, filter_shape, *, strides, padding, data_format="NHWC", dilations=(1, 1)):
    """conv2d_backprop_filter of a shape that only the step knows."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    kernel = _filter_of(Shape(x.shape), Shape(dy.shape), Shape(filter_shape.tolist()), attrs)
    return conv2d_backprop_filter.reference(x, dy, filter_shape=kernel.static, **attrs)


def _filter_gradient_gradients(node, ddf):
    x, dy = node.inputs[:2]
    options = {k: v for k, v in node.attrs.items() if k != "filter_shape"}
    return (ops.conv2d_backprop_input(ddf, dy, input_shape=image_shape(x), **options),
            raw("conv2d")(x, ddf, **options))


conv2d_backprop_filter.gradient(_filter_gradient_gradients)


@conv2d_backprop_filters.gradient
def _(node, ddf):
    return (*_filter_gradient_gradients(node, ddf), None)


@op(image_text("x", filter="filter[i,j,c,o] bias[o]"), types="T:float -> T", shape=_convolved, fresh=True)
def fused_conv2d(x, filter, bias, *, strides=(1, 1), padding="SAME", data_format="NHWC", dilations=(1, 1),
                 activation="none"):
    """activation(conv2d(x, filter) + bias) in one pass; the activation is "none" or "relu"."""
    if activation not in ("none", "relu"):
        raise errors.InvalidArgumentError(f"fused_conv2d: activation is {activation!r}; use 'none' or 'relu'")
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    y = _convolve(x, filter, attrs) + bias
    return back(np.maximum(y, 0) if activation == "relu" else y, attrs)


@fused_conv2d.gradient
def _(node, dy):
    if node.attrs["activation"] == "relu":
        dy = ops.relu_grad(dy, node.outputs[0])
    return (*_convolution_gradients(node, dy), ops.bias_add_grad(dy, node.attrs["data_format"]))


@composed
def conv2d_transpose(value, filter, output_shape, strides, padding="SAME", data_format="NHWC", name=None):
    """The transpose of conv2d, with filter [height, width, channels out, channels in]: float images of `output_shape`."""
    wanted = convert(output_shape)
    shape = constant_shape(wanted)
    late = shape.sizes is None or None in shape.sizes[1:]
    return ops.conv2d_backprop_input(filter, value, input_shape=wanted if late else shape.sizes,
                                     **options_of("conv2d_transpose", strides, padding, data_format), name=name)


@composed
def atrous_conv2d(value, filters, rate, padding, name=None):
    """conv2d of images [n, height, width, channels] whose filters' elements lie `rate` pixels apart, with stride 1."""
    if not isinstance(rate, (int, np.integer)) or rate < 1:
        raise errors.InvalidArgumentError(f"atrous_conv2d: rate is {rate!r}; use a whole number from 1")
    return ops.conv2d(value, filters, 1, padding, dilations=int(rate), name=name)
