"""NaN and infinities where the library's algorithm would lose or spread them: looked for, and left to the reference.

The library's maximum passes over a NaN, and Winograd's tiles mix what the filter does not reach. Both are right for
finite values, so their kernels first look whether an input holds anything else, which costs one reading of it.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from workbench.core.graph.opdef import registry
from workbench.core.kernels.choice import Choice, Kernel, Layout

__all__ = ["Image", "finite", "floats", "guarded", "referred"]


class Image(NamedTuple):
    """An image argument that lies plain or with its channels last; `axes` as `onednn_conv.data_axes` gives them."""

    shape: tuple[int, ...]
    layout: Layout | None
    axes: tuple[int, ...]

    def view(self, array: Any) -> Any:
        """[batch, height, width, channels] over the argument's own memory."""
        batch, channels, height, width = self.axes
        if self.layout is None:
            return array.reshape(self.shape).transpose(batch, height, width, channels)
        order = (batch, height, width, channels)
        return floats(array, math.prod(self.shape)).reshape([self.shape[axis] for axis in order])


def floats(array: Any, count: int) -> Any:
    """The first `count` float32 elements of a contiguous argument, whatever follows them."""
    return array.reshape(-1).view(np.uint8)[:4 * count].view(np.float32)


def finite(array: Any, count: int) -> bool:
    """Whether the first `count` float32 elements are finite; squares that overflow their sum count as not finite."""
    values = floats(array, count)
    return math.isfinite(np.dot(values, values))


def guarded(choice: Choice, watched: Mapping[int, int], refer: Callable[[Sequence[Any]], None]) -> Choice:
    """`choice`, corrected by `refer(arguments)` where one of the `watched` arguments (position -> elements) is not finite.

    The library's kernel runs in any case: what it leaves beside the values (positions of maxima) stays valid.
    """
    def make(static: tuple[bool, ...]) -> Kernel:
        kernel = choice.make(static)

        def checked(*arrays: Any) -> None:
            kernel(*arrays)
            for position, count in watched.items():
                if not finite(arrays[position], count):
                    return refer(arrays)
        return checked
    return replace(choice, make=make)


def referred(op: str, attributes: Mapping[str, Any], inputs: Sequence[Image | None],
             output: Image | None) -> Callable[[Sequence[Any]], None]:
    """The reference kernel of `op` over the arguments of a library's kernel; None marks a plain argument.

    Attributes count the axes as [batch, height, width, channels].
    """
    reference, options = registry[op].reference, {**attributes, "data_format": "NHWC"}

    def refer(arrays: Sequence[Any]) -> None:
        given = [array if image is None else image.view(array) for image, array in zip(inputs, arrays)]
        target = arrays[len(inputs)] if output is None else output.view(arrays[len(inputs)])
        with np.errstate(all="ignore"):
            target[...] = reference(*given, **options)
    return refer
