"""Filters as Winograd's algorithm multiplies by them: a layout of their own, so that one that stays is transformed once.

It holds the filter itself too, for the reference kernel, and before that one number that says whether all of it is finite: what
a step would look for in every filter is found when the filter is brought here.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.core.kernels import onednn_tiles as tiles
from workbench.core.kernels.choice import Choice, Spec, reorders
from workbench.core.kernels.onednn_finite import finite, floats
from workbench.errors import UnimplementedError

__all__ = ["PLANES", "TOLD", "Transformed", "reorder"]

PLANES = 36
TOLD = 1
"""Float32 numbers at the beginning that tell of the whole filter: 0, or NaN where it is not finite."""
LINE = 64


@dataclass(frozen=True)
class Transformed:
    """The layout of a filter [size, size, inner, outer]: 36 planes [inner, outer] of it, or of it `turned` by 180 degrees.

    Planes are one cache line longer than their data: at powers of two, all 36 would fall into the same cache sets.
    """

    size: int
    inner: int
    outer: int
    turned: bool

    @property
    def library(self) -> str:
        return "winograd"

    @property
    def elements(self) -> int:
        return self.size ** 2 * self.inner * self.outer

    @property
    def plane(self) -> int:
        """Bytes from one plane to the next."""
        return self.inner * self.outer * 4 + LINE

    @property
    def first(self) -> int:
        """Bytes before the first plane."""
        return LINE + -(-4 * self.elements // LINE) * LINE

    @property
    def nbytes(self) -> int:
        return self.first + PLANES * self.plane

    def plain(self, array: Any) -> Any:
        """The filter itself, a view of what lies in this layout."""
        return array.reshape(-1).view(np.uint8)[LINE:LINE + 4 * self.elements].view(np.float32)

    def transform(self, plain: Any, planes: int) -> None:
        """Write the planes of a filter in C order at an address."""
        tiles.filters(self.size, self.turned)(self.inner, plain.ctypes.data, planes, self.plane, self.outer)


def reorder(source: Spec, target: Spec) -> Choice:
    """Bring a filter that lies in C order into this layout; UnimplementedError for anything else, which nobody asks for."""
    layout = target.layout
    if source.layout is not None or not isinstance(layout, Transformed):
        raise UnimplementedError(f"winograd: layouts are {source.layout} and {layout}; go through the plain layout")

    def kernel(plain: Any, out: Any) -> None:
        np.copyto(layout.plain(out), plain.reshape(-1))
        floats(out, TOLD)[:] = 0.0 if finite(plain, layout.elements) else np.nan
        layout.transform(plain, out.ctypes.data + layout.first)
    return Choice("winograd", (None,), (layout,), lambda static: kernel, note="winograd filters")


reorders["winograd"] = reorder
