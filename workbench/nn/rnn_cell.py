"""Recurrent cells: one step of a sequence, with variables that are made at the first step."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.nn.arguments import refuse
from workbench.nn.initializers import Constant, RandomUniform, Zeros
from workbench.nn.scopes import VariableScope, get_variable, get_variable_scope, variable_scope
from workbench.nn.variables import Variable, root_graph

__all__ = ["BasicLSTMCell", "BasicRNNCell", "DropoutWrapper", "EmbeddingWrapper", "GRUCell", "InputProjectionWrapper",
           "LSTMCell", "LSTMStateTuple", "MultiRNNCell",
           "OutputProjectionWrapper", "RNNCell", "ResidualWrapper"]


class LSTMStateTuple(NamedTuple):
    """State of an LSTM: cell `c` and output `h`, both [batch, units]."""

    c: Any
    h: Any


class RNNCell:
    """One step: `cell(inputs [batch, n], state)` gives (output [batch, output_size], new state).

    Variables are made at the first call in a variable scope and used again by later calls there. `reuse` is that of
    variable_scope: with True they must exist before the first call.
    """

    def __init__(self, name: str | None = None, reuse: Any = None) -> None:
        self._name, self._reuse = name or _snake(type(self).__name__), reuse
        self._made: dict[tuple[Graph, str, str], Variable] = {}

    @property
    def state_size(self) -> Any:
        """Width of the state: an int, or a tuple of them for a state of several parts."""
        raise errors.UnimplementedError(f"{type(self).__name__}: state_size is missing; define it")

    @property
    def output_size(self) -> int:
        """Width of the output."""
        raise errors.UnimplementedError(f"{type(self).__name__}: output_size is missing; define it")

    def __call__(self, inputs: Any, state: Any, scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        with variable_scope(scope or self._name, reuse=self._reuse):
            return self.call(convert(inputs), state)

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        """(output [batch, output_size], new state) of one step; what a new cell defines."""
        raise errors.UnimplementedError(f"{type(self).__name__}: call(inputs, state) is missing; define it")

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state of zeros for `batch_size` (int or int32 scalar) sequences."""
        return _map_sizes(self.state_size, lambda size: ops.zeros(_dims(batch_size, size), dtype))

    def variable(self, name: str, shape: Sequence[int], dtype: Any, initializer: Any = None) -> Tensor:
        """The variable `name` of this cell in the scope in force, read."""
        return self.table(name, shape, dtype, initializer).value()

    def table(self, name: str, shape: Sequence[int], dtype: Any, initializer: Any = None) -> Variable:
        """The variable `name` of this cell in the scope in force."""
        key = (root_graph(), get_variable_scope().name, name)
        if key not in self._made:
            self._made[key] = get_variable(name, shape, dtype, initializer)
        return self._made[key]

    def linear(self, parts: Sequence[Tensor], units: int, prefix: str = "", bias: Any = None,
               kernel: Any = None) -> Tensor:
        """[parts] · kernel + bias, with variables `prefix/kernel` and `prefix/bias`."""
        parts = [convert(p) for p in parts]
        widths = [p.shape.as_list()[-1] for p in parts]
        if None in widths:
            raise errors.ShapeError(f"{type(self).__name__}: inputs {parts[0].name} has shape {parts[0].shape}; its "
                                    "last dimension must be known: set_shape it")
        dtype = parts[0].dtype
        weights = self.variable(prefix + "kernel", [sum(w or 0 for w in widths), units], dtype, kernel)
        joined = parts[0] if len(parts) == 1 else ops.concat(list(parts), axis=1)
        offset = self.variable(prefix + "bias", [units], dtype, bias or Zeros())
        return ops.bias_add(ops.matmul(joined, weights), offset)


def _snake(name: str) -> str:
    known = {"BasicLSTMCell": "basic_lstm_cell", "BasicRNNCell": "basic_rnn_cell", "LSTMCell": "lstm_cell",
             "GRUCell": "gru_cell", "MultiRNNCell": "multi_rnn_cell",
             "EmbeddingWrapper": "embedding_wrapper", "InputProjectionWrapper": "input_projection_wrapper",
             "OutputProjectionWrapper": "output_projection_wrapper"}
    return known.get(name, name.lower())


def _dims(batch_size: Any, size: int) -> Any:
    return ops.stack([batch_size, size]) if isinstance(batch_size, Tensor) else [int(batch_size), size]


def _map_sizes(size: Any, function: Callable[[int], Any]) -> Any:
    if isinstance(size, tuple) and hasattr(size, "_fields"):
        return type(size)(*[_map_sizes(s, function) for s in size])
    if isinstance(size, (list, tuple)):
        return tuple(_map_sizes(s, function) for s in size)
    return function(int(size))


