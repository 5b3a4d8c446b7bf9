"""Two-dimensional convolution and pooling, their derivatives, and the window arithmetic behind them."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape

# strides, dilations and ksize are (height, width); padding is "SAME", "VALID" or ((top, bottom), (left, right))


def _window(where, name, value, data_format):
    """(height, width) from one number, a pair, or TensorFlow's list of four."""
    if isinstance(value, int):
        return value, value
    value = tuple(int(v) for v in value)
    if len(value) == 4:
        batch, channels = value[0], value[1 if data_format == "NCHW" else 3]
        if (batch, channels) != (1, 1):
            raise errors.UnimplementedError(f"{where}: {name} is {list(value)} for {data_format}; batch and channels "
                                            "must be 1")
        return value[2:] if data_format == "NCHW" else value[1:3]
    if len(value) != 2:
        raise errors.InvalidArgumentError(f"{where}: {name} is {list(value)}; give one number, (height, width) or a "
                                          "list of four")
    return value


def _padding(where, value, data_format):
    if isinstance(value, str) and value.upper() in ("SAME", "VALID"):
        return value.upper()
    if not isinstance(value, str) and len(value) == 4:
        value = value[2:] if data_format == "NCHW" else value[1:3]
    if not isinstance(value, str) and len(value) == 2:
        return tuple((int(a), int(b)) for a, b in value)
    raise errors.InvalidArgumentError(f"{where}: padding is {value!r}; use 'SAME', 'VALID' or "
                                      "((top, bottom), (left, right))")


def _format(where, data_format):
    if data_format not in ("NHWC", "NCHW"):
        raise errors.InvalidArgumentError(f"{where}: data_format is {data_format!r}; use 'NHWC' or 'NCHW'")
    return data_format


def _options(where, strides, padding, data_format, dilations=1):
    data_format = _format(where, data_format)
    return {"strides": _window(where, "strides", strides, data_format),
            "padding": _padding(where, padding, data_format), "data_format": data_format,
            "dilations": _window(where, "dilations", dilations, data_format)}


def _extent(size, kernel, stride, padding, dilation):
    """(output length, elements before, elements after) of one axis; None lengths stay unknown."""
    reach = (kernel - 1) * dilation + 1
    if padding == "SAME":
        if size is None:
            return None, 0, 0
        out = -(-size // stride)
        total = max((out - 1) * stride + reach - size, 0)
        return out, total // 2, total - total // 2
    before, after = (0, 0) if padding == "VALID" else padding
    if size is None:
        return None, before, after
    if size + before + after < reach:
        raise errors.ShapeError(f"conv2d/pool: the window covers {reach} elements but the axis has {size} and "
                                f"{before + after} of padding; use padding 'SAME' or a smaller window")
    return (size + before + after - reach) // stride + 1, before, after


def _plan(size, kernel, attrs):
    """The extents of height and width."""
    padding = attrs["padding"]
    each = (padding, padding) if isinstance(padding, str) else padding
    dilations = attrs.get("dilations", (1, 1))
    return [_extent(*axis) for axis in zip(size, kernel, attrs["strides"], each, dilations)]


def _last(x, attrs):
    """x with channels last, whatever its format."""
    return x.transpose(0, 2, 3, 1) if attrs["data_format"] == "NCHW" else x


def _back(y, attrs):
    return np.ascontiguousarray(y.transpose(0, 3, 1, 2)) if attrs["data_format"] == "NCHW" else y


def _channels_last(shape, attrs):
    n, a, b, c = shape
    return (n, b, c, a) if attrs["data_format"] == "NCHW" else (n, a, b, c)


def _from_last(shape, attrs):
    n, h, w, c = shape
    return Shape((n, c, h, w) if attrs["data_format"] == "NCHW" else (n, h, w, c))


def _padded(x, extents, fill):
    (_, top, bottom), (_, left, right) = extents
    if not (top or bottom or left or right):
        return x
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)


def _views(x, kernel, attrs, fill=0):
    """x (channels last) as a view [n, height, width, kernel height, kernel width, channels] of its windows."""
    extents = _plan(x.shape[1:3], kernel, attrs)
    room = _padded(x, extents, fill)
    (sh, sw), (dh, dw) = attrs["strides"], attrs.get("dilations", (1, 1))
    n, h, w, c = room.strides
    shape = (len(x), extents[0][0], extents[1][0], *kernel, x.shape[3])
    return np.lib.stride_tricks.as_strided(room, shape, (n, h * sh, w * sw, h * dh, w * dw, c), writeable=False)


