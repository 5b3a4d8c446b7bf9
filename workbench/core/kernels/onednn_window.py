"""One convolution or pooling window: shapes, the library's descriptors of its values, and the formats they may lie in."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.kernels.choice import Choice, Layout, Spec
from workbench.core.kernels.llvm_windows import Windows, second
from workbench.core.kernels.onednn_api import CONVOLUTION_DIRECT, FORWARD_TRAINING
from workbench.core.kernels.onednn_desc import Desc, Interned, any_format, channels_last, contiguous
from workbench.core.kernels.onednn_filters import TOLD, Transformed
from workbench.core.kernels.onednn_format import (
    Format,
    Primitive,
    as_format,
    fast,
    format_of,
    identity_of,
    placed,
    primitive,
    stripped,
)
from workbench.core.kernels.onednn_guard import guarded, referred
from workbench.core.kernels.onednn_winograd import Winograd, spec_dimensions
from workbench.core.kernels.options import kernel_options

__all__ = ["FILTER_AXES", "Convolution", "Window", "data_axes", "good", "same_or"]

FILTER_AXES = (3, 2, 0, 1)
VECTOR = (0,)
SMALL_WORK = 1 << 22
"""Multiplications, up to which the reference may be as fast as a call of the library with its changes of layout."""


def data_axes(attributes: Mapping[str, Any]) -> tuple[int, ...]:
    """The value's axes in the library's order: batch, channels, height, width."""
    return (0, 1, 2, 3) if attributes.get("data_format", "NHWC") == "NCHW" else (0, 3, 1, 2)


@dataclass(frozen=True)
class Window:
    """How a filter or pooling window moves: per spatial axis the stride, dilation and padding before and after."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, attributes: Mapping[str, Any], image: Sequence[int], kernel: Sequence[int]) -> Window:
        """`image` and `kernel` are (height, width), or have a depth before them; padding follows TensorFlow: SAME puts the odd
        element after."""
        once = (1,) * len(image)
        strides, dilations = _numbers(attributes.get("strides", once)), _numbers(attributes.get("dilations", once))
        padding = attributes.get("padding", "VALID")
        if padding == "VALID":
            sides = [(0, 0)] * len(image)
        elif padding == "SAME":
            sides = [_same(*axis) for axis in zip(image, kernel, strides, dilations)]
        else:
            sides = [(int(before), int(after)) for before, after in padding]
        return cls(strides, dilations, tuple(side[0] for side in sides), tuple(side[1] for side in sides))

    def parameters(self) -> tuple[tuple[int, ...], ...]:
        """As the library counts: a dilation of zero leaves no gap."""
        return self.strides, tuple(dilation - 1 for dilation in self.dilations), self.before, self.after


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(map(int, values))


