"""Locally connected layers: convolutions whose kernel is another one at every place."""
from __future__ import annotations

import itertools
import math
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import as_shape
from workbench.train.keras import activations, backend
from workbench.train.keras.base import Layer
from workbench.train.keras.core_layers import keep, kept
from workbench.train.keras.image_layers import several

__all__ = ["LocallyConnected1D", "LocallyConnected2D"]


class _LocallyConnected(Layer):
    """`filters` sums over each window of `kernel_size`, each window with a kernel of its own; padding is "valid" alone.

    `kernel` is [windows, numbers in a window, filters], the bias has one number for each window and filter.
    """

    _rank = 1

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str | None = None, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, **options: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **options)
        self.filters, self.use_bias, self.activation = int(filters), use_bias, activations.get(activation)
        self.kernel_size = several(self, "kernel_size", kernel_size, self._rank)
        self.strides = several(self, "strides", strides, self._rank)
        self.padding, self.data_format = padding.lower(), backend.layout(data_format)
        if self.padding != "valid":
            raise errors.InvalidArgumentError(f"{self.name}: Invalid border mode for {type(self).__name__} (only \"valid\" is "
                                              f"supported): {padding!r}")
        keep(self, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
             kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
             bias_constraint=bias_constraint)

    @property
    def _first(self) -> bool:
        """Do channels stand before the axes of space?"""
        return self._rank > 1 and self.data_format == "channels_first"

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias. ShapeError where the lengths or the channels are unknown."""
        shape = as_shape(input_shape).as_list()
        channels, sizes = (shape[1], shape[2:]) if self._first else (shape[-1], shape[1:-1])
        if channels is None or None in sizes:
            raise errors.ShapeError(f"{self.name}: the inputs have shape {tuple(shape)}; all but the batch should be "
                                    "fully-defined, for each place has weights of its own")
        self.windows = tuple((size - kernel) // step + 1 for size, kernel, step in zip(sizes, self.kernel_size, self.strides))
        count, wide = math.prod(self.windows), math.prod(self.kernel_size) * channels
        self.kernel = self.add_weight("kernel", [count, wide, self.filters], **kept(self, "kernel"))
        self.bias = self.add_weight("bias", [*self.windows, self.filters], **kept(self, "bias")) if self.use_bias else None
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """The sums of each window, [batch, windows…, filters], or with the filters behind the batch."""
        x = ops.transpose(inputs, [0, *range(2, self._rank + 2), 1]) if self._first else inputs
        found = ops.matmul(self._patches(x), self.kernel.value())      # [windows, batch, filters]
        found = ops.reshape(ops.transpose(found, [1, 0, 2]), [-1, *self.windows, self.filters])
        found = found if self.bias is None else found + self.bias
        found = ops.transpose(found, [0, self._rank + 1, *range(1, self._rank + 1)]) if self._first else found
        return found if self.activation is None else self.activation(found)

    def _patches(self, x: Any) -> Tensor:
        """What each window sees of [batch, space…, channels], as [windows, batch, numbers in a window]."""
        parts = []
        for offset in itertools.product(*map(range, self.kernel_size)):
            place = (slice(first, first + (count - 1) * step + 1, step)
                     for first, count, step in zip(offset, self.windows, self.strides))
            parts.append(x[(slice(None), *place)])
        channels = self._rank + 2      # behind all windows: [batch, windows…, place in the window, channels]
        seen = ops.stack(parts, channels - 1)
        if self._first:
            seen = ops.transpose(seen, [*range(channels - 1), channels, channels - 1])
        wide = self.kernel.shape.as_list()[1]
        flat: Tensor = ops.reshape(seen, [-1, math.prod(self.windows), wide])
        made: Tensor = ops.transpose(flat, [1, 0, 2])
        return made


class LocallyConnected1D(_LocallyConnected):
    """Along the time of [batch, time, channels]: `filters` sums for each window, each with weights of its own."""


class LocallyConnected2D(_LocallyConnected):
    """Over images: `filters` sums for each window, each with weights of its own; the bias is [rows, columns, filters]."""

    _rank = 2
