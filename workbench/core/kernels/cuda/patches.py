"""Convolutions as products of patches: what serves where cuDNN does not."""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.core.kernels.cuda.products import multiplied
from workbench.core.kernels.cuda.values import cupy
from workbench.core.ops.conv_windows import extents_of

__all__ = ["backward_data", "backward_filter", "forward"]

Options = Mapping[str, Any]


def _columns(x: Any, kernel: tuple[int, int], options: Options) -> Any:
    """The windows of images [n, h, w, c] as rows: [n · height · width, kernel height · kernel width · c]."""
    (oh, top, bottom), (ow, left, right) = extents_of(x.shape[1:3], kernel, options)
    room = cupy.zeros((x.shape[0], x.shape[1] + top + bottom, x.shape[2] + left + right, x.shape[3]), x.dtype)
    room[:, top:top + x.shape[1], left:left + x.shape[2]] = x
    (sh, sw), (dh, dw) = options["strides"], options["dilations"]
    n, h, w, c = room.strides
    view = cupy.lib.stride_tricks.as_strided(room, (len(x), oh, ow, *kernel, x.shape[3]),
                                             (n, h * sh, w * sw, h * dh, w * dw, c))
    return view.reshape(len(x) * oh * ow, kernel[0] * kernel[1] * x.shape[3])


def _flat(x: Any) -> Any:
    return x.reshape(math.prod(x.shape[:3]), x.shape[3])


def forward(x: Any, filter: Any, options: Options) -> Any:
    """The convolution of images [n, h, w, c] with a filter [kh, kw, c, o]."""
    (oh, *_), (ow, *_) = extents_of(x.shape[1:3], filter.shape[:2], options)
    return multiplied(_columns(x, filter.shape[:2], options), _flat(filter)).reshape(len(x), oh, ow, filter.shape[3])


def backward_data(filter: Any, dy: Any, size: tuple[int, int], options: Options) -> Any:
    """The derivative by images of height and width `size`."""
    parts = multiplied(_flat(dy), _flat(filter), False, True).reshape(*dy.shape[:3], *filter.shape[:3])
    (oh, top, bottom), (ow, left, right) = extents_of(size, filter.shape[:2], options)
    (sh, sw), (dh, dw) = options["strides"], options["dilations"]
    room = cupy.zeros((len(parts), size[0] + top + bottom, size[1] + left + right, parts.shape[-1]), parts.dtype)
    for i in range(filter.shape[0]):
        for j in range(filter.shape[1]):
            rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
            room[:, rows, j * dw:j * dw + (ow - 1) * sw + 1:sw] += parts[:, :, :, i, j]
    return room[:, top:top + size[0], left:left + size[1]]


def backward_filter(x: Any, dy: Any, shape: tuple[int, ...], options: Options) -> Any:
    """The derivative by a filter of that shape."""
    return multiplied(_columns(x, (shape[0], shape[1]), options), _flat(dy), True).reshape(shape)