def _scatter(parts, size, kernel, attrs):
    """The adjoint of `_views`: parts [n, height, width, kernel height, kernel width, channels] added up in place."""
    extents = _plan(size, kernel, attrs)
    (oh, top, bottom), (ow, left, right) = extents
    (sh, sw), (dh, dw) = attrs["strides"], attrs.get("dilations", (1, 1))
    room = np.zeros((len(parts), size[0] + top + bottom, size[1] + left + right, parts.shape[-1]), parts.dtype)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
            room[:, rows, j * dw:j * dw + (ow - 1) * sw + 1:sw] += parts[:, :, :, i, j]
    return np.ascontiguousarray(room[:, top:top + size[0], left:left + size[1]])


# convolution

def _image(*names, filter=None):
    """A signature whose images have the layout of the data_format."""
    def text(*, data_format, **others):
        dims = "n,c,h,w" if data_format == "NCHW" else "n,h,w,c"
        return " ".join(f"{name}[{dims}]" for name in names) + f" {filter or ''} -> ?"
    return text


def _convolved(inputs, attrs):
    x, kernel = inputs[0].shape, inputs[1].shape
    if x.dims is None or kernel.dims is None:
        return [Shape([None] * 4)]
    n, h, w, _ = _channels_last(x.dims, attrs)
    kh, kw, _, out = kernel.dims
    if kh is None or kw is None:
        return [_from_last((n, None, None, out), attrs)]
    (oh, *_), (ow, *_) = _plan((h, w), (kh, kw), attrs)
    return [_from_last((n, oh, ow, out), attrs)]


def _convolve(x, filter, attrs):
    windows = _views(_last(x, attrs), filter.shape[:2], attrs)
    rows = windows.reshape(math.prod(windows.shape[:3]), math.prod(windows.shape[3:])) @ filter.reshape(-1, filter.shape[3])
    return rows.astype(x.dtype, copy=False).reshape(*windows.shape[:3], filter.shape[3])


@op(_image("x", filter="filter[i,j,c,o]"), name="conv2d", types="T:float -> T", shape=_convolved)
def conv2d_(x, filter, *, strides=(1, 1), padding="SAME", data_format="NHWC", dilations=(1, 1)):
    """Cross-correlation of images with a filter [height, width, channels in, channels out]."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    return _back(_convolve(x, filter, attrs), attrs)


def _convolution_gradients(node, dy):
    x, filter = node.inputs[:2]
    options = {k: node.attrs[k] for k in ("strides", "padding", "data_format", "dilations")}
    return (ops.conv2d_backprop_input(filter, dy, input_shape=_image_shape(x, node), **options),
            ops.conv2d_backprop_filter(x, dy, filter_shape=filter.shape.static, **options))


def _image_shape(x, node):
    """The shape of x for an attribute: only the number of images may be unknown."""
    if x.shape.dims is None or None in x.shape.dims[1:]:
        raise errors.ShapeError(f"{node.type}: its gradient needs height, width and channels of {x.name} but the "
                                f"shape is {x.shape}; use set_shape")
    return x.shape.dims


conv2d_.gradient(_convolution_gradients)
_conv2d = ops.conv2d


def conv2d(x, filter, strides=1, padding="SAME", use_cudnn_on_gpu=True, data_format="NHWC", dilations=1, name=None):
    """Cross-correlation of float images [batch, height, width, c] with filter [height, width, c, channels out].

    strides, dilations: a number, (height, width) or [1, height, width, 1]; padding: SAME, VALID or ((top, bottom), …).
    """
    return _conv2d(x, filter, **_options("conv2d", strides, padding, data_format, dilations), name=name)


ops.define("conv2d", conv2d)


def _wanted(attribute):
    def rule(inputs, attrs):
        shape, dy = as_shape(attrs[attribute]), inputs[-1].shape
        return [Shape([dy[0] if shape[0] is None else shape[0]]) + shape[1:]]
    return rule


@op("filter[i,j,c,o] dy[n,_,_,_] -> ?", types="T:float -> T", shape=_wanted("input_shape"))
def conv2d_backprop_input(filter, dy, *, input_shape, strides, padding, data_format="NHWC", dilations=(1, 1)):
    """The derivative of conv2d by its images, of shape `input_shape` (batch None = that of dy)."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    dy = _last(dy, attrs)
    _, h, w, _c = _channels_last(input_shape, attrs)
    parts = dy.reshape(-1, dy.shape[3]) @ filter.reshape(-1, filter.shape[3]).T
    parts = parts.astype(dy.dtype, copy=False).reshape(*dy.shape[:3], *filter.shape[:3])
    return _back(_scatter(parts, (h, w), filter.shape[:2], attrs), attrs)


