"""The arithmetic of windows over images, which convolution and pooling share: sizes, views, and sums over them."""
from __future__ import annotations

import operator
from collections.abc import Iterable

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import wide
from workbench.core.graph.build import ops
from workbench.core.graph.shape import Shape, as_shape

# strides, dilations and ksize are (height, width); padding is "SAME", "VALID" or ((top, bottom), (left, right))


def window(where, name, value, data_format):
    """(height, width), both above 0, from one number, a pair, or TensorFlow's list of four."""
    try:
        found = tuple(map(operator.index, value)) if isinstance(value, Iterable) else (operator.index(value),) * 2
    except TypeError:
        found = ()
    if len(found) == 4:
        batch, channels = found[0], found[1 if data_format == "NCHW" else 3]
        if (batch, channels) != (1, 1):
            told = f"{where}: {name} is {list(found)} for {data_format}; batch and channels must be 1"
            if "pool" in where:
                raise errors.UnimplementedError(f"{told} (Pooling is not yet supported on the batch dimension)")
            raise errors.InvalidArgumentError(f"{told} ({name} in the batch and depth dimensions are not supported)")
        found = found[2:] if data_format == "NCHW" else found[1:3]
    if len(found) != 2 or min(found) < 1:
        raise errors.InvalidArgumentError(f"{where}: {name} is {value!r}; give one number above 0, (height, width) or a list "
                                          "of four")
    return found


def _padding(where, value, data_format):
    if isinstance(value, str) and value.upper() in ("SAME", "VALID"):
        return value.upper()
    try:
        pairs = [(operator.index(a), operator.index(b)) for a, b in value]
    except (TypeError, ValueError):
        pairs = []
    if len(pairs) == 4:
        pairs = pairs[2:] if data_format == "NCHW" else pairs[1:3]
    if len(pairs) != 2 or min(map(min, pairs)) < 0:
        raise errors.InvalidArgumentError(f"{where}: padding is {value!r}; use 'SAME', 'VALID' or ((top, bottom), (left, "
                                          "right)) of 0 or more")
    return tuple(pairs)


def _format(where, data_format):
    if data_format not in ("NHWC", "NCHW"):
        raise errors.InvalidArgumentError(f"{where}: data_format is {data_format!r}; use 'NHWC' or 'NCHW'")
    return data_format


def options_of(where, strides, padding, data_format, dilations=1):
    data_format = _format(where, data_format)
    return {"strides": window(where, "strides", strides, data_format),
            "padding": _padding(where, padding, data_format), "data_format": data_format,
            "dilations": window(where, "dilations", dilations, data_format)}


def _extent(size, kernel, stride, padding, dilation):
    """(output length, elements before, elements after) of one axis; None lengths stay unknown."""
    if min(1 if kernel is None else kernel, stride, dilation) < 1:
        raise errors.InvalidArgumentError(f"conv2d/pool: a window of {kernel} elements, {dilation} apart, moves by {stride}"
                                          "; use numbers above 0")
    if kernel is None:      # of which "SAME" makes no use
        return -(-size // stride) if padding == "SAME" and size is not None else None, 0, 0
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
        raise errors.ShapeError(f"conv2d/pool: Negative dimension size caused by subtracting {reach} from {size}: "
                                f"the window covers {reach} elements but the axis has {size} and {before + after} of padding; "
                                "use padding 'SAME' or a smaller window")
    return (size + before + after - reach) // stride + 1, before, after


def alike(where, axes, *options):
    """InvalidArgumentError where an option of windows has not one number for each of so many axes."""
    wrong = next((list(option) for option in options if len(option) != axes), None)
    if wrong is not None:
        raise errors.InvalidArgumentError(f"{where}: {wrong} has {len(wrong)} numbers for {axes} axes; give one for each")


def extents_of(size, kernel, attrs):
    """The extents of height and width."""
    padding = attrs["padding"]
    each = (padding, padding) if isinstance(padding, str) else padding
    dilations = attrs.get("dilations", (1, 1))
    alike("conv2d/pool", 2, kernel, attrs["strides"], dilations, each)
    return [_extent(*axis) for axis in zip(size, kernel, attrs["strides"], each, dilations)]


def last(x, attrs):
    """x with channels last, whatever its format."""
    return x.transpose(0, 2, 3, 1) if attrs["data_format"] == "NCHW" else x


def back(y, attrs):
    return np.ascontiguousarray(y.transpose(0, 3, 1, 2)) if attrs["data_format"] == "NCHW" else y


def channels_last(shape, attrs):
    n, a, b, c = shape
    return (n, b, c, a) if attrs["data_format"] == "NCHW" else (n, a, b, c)


def from_last(shape, attrs):
    n, h, w, c = shape
    return Shape((n, c, h, w) if attrs["data_format"] == "NCHW" else (n, h, w, c))


def _padded(x, extents, fill):
    (_, top, bottom), (_, left, right) = extents
    if not (top or bottom or left or right):
        return x
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)


def views(x, kernel, attrs, fill=0):
    """x (channels last) as a view [n, height, width, kernel height, kernel width, channels] of its windows."""
    extents = extents_of(x.shape[1:3], kernel, attrs)
    room = _padded(x, extents, fill)
    (sh, sw), (dh, dw) = attrs["strides"], attrs.get("dilations", (1, 1))
    n, h, w, c = room.strides
    shape = (len(x), extents[0][0], extents[1][0], *kernel, x.shape[3])
    return np.lib.stride_tricks.as_strided(room, shape, (n, h * sh, w * sw, h * dh, w * dw, c), writeable=False)


def scatter(parts, size, kernel, attrs):
    """The adjoint of `views`: parts [n, height, width, kernel height, kernel width, channels] added up, in the wide type."""
    extents = extents_of(size, kernel, attrs)
    (oh, top, bottom), (ow, left, right) = extents
    (sh, sw), (dh, dw) = attrs["strides"], attrs.get("dilations", (1, 1))
    room = np.zeros((len(parts), size[0] + top + bottom, size[1] + left + right, parts.shape[-1]), wide(parts.dtype))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
            room[:, rows, j * dw:j * dw + (ow - 1) * sw + 1:sw] += parts[:, :, :, i, j]
    return np.ascontiguousarray(room[:, top:top + size[0], left:left + size[1]], parts.dtype)


def image_text(*names, filter=None):
    """A signature whose images have the layout of the data_format."""
    def text(*, data_format, **others):
        dims = "n,c,h,w" if data_format == "NCHW" else "n,h,w,c"
        return " ".join(f"{name}[{dims}]" for name in names) + f" {filter or ''} -> ?"
    return text


def images_of(dy, attrs):
    """The shape of the images, as many as dy has where the attribute leaves that open."""
    shape = as_shape(attrs["input_shape"]).merge(Shape([None] * 4), "conv2d_backprop_input: the four lengths of input_shape")
    return Shape([dy[0] if shape[0].value is None else shape[0]]) + shape[1:]


def image_shape(x):
    """The shape of x for an attribute, in which the number of images may be unknown; else a tensor, read at run time."""
    return ops.shape(x) if x.shape.sizes is None or None in x.shape.sizes[1:] else x.shape.sizes


def kernel_shape(filter):
    """The shape of a filter for an attribute; a tensor, read at run time, where it is not known."""
    return filter.shape.static if filter.shape.known else ops.shape(filter)