class BasicRNNCell(RNNCell):
    """activation([inputs, state] · kernel + bias)."""

    def __init__(self, num_units: int, activation: Callable[..., Any] | None = None, reuse: Any = None,
                 name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._units, self._activation = num_units, activation or ops.tanh

    @property
    def state_size(self) -> int:
        return self._units

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        output = self._activation(self.linear([inputs, state], self._units))
        return output, output


class GRUCell(RNNCell):
    """Gated recurrent unit (Cho et al. 2014): the new state mixes the old one and a candidate."""

    def __init__(self, num_units: int, activation: Callable[..., Any] | None = None, reuse: Any = None,
                 kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._units, self._activation = num_units, activation or ops.tanh
        self._kernel, self._bias = kernel_initializer, bias_initializer

    @property
    def state_size(self) -> int:
        return self._units

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        gates = self.linear([inputs, state], 2 * self._units, "gates/", self._bias or Constant(1.0), self._kernel)
        reset, update = ops.split(ops.sigmoid(gates), num_or_size_splits=2, axis=1)
        candidate = self._activation(self.linear([inputs, reset * state], self._units, "candidate/", self._bias,
                                                 self._kernel))
        output = update * state + (1.0 - update) * candidate
        return output, output


class BasicLSTMCell(RNNCell):
    """Long short-term memory (Zaremba et al. 2014) without peepholes; the forget gate starts open by `forget_bias`."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True,
                 activation: Callable[..., Any] | None = None, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._units, self._forget, self._tuple = num_units, forget_bias, state_is_tuple
        self._activation, self._initializer = activation or ops.tanh, None

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._units, self._units) if self._tuple else 2 * self._units

    @property
    def output_size(self) -> int:
        return self._units

    def _open(self, state: Any) -> tuple[Any, Any]:
        if self._tuple:
            return state[0], state[1]
        c, h = ops.split(state, num_or_size_splits=2, axis=1)
        return c, h

    def _close(self, c: Tensor, h: Tensor) -> Any:
        return LSTMStateTuple(c, h) if self._tuple else ops.concat([c, h], axis=1)

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        c, h = self._open(state)
        gates = self.linear([inputs, h], 4 * self._units, kernel=self._initializer)
        enter, candidate, forget, leave = ops.split(gates, num_or_size_splits=4, axis=1)
        c = c * ops.sigmoid(forget + self._forget) + ops.sigmoid(enter) * self._activation(candidate)
        h = self._activation(c) * ops.sigmoid(leave)
        return h, self._close(c, h)


class LSTMCell(BasicLSTMCell):
    """LSTM with peepholes (`use_peepholes`), clipping of the cell (`cell_clip`) and a projected output (`num_proj`)."""

    def __init__(self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None,
                 initializer: Any = None, num_proj: int | None = None, proj_clip: float | None = None,
                 forget_bias: float = 1.0, state_is_tuple: bool = True, activation: Callable[..., Any] | None = None,
                 reuse: Any = None, name: str | None = None) -> None:
        super().__init__(num_units, forget_bias, state_is_tuple, activation, reuse, name)
        if num_proj is not None and not state_is_tuple:
            raise errors.InvalidArgumentError(f"LSTMCell: num_proj is {num_proj} but state_is_tuple is False; c and h "
                                              "differ in width: pass state_is_tuple=True")
        self._peepholes, self._clip, self._initializer = use_peepholes, cell_clip, initializer
        self._projection, self._projection_clip = num_proj, proj_clip

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._units, self.output_size) if self._tuple else 2 * self._units

    @property
    def output_size(self) -> int:
        return self._projection or self._units

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        before, h = self._open(state)
        gates = self.linear([inputs, h], 4 * self._units, kernel=self._initializer)
        enter, candidate, forget, leave = ops.split(gates, num_or_size_splits=4, axis=1)
        c = before * ops.sigmoid(self._peep("w_f_diag", forget + self._forget, before)) + ops.sigmoid(
            self._peep("w_i_diag", enter, before)) * self._activation(candidate)
        if self._clip is not None:
            c = ops.clip_by_value(c, -self._clip, self._clip)
        output = self._activation(c) * ops.sigmoid(self._peep("w_o_diag", leave, c))
        return self._project(output, c)

    def _peep(self, name: str, gate: Tensor, cell: Tensor) -> Tensor:
        if not self._peepholes:
            return gate
        return gate + self.variable(name, [self._units], gate.dtype, self._initializer or Zeros()) * cell

    def _project(self, output: Tensor, c: Tensor) -> tuple[Any, Any]:
        if self._projection is not None:
            shape = [self._units, self._projection]
            kernel = self.variable("projection/kernel", shape, output.dtype, self._initializer)
            output = ops.matmul(output, kernel)
            if self._projection_clip is not None:
                output = ops.clip_by_value(output, -self._projection_clip, self._projection_clip)
        return output, self._close(c, output)


class MultiRNNCell(RNNCell):
    """Cells on top of each other; the state is a tuple of theirs."""

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise errors.InvalidArgumentError("MultiRNNCell: there are 0 cells; pass at least one")
        if not state_is_tuple:
            raise errors.UnimplementedError("MultiRNNCell: state_is_tuple=False has no definition here; leave it out")
        self._cells = list(cells)

    @property
    def state_size(self) -> Any:
        return tuple(cell.state_size for cell in self._cells)

    @property
    def output_size(self) -> int:
        return self._cells[-1].output_size

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        states = []
        for number, (cell, part) in enumerate(zip(self._cells, state)):
            with variable_scope(f"cell_{number}"):
                inputs, new = cell(inputs, part)
                states.append(new)
        return inputs, tuple(states)


class _Wrapper(RNNCell):
    def __init__(self, cell: RNNCell, reuse: Any = None) -> None:
        super().__init__(reuse=reuse)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> int:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)


class DropoutWrapper(_Wrapper):
    """Dropout of a cell's inputs, outputs and new state; each keep probability is a number or a scalar tensor.

    Of an LSTM's state only `h` is dropped, never the memory `c`.
    """

    def __init__(self, cell: RNNCell, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0, seed: int | None = None,
                 state_keep_prob: Any = 1.0, variational_recurrent: bool = False, input_size: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(cell)
        refuse("DropoutWrapper", "leave it out: each step draws its own mask",
               variational_recurrent=variational_recurrent, input_size=input_size, dtype=dtype)
        self._into, self._out, self._kept, self._seed = input_keep_prob, output_keep_prob, state_keep_prob, seed

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        output, new = self._cell(self._drop(convert(inputs), self._into), state, scope)
        return self._drop(output, self._out), self._drop_state(new)

    def _drop_state(self, state: Any) -> Any:
        if isinstance(state, LSTMStateTuple):
            return LSTMStateTuple(state.c, self._drop(state.h, self._kept))
        if isinstance(state, tuple):
            return tuple(self._drop_state(part) for part in state)
        return self._drop(state, self._kept)

    def _drop(self, x: Tensor, keep: Any) -> Tensor:
        return x if isinstance(keep, (int, float)) and keep >= 1 else ops.dropout(x, keep, seed=self._seed)


class ResidualWrapper(_Wrapper):
    """Adds a cell's inputs to its outputs; both must be equally wide."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        output, new = self._cell(inputs, state, scope)
        return output + convert(inputs), new


class OutputProjectionWrapper(_Wrapper):
    """A linear map of a cell's outputs to `output_size`."""

    def __init__(self, cell: RNNCell, output_size: int, activation: Callable[..., Any] | None = None,
                 reuse: Any = None) -> None:
        super().__init__(cell, reuse)
        self._size, self._activation = output_size, activation

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        output, new = self._cell(inputs, state)
        projected = self.linear([output], self._size)
        return projected if self._activation is None else self._activation(projected), new


class InputProjectionWrapper(_Wrapper):
    """A linear map of a cell's inputs to `num_proj` numbers."""

    def __init__(self, cell: RNNCell, num_proj: int, activation: Callable[..., Any] | None = None,
                 input_size: Any = None, reuse: Any = None) -> None:
        super().__init__(cell, reuse)
        refuse("InputProjectionWrapper", "the width of the inputs is read from their shape", input_size=input_size)
        self._size, self._activation = num_proj, activation

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        projected = self.linear([inputs], self._size)
        return self._cell(projected if self._activation is None else self._activation(projected), state)


class EmbeddingWrapper(_Wrapper):
    """Looks its integer inputs [batch] or [batch, 1] up in a table `embedding` [embedding_classes, embedding_size]."""

    def __init__(self, cell: RNNCell, embedding_classes: int, embedding_size: int, initializer: Any = None,
                 reuse: Any = None) -> None:
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise errors.InvalidArgumentError(f"EmbeddingWrapper: embedding_classes is {embedding_classes} and "
                                              f"embedding_size {embedding_size}; both must be 1 or more")
        self._shape, self._initializer = [embedding_classes, embedding_size], initializer

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        first = state
        while isinstance(first, tuple):
            first = first[0]
        start = self._initializer or get_variable_scope().initializer or RandomUniform(-3 ** 0.5, 3 ** 0.5)
        table = self.table("embedding", self._shape, convert(first).dtype, start)
        return self._cell(table.gather(ops.reshape(inputs, [-1])), state)
