"""oneDNN kernels for max and average pooling of float32 images.

The gradient of a max pooling needs to know where each maximum came from. The operation's inputs (x, y, dy) do not
say, so the forward kernel, where it may choose its output's layout, writes that map behind the values of `y`;
readers of `y` ignore it. Where `y` had to be plain, the gradient runs the forward kernel again.

The library's maximum passes over NaN. `onednn_guard` looks for it in `x`, and for the gradient in `y`, to which the
forward kernel has let it through.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.kernels.choice import ALIGNMENT, Choice, Layout, Spec
from workbench.core.kernels.onednn_api import (
    FORWARD_INFERENCE,
    FORWARD_TRAINING,
    POOLING_AVERAGE,
    POOLING_MAX,
    Argument,
)
from workbench.core.kernels.onednn_desc import channels_last
from workbench.core.kernels.onednn_format import Format, Primitive, fast, format_of, primitive, servable
from workbench.core.kernels.onednn_guard import guarded, referred, serve
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.onednn_window import Window, data_axes, same_or
from workbench.core.kernels.options import kernel_options

__all__ = ["avg_pool", "avg_pool_grad", "max_pool", "max_pool_grad"]


class Pooling:
    """Shapes and descriptors of one pooling; images lie with the channels last."""

    def __init__(self, attributes: Mapping[str, Any], x: Sequence[int], y: Sequence[int], algorithm: int) -> None:
        self.axes = data_axes(attributes)
        self.x, self.y, self.algorithm = tuple(x), tuple(y), algorithm
        self.kernel = (int(attributes["ksize"][0]), int(attributes["ksize"][1]))
        self.window = Window.of({**attributes, "dilations": (1, 1)}, [x[axis] for axis in self.axes[2:]], self.kernel)

    def _parameters(self) -> tuple[tuple[int, ...], ...]:
        strides, dilations, before, after = self.window.parameters()
        return strides, self.kernel, dilations, before, after

    def forward(self, kind: int) -> Primitive | None:
        return fast(primitive("pooling_forward", kind, self.algorithm, channels_last(self.x, self.axes),
                              channels_last(self.y, self.axes), *self._parameters()))

    def backward(self) -> Primitive | None:
        hint = self.forward(FORWARD_TRAINING)
        if hint is None:
            return None
        return fast(primitive("pooling_backward", self.algorithm, channels_last(self.x, self.axes),
                              channels_last(self.y, self.axes), *self._parameters(), hint))

    def wanted(self, made: Primitive, argument: int, spec: Spec) -> Layout | None:
        return same_or(made.formats[argument], format_of(made, argument, spec.shape, self.axes), spec)

    def with_positions(self, made: Primitive) -> Format:
        """Layout of the output followed by the positions of the maxima."""
        values, positions = made.formats[Argument.OUTPUT], made.formats[Argument.WORKSPACE]
        offset = -(-values.nbytes // ALIGNMENT) * ALIGNMENT
        shape = tuple(self.y[axis] for axis in self.axes)
        nbytes = offset + positions.nbytes
        return Format(shape, self.axes, values, nbytes, "channels last + positions", positions, offset)


@serve("max_pool")
def max_pool(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
             free: Sequence[bool]) -> Choice | None:
    """Maximum of each window; padding never wins."""
    if not servable(*inputs, *outputs, rank=4):
        return None
    pooling = Pooling(attributes, inputs[0].shape, outputs[0].shape, POOLING_MAX)
    training = pooling.forward(FORWARD_TRAINING) if free[0] and kernel_options().keep_positions else None
    if training is None or Argument.WORKSPACE not in training.formats:
        plain = _forward(pooling, inputs[0], free[0])
        return plain and _exact("max_pool", attributes, plain, inputs, outputs[0], 0)
    layout = pooling.with_positions(training)
    builder = Builder(1, 1)
    builder.step(training, {Argument.SOURCE: Place(0), Argument.OUTPUT: builder.output(),
                            Argument.WORKSPACE: Place(1, layout.offset)})
    kept = builder.choice((pooling.wanted(training, Argument.SOURCE, inputs[0]),), (layout,))
    return _exact("max_pool", attributes, kept, inputs, outputs[0], 0)


def _exact(op: str, attributes: Mapping[str, Any], choice: Choice, inputs: Sequence[Spec], output: Spec,
           watched: int) -> Choice:
    """`choice`, right where input `watched` holds NaN or an infinity too."""
    refer = referred(op, attributes, choice, inputs, output)
    return guarded(choice, {watched: math.prod(inputs[watched].shape)}, refer)


def _forward(pooling: Pooling, x: Spec, free: bool) -> Choice | None:
    made = pooling.forward(FORWARD_INFERENCE)
    if made is None:
        return None
    builder = Builder(1, 1)
    stored = builder.store(made, Argument.OUTPUT, {Argument.SOURCE: Place(0)}, pooling.y, pooling.axes, free)
    return builder.choice((pooling.wanted(made, Argument.SOURCE, x),), (stored,))


@serve("max_pool_grad")
def max_pool_grad(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                  free: Sequence[bool]) -> Choice | None:
    """Gradient of `max_pool` from (x, y, dy): each `dy` goes to the first maximum of its window."""
    x, y, dy = inputs
    if not servable(*inputs, *outputs, rank=4):
        return None
    pooling = Pooling(attributes, x.shape, y.shape, POOLING_MAX)
    made, again = pooling.backward(), pooling.forward(FORWARD_TRAINING)
    if made is None or again is None:
        return None
    builder = Builder(3, 1)
    layout = y.layout
    if isinstance(layout, Format) and layout.workspace == made.formats[Argument.WORKSPACE]:
        positions = Place(1, layout.offset)
    else:
        positions = builder.buffer_of(again, Argument.WORKSPACE)
        builder.step(again, {Argument.SOURCE: Place(0), Argument.OUTPUT: builder.buffer_of(again, Argument.OUTPUT),
                             Argument.WORKSPACE: positions})
    stored = builder.store(made, Argument.SOURCE_GRADIENT, {Argument.OUTPUT_GRADIENT: Place(2),
                                                            Argument.WORKSPACE: positions},
                           x.shape, pooling.axes, free[0])
    wanted = (pooling.wanted(again, Argument.SOURCE, x), layout, pooling.wanted(made, Argument.OUTPUT_GRADIENT, dy))
    return _exact("max_pool_grad", attributes, builder.choice(wanted, (stored,)), inputs, outputs[0], 1)


@serve("avg_pool")
def avg_pool(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
             free: Sequence[bool]) -> Choice | None:
    """Mean of each window over the elements inside the image."""
    if not servable(*inputs, *outputs, rank=4):
        return None
    return _forward(Pooling(attributes, inputs[0].shape, outputs[0].shape, POOLING_AVERAGE), inputs[0], free[0])


@serve("avg_pool_grad")
def avg_pool_grad(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                  free: Sequence[bool]) -> Choice | None:
    """Gradient of `avg_pool` from `dy`; attribute `input_shape` is the shape of its input."""
    if not servable(*inputs, *outputs, rank=4):
        return None
    pooling = Pooling(attributes, outputs[0].shape, inputs[0].shape, POOLING_AVERAGE)
    made = pooling.backward()
    if made is None:
        return None
    builder = Builder(1, 1)
    stored = builder.store(made, Argument.SOURCE_GRADIENT, {Argument.OUTPUT_GRADIENT: Place(0)},
                           pooling.x, pooling.axes, free[0])
    return builder.choice((pooling.wanted(made, Argument.OUTPUT_GRADIENT, inputs[0]),), (stored,))
