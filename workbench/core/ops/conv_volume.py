"""Three-dimensional convolution and pooling, and their derivatives: images of depth, height and width, channels last."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import wide
from workbench.core.graph.build import FLAT, constant_shape, convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.ordered import product
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_windows import _extent, alike

# strides, dilations and ksize are (depth, height, width); padding is "SAME" or "VALID"


def _extents(size, kernel, strides, padding, dilations):
    alike("conv3d/pool3d", 3, kernel, strides, dilations)
    return [_extent(*axis) for axis in zip(size, kernel, strides, (padding,) * 3, dilations)]


def _views(x, kernel, strides, padding, dilations, fill=0):
    """x as a view [n, 3 output sizes, 3 kernel sizes, c] of its windows."""
    extents = _extents(x.shape[1:4], kernel, strides, padding, dilations)
    room = np.pad(x, ((0, 0), *[e[1:] for e in extents], (0, 0)), constant_values=fill)
    n, *inner, c = room.strides
    shape = (len(x), *[e[0] for e in extents], *kernel, x.shape[4])
    steps = (n, *[s * t for s, t in zip(inner, strides)], *[s * t for s, t in zip(inner, dilations)], c)
    return np.lib.stride_tricks.as_strided(room, shape, steps, writeable=False)


def _taps(extents, kernel, strides, dilations):
    """(place in the kernel, what it meets of the padded volumes) for each place: windows are never laid out as a whole."""
    for place in np.ndindex(*kernel):
        yield place, (slice(None), *(slice(p * d, p * d + (e[0] - 1) * s + 1, s)
                                     for p, d, e, s in zip(place, dilations, extents, strides)))


def _padded(x, extents):
    return np.pad(x, ((0, 0), *[e[1:] for e in extents], (0, 0)))


def _scattered(part, count, channels, size, kernel, strides, padding, dilations, dtype):
    """The adjoint of taking windows: part(place) [n, 3 sizes, c] added where each place of the kernel stands."""
    extents = _extents(size, kernel, strides, padding, dilations)
    room = np.zeros((count, *[n + e[1] + e[2] for n, e in zip(size, extents)], channels), dtype)
    for place, at in _taps(extents, kernel, strides, dilations):
        room[at] += part(place)
    inside = tuple(slice(e[1], e[1] + n) for n, e in zip(size, extents))
    return np.ascontiguousarray(room[(slice(None), *inside)])


def _scatter(parts, size, kernel, strides, padding, dilations):
    """The adjoint of _views."""
    return _scattered(lambda place: parts[(slice(None),) * 4 + place], len(parts), parts.shape[-1], size, kernel, strides,
                      padding,
                      dilations, parts.dtype)


def _filtered(inputs, attrs):
    x, f = inputs[0].shape, inputs[1].shape
    n, *inner, _ = x.sizes or [None] * 5
    *kernel, _, outputs = f.sizes or [None] * 5
    if attrs["padding"] == "SAME":
        kernel = [size or 1 for size in kernel]      # the size of the filter does not count
    sizes = [(None, 0, 0)] * 3 if None in kernel else _extents(
        inner, kernel, attrs["strides"], attrs["padding"], attrs["dilations"])
    return [Shape([n, *[s[0] for s in sizes], outputs])]


VOLUME = "T:float -> T"


@op("x[n,d,h,w,c] filter[i,j,k,c,o] -> ?", name="convolve_volumes", types=VOLUME, shape=_filtered)
def convolve_volumes_(x, filter, *, strides, padding, dilations):
    """Cross-correlation of volumes [n, depth, height, width, channels] with filters [depth, height, width, c, outputs]."""
    exact, kernel = wide(x.dtype), filter.shape[:3]
    extents = _extents(x.shape[1:4], kernel, strides, padding, dilations)
    room, out = _padded(x, extents), np.zeros((len(x), *[e[0] for e in extents], filter.shape[4]), exact)
    for place, at in _taps(extents, kernel, strides, dilations):
        out += product(room[at].astype(exact, copy=False), filter[place].astype(exact, copy=False))
    return out.astype(x.dtype, copy=False)


@convolve_volumes_.gradient
def _(node, dy):
    x, f = node.inputs
    return (ops.convolve_volumes_back(f, dy, ops.shape(x), **node.attrs),
            ops.convolve_volumes_filters(x, dy, ops.shape(f), **node.attrs))


@op("filter[i,j,k,c,o] dy[n,p,q,r,o] input_shape[5] -> ?", types="T:float T int -> T",
    shape=lambda inputs, attrs: [constant_shape(inputs[2])])
def convolve_volumes_back(filter, dy, input_shape, *, strides, padding, dilations):
    """The derivative of convolve_volumes by its volumes, of shape `input_shape`."""
    size, kernel = tuple(int(n) for n in input_shape[1:4]), filter.shape[:3]
    wanted = tuple(e[0] for e in _extents(size, kernel, strides, padding, dilations))
    if wanted != dy.shape[1:4] or int(input_shape[0]) != len(dy) or int(input_shape[4]) != filter.shape[3]:
        raise errors.ShapeError(f"conv3d_transpose: volumes {input_shape.tolist()} filtered by {list(filter.shape)} give "
                                f"{[int(input_shape[0]), *wanted, filter.shape[4]]} but there is "
                                f"{list(dy.shape)}; mend output_shape")
    exact = wide(dy.dtype)
    wide_dy = dy.astype(exact, copy=False)
    found = _scattered(lambda place: product(wide_dy, filter[place].T.astype(exact, copy=False)), len(dy), filter.shape[3],
                       size,
                       kernel, strides, padding, dilations, exact)
    return found.astype(dy.dtype, copy=False)


@convolve_volumes_back.gradient
def _(node, ddx):
    f, dy, _ = node.inputs
    return (ops.convolve_volumes_filters(ddx, dy, ops.shape(f), **node.attrs), ops.convolve_volumes(ddx, f, **node.attrs), None)


@op("x[n,d,h,w,c] dy[n,p,q,r,o] filter_shape[5] -> ?", types="T:float T int -> T",
    shape=lambda inputs, attrs: [constant_shape(inputs[2])])
def convolve_volumes_filters(x, dy, filter_shape, *, strides, padding, dilations):
    """The derivative of convolve_volumes by its filters, of shape `filter_shape`."""
    exact, kernel = wide(dy.dtype), tuple(int(n) for n in filter_shape[:3])
    extents = _extents(x.shape[1:4], kernel, strides, padding, dilations)
    wanted = [len(x), *(e[0] for e in extents)]
    if [*wanted, int(filter_shape[4])] != list(dy.shape) or int(filter_shape[3]) != x.shape[4]:
        raise errors.ShapeError(f"conv3d_backprop_filter_v2: volumes {list(x.shape)} filtered by {filter_shape.tolist()} give "
                                f"{[*wanted, int(filter_shape[4])]} but there is {list(dy.shape)}; mend filter_sizes")
    room, out = _padded(x, extents), np.empty(tuple(int(n) for n in filter_shape), dy.dtype)
    flat = dy.reshape(math.prod(dy.shape[:4]), dy.shape[4]).astype(exact, copy=False)
    for place, at in _taps(extents, kernel, strides, dilations):
        out[place] = product(room[at].reshape(len(flat), x.shape[4]).astype(exact, copy=False).T, flat)
    return out


@convolve_volumes_filters.gradient
def _(node, ddf):
    x, dy, _ = node.inputs
    return ops.convolve_volumes_back(ddf, dy, ops.shape(x), **node.attrs), ops.convolve_volumes(x, ddf, **node.attrs), None


# pooling

def _pooled(inputs, attrs):
    x = inputs[0].shape
    if x.sizes is None:
        return [Shape([None] * 5)]
    sizes = _extents(x.sizes[1:4], attrs["ksize"], attrs["strides"], attrs["padding"], attrs["dilations"])
    return [Shape([x.sizes[0], *[s[0] for s in sizes], x.sizes[4]])]


def _lowest(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


@op("x[n,d,h,w,c] -> ?", types=VOLUME, shape=_pooled)
def largest_in_volumes(x, *, ksize, strides, padding, dilations):
    """The largest element of each window; padding never wins."""
    return _views(x, ksize, strides, padding, dilations, _lowest(x.dtype)).max((4, 5, 6))


def _winners(x, ksize, strides, padding, dilations):
    windows = _views(x, ksize, strides, padding, dilations, _lowest(x.dtype))
    flat = windows.reshape(*windows.shape[:4], math.prod(windows.shape[4:7]), windows.shape[7])
    first = np.argmax(flat, 4)[:, :, :, :, None]
    return (np.arange(flat.shape[4])[:, None] == first).reshape(windows.shape)


@largest_in_volumes.gradient
def _(node, dy):
    return ops.largest_in_volumes_back(node.inputs[0], dy, **node.attrs)


@op("x[n,d,h,w,c] dy[n,p,q,r,c] -> ?", types=VOLUME, shape=lambda inputs, attrs: [inputs[0].shape])
def largest_in_volumes_back(x, dy, *, ksize, strides, padding, dilations):
    """dy sent to the first largest element of each window of x."""
    chosen = _winners(x, ksize, strides, padding, dilations)
    if dy.shape[1:4] != chosen.shape[1:4]:
        raise errors.ShapeError(f"max_pool3d_grad: the windows of volumes {list(x.shape)} are {list(chosen.shape[1:4])} but dy "
                                f"has shape {list(dy.shape)}; give one derivative for each window")
    parts = np.where(chosen, dy[:, :, :, :, None, None, None], dy.dtype.type(0))
    return _scatter(parts, x.shape[1:4], ksize, strides, padding, dilations)


@largest_in_volumes_back.gradient
def _(node, ddx):
    return FLAT, ops.at_largest_in_volumes(node.inputs[0], ddx, **node.attrs)


@op("x[n,d,h,w,c] ddx[n,d,h,w,c] -> ?", types=VOLUME, shape=_pooled)
def at_largest_in_volumes(x, ddx, *, ksize, strides, padding, dilations):
    """The elements of ddx at the first largest element of each window of x."""
    picked = np.where(_winners(x, ksize, strides, padding, dilations), _views(ddx, ksize, strides, padding, dilations), 0)
    return picked.sum((4, 5, 6)).astype(x.dtype, copy=False)


@at_largest_in_volumes.gradient
def _(node, dy):
    return FLAT, ops.largest_in_volumes_back(node.inputs[0], dy, **node.attrs)


def _counts(size, ksize, strides, padding, dilations):
    return _views(np.ones((1, *size, 1)), ksize, strides, padding, dilations).sum((0, 4, 5, 6))


@op("x[n,d,h,w,c] -> ?", types=VOLUME, shape=_pooled)
def mean_in_volumes(x, *, ksize, strides, padding, dilations):
    """The mean of each window over the elements inside the volume."""
    total = _views(x, ksize, strides, padding, dilations).sum((4, 5, 6), dtype=wide(x.dtype))
    return (total / _counts(x.shape[1:4], ksize, strides, padding, dilations)).astype(x.dtype)


@mean_in_volumes.gradient
def _(node, dy):
    return ops.mean_in_volumes_back(dy, ops.shape(node.inputs[0]), **node.attrs)


@op("dy[n,p,q,r,c] input_shape[5] -> ?", types="T:float int -> T", shape=lambda inputs, attrs: [constant_shape(inputs[1])])
def mean_in_volumes_back(dy, input_shape, *, ksize, strides, padding, dilations):
    """The derivative of mean_in_volumes by its volumes, of shape `input_shape`."""
    size = tuple(int(n) for n in input_shape[1:4])
    wanted = [int(input_shape[0]), *(e[0] for e in _extents(size, ksize, strides, padding, dilations)), int(input_shape[4])]
    if wanted != list(dy.shape):
        raise errors.ShapeError(f"avg_pool3d: volumes {input_shape.tolist()} give {wanted} but there is {list(dy.shape)}; mend "
                                "input_shape")
    share = dy / _counts(size, ksize, strides, padding, dilations)
    parts = np.broadcast_to(share[:, :, :, :, None, None, None], (*share.shape[:4], *ksize, share.shape[4]))
    return _scatter(parts, size, ksize, strides, padding, dilations).astype(dy.dtype)


@mean_in_volumes_back.gradient
def _(node, ddx):
    return ops.mean_in_volumes(ddx, **node.attrs), None


# what users call

def _three(where, name, value, data_format):
    """(depth, height, width) from one number, three, or TensorFlow's list of five."""
    numbers = [int(value)] * 3 if isinstance(value, (int, np.integer)) else [int(v) for v in value]
    if len(numbers) == 5:
        channels = numbers[1 if data_format == "NCDHW" else 4]
        if numbers[0] != 1 or channels != 1:
            raise errors.InvalidArgumentError(f"{where}: {name} is {numbers} for {data_format}; batch and channels must be 1 "
                                          "(not yet supported on the batch or depth dimension)")
        numbers = numbers[2:] if data_format == "NCDHW" else numbers[1:4]
    if len(numbers) != 3 or min(numbers) < 1:
        raise errors.InvalidArgumentError(f"{where}: {name} is {list(numbers)}; give three numbers above 0, or a list of five")
    return tuple(numbers)


