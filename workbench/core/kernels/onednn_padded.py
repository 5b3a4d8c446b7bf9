"""Convolutions of images whose zeros around them are written down first, where oneDNN's generated code takes none."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Spec
from workbench.core.kernels.onednn_format import ALIGNMENT

__all__ = ["padded"]

Sides = tuple[tuple[int, int], ...]


def padded(image: Spec, sides: Sides, within: Callable[[Spec], Choice | None]) -> Choice | None:
    """The choice that `within` makes for `image` with so many zeros before and after it on each axis, for the image itself.

    None where there is none for plain images. The zeros and the image between them lie in the scratch memory.
    """
    shape = tuple([before + size + after for size, (before, after) in zip(image.shape, sides)])
    choice = within(replace(image, shape=shape, layout=None))
    if choice is None or choice.inputs[0] is not None:
        return None
    nbytes = math.prod(shape) * image.dtype.itemsize
    first = -(-nbytes // ALIGNMENT) * ALIGNMENT
    middle = tuple([slice(before, before + size) for size, (before, _) in zip(image.shape, sides)])

    def make(static: tuple[bool, ...]) -> Kernel:
        kernel = choice.make((False, *static[1:]))

        def around(x: Any, *rest: Any) -> None:
            *others, scratch = rest
            wide = scratch[:nbytes].view(image.dtype).reshape(shape)
            wide.fill(0)
            np.copyto(wide[middle], x)
            kernel(wide, *others, *([scratch[first:]] if choice.scratch else []))
        return around
    return replace(choice.by(make), scratch=first + choice.scratch, note=f"{choice.note}, padded before")
