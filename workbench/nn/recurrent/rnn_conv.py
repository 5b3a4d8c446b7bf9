"""LSTMs over sequences of signals, images and volumes: convolutions where an LSTM has products."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.arguments import refuse
from workbench.nn.composed import conv1d
from workbench.nn.initializers import Zeros
from workbench.nn.recurrent.rnn_base import LSTMStateTuple, RNNCell

__all__ = ["Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell", "ConvLSTMCell"]


class ConvLSTMCell(RNNCell):
    """LSTM whose inputs [batch, *input_shape] and states keep their places (Shi et al. 2015).

    `input_shape` ends with the channels, `kernel_shape` has a length for each of the `conv_ndims` other axes; gates are a
    convolution with padding SAME of inputs and output: variables `kernel` [*kernel_shape, channels in and out, 4 ·
    output_channels] and with `use_bias` `biases`. With `skip_connection` the output, but not the state, has the inputs behind
    its channels. InvalidArgumentError where the shapes do not fit.
    """

    def __init__(self, conv_ndims: int, input_shape: Sequence[int], output_channels: int, kernel_shape: Sequence[int],
                 use_bias: bool = True, skip_connection: bool = False, forget_bias: float = 1.0, initializers: Any = None,
                 name: str = "conv_lstm_cell") -> None:
        super().__init__(name)
        refuse("ConvLSTMCell", "set the initializer of the variable scope", initializers=initializers)
        if not conv_ndims == len(input_shape) - 1 == len(kernel_shape) or conv_ndims not in (1, 2, 3):
            raise errors.InvalidArgumentError(f"ConvLSTMCell: Invalid input_shape {list(input_shape)} and kernel_shape "
                                              f"{list(kernel_shape)} for conv_ndims={conv_ndims}; the first has one number "
                                              "more, the second as many, from 1 to 3")
        self._shape, self._channels, self._kernel = list(input_shape), output_channels, list(kernel_shape)
        self._biased, self._skip, self._forget_bias = use_bias, skip_connection, forget_bias

    @property
    def state_size(self) -> LSTMStateTuple:
        size = Shape([*self._shape[:-1], self._channels])
        return LSTMStateTuple(size, size)

    @property
    def output_size(self) -> Shape:
        return Shape([*self._shape[:-1], self._channels + (self._shape[-1] if self._skip else 0)])

    def _gates(self, x: Tensor) -> Tensor:
        axes = len(self._kernel)
        kernel = self.variable("kernel", [*self._kernel, self.width([x]), 4 * self._channels], x.dtype)
        made: Tensor = conv1d(x, kernel, 1, "SAME") if axes == 1 else (
            ops.conv2d if axes == 2 else ops.conv3d)(x, kernel, [1] * (axes + 2), "SAME")
        return made + self.variable("biases", [4 * self._channels], x.dtype, Zeros()) if self._biased else made

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        inputs.shape.merge(Shape([None, *self._shape]), f"{type(self).__name__}: inputs and input_shape")
        c, h = state
        gates = self._gates(ops.concat([inputs, h], axis=-1))
        enter, candidate, forget, leave = ops.split(gates, num_or_size_splits=4, axis=-1)
        c = ops.sigmoid(forget + self._forget_bias) * c + ops.sigmoid(enter) * ops.tanh(candidate)
        h = ops.tanh(c) * ops.sigmoid(leave)
        return ops.concat([h, inputs], axis=-1) if self._skip else h, LSTMStateTuple(c, h)


class Conv1DLSTMCell(ConvLSTMCell):
    """ConvLSTMCell of signals [batch, length, channels]; its other arguments by name."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """ConvLSTMCell of images [batch, height, width, channels]; its other arguments by name."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """ConvLSTMCell of volumes [batch, depth, height, width, channels]; its other arguments by name."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(3, name=name, **kwargs)