def _options(where, strides, padding, data_format, dilations=1):
    if data_format not in ("NDHWC", "NCDHW"):
        raise errors.InvalidArgumentError(f"{where}: data_format is {data_format!r}; use 'NDHWC' or 'NCDHW'")
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise errors.InvalidArgumentError(f"{where}: padding is {padding!r}; use 'SAME' or 'VALID'")
    return {"strides": _three(where, "strides", strides, data_format), "padding": padding.upper(),
            "dilations": _three(where, "dilations", dilations, data_format)}


def _laid_out(function, x, data_format, name):
    if data_format == "NDHWC":
        return function(x, name)
    return ops.transpose(function(ops.transpose(x, [0, 2, 3, 4, 1]), None), [0, 4, 1, 2, 3], name=name)


@composed
def conv3d(input, filter, strides, padding, data_format="NDHWC", dilations=(1, 1, 1, 1, 1), name=None):
    """Volumes [batch, depth, height, width, channels] filtered by [depth, height, width, channels, outputs].

    `strides` and `dilations` are lists of five with 1 for batch and channels; padding "SAME" or "VALID"; `data_format` "NCDHW"
    puts channels second.
    """
    options = _options("conv3d", strides, padding, data_format, dilations)
    return _laid_out(lambda x, n: ops.convolve_volumes(x, filter, **options, name=n), convert(input), data_format, name)


