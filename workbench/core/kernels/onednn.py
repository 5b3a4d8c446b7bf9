"""oneDNN as a kernel library: importing registers its selectors and its reorder; without the wheel all decline."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.kernels import onednn_conv, onednn_direct, onednn_elementwise, onednn_matmul, onednn_pool
from workbench.core.kernels.choice import Choice, Spec, reorders
from workbench.core.kernels.fallback import referring, rescued
from workbench.core.kernels.onednn_api import Argument
from workbench.core.kernels.onednn_desc import Desc, contiguous
from workbench.core.kernels.onednn_format import Format, available, known, primitive, stripped
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.onednn_view import read, write
from workbench.errors import InternalError, UnimplementedError

__all__ = ["available", "reorder"]

FAMILIES = (onednn_conv, onednn_direct, onednn_elementwise, onednn_matmul, onednn_pool)


def reorder(source: Spec, target: Spec) -> Choice:
    """Copy a float32 value between two formats of this library, or one of them and C-contiguous memory.

    Raises UnimplementedError if the library has no such copy; the planner asks only for pairs that selectors named.
    """
    layouts = [layout for layout in (source.layout, target.layout) if isinstance(layout, Format)]
    if not layouts:
        raise UnimplementedError(f"reorder: layouts are {source.layout} and {target.layout}; one must be of onednn")
    axes = layouts[-1].axes
    def refer(arrays: Sequence[Any]) -> None:
        write(arrays[1], target.shape, target.layout, read(arrays[0], source.shape, source.layout))
    try:
        made = primitive("reorder", _described(source, axes), _described(target, axes))
    except InternalError as error:
        return referring("onednn", "reorder", error, (source.layout,), (target.layout,), refer)
    if made is None:
        raise UnimplementedError(f"reorder: onednn cannot copy {source.layout} to {target.layout} for shape "
                                 f"{source.shape}; set WB_LIBRARIES without onednn")
    builder = Builder(1, 1)
    builder.step(made, {Argument.SOURCE: Place(0), Argument.OUTPUT: builder.output()})
    return rescued("reorder", builder.choice((source.layout,), (target.layout,)), refer)


def _described(spec: Spec, axes: tuple[int, ...]) -> Desc:
    layout = stripped(spec.layout)
    if layout is None:
        return contiguous(spec.shape, axes)
    if layout.axes != axes:
        raise UnimplementedError(f"reorder: axes are {layout.axes} and {axes}; go through the plain layout")
    return known(layout.identity)


reorders["onednn"] = reorder
