"""Images: resizing by four methods, and colours."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_shape, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape

__all__ = ["taps"]

# resizing: each output row is a weighted sum of input rows, and each column of columns


def _scale(size, wanted, align):
    return np.float32((size - 1) / (wanted - 1)) if align and wanted > 1 else np.float32(size / wanted)


def _bilinear(size, wanted, align):
    """(rows [wanted, taps], weights) of linear interpolation; the first rows coincide, as in TensorFlow 1.x."""
    at = np.arange(wanted, dtype=np.float32) * _scale(size, wanted, align)
    low = np.minimum(np.floor(at).astype(int), size - 1)
    part = at - low
    return np.stack([low, np.minimum(low + 1, size - 1)], 1), np.stack([1 - part, part], 1)


def _nearest(size, wanted, align):
    at = np.arange(wanted, dtype=np.float32) * _scale(size, wanted, align)
    near = np.floor(at + np.float32(0.5)) if align else np.floor(at)
    return np.minimum(near.astype(int), size - 1)[:, None], np.ones((wanted, 1), np.float32)


def _bicubic(size, wanted, align):
    """Keys' cubic convolution with a = -0.75; the fraction is rounded to 1/1024, as TensorFlow's table does."""
    at = np.arange(wanted, dtype=np.float32) * _scale(size, wanted, align)
    low = np.floor(at).astype(int)
    part = np.rint((at - low) * 1024) / 1024
    rows = np.clip(low[:, None] + np.arange(-1, 3), 0, size - 1)
    return rows, np.stack([_far(1 + part), _near(part), _near(1 - part), _far(2 - part)], 1)


def _near(x):
    return (1.25 * x - 2.25) * x * x + 1


def _far(x):
    return ((-0.75 * x + 3.75) * x - 6) * x + 3


def _area(size, wanted, align):
    """The mean of the rows that an output row covers, the outer ones counted by their covered part."""
    scale = float(_scale(size, wanted, align))
    if not scale:      # the corner pixels of one are the same
        return np.zeros((wanted, 1), int), np.ones((wanted, 1))
    begin = np.arange(wanted) * scale
    first = np.floor(begin).astype(int)
    taps = int(np.ceil(scale)) + 1
    rows = first[:, None] + np.arange(taps)
    covered = np.minimum(rows + 1, begin[:, None] + scale) - np.maximum(rows, begin[:, None])
    return np.clip(rows, 0, size - 1), np.clip(covered, 0, None) / scale


_METHODS = {"bilinear": _bilinear, "nearest": _nearest, "bicubic": _bicubic, "area": _area}


def taps(method: str, sizes: Any, wanted: Any, align: bool) -> list[tuple[Any, Any]]:
    """For rows and for columns: which are taken for each that is wanted, and their weights, both [wanted, taps]."""
    if min(wanted) <= 0 or min(sizes) <= 0:
        raise errors.InvalidArgumentError(f"resize: images are {list(sizes)} and {list(wanted)} is wanted; both must be "
                                          "1 x 1 or more")
    return [_METHODS[method](int(size), int(out), align) for size, out in zip(sizes, wanted)]


def _gather(x, axis, taps, dtype):
    """Weighted sums of slices along `axis`, in `dtype`."""
    rows, weights = taps
    behind = math.prod(x.shape[axis + 1:])
    slices = x.astype(dtype, copy=False).reshape(math.prod(x.shape[:axis]), x.shape[axis], behind)
    shape, weights = (len(slices), len(rows), behind), weights.astype(dtype)[:, None]
    if behind < 16:      # few channels would be short loops
        shape, weights = (len(slices), 1, len(rows) * behind), np.repeat(weights, behind, 1).reshape(1, -1, weights.shape[2])
    total = np.take(slices, rows[:, 0], 1).reshape(shape) * weights[..., 0]
    for t in range(1, rows.shape[1]):
        part = np.take(slices, rows[:, t], 1).reshape(shape)
        part *= weights[..., t]
        total += part
    return total.reshape(*x.shape[:axis], len(rows), *x.shape[axis + 1:])


def _spread(dy, axis, taps, size):
    """The transpose of _gather."""
    rows, weights = taps
    moved = np.moveaxis(dy, axis, 0)
    out = np.zeros((size, *moved.shape[1:]), dy.dtype)
    view = (-1, *[1] * (moved.ndim - 1))
    for t in range(rows.shape[1]):
        np.add.at(out, rows[:, t], moved * weights[:, t].astype(dy.dtype).reshape(view))
    return np.ascontiguousarray(np.moveaxis(out, 0, axis))


def _resized(inputs, attrs):
    size, images = constant_shape(inputs[1]), inputs[0].shape
    height, width = size.as_list() if size.rank == 2 else (None, None)
    return [Shape([images[0], height, width, images[3]]) if images.rank == 4 else Shape([None, height, width, None])]


def _resized_dtype(dtypes, attrs):
    image = dtypes[0]
    return [image if attrs["method"] == "nearest" or (image.is_floating and image.size == 8) else as_dtype("float32")]


@op("images[n,h,w,c] size[2] -> ?", types="T:real int ->", dtypes=_resized_dtype, shape=_resized)
def resize(images, size, *, method, align_corners=False):
    """Images [n, height, width, channels] at another height and width: bilinear, nearest, bicubic or area.

    Gives float32 (float64 for float64), except for "nearest", which keeps the dtype. `align_corners` keeps the centres of
    the corner pixels. Sampling begins at the first pixel's corner, as in TensorFlow 1.x.
    """
    down, right = taps(method, images.shape[1:3], size.tolist(), align_corners)
    if method == "nearest":
        return np.ascontiguousarray(images[:, down[0][:, 0]][:, :, right[0][:, 0]])
    dtype = np.float64 if images.dtype == np.float64 else np.float32
    out = np.empty((len(images), len(down[0]), len(right[0]), images.shape[3]), dtype)
    for image, into in zip(images, out):      # one after the other, as their parts then stay in the cache
        into[...] = _gather(_gather(image, 1, right, dtype), 0, down, dtype)
    return out


@op("dy[n,h,w,c] size[2] -> ?", types="T:float int -> T", shape=_resized)
def resize_grad(dy, size, *, method, align_corners=False):
    """The gradient of resize for images of height and width `size`."""
    sizes = size.tolist()
    down, right = taps(method, sizes, dy.shape[1:3], align_corners)
    return _spread(_spread(dy, 2, right, sizes[1]), 1, down, sizes[0])


@resize.gradient
def _(node, dy):
    images = node.inputs[0]
    if not images.dtype.is_floating:
        return None, None
    dx = ops.resize_grad(dy, ops.getitem(ops.shape_vector(images), slice(1, 3)), **node.attrs)
    return ops.cast(dx, images.dtype), None


@resize_grad.gradient
def _(node, ddx):
    return ops.resize(ddx, ops.getitem(ops.shape_vector(node.inputs[0]), slice(1, 3)), **node.attrs), None


# colours

@op("rgb? -> ?", types="T:float -> T", shape=lambda inputs, attrs: [_coloured("rgb_to_hsv", inputs[0])],
    differentiable=False)
def rgb_to_hsv(rgb):
    """Red, green, blue from 0 to 1 (last axis) to hue, saturation, value from 0 to 1."""
    high, low = rgb.max(-1), rgb.min(-1)
    spread = high - low
    safe = np.where(spread > 0, spread, 1)
    r, g, b = np.moveaxis(rgb, -1, 0)
    hue = np.where(high == r, (g - b) / safe, np.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4)) / 6
    hue = np.where(spread > 0, np.where(hue < 0, hue + 1, hue), 0)
    saturation = np.where(high > 0, spread / np.where(high > 0, high, 1), 0)
    return np.stack([hue, saturation, high], -1).astype(rgb.dtype)


@op("hsv? -> ?", types="T:float -> T", shape=lambda inputs, attrs: [_coloured("hsv_to_rgb", inputs[0])],
    differentiable=False)
def hsv_to_rgb(hsv):
    """Hue, saturation, value from 0 to 1 (last axis) to red, green, blue from 0 to 1."""
    hue, saturation, value = np.moveaxis(hsv, -1, 0)
    six = hue * 6
    parts = (np.abs(six - 3) - 1, 2 - np.abs(six - 2), 2 - np.abs(six - 4))
    return np.stack([value * (1 - saturation * (1 - np.clip(part, 0, 1))) for part in parts], -1).astype(hsv.dtype)


def _coloured(where, images):
    last = images.shape.as_list()[-1] if images.shape.rank else None
    if images.shape.rank == 0 or last not in (None, 3):
        raise errors.ShapeError(f"{where}: images have shape {images.shape}; the last axis must hold 3 colours")
    return images.shape if images.shape.rank is None else Shape([*images.shape.as_list()[:-1], 3])