@conv2d_backprop_input.gradient
def _(node, ddx):
    filter, dy = node.inputs
    options = {k: v for k, v in node.attrs.items() if k != "input_shape"}
    return (ops.conv2d_backprop_filter(ddx, dy, filter_shape=filter.shape.static, **options),
            _conv2d(ddx, filter, **options))


@op(lambda *, data_format, **others: f"x[{'n,c,h,w' if data_format == 'NCHW' else 'n,h,w,c'}] dy[n,_,_,_] -> ?",
    types="T:float -> T", shape=lambda inputs, attrs: [as_shape(attrs["filter_shape"])])
def conv2d_backprop_filter(x, dy, *, filter_shape, strides, padding, data_format="NHWC", dilations=(1, 1)):
    """The derivative of conv2d by its filter, of shape `filter_shape`."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    windows = _views(_last(x, attrs), filter_shape[:2], attrs)
    dy = _last(dy, attrs)
    columns = windows.reshape(math.prod(windows.shape[:3]), math.prod(windows.shape[3:]))
    return (columns.T @ dy.reshape(-1, dy.shape[3])).astype(x.dtype, copy=False).reshape(filter_shape)


@conv2d_backprop_filter.gradient
def _(node, ddf):
    x, dy = node.inputs
    options = {k: v for k, v in node.attrs.items() if k != "filter_shape"}
    return (ops.conv2d_backprop_input(ddf, dy, input_shape=_image_shape(x, node), **options),
            _conv2d(x, ddf, **options))


@op(_image("x", filter="filter[i,j,c,o] bias[o]"), types="T:float -> T", shape=_convolved)
def fused_conv2d(x, filter, bias, *, strides=(1, 1), padding="SAME", data_format="NHWC", dilations=(1, 1),
                 activation="none"):
    """activation(conv2d(x, filter) + bias) in one pass; the activation is "none" or "relu"."""
    if activation not in ("none", "relu"):
        raise errors.InvalidArgumentError(f"fused_conv2d: activation is {activation!r}; use 'none' or 'relu'")
    attrs = {"strides": strides, "padding": padding, "data_format": data_format, "dilations": dilations}
    y = _convolve(x, filter, attrs) + bias
    return _back(np.maximum(y, 0) if activation == "relu" else y, attrs)


@fused_conv2d.gradient
def _(node, dy):
    if node.attrs["activation"] == "relu":
        dy = ops.relu_grad(dy, node.outputs[0])
    return (*_convolution_gradients(node, dy), ops.bias_add_grad(dy, node.attrs["data_format"]))


def conv2d_transpose(value, filter, output_shape, strides, padding="SAME", data_format="NHWC", name=None):
    """The transpose of conv2d, with filter [height, width, channels out, channels in]: float images of `output_shape`."""
    shape = constant_shape(convert(output_shape))
    return ops.conv2d_backprop_input(filter, value, input_shape=shape.dims,
                                     **_options("conv2d_transpose", strides, padding, data_format), name=name)


ops.define("conv2d_transpose", conv2d_transpose)


# pooling

def _pooled(inputs, attrs):
    x = inputs[0].shape
    if x.dims is None:
        return [Shape([None] * 4)]
    n, h, w, c = _channels_last(x.dims, attrs)
    (oh, *_), (ow, *_) = _plan((h, w), attrs["ksize"], attrs)
    return [_from_last((n, oh, ow, c), attrs)]


def _lowest(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


@op(_image("x"), name="max_pool", types="T:real -> T", shape=_pooled)
def max_pool_(x, *, ksize, strides, padding, data_format="NHWC"):
    """The largest element of each window; padding never wins."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    return _back(_views(_last(x, attrs), ksize, attrs, _lowest(x.dtype)).max((3, 4)), attrs)


@max_pool_.gradient
def _(node, dy):
    return ops.max_pool_grad(node.inputs[0], node.outputs[0], dy, **node.attrs)


def _winners(x, ksize, attrs):
    """1 at the first largest element of each window, else 0: [n, height, width, kernel height, kernel width, c]."""
    windows = _views(_last(x, attrs), ksize, attrs, _lowest(x.dtype))
    flat = windows.reshape(*windows.shape[:3], ksize[0] * ksize[1], windows.shape[5])
    first = np.argmax(flat, 3)[:, :, :, None]
    return (np.arange(flat.shape[3])[:, None] == first).reshape(windows.shape)


