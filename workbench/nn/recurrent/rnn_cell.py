"""Recurrent cells: plain, gated, with long short-term memory, stacked; and, by name, what wraps a cell."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.initializers import Constant, Zeros
from workbench.nn.partitions import fixed_size_partitioner
from workbench.nn.recurrent.rnn_base import LSTMStateTuple, MemoryCell, PlainCell, RNNCell, clipped, joined, parts_of
from workbench.nn.recurrent.rnn_wrappers import (
    DeviceWrapper,
    DropoutWrapper,
    EmbeddingWrapper,
    InputProjectionWrapper,
    OutputProjectionWrapper,
    ResidualWrapper,
)
from workbench.nn.scopes import get_variable, get_variable_scope, variable_scope

__all__ = ["BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "EmbeddingWrapper", "GRUCell",
           "InputProjectionWrapper", "LSTMCell", "LSTMStateTuple", "MultiRNNCell", "OutputProjectionWrapper", "RNNCell",
           "ResidualWrapper"]


class BasicRNNCell(PlainCell):
    """activation([inputs, state] · kernel + bias)."""

    def __init__(self, num_units: int, activation: Callable[..., Any] | None = None, reuse: Any = None,
                 name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._activation = num_units, activation or ops.tanh

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        output = self._activation(self.linear([inputs, state], self._num_units))
        return output, output


class GRUCell(PlainCell):
    """Gated recurrent unit (Cho et al. 2014): the new state mixes the old one and a candidate."""

    def __init__(self, num_units: int, activation: Callable[..., Any] | None = None, reuse: Any = None,
                 kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._activation = num_units, activation or ops.tanh
        self._kernel, self._bias = kernel_initializer, bias_initializer

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        gates = self.linear([inputs, state], 2 * self._num_units, "gates/", self._bias or Constant(1.0), self._kernel)
        reset, update = parts_of(ops.sigmoid(gates), 2)
        candidate = self._activation(self.linear([inputs, reset * state], self._num_units, "candidate/", self._bias,
                                                 self._kernel))
        output = update * state + (1.0 - update) * candidate
        return output, output


class BasicLSTMCell(MemoryCell):
    """Long short-term memory (Zaremba et al. 2014) without peepholes; the forget gate starts open by `forget_bias`."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True,
                 activation: Callable[..., Any] | None = None, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._forget_bias, self._state_is_tuple = num_units, forget_bias, state_is_tuple
        self._activation, self._initializer = activation or ops.tanh, None

    def _open(self, state: Any) -> tuple[Any, Any]:
        if self._state_is_tuple:
            return state[0], state[1]
        c, h = ops.split(state, [self._num_units, self.output_size], axis=1)
        return c, h

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        c, h = self._open(state)
        gates = self.linear([inputs, h], 4 * self._num_units, kernel=self._initializer)
        enter, candidate, forget, leave = parts_of(gates, 4)
        c = c * ops.sigmoid(forget + self._forget_bias) + ops.sigmoid(enter) * self._activation(candidate)
        h = self._activation(c) * ops.sigmoid(leave)
        return h, self._close(c, h)


def _by_rows(shards: int | None) -> Any:
    """A partitioner into so many variables of some rows each, None for one variable."""
    return None if shards is None else fixed_size_partitioner(shards)


