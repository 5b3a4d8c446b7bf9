"""oneDNN kernels for float32 convolutions of each channel by itself and of volumes, in both directions.

Images and volumes lie plain, channels last. The library reads filters in an order of its own, into which each call brings
them: they are small beside what they go over. A filter of each channel is a group of one channel in and `multiplier` out.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.core.kernels.choice import Choice, Spec
from workbench.core.kernels.onednn_api import CONVOLUTION_DIRECT, FORWARD_TRAINING, Argument
from workbench.core.kernels.onednn_desc import Desc, any_format, contiguous
from workbench.core.kernels.onednn_format import Primitive, fast, primitive, servable
from workbench.core.kernels.onednn_guard import serve
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.onednn_window import Window

__all__ = ["Direct", "crawls", "of_channels", "of_volumes"]

Build = Callable[[Mapping[str, Any], Spec, Spec, Spec], "Direct | None"]


class Direct:
    """One convolution of x with a filter to y, whatever its direction; `kernel` is the filter's shape with an axis for each of
    the library's, which come from its `kernel_axes`."""

    def __init__(self, attributes: Mapping[str, Any], x: Spec, y: Spec, kernel: tuple[int, ...],
                 kernel_axes: tuple[int, ...]) -> None:
        self.kernel, self.kernel_axes = kernel, kernel_axes
        last = len(x.shape) - 1
        self.axes = (0, last, *range(1, last))
        self.x, self.y = (contiguous(spec.shape, self.axes) for spec in (x, y))
        self.y_shape, self.x_shape = y.shape, x.shape
        self.window = Window.of(attributes, x.shape[1:last], kernel[:last - 1]).parameters()

    def fits(self) -> bool:
        """Has y the extents that the window makes of those of x? The reference says where it has not."""
        last = len(self.x_shape) - 1
        axes = zip(self.x_shape[1:last], self.kernel, *self.window, self.y_shape[1:last])
        return self.x_shape[0] == self.y_shape[0] and all(
            (x + before + after - (kernel - 1) * (gap + 1) - 1) // stride + 1 == y
            for x, kernel, stride, gap, before, after, y in axes)

    def _forward(self, x: Desc, y: Desc) -> Primitive | None:
        return primitive("convolution_forward", FORWARD_TRAINING, CONVOLUTION_DIRECT, x, self._filter(), None, y, *self.window)

    def _filter(self) -> Desc:
        return any_format(self.kernel, self.kernel_axes)

    def _backward(self, family: str, *more: None) -> Primitive | None:
        hint = self._forward(Desc(self.x.shape), Desc(self.y.shape))
        if hint is None:
            return None
        return fast(primitive(family, CONVOLUTION_DIRECT, self.x, self._filter(), *more, self.y, *self.window, hint))

    def forward(self) -> Choice | None:
        """(x, filter) to y."""
        made = fast(self._forward(self.x, self.y))
        if made is None:
            return None
        builder = Builder(2, 1)
        places = {Argument.SOURCE: Place(0), Argument.WEIGHTS: self._brought(builder, made, Place(1))}
        builder.store(made, Argument.OUTPUT, places, self.y_shape, self.axes, False)
        return builder.choice((None, None), (None,))

    def to_input(self) -> Choice | None:
        """(filter, dy, shape) to dx."""
        made = self._backward("convolution_backward_data")
        if made is None or crawls(made.implementation, self.kernel[self.kernel_axes[-len(self.axes) + 1]]):
            return None
        builder = Builder(3, 1)
        places = {Argument.WEIGHTS: self._brought(builder, made, Place(0)), Argument.OUTPUT_GRADIENT: Place(1)}
        builder.store(made, Argument.SOURCE_GRADIENT, places, self.x_shape, self.axes, False)
        return builder.choice((None, None, None), (None,))

    def to_filter(self) -> Choice | None:
        """(x, dy, shape) to the filter's derivative."""
        made = self._backward("convolution_backward_weights", None)
        if made is None:
            return None
        builder = Builder(3, 1)
        places = {Argument.SOURCE: Place(0), Argument.OUTPUT_GRADIENT: Place(1)}
        builder.store(made, Argument.WEIGHTS_GRADIENT, places, self.kernel, self.kernel_axes, False)
        return builder.choice((None, None, None), (None,))

    def _brought(self, builder: Builder, made: Primitive, plain: Place) -> Place:
        return builder.bring(made, Argument.WEIGHTS, plain, self.kernel, self.kernel_axes)


def crawls(implementation: str, channels: int) -> bool:
    """Is it a kernel for gradients of images that takes twenty times as long as NumPy? With AVX2 those made of a convolution
    the other way do, where it has one channel out: measured with version 3.2 (8x32x32x3 by 3x3x3x32: 310 ms, NumPy 14)."""
    return channels == 1 and implementation.startswith("brg_fwd") and "avx512" not in implementation


def of_channels(attributes: Mapping[str, Any], x: Spec, kernel: Spec, y: Spec) -> Direct | None:
    """Images with a filter [height, width, channels, multiplier] for each channel; None for what is not ours."""
    if not servable(x, kernel, y, rank=4) or x.shape[3] != kernel.shape[2]:
        return None
    if y.shape[3] != kernel.shape[2] * kernel.shape[3]:
        return None
    return Direct(attributes, x, y, (*kernel.shape, 1), (2, 3, 4, 0, 1))


def of_volumes(attributes: Mapping[str, Any], x: Spec, kernel: Spec, y: Spec) -> Direct | None:
    """Volumes with a filter [depth, height, width, in, out]; None for what is not ours."""
    if not servable(x, kernel, y, rank=5) or x.shape[4] != kernel.shape[3] or y.shape[4] != kernel.shape[4]:
        return None
    return Direct(attributes, x, y, kernel.shape, (4, 3, 0, 1, 2))


def _forward(build: Build, attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
             free: Sequence[bool]) -> Choice | None:
    found = build(attributes, inputs[0], inputs[1], outputs[0])
    return found.forward() if found is not None and found.fits() else None


def _to_input(build: Build, attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
              free: Sequence[bool]) -> Choice | None:
    found = build(attributes, outputs[0], inputs[0], inputs[1])
    return found.to_input() if found is not None and found.fits() else None


def _to_filter(build: Build, attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
    found = build(attributes, inputs[0], outputs[0], inputs[1])
    return found.to_filter() if found is not None and found.fits() else None


for _family, _build in (("convolve_channels", of_channels), ("convolve_volumes", of_volumes)):
    serve(_family)(partial(_forward, _build))
    serve(f"{_family}_back")(partial(_to_input, _build))
    serve(f"{_family}_filters")(partial(_to_filter, _build))
