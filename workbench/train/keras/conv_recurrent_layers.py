"""ConvLSTM2D: long short-term memory over images, whose gates are convolutions (Shi et al. 2015)."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import as_shape
from workbench.nn.variables import Variable
from workbench.train.keras import backend, initializers
from workbench.train.keras.backend_networks import bias_add, conv2d
from workbench.train.keras.base import Layer
from workbench.train.keras.core_layers import kept, known_shape
from workbench.train.keras.image_layers import several
from workbench.train.keras.recurrent_layers import LSTM, Recurrent
from workbench.train.keras.registry import config_of

__all__ = ["ConvLSTM2D"]


class ConvLSTM2D(LSTM):
    """Over images in time, [batch, time, height, width, channels] or with channels before the height.

    The inputs' convolution goes by `strides`, `padding` and `dilation_rate`, the states' keeps their size. Gates stand in the
    order input, forget, cell, output. It gives what LSTM gives, with images of `filters` channels in the place of units.
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
                 dilation_rate: Any = 1, activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, **options: Any) -> None:
        super().__init__(filters, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer,
                         bias_initializer, unit_forget_bias, **options)
        self.filters = self.units
        self.kernel_size = several(self, "kernel_size", kernel_size, 2)
        self.strides, self.dilation_rate = (several(self, name, value, 2) for name, value in (
            ("strides", strides), ("dilation_rate", dilation_rate)))
        self.padding, self.data_format = padding.lower(), backend.layout(data_format)

    def get_config(self) -> dict[str, Any]:
        """The arguments, those of all recurrent layers among them."""
        found = {**Layer.get_config(self), **config_of(self, of=Recurrent)}
        return {name: value for name, value in found.items() if name not in ("units", "unroll", "implementation")}

    @property
    def _channels(self) -> int:
        """The axis of channels in one image of a batch."""
        return 1 if self.data_format == "channels_first" else 3

    def build(self, input_shape: Any) -> None:
        """Make kernel, recurrent_kernel and bias; ShapeError where the number of channels is unknown."""
        shape = as_shape(input_shape[0] if isinstance(input_shape, list) else input_shape)
        channels, wide = shape.as_list()[self._channels + 1], self.filters * self._gates
        if channels is None:
            raise errors.ShapeError(f"{self.name}: the inputs have shape {shape}; the channel dimension should be defined")
        self.kernel = self.add_weight("kernel", [*self.kernel_size, channels, wide], **kept(self, "kernel"))
        self.recurrent_kernel = self.add_weight("recurrent_kernel", [*self.kernel_size, self.filters, wide],
                                                **kept(self, "recurrent"))
        self.bias = self.add_weight("bias", [wide], **{**kept(self, "bias"), **self._first_bias()}) if self.use_bias else None
        self._build_states(shape.as_list())
        self.built = True

    def _first_bias(self) -> dict[str, Any]:
        """One for the forget gate, with unit_forget_bias; zero for the others."""
        values = np.repeat([0.0, 1.0, 0.0, 0.0], self.filters)
        return {"initializer": initializers.Constant(values)} if self.unit_forget_bias else {}

    def _image(self, x: Tensor) -> Tensor:
        """What the convolution of an image gives, of zeros: the states begin so."""
        found: Tensor = ops.zeros_like(self._from_inputs(x, self.kernel.value()[..., :self.filters]))
        return found

    def _from_inputs(self, x: Any, kernel: Any) -> Tensor:
        return conv2d(x, kernel, self.strides, self.padding, self.data_format, self.dilation_rate)

    def _from_states(self, x: Any, kernel: Any) -> Tensor:
        return conv2d(x, kernel, (1, 1), "same", self.data_format)

    def _state_sizes(self, shape: list[Any]) -> list[Any]:
        first = 3 if self._channels == 1 else 2      # the axis of the height
        sizes: list[Any] = []
        for size, kernel, step, rate in zip(shape[first:first + 2], self.kernel_size, self.strides, self.dilation_rate):
            seen = size if size is None or self.padding == "same" else size - (kernel - 1) * rate
            sizes.append(None if seen is None else -(-seen // step))
        return [shape[0], self.filters, *sizes] if self._channels == 1 else [shape[0], *sizes, self.filters]

    def _begin(self, x: Tensor) -> list[Any]:
        if not self.stateful:
            return [self._image(x[:, 0])] * self._states
        return super()._begin(x)

    def _drops(self, x: Tensor, training: Any) -> list[Any]:
        first: Any = x[:, 0]
        return [self._masks(self.dropout, first, training), self._masks(self.recurrent_dropout, self._image(first), training)]

    def _split(self, x: Any, kernel: Variable, masks: Any, convolved: Any) -> list[Tensor]:
        """The convolution of an image for each gate."""
        if masks is None:
            return list(ops.split(convolved(x, kernel.value()), self._gates, axis=self._channels))
        parts = ops.split(kernel.value(), self._gates, axis=3)
        return [convolved(x * mask, part) for mask, part in zip(masks, parts)]

    def _step(self, row: Any, states: list[Any], drops: list[Any]) -> tuple[Tensor, list[Any]]:
        sums = self._split(row, self.kernel, drops[0], self._from_inputs)
        if self.bias is not None:
            sums = [bias_add(one, bias, self.data_format) for one, bias in zip(
                sums, ops.split(self.bias.value(), self._gates, axis=0))]
        return self._gated(sums, self._split(states[0], self.recurrent_kernel, drops[1], self._from_states), states[1])

    def _shaped(self, x: Tensor, last: Tensor, outputs: Tensor) -> None:
        shape = self._state_sizes(known_shape(self, x))
        last.set_shape(shape)
        outputs.set_shape([shape[0], known_shape(self, x)[1], *shape[1:]])
