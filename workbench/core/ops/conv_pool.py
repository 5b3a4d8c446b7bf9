"""Two-dimensional pooling by largest element and by mean, and its derivatives."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import reduced, wide
from workbench.core.graph.build import FLAT, constant_shape, convert, front, ops, raw
from workbench.core.graph.graph import get_default_graph
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_windows import (
    back,
    channels_last,
    extents_of,
    from_last,
    image_shape,
    image_text,
    images_of,
    last,
    options_of,
    scatter,
    views,
    window,
)


def _pooled(inputs, attrs):
    return [_pooled_shape(inputs[0].shape, attrs)]


def _pooled_shape(x, attrs):
    if x.sizes is None:
        return Shape([None] * 4)
    n, h, w, c = channels_last(x.sizes, attrs)
    (oh, *_), (ow, *_) = extents_of((h, w), attrs["ksize"], attrs)
    return from_last((n, oh, ow, c), attrs)


def _lowest(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


@op(image_text("x"), name="max_pool", types="T:real -> T", shape=_pooled)
def max_pool_(x, *, ksize, strides, padding, data_format="NHWC"):
    """The largest element of each window; padding never wins."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    return back(views(last(x, attrs), ksize, attrs, _lowest(x.dtype)).max((3, 4)), attrs)


@max_pool_.gradient
def _(node, dy):
    return ops.max_pool_grad(node.inputs[0], node.outputs[0], dy, **node.attrs)


def _winners(x, ksize, attrs):
    """1 at the first largest element of each window, else 0: [n, height, width, kernel height, kernel width, c]."""
    windows = views(last(x, attrs), ksize, attrs, _lowest(x.dtype))
    flat = windows.reshape(*windows.shape[:3], ksize[0] * ksize[1], windows.shape[5])
    first = np.argmax(flat, 3)[:, :, :, None]
    return (np.arange(flat.shape[3])[:, None] == first).reshape(windows.shape)


def _pool_text(third, out):
    def text(*, data_format, **others):
        image, pooled = ("n,c,h,w", "n,c,p,q") if data_format == "NCHW" else ("n,h,w,c", "n,p,q,c")
        given, made = (pooled, image) if out == "x" else (image, pooled)
        return f"x[{image}] y[{pooled}] {third}[{given}] -> [{made}]"
    return text


def _pool_gradient(where, result):
    """From x, y and what lies like the other one of them to what lies like `result`; y is the pooled x."""
    def rule(inputs, attrs):
        x, y, third = (t.shape for t in inputs)
        y = _pooled_shape(x, attrs).merge(y, f"{where}: the pooled shape of {x} and y")
        (x if result == "y" else y).merge(third, f"{where}: {'x' if result == 'y' else 'y'} and {inputs[2].name}")
        return [x if result == "x" else y]
    return rule


@op(_pool_text("dy", "x"), types="T:float -> T", shape=_pool_gradient("max_pool_grad", "x"))
def max_pool_grad(x, y, dy, *, ksize, strides, padding, data_format="NHWC"):
    """dy sent to the first largest element of each window of x; y is max_pool(x)."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    chosen, size = _winners(x, ksize, attrs), last(x, attrs).shape[1:3]
    parts = np.where(chosen, last(dy, attrs)[:, :, :, None, None], dy.dtype.type(0))      # not a product: 0 · inf is NaN
    return back(scatter(parts, size, ksize, attrs), attrs)


@max_pool_grad.gradient
def _(node, ddx):
    x, y, _ = node.inputs
    return FLAT, FLAT, ops.max_pool_grad_grad(x, y, ddx, **node.attrs)


@op(_pool_text("ddx", "y"), types="T:float -> T", shape=_pool_gradient("max_pool_grad_grad", "y"))
def max_pool_grad_grad(x, y, ddx, *, ksize, strides, padding, data_format="NHWC"):
    """The elements of ddx at the first largest element of each window of x."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    picked = np.where(_winners(x, ksize, attrs), views(last(ddx, attrs), ksize, attrs), x.dtype.type(0))
    return back(reduced(np.add, picked, (3, 4)), attrs)


@max_pool_grad_grad.gradient
def _(node, dy):
    x, y, _ = node.inputs
    return FLAT, FLAT, ops.max_pool_grad(x, y, dy, **node.attrs)


def _counts(size, ksize, attrs, dtype):
    """How many elements of each window lie inside the image: [height, width, 1]."""
    return views(np.ones((1, *size, 1), wide(dtype)), ksize, attrs).sum((0, 3, 4))