@composed
def conv3d_transpose(value, filter, output_shape, strides, padding="SAME", data_format="NDHWC", name=None):
    """The derivative of conv3d by its volumes, applied to `value`: volumes of `output_shape`; filters are [depth, height,
    width, outputs, channels]."""
    options = _options("conv3d_transpose", strides, padding, data_format)
    shape = ops.cast(convert(output_shape), "int32")
    if data_format == "NCDHW":
        shape = ops.gather(shape, [0, 2, 3, 4, 1])
    return _laid_out(lambda x, n: ops.convolve_volumes_back(filter, x, shape, **options, name=n), convert(value), data_format,
                     name)


@composed
def conv3d_backprop_filter_v2(input, filter_sizes, out_backprop, strides, padding, data_format="NDHWC",
                              dilations=(1, 1, 1, 1, 1), name=None):
    """The derivative of conv3d by its filters, of shape `filter_sizes`."""
    options = _options("conv3d_backprop_filter_v2", strides, padding, data_format, dilations)
    x, dy = convert(input), convert(out_backprop)
    if data_format == "NCDHW":
        x, dy = (ops.transpose(t, [0, 2, 3, 4, 1]) for t in (x, dy))
    return ops.convolve_volumes_filters(x, dy, ops.cast(convert(filter_sizes), "int32"), **options, name=name)


