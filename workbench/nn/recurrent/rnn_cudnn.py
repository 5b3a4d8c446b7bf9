"""Recurrent layers over whole sequences by the names and with the variables of TensorFlow's layers for cuDNN, on any device."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.nn.initializers import Constant, glorot_uniform_initializer
from workbench.nn.layer_base import Layer
from workbench.nn.recurrent.rnn import dynamic_rnn
from workbench.nn.recurrent.rnn_base import LSTMStateTuple, RNNCell, parts_of
from workbench.nn.recurrent.rnn_cell import BasicRNNCell, GRUCell, MultiRNNCell
from workbench.nn.recurrent.rnn_fused import LSTMBlockCell
from workbench.nn.recurrent.rnn_stacks import stack_bidirectional_dynamic_rnn
from workbench.nn.recurrent.rnn_wrappers import DropoutWrapper
from workbench.nn.scopes import get_variable_scope, variable_scope

__all__ = ["CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU", "CudnnLSTM", "CudnnRNNRelu", "CudnnRNNTanh"]


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """LSTMCell without peepholes and with a forget gate that begins half open: one step of CudnnLSTM."""

    def __init__(self, num_units: int, reuse: Any = None) -> None:
        super().__init__(num_units, forget_bias=0.0, reuse=reuse, name="cudnn_compatible_lstm_cell")


class CudnnCompatibleGRUCell(GRUCell):
    """GRUCell whose reset gate weighs the state behind its product, not before: one step of CudnnGRU."""

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None) -> None:
        super().__init__(num_units, reuse=reuse, kernel_initializer=kernel_initializer, name="cudnn_compatible_gru_cell")

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        units, kernel = self._num_units, self._kernel
        gates = self.linear([inputs, state], 2 * units, "gates/", self._bias or Constant(1.0), kernel)
        reset, update = parts_of(ops.sigmoid(gates), 2)
        read = self.linear([inputs], units, "candidate/input_projection/", self._bias, kernel)
        kept = self.linear([state], units, "candidate/hidden_projection/", self._bias, kernel)
        output = (1.0 - update) * self._activation(read + reset * kept) + update * state
        return output, output


class _CudnnRNN(Layer):
    """`layer(inputs [time, batch, depth])` gives (outputs [time, batch, directions · num_units], final states).

    States are a tuple of tensors [num_layers · directions, batch, num_units], of each layer forwards before backwards.
    `dropout` is the share of what a layer gives to the next that is left out in training. What TensorFlow keeps in one
    buffer are variables here, one for each kernel and bias, with the names under which its checkpoints have them.
    InvalidArgumentErrors (ValueErrors) for other directions and input modes, and for states of another number.
    """

    _parts = 1      # tensors of a state

    def __init__(self, num_layers: int, num_units: int, input_mode: str = "linear_input", direction: str = "unidirectional",
                 dropout: float = 0.0, seed: int | None = None, dtype: Any = "float32", kernel_initializer: Any = None,
                 bias_initializer: Any = None, name: str | None = None) -> None:
        super().__init__(name=name, dtype=as_dtype(dtype))
        for what, given, known in (("direction", direction, ("unidirectional", "bidirectional")),
                                   ("input_mode", input_mode, ("linear_input",))):
            if given not in known:
                raise errors.InvalidArgumentError(f"{type(self).__name__}: Invalid {what}: {given}; use {' or '.join(known)}")
        self.num_layers, self.num_units, self.input_mode, self.direction = num_layers, num_units, input_mode, direction
        self.num_dirs = 1 if direction == "unidirectional" else 2
        self._dropout, self._seed = dropout, seed
        self._kernel, self._bias = kernel_initializer or glorot_uniform_initializer(), bias_initializer
        self._cells = [[self._cell() for _ in range(num_layers)] for _ in range(self.num_dirs)]

    def _cell(self) -> RNNCell:
        raise errors.UnimplementedError(f"{type(self).__name__}: _cell() is missing; define it")

    def state_shape(self, batch_size: Any) -> tuple[Any, ...]:
        """The shape of each tensor of a state."""
        return ([self.num_layers * self.num_dirs, batch_size, self.num_units],) * self._parts

    def call(self, inputs: Any, initial_state: Any = None, training: bool = True) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Outputs and final states, from zeros or from `initial_state`."""
        x = convert(inputs, self.dtype)
        states = self._states(initial_state)
        cells = [[self._thinned(cell, number, training) for number, cell in enumerate(stack)] for stack in self._cells]
        with variable_scope(get_variable_scope(), initializer=self._kernel):
            if self.num_dirs == 1:
                start = None if states is None else tuple(states)
                outputs, last = dynamic_rnn(MultiRNNCell(cells[0]), x, None, start, self.dtype, time_major=True)
                final = list(last)
            else:
                forwards, backwards = (None, None) if states is None else (states[0::2], states[1::2])
                outputs, *ends = stack_bidirectional_dynamic_rnn(cells[0], cells[1], x, forwards, backwards, self.dtype,
                                                                 time_major=True)
                final = [state for pair in zip(*ends) for state in pair]
        self._made = [variable for stack in self._cells for cell in stack for variable in cell.variables]
        return outputs, self._together(final)

    def _thinned(self, cell: RNNCell, number: int, training: bool) -> RNNCell:
        thinned = training and self._dropout and number
        return DropoutWrapper(cell, input_keep_prob=1.0 - self._dropout, seed=self._seed) if thinned else cell

    def _states(self, given: Any) -> list[Any] | None:
        """The state of each cell."""
        if given is None:
            return None
        tensors = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        if len(tensors) != self._parts:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: initial_state has {len(tensors)} tensors; pass a tuple "
                                              f"of {self._parts}")
        return [self._state(parts) for parts in zip(*(ops.unstack(t, self.num_layers * self.num_dirs) for t in tensors))]

    def _state(self, parts: Sequence[Tensor]) -> Any:
        return parts[0]

    def _together(self, states: Sequence[Any]) -> tuple[Tensor, ...]:
        return (ops.stack(states),)


class CudnnLSTM(_CudnnRNN):
    """Layers of long short-term memory; states are (outputs, memories)."""

    _parts = 2

    def _cell(self) -> RNNCell:
        return CudnnCompatibleLSTMCell(self.num_units)

    def _state(self, parts: Sequence[Tensor]) -> Any:
        return LSTMStateTuple(parts[1], parts[0])

    def _together(self, states: Sequence[Any]) -> tuple[Tensor, ...]:
        return ops.stack([state.h for state in states]), ops.stack([state.c for state in states])


class CudnnGRU(_CudnnRNN):
    """Layers of gated recurrent units."""

    def _cell(self) -> RNNCell:
        return CudnnCompatibleGRUCell(self.num_units)


class CudnnRNNTanh(_CudnnRNN):
    """Layers of plain recurrent cells: tanh."""

    def _cell(self) -> RNNCell:
        return BasicRNNCell(self.num_units)


class CudnnRNNRelu(_CudnnRNN):
    """Layers of plain recurrent cells: the positive part."""

    def _cell(self) -> RNNCell:
        return BasicRNNCell(self.num_units, ops.relu)