class LSTMCell(BasicLSTMCell):
    """LSTM with peepholes (`use_peepholes`), clipping of the cell (`cell_clip`) and a projected output (`num_proj`).

    The kernels are kept as `num_unit_shards` and `num_proj_shards` variables of some rows each.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None,
                 initializer: Any = None, num_proj: int | None = None, proj_clip: float | None = None,
                 num_unit_shards: int | None = None, num_proj_shards: int | None = None, forget_bias: float = 1.0,
                 state_is_tuple: bool = True, activation: Callable[..., Any] | None = None, reuse: Any = None,
                 name: str | None = None) -> None:
        super().__init__(num_units, forget_bias, state_is_tuple, activation, reuse, name)
        self._use_peepholes, self._cell_clip, self._initializer = use_peepholes, cell_clip, initializer
        self._num_proj, self._proj_clip = num_proj, proj_clip
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        before, h = self._open(state)
        gates = self.linear([inputs, h], 4 * self._num_units, kernel=self._initializer,
                            partitioner=_by_rows(self._num_unit_shards))
        enter, candidate, forget, leave = parts_of(gates, 4)
        c = before * ops.sigmoid(self._peep("w_f_diag", forget + self._forget_bias, before)) + ops.sigmoid(
            self._peep("w_i_diag", enter, before)) * self._activation(candidate)
        c = clipped(c, self._cell_clip)
        output = self._activation(c) * ops.sigmoid(self._peep("w_o_diag", leave, c))
        return self._project(output, c)

    def _peep(self, name: str, gate: Tensor, cell: Tensor) -> Tensor:
        if not self._use_peepholes:
            return gate
        return gate + self.variable(name, [self._num_units], gate.dtype, self._initializer) * cell

    def _project(self, output: Tensor, c: Tensor) -> tuple[Any, Any]:
        if self._num_proj is not None:
            output = self.product([output], self._num_proj, "projection/", self._initializer,
                                  _by_rows(self._num_proj_shards))
            output = clipped(output, self._proj_clip)
        return output, self._close(c, output)


class MultiRNNCell(RNNCell):
    """Cells on top of each other; the state is a tuple of theirs, or without `state_is_tuple` theirs side by side."""

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise errors.InvalidArgumentError("MultiRNNCell: there are 0 cells; pass at least one")
        self._cells, self._state_is_tuple = list(cells), state_is_tuple
        if not state_is_tuple and any(isinstance(cell.state_size, tuple) for cell in cells):
            raise errors.InvalidArgumentError("MultiRNNCell: Some cells return tuples of states, but the flag state_is_tuple "
                                              f"is not set.  State sizes are: {[cell.state_size for cell in cells]}")

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """What each cell begins with, which may be other than zeros; without `state_is_tuple` zeros."""
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        states = []
        if self._state_is_tuple and (not isinstance(state, (tuple, list)) or len(state) != len(self._cells)):
            raise errors.InvalidArgumentError(f"MultiRNNCell: Expected state to be a tuple of length {len(self._cells)}, but "
                                              f"received: {state}")
        parts = state if self._state_is_tuple else ops.split(state, [cell.state_size for cell in self._cells], axis=1)
        for number, (cell, part) in enumerate(zip(self._cells, parts)):
            with variable_scope(f"cell_{number}"):
                inputs, new = cell(inputs, part)
                states.append(new)
        return inputs, tuple(states) if self._state_is_tuple else ops.concat(states, axis=1)


class _Linear:
    """`_linear` whose variables are made once: cells of programs' own of 2018 import it by this name."""

    def __init__(self, args: Any, output_size: int, build_bias: bool, bias_initializer: Any = None,
                 kernel_initializer: Any = None) -> None:
        parts, width = _matrices(args)
        self._kernel = get_variable("kernel", [width, output_size], parts[0].dtype, kernel_initializer)
        self._bias = get_variable("bias", [output_size], parts[0].dtype, bias_initializer or Zeros()) if build_bias else None

    def __call__(self, args: Any) -> Tensor:
        made: Tensor = ops.matmul(joined(_matrices(args)[0]), self._kernel)
        return made if self._bias is None else ops.bias_add(made, self._bias)


def _matrices(args: Any) -> tuple[list[Tensor], int]:
    parts = [convert(x) for x in (args if isinstance(args, (list, tuple)) else [args]) if x is not None]
    shapes = [x.shape.as_list() if x.shape.rank == 2 else [None] for x in parts]
    if not parts or any(shape[-1] is None for shape in shapes):
        raise errors.InvalidArgumentError(f"_linear: args have the shapes {[str(x.shape) for x in parts]}; pass matrices, "
                                          "whose second dimensions are known")
    return parts, sum(shape[-1] or 0 for shape in shapes)


def _linear(args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None,
            bias_start: float = 0.0, scope: Any = None) -> Tensor:
    """Tensors [batch, n] side by side · the variable `kernel`, with `bias` also + the variable `bias`: [batch, output_size].

    Cells of programs' own import it by this name, from where TensorFlow keeps it for its own; those of TensorFlow 1.0 say
    `bias_start`, a number in the place of `bias_initializer` too, and `scope`. InvalidArgumentErrors (ValueErrors) without
    tensors, and for such that are no matrices of known widths.
    """
    if isinstance(bias_initializer, (int, float)):
        bias_start, bias_initializer = bias_initializer, None
    with variable_scope(scope or get_variable_scope()):
        return _Linear(args, output_size, bias, bias_initializer or Constant(bias_start), kernel_initializer)(args)