def _pooling(where, kind, input, ksize, strides, padding, data_format, name):
    options = _options(where, strides, padding, data_format)
    size = _three(where, "ksize", ksize, data_format)
    return _laid_out(lambda x, n: getattr(ops, kind)(x, ksize=size, **options, name=n), convert(input), data_format, name)


@composed
def max_pool3d(input, ksize, strides, padding, data_format="NDHWC", name=None):
    """The largest element of each window of volumes; ksize and strides are lists of five."""
    return _pooling("max_pool3d", "largest_in_volumes", input, ksize, strides, padding, data_format, name)


@composed
def avg_pool3d(input, ksize, strides, padding, data_format="NDHWC", name=None):
    """The mean of each window of volumes over the elements inside; ksize and strides are lists of five."""
    return _pooling("avg_pool3d", "mean_in_volumes", input, ksize, strides, padding, data_format, name)


# any number of axes

def _spatial(where, input, told, data_format):
    """(input of known rank, number of spatial axes, are channels second?); `told` is that number as other arguments tell it."""
    x = convert(input)
    if told in (1, 2, 3):
        x = ops.of_rank(x, told + 2)
    if x.shape.rank not in (3, 4, 5):
        raise errors.ShapeError(f"{where}: input has shape {x.shape}; it needs 1 to 3 axes between "
                                "batch and channels: set_shape it")
    return x, x.shape.rank - 2, data_format is not None and data_format.startswith("NC")


