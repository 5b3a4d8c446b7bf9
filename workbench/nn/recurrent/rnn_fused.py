"""Cells that TensorFlow computes by one kernel, with the values of the plain ones, and cells over a whole sequence."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.initializers import Constant
from workbench.nn.recurrent.rnn import dynamic_rnn, static_rnn
from workbench.nn.recurrent.rnn_base import LSTMStateTuple, RNNCell
from workbench.nn.recurrent.rnn_cell import GRUCell, LSTMCell
from workbench.nn.scopes import get_variable_scope, variable_scope

__all__ = ["FusedRNNCell", "FusedRNNCellAdaptor", "GRUBlockCell", "GRUBlockCellV2", "LSTMBlockCell", "LSTMBlockFusedCell",
           "LSTMBlockWrapper", "TimeReversedFusedRNN"]


def _limit(cell_clip: float | None) -> float | None:
    """Limits below 0 are none, as in TensorFlow's kernels."""
    return None if cell_clip is None or cell_clip < 0 else cell_clip


class LSTMBlockCell(LSTMCell):
    """LSTMCell by the arguments and with the scope of TensorFlow's fused one: `lstm_cell/kernel` and `lstm_cell/bias`."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False,
                 reuse: Any = None, name: str = "lstm_cell") -> None:
        super().__init__(num_units, use_peephole, _limit(cell_clip), forget_bias=forget_bias, reuse=reuse, name=name)


class GRUBlockCellV2(GRUCell):
    """GRUCell by the arguments of TensorFlow's fused one: `cell_size` is the old name of `num_units`."""

    def __init__(self, num_units: int | None = None, cell_size: int | None = None, reuse: Any = None,
                 name: str = "gru_cell") -> None:
        if (num_units is None) == (cell_size is None):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: num_units is {num_units} and cell_size {cell_size}; "
                                              "Exactly one of num_units or cell_size must be provided")
        super().__init__(num_units or cell_size or 0, reuse=reuse, name=name)


class GRUBlockCell(GRUBlockCellV2):
    """GRUBlockCellV2 with variables `w_ru`, `b_ru`, `w_c` and `b_c`."""

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        rows, units = self.width([inputs, state]), self.output_size
        gates = ops.matmul(ops.concat([inputs, state], axis=1), self.variable("w_ru", [rows, 2 * units], inputs.dtype))
        gates = ops.bias_add(gates, self.variable("b_ru", [2 * units], inputs.dtype, Constant(1.0)))
        reset, update = ops.split(ops.sigmoid(gates), num_or_size_splits=2, axis=1)
        product = ops.matmul(ops.concat([inputs, reset * state], axis=1), self.variable("w_c", [rows, units], inputs.dtype))
        candidate = ops.tanh(ops.bias_add(product, self.variable("b_c", [units], inputs.dtype, Constant(0.0))))
        output = update * state + (1.0 - update) * candidate
        return output, output


class FusedRNNCell:
    """A cell over a whole sequence: `cell(inputs [time, batch, n])` gives (outputs [time, batch, output_size], final state);
    lists of [batch, n] give lists."""

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:
        raise errors.UnimplementedError(f"{type(self).__name__}: __call__(inputs, …) is missing; define it")


class FusedRNNCellAdaptor(FusedRNNCell):
    """An RNNCell over a whole sequence, unrolled or with `use_dynamic_rnn` by a loop of the graph."""

    def __init__(self, cell: RNNCell, use_dynamic_rnn: bool = False) -> None:
        self._cell, self._loop = cell, use_dynamic_rnn

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:
        listed = isinstance(inputs, (list, tuple))
        if self._loop:
            outputs, state = dynamic_rnn(self._cell, ops.stack(list(inputs)) if listed else inputs, sequence_length,
                                         initial_state, dtype, time_major=True, scope=scope)
            return ops.unstack(outputs, len(inputs)) if listed else outputs, state
        steps = list(inputs) if listed else ops.unstack(convert(inputs))
        outputs, state = static_rnn(self._cell, steps, initial_state, dtype, sequence_length, scope)
        return outputs if listed else ops.stack(outputs), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A FusedRNNCell that reads from the end, of each sequence where lengths are given; lists are read from their end."""

    def __init__(self, cell: FusedRNNCell) -> None:
        self._cell = cell

    def _reversed(self, values: Any, lengths: Any) -> Any:
        if isinstance(values, (list, tuple)):
            return list(values)[::-1]
        if lengths is None:
            return ops.reverse(values, axis=[0])
        return ops.reverse_sequence(values, ops.cast(convert(lengths), "int32"), seq_axis=0, batch_axis=1)

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:
        outputs, state = self._cell(self._reversed(inputs, sequence_length), initial_state, dtype, sequence_length, scope)
        return self._reversed(outputs, sequence_length), state


class _Inside(LSTMCell):
    """An LSTMCell whose variables lie in the scope that it is called in."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        return super().__call__(inputs, state, scope or get_variable_scope())


class LSTMBlockWrapper(FusedRNNCell):
    """What LSTMs over a whole sequence share: `_cell` is the step of `num_units`; its state is (memory, output), by default
    zeros of `dtype`, one of which must be given. Beyond `sequence_length` outputs are zero and the state stays."""

    def __init__(self, cell: RNNCell) -> None:
        self._cell = cell

    @property
    def num_units(self) -> int:
        """The width of the output."""
        size: int = self._cell.output_size
        return size

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:
        if initial_state is None and dtype is None:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: initial_state and dtype are None; Either initial_state "
                                              "or dtype needs to be specified")
        start = None if initial_state is None else LSTMStateTuple(*initial_state)
        with variable_scope(scope or "lstm_block_wrapper") as opened:
            return FusedRNNCellAdaptor(self._cell, True)(inputs, start, dtype, sequence_length, opened)


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """The LSTM of LSTMBlockCell over a whole sequence: variables `kernel` and `bias` (and peepholes) in its own scope."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None,
                 use_peephole: bool = False) -> None:
        super().__init__(_Inside(num_units, use_peephole, _limit(cell_clip), forget_bias=forget_bias))