@op(image_text("x"), name="avg_pool", types="T:float -> T", shape=_pooled)
def avg_pool_(x, *, ksize, strides, padding, data_format="NHWC"):
    """The mean of each window over the elements inside the image: padding does not count."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    x = last(x, attrs)
    total = reduced(np.add, views(x, ksize, attrs), (3, 4))
    return back((total / _counts(x.shape[1:3], ksize, attrs, x.dtype)).astype(x.dtype, copy=False), attrs)


@avg_pool_.gradient
def _(node, dy):
    return ops.avg_pool_grad(dy, input_shape=image_shape(node.inputs[0]), **node.attrs)


def _mean_gradient(inputs, attrs):
    dy = inputs[0].shape
    images = images_of(dy, attrs)
    _pooled_shape(images, attrs).merge(dy, f"avg_pool_grad: the pooled shape of {images} and dy")
    return [images]


@op("dy[n,_,_,_] -> ?", types="T:float -> T", shape=_mean_gradient)
def avg_pool_grad(dy, *, input_shape, ksize, strides, padding, data_format="NHWC"):
    """The derivative of avg_pool by its images, of shape `input_shape` (batch None = that of dy)."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    _, h, w, _ = channels_last(input_shape, attrs)
    share = (last(dy, attrs) / _counts((h, w), ksize, attrs, dy.dtype)).astype(dy.dtype, copy=False)
    parts = np.broadcast_to(share[:, :, :, None, None], (*share.shape[:3], *ksize, share.shape[3]))
    return back(scatter(parts, (h, w), ksize, attrs), attrs)


@avg_pool_grad.gradient
def _(node, ddx):
    return raw("avg_pool")(ddx, **{k: v for k, v in node.attrs.items() if k != "input_shape"})


@avg_pool_grad.at_run_time("input_shape")
def _(dy, input_shape, name, **options):
    return ops.avg_pool_images(dy, input_shape, **options, name=name)


@op("dy[n,_,_,_] input_shape[4] -> ?", types="T:float int -> T", shape=lambda inputs, attrs: [constant_shape(inputs[1])])
def avg_pool_images(dy, input_shape, *, ksize, strides, padding, data_format="NHWC"):
    """avg_pool_grad of a shape that only the step knows."""
    attrs = {"ksize": ksize, "strides": strides, "padding": padding, "data_format": data_format}
    images = Shape(input_shape.tolist())
    _pooled_shape(images, attrs).merge(Shape(dy.shape), f"avg_pool_grad: the pooled shape of {images} and dy")
    return avg_pool_grad.reference(dy, input_shape=images.static, **attrs)


@avg_pool_images.gradient
def _(node, ddx):
    return raw("avg_pool")(ddx, **node.attrs), None


def _largest_channels(x, ksize, strides, data_format, name):
    at = 1 if data_format == "NCHW" else 3
    count, depth = ksize[at], x.shape.merge(Shape([None] * 4), "max_pool").sizes[at]
    fault = None
    if ksize.count(1) < 3:
        fault = "MaxPooling supports exactly one of pooling across depth or pooling across width/height."
    elif strides != ksize:
        fault = "Depthwise max pooling requires the depth window to equal the depth stride."
    elif depth is not None and depth % count:
        fault = "Depthwise max pooling requires the depth window to evenly divide the input depth."
    if fault is not None:
        raise errors.UnimplementedError(f"max_pool: ksize is {ksize}, strides {strides}, depth {depth}; {fault}")
    name = name or get_default_graph().language.names.get("max_pool", "max_pool")
    last = x if at == 3 else ops.transpose(x, (0, 2, 3, 1))
    groups = ops.shape(last)[3] // count
    found = ops.reduce_max(ops.reshape(last, ops.stack([*ops.unstack(ops.shape(last)[:3], 3), groups, count])), axis=4)
    return ops.transpose(found, (0, 3, 1, 2), name=name) if at == 1 else ops.identity(found, name=name)


@front("max_pool")
def _(max_pool, value, ksize, strides, padding, data_format="NHWC", name=None):
    """The largest element of each window of images [batch, height, width, channels], or [batch, channels, height,
    width].

    ksize and strides: a number, (height, width) or [1, height, width, 1]; padding: "SAME", "VALID" or explicit, never
    the largest. With ksize and strides [1, 1, 1, n] the largest of each n channels, which they must be a multiple of.
    """
    if not isinstance(ksize, int) and len(ksize) == 4 and ksize[1 if data_format == "NCHW" else 3] != 1:
        return _largest_channels(convert(value), list(ksize), list(strides), data_format, name)
    return _pool("max_pool", max_pool, value, ksize, strides, padding, data_format, name)


@front("avg_pool")
def _(avg_pool, value, ksize, strides, padding, data_format="NHWC", name=None):
    """The mean of each window of float images, as max_pool takes them; padding does not count."""
    return _pool("avg_pool", avg_pool, value, ksize, strides, padding, data_format, name)


def _pool(where, builder, value, ksize, strides, padding, data_format, name):
    options = options_of(where, strides, padding, data_format)
    del options["dilations"]
    return builder(value, ksize=window(where, "ksize", ksize, data_format), **options, name=name)