def _numbers(where, name, value, count):
    if value is None:
        return [1] * count
    found = [int(value)] * count if isinstance(value, (int, np.integer)) else [int(v) for v in value]
    if len(found) == 1:
        found *= count
    if len(found) != count or min(found) < 1:
        raise errors.InvalidArgumentError(f"{where}: {name} is {value!r}; give a number above 0 for each of the {count} axes")
    return found


def _over_volumes(where, function, input, told, data_format, name, *numbers):
    """`function` of volumes, for input of 1 to 3 spatial axes: the axes that lack have length 1."""
    x, count, second = _spatial(where, input, told, data_format)
    lists = [[1] * (3 - count) + _numbers(where, what, value, count) for what, value in numbers]
    for step, dilation in zip(*lists[-2:]):
        if step > 1 and dilation > 1:
            raise errors.InvalidArgumentError(f"{where}: strides and dilation_rate are both above 1; use one of them")
    if second:
        x = ops.transpose(x, [0, *range(2, count + 2), 1])
    y = function(ops.expand_dims(x, tuple(range(1, 4 - count))) if count < 3 else x, *map(tuple, lists))
    y = ops.squeeze(y, axis=list(range(1, 4 - count))) if count < 3 else y
    return ops.transpose(y, [0, count + 1, *range(1, count + 1)], name=name) if second else ops.identity(y, name=name)


@composed
def convolution(input, filter, padding, strides=None, dilation_rate=None, name=None, data_format=None):
    """Convolution over 1 to 3 axes: input [batch, axes…, channels], filter [axes…, channels, outputs].

    `strides` and `dilation_rate` have a number for each axis, and one of them is 1; data_format "NC…" puts channels second.
    """
    f = convert(filter)
    told = None if f.shape.rank is None else f.shape.rank - 2
    x, count, second = _spatial("convolution", input, told, data_format)
    if count == 2 and not second:
        step, dilation = (_numbers("convolution", n, v, 2) for n, v in (("strides", strides), ("dilation_rate", dilation_rate)))
        if max(step) > 1 and max(dilation) > 1:
            raise errors.InvalidArgumentError("convolution: strides and dilation_rate are both above 1; use one of them")
        return ops.conv2d(x, f, [1, *step, 1], padding, dilations=[1, *dilation, 1], name=name)

    def function(volumes, step, dilation):
        whole = ops.expand_dims(f, tuple(range(3 - count))) if count < 3 else f
        return ops.convolve_volumes(volumes, whole, strides=step, padding=padding.upper(), dilations=dilation)
    return _over_volumes("convolution", function, x, count, data_format, name, ("strides", strides),
                         ("dilation_rate", dilation_rate))


@composed
def pool(input, window_shape, pooling_type, padding, dilation_rate=None, strides=None, name=None, data_format=None):
    """Pooling "MAX" or "AVG" over 1 to 3 axes of input [batch, axes…, channels]; padding counts for nothing."""
    kinds = {"MAX": "largest_in_volumes", "AVG": "mean_in_volumes"}
    if pooling_type not in kinds:
        raise errors.InvalidArgumentError(f"pool: pooling_type is {pooling_type!r}; use 'MAX' or 'AVG'")

    def function(volumes, size, step, dilation):
        return getattr(ops, kinds[pooling_type])(volumes, ksize=size, strides=step, padding=padding.upper(), dilations=dilation)
    told = max(np.size(one) for one in (window_shape, dilation_rate, strides))      # one number counts for any axes
    return _over_volumes("pool", function, input, told if told > 1 else None, data_format, name, ("window_shape", window_shape),
                         ("strides", strides), ("dilation_rate", dilation_rate))