def _pool_text(last, out):
    def text(*, data_format, **others):
        image, pooled = ("n,c,h,w", "n,c,p,q") if data_format == "NCHW" else ("n,h,w,c", "n,p,q,c")
        given, made = (pooled, image) if out == "x" else (image, pooled)
        return f"x[{image}] y[{pooled}] {last}[{given}] -> [{made}]"
    return text


@op(_pool_text("dy", "x"), types="T:float -> T")
def max_pool_grad(x, y, dy, *, ksize, strides, padding, data_format="NHWC"):
    """dy sent to the first largest element of each window of x; y is max_pool(x)."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    chosen, size = _winners(x, ksize, attrs), _last(x, attrs).shape[1:3]
    return _back(_scatter(np.where(chosen, _last(dy, attrs)[:, :, :, None, None], dy.dtype.type(0)), size, ksize, attrs), attrs)


@max_pool_grad.gradient
def _(node, ddx):
    x, y, _ = node.inputs
    return None, None, ops.max_pool_grad_grad(x, y, ddx, **node.attrs)


@op(_pool_text("ddx", "y"), types="T:float -> T")
def max_pool_grad_grad(x, y, ddx, *, ksize, strides, padding, data_format="NHWC"):
    """The elements of ddx at the first largest element of each window of x."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    picked = np.where(_winners(x, ksize, attrs), _views(_last(ddx, attrs), ksize, attrs), x.dtype.type(0))
    return _back(picked.sum((3, 4), dtype=x.dtype), attrs)


@max_pool_grad_grad.gradient
def _(node, dy):
    x, y, _ = node.inputs
    return None, None, ops.max_pool_grad(x, y, dy, **node.attrs)


def _counts(size, ksize, attrs, dtype):
    """How many elements of each window lie inside the image: [height, width, 1]."""
    return _views(np.ones((1, *size, 1), dtype), ksize, attrs).sum((0, 3, 4), dtype=dtype)


@op(_image("x"), name="avg_pool", types="T:float -> T", shape=_pooled)
def avg_pool_(x, *, ksize, strides, padding, data_format="NHWC"):
    """The mean of each window over the elements inside the image: padding does not count."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    x = _last(x, attrs)
    total = _views(x, ksize, attrs).sum((3, 4), dtype=x.dtype)
    return _back(total / _counts(x.shape[1:3], ksize, attrs, x.dtype), attrs)


@avg_pool_.gradient
def _(node, dy):
    return ops.avg_pool_grad(dy, input_shape=_image_shape(node.inputs[0], node), **node.attrs)


@op("dy[n,_,_,_] -> ?", types="T:float -> T", shape=_wanted("input_shape"))
def avg_pool_grad(dy, *, input_shape, ksize, strides, padding, data_format="NHWC"):
    """The derivative of avg_pool by its images, of shape `input_shape` (batch None = that of dy)."""
    attrs = {"strides": strides, "padding": padding, "data_format": data_format}
    _, h, w, _ = _channels_last(input_shape, attrs)
    share = _last(dy, attrs) / _counts((h, w), ksize, attrs, dy.dtype)
    parts = np.broadcast_to(share[:, :, :, None, None], (*share.shape[:3], *ksize, share.shape[3]))
    return _back(_scatter(parts, (h, w), ksize, attrs), attrs)


@avg_pool_grad.gradient
def _(node, ddx):
    return _avg_pool(ddx, **{k: v for k, v in node.attrs.items() if k != "input_shape"})


_max_pool, _avg_pool = ops.max_pool, ops.avg_pool


def max_pool(value, ksize, strides, padding, data_format="NHWC", name=None):
    """The largest element of each window of images [batch, height, width, channels], or [batch, channels, height,
    width].

    ksize and strides: a number, (height, width) or [1, height, width, 1]; padding: "SAME", "VALID" or explicit, never
    the largest.
    """
    return _pool("max_pool", _max_pool, value, ksize, strides, padding, data_format, name)


def avg_pool(value, ksize, strides, padding, data_format="NHWC", name=None):
    """The mean of each window of float images, as max_pool takes them; padding does not count."""
    return _pool("avg_pool", _avg_pool, value, ksize, strides, padding, data_format, name)


def _pool(where, primitive, value, ksize, strides, padding, data_format, name):
    options = _options(where, strides, padding, data_format)
    del options["dilations"]
    return primitive(value, ksize=_window(where, "ksize", ksize, data_format), **options, name=name)


ops.define("max_pool", max_pool)
ops.define("avg_pool", avg_pool)