def _same(extent: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    span = (kernel - 1) * dilation + 1
    total = max((-(-extent // stride) - 1) * stride + span - extent, 0)
    return total // 2, total - total // 2


class Convolution:
    """Shapes and descriptors of one convolution, whatever its direction."""

    def __init__(self, attributes: Mapping[str, Any], x: Spec, kernel: Spec, y: Spec,
                 bias: Spec | None = None) -> None:
        self.axes, self.attributes = data_axes(attributes), attributes
        self.x, self.kernel, self.y, self.bias = x, kernel, y, bias
        height, width = x.shape[self.axes[2]], x.shape[self.axes[3]]
        self.window = Window.of(attributes, (height, width), kernel.shape[:2])

    def winograd(self) -> Winograd | None:
        """The same convolution for Winograd's algorithm, if it has one and the options allow it."""
        window, size = self.window, self.kernel.shape[0]
        square = self.kernel.shape[0] == self.kernel.shape[1] and size in (3, 5)
        if not kernel_options().winograd or not square or window.strides != (1, 1) or window.dilations != (1, 1):
            return None
        if max(*window.before, *window.after) >= size:
            return None
        top, left = window.before
        found = Winograd(spec_dimensions(self.x, self.axes), spec_dimensions(self.y, self.axes), size, (top, left),
                         self.kernel.stays and self.kernel.layout is None)
        return found if found.possible() else None

    def pointwise(self) -> bool:
        """Is it the product of all pixels with a matrix, over values that lie so?"""
        return (self.kernel.shape[:2] == (1, 1) and self.window == Window((1, 1), self.window.dilations, (0, 0), (0, 0))
                and self.axes == (0, 3, 1, 2) and self.x.layout is None and self.y.layout is None)

    def pixels(self, spec: Spec) -> tuple[int, int]:
        """Shape of an image as a matrix with a row for each pixel."""
        return math.prod(spec.shape[:3]), spec.shape[3]

    def windows(self) -> Windows:
        x, y = (tuple(spec.shape[self.axes[i]] for i in (0, 2, 3, 1)) for spec in (self.x, self.y))
        return Windows(x, y[1:3], self.kernel.shape[:2], self.window.strides, self.window.dilations, self.window.before)

    def laid(self, choice: Choice | None, images: Mapping[int, Spec], output: Spec | None, free: bool = True) -> Choice | None:
        """`choice`, which takes these inputs with their channels last and gives `output` so, wherever that may lie."""
        if choice is None:
            return None
        wanted = tuple(self.wanted_last(images[i]) if i in images else None for i in range(len(choice.inputs)))
        fits, format_ = (True, None) if output is None else self.last(output, free)
        if output is not None and not fits:
            choice, format_ = second(choice, tuple(output.shape[self.axes[i]] for i in (0, 2, 3, 1))), None
        return replace(choice, inputs=wanted, outputs=(format_,))

    def small(self) -> bool:
        """Is there so little to do that the reference may win?"""
        return math.prod(self.y.shape) * math.prod(self.kernel.shape[:3]) <= SMALL_WORK

    def last(self, spec: Spec, free: bool = True) -> tuple[bool, Format | None]:
        """Can `spec` lie with its channels last, and the format that says so (None: it does by itself)."""
        wanted = as_format(identity_of(channels_last(spec.shape, self.axes)), spec.shape, self.axes)
        return wanted is None or free, wanted

    def wanted_last(self, spec: Spec) -> Layout | None:
        return same_or(identity_of(channels_last(spec.shape, self.axes)), self.last(spec)[1], spec)

    def modes(self, *images: Spec) -> tuple[str, ...]:
        """Which formats to try: an image that comes in another private format may keep it."""
        usual = all(spec.layout is None or self.is_last(spec) for spec in images)
        return ("last", "any") if usual else ("kept", "last", "any")

    def is_last(self, spec: Spec) -> bool:
        layout = stripped(spec.layout)
        return layout is not None and layout.identity == identity_of(channels_last(spec.shape, self.axes))

    def sides(self) -> tuple[tuple[int, int], ...]:
        """The zeros before and after the image, on each of its axes."""
        found = [(0, 0)] * len(self.x.shape)
        for axis, before, after in zip(self.axes[2:], self.window.before, self.window.after):
            found[axis] = before, after
        return tuple(found)

    def within(self, x: Spec) -> Convolution:
        """The same over an image that has its zeros."""
        return Convolution({**self.attributes, "padding": "VALID"}, x, self.kernel, self.y, self.bias)

    def data(self, spec: Spec, mode: str) -> Desc:
        """Descriptor of an image in a mode."""
        if mode == "last":
            return channels_last(spec.shape, self.axes)
        found = placed(spec.shape, stripped(spec.layout), self.axes) if mode == "kept" and spec.layout else None
        return found or any_format(spec.shape, self.axes)

    def filter(self) -> Desc:
        return any_format(self.kernel.shape, FILTER_AXES)

    def bias_desc(self) -> Desc | None:
        return None if self.bias is None else contiguous(self.bias.shape, VECTOR)

    def forward(self, mode: str, after: tuple[tuple[Any, ...], ...] = ()) -> Primitive | None:
        return primitive("convolution_forward", FORWARD_TRAINING, CONVOLUTION_DIRECT, self.data(self.x, mode),
                         self.filter(), self.bias_desc(), self.data(self.y, mode), *self.window.parameters(),
                         after=after)

    def backward(self, family: str, first: Desc, second: Desc, third: Desc) -> Primitive | None:
        hint = self.forward("any")
        if hint is None:
            return None
        middle = (second, None) if family == "convolution_backward_weights" else (second,)
        return primitive(family, CONVOLUTION_DIRECT, first, *middle, third, *self.window.parameters(), hint)

    def best(self, attempt: Callable[[str], Primitive | None], *images: Spec) -> Primitive | None:
        """The first generated kernel over the modes, else the first one that is not the reference loop."""
        spare = None
        for mode in self.modes(*images):
            made = fast(attempt(mode))
            if made is not None and good(made):
                return made
            spare = spare or made
        return spare

    def exact(self, choice: Choice | None, op: str, attributes: Mapping[str, Any], inputs: Sequence[Spec],
              output: Spec) -> Choice | None:
        """Winograd's `choice`, whose tiles spread what is not finite, left to the reference there."""
        if choice is None:
            return None
        refer = referred(op, attributes, choice, inputs, output)
        watched = {i: TOLD if isinstance(layout, Transformed) else math.prod(spec.shape)
                   for i, (spec, layout) in enumerate(zip(inputs[:2], choice.inputs))}
        return guarded(choice, watched, refer)

    def wanted(self, made: Primitive, argument: int, spec: Spec) -> Layout | None:
        """The format an image input must have; its own if the bytes already lie right."""
        return same_or(made.formats[argument], format_of(made, argument, spec.shape, self.axes), spec)


def good(made: Primitive) -> bool:
    """Generated code; `gemm` unrolls the image into a matrix first and is kept for shapes nothing else takes."""
    return made.implementation.startswith(("jit", "brg"))


def same_or(identity: Interned, wanted: Format | None, spec: Spec) -> Layout | None:
    """The layout `spec` has if its leading bytes lie as `identity` says, else `wanted`."""
    layout = stripped(spec.layout)
    return spec.layout if layout is not None and layout.identity == identity else wanted
