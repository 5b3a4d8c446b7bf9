"""oneDNN's private formats read and written by NumPy: slow, and needed only where the library itself does not serve."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Layout
from workbench.core.kernels.onednn_filters import Transformed
from workbench.core.kernels.onednn_format import Format, api
from workbench.errors import InternalError

__all__ = ["read", "write"]


def read(array: Any, shape: Sequence[int], layout: Layout | None) -> Any:
    """A kernel's argument, which lies in `layout`, as an array of the value's `shape`; a view where there are no blocks."""
    if layout is None:
        return array.reshape(shape)
    if isinstance(layout, Transformed):
        return layout.plain(array).reshape(shape)
    format_ = _ours(layout)
    view = _blocks(array, format_)
    whole = view.reshape(_padded(format_))
    return whole[tuple(map(slice, format_.shape))].transpose(np.argsort(format_.axes))


def write(array: Any, shape: Sequence[int], layout: Layout | None, value: Any) -> None:
    """Store `value` of `shape` in a kernel's argument that lies in `layout`; padding becomes zero."""
    if layout is None:
        array.reshape(shape)[...] = value
        return
    format_ = _ours(layout)
    view = _blocks(array, format_)
    whole = np.zeros(_padded(format_), np.float32)
    whole[tuple(map(slice, format_.shape))] = value.transpose(format_.axes)
    view[...] = whole.reshape(view.shape)


def _ours(layout: Layout) -> Format:
    if not isinstance(layout, Format) or layout.text == "opaque":
        raise InternalError(f"onednn: only the library can read {layout}; set WB_LIBRARIES without onednn")
    return layout


def _padded(layout: Format) -> tuple[int, ...]:
    return api().padded(layout.identity.pointer, len(layout.shape))


def _blocks(array: Any, layout: Format) -> Any:
    """The bytes as an array of rank axes + blocks, in which the blocks of an axis follow it."""
    strides, blocks = api().blocks(layout.identity.pointer, len(layout.shape))
    inner = _inner_strides([count for _, count in blocks])
    shape, steps = [], []
    for axis, (extent, stride) in enumerate(zip(_padded(layout), strides)):
        own = [(count, step) for (of, count), step in zip(blocks, inner) if of == axis]
        shape += [extent // math.prod(count for count, _ in own), *(count for count, _ in own)]
        steps += [4 * stride, *(step for _, step in own)]
    values = array.reshape(-1).view(np.uint8)[:layout.identity.nbytes].view(np.float32)
    return np.lib.stride_tricks.as_strided(values, shape, steps)


def _inner_strides(counts: Sequence[int]) -> list[int]:
    """Bytes between neighbours of each block; the last one listed is the innermost."""
    return [4 * math.prod(counts[i + 1:]) for i in range(len(counts))]
