"""Convolutions as compiled products: windows of the images, unrolled some at a time, are the rows of a matrix.

An element is a sum of a compiled product, so its bits depend on the number of terms alone: those of a window, or for a filter's
gradient the number of windows. How many are unrolled at a time shows nowhere: a part of that longer sum has whole blocks.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel
from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import HEAVY, Program, bind
from workbench.core.kernels.llvm_products import Sizes, compiled
from workbench.core.kernels.product_source import DEPTH
from workbench.core.kernels.team import shared_rows, worth_sharing

__all__ = ["Windows", "by_filter", "by_images", "convolved", "second"]

Array = np.ndarray[Any, Any]
Numbers = tuple[int, ...]
ROOM = 1 << 19        # elements of unrolled windows, about: they stay in the caches until they are multiplied


@dataclass(frozen=True)
class Windows:
    """Windows of `size` over images [number, height, width, channels]: there are `places` (down, across) of each image, the
    first one beginning so far `before` its first pixel. `gaps` of 2 are images with zeros between their pixels."""

    images: Numbers
    places: Numbers
    size: Numbers
    strides: Numbers
    dilations: Numbers
    before: Numbers
    gaps: Numbers = (1, 1)

    @property
    def count(self) -> int:
        return self.images[0] * math.prod(self.places)

    @property
    def terms(self) -> int:
        return math.prod(self.size) * self.images[3]

    @property
    def plain(self) -> bool:
        """Is each pixel a window, so that the images are what they are unrolled to?"""
        return self.size == self.strides == self.gaps == (1, 1) and self.before == (0, 0) and self.places == self.images[1:3]

    @property
    def together(self) -> int:
        """So many are unrolled at a time, unless they are the last ones."""
        return min(max(ROOM // self.terms // DEPTH, 1) * DEPTH, self.count)

    def turned(self, outputs: int) -> Windows:
        """The windows over what a convolution made of these, whose products with the turned filter are the gradient by the
        images."""
        before = tuple((size - 1) * step - one for size, step, one in zip(self.size, self.dilations, self.before))
        return Windows((self.images[0], *self.places, outputs), self.images[1:3], self.size, (1, 1), self.dilations, before,
                       self.strides)

    def parts(self) -> list[tuple[int, int]]:
        """(first, behind the last) of those that are unrolled at a time."""
        return list(itertools.pairwise([*range(0, self.count, self.together), self.count]))

    def unrolled(self, first: int, last: int) -> Kernel:
        """(images, rows), of which each window from `first` to before `last` becomes one."""
        (tall, wide), (step_y, step_x) = self.size, self.dilations
        runs = (1, wide) if step_x == self.gaps[1] == 1 else (wide, 1)      # of pixels beside each other
        numbers = (first, *self.images[1:], *self.places, tall, *runs, *self.strides, step_y, step_x, *self.before, *self.gaps)
        text, moved = library_source("program_windows.py"), (last - first) * self.terms
        if worth_sharing(8 * moved):
            return shared_rows(Program((text,), "unrolled", "team"), last - first, numbers)
        return bind(Program((text,), "unrolled"), (0, last - first, *numbers), moved > HEAVY)


def _of_parts(windows: Windows, product: Callable[[int, bool], Choice | None], inputs: int,
              finish: Callable[..., None]) -> Choice | None:
    """`product` of so many windows, and whether others were before, over all of them; `finish(multiply, rows, first, last,
    arrays)` multiplies a part, which was unrolled into `rows`."""
    whole = product(windows.count, False)
    if whole is None or windows.plain:
        return whole

    def make(static: tuple[bool, ...]) -> Kernel:
        steps = []
        for first, last in windows.parts():
            choice = product(last - first, first > 0)
            assert choice is not None  # as the whole is
            steps.append((windows.unrolled(first, last), choice.make((False,) * (inputs + 2)), first, last))

        def kernel(*arrays: Any) -> None:
            rows = arrays[-1].view(np.float32)
            for unroll, multiply, first, last in steps:
                unroll(arrays[0], rows)
                finish(multiply, rows, first, last, arrays)
        return kernel
    return Choice("llvm", (None,) * inputs, (None,), make, scratch=4 * windows.together * windows.terms,
                  note="compiled product of windows", source=whole.source)


def convolved(windows: Windows, outputs: int, begin: str = "", relu: bool = False) -> Choice | None:
    """(images, filter, with `begin` "bias" a bias, out); None where there is no LLVM."""
    def product(rows: int, more: bool) -> Choice | None:
        return compiled(Sizes({}, (rows, windows.terms), (windows.terms, outputs)), begin, relu)

    def finish(multiply: Kernel, rows: Array, first: int, last: int, arrays: Any) -> None:
        multiply(rows, *arrays[1:-2], _rows(arrays[-2], first, last, outputs))
    return _of_parts(windows, product, 3 if begin else 2, finish)


def by_filter(windows: Windows, outputs: int) -> Choice | None:
    """(images, dy, out), the gradient by the filter of what `convolved` gives."""
    def product(rows: int, more: bool) -> Choice | None:
        return compiled(Sizes({"transpose_a": True}, (rows, windows.terms), (rows, outputs)), "start" if more else "")

    def finish(multiply: Kernel, rows: Array, first: int, last: int, arrays: Any) -> None:
        out = arrays[2]
        multiply(rows, _rows(arrays[1], first, last, outputs), *([out] if first else []), out)
    return _of_parts(windows, product, 2, finish)


def by_images(windows: Windows, outputs: int) -> Choice | None:
    """(filter, dy, out), the gradient by the images. Zeros around and between the pixels of dy meet the filter, which must be
    finite."""
    tall, wide, channels = *windows.size, windows.images[3]
    choice = convolved(windows.turned(outputs), channels)

    def turning(multiply: Kernel, turned: Array, filter: Array, dy: Array, out: Array) -> None:
        np.copyto(turned, filter[::-1, ::-1].transpose(0, 1, 3, 2))
        multiply(dy, turned, out)
    return None if choice is None else choice.with_room((tall, wide, outputs, channels), turning)


def second(choice: Choice, result: Numbers) -> Choice:
    """`choice`, whose `result` [number, height, width, channels] shall have the channels second."""
    def moving(inner: Kernel, found: Array, *arrays: Any) -> None:
        *given, out = arrays
        inner(*given, found)
        np.copyto(out, found.transpose(0, 3, 1, 2))
    return choice.with_room(result, moving)


def _rows(array: Array, first: int, last: int, width: int) -> Array:
    return array.reshape(-1).view(np.float32)[first * width:last * width]
