"""Convolutions of images whose zeros around them are written down first, where oneDNN's generated code takes none."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Spec

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
    middle = tuple([slice(before, before + size) for size, (before, _) in zip(image.shape, sides)])

    def around(kernel: Kernel, wide: Any, x: Any, *others: Any) -> None:
        wide.fill(0)
        np.copyto(wide[middle], x)
        kernel(wide, *others)
    return replace(choice.with_room(shape, around), note=f"{choice.note}, padded before")
