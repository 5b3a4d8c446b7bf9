"""Cells around cells: dropout, shortcuts, projections, embeddings, devices."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.arguments import refuse
from workbench.nn.initializers import Constant, RandomUniform
from workbench.nn.nest import flatten, map_structure
from workbench.nn.recurrent.rnn_base import LSTMStateTuple, RNNCell, Wrapper, joined, sizes_mapped
from workbench.nn.scopes import get_variable_scope
from workbench.nn.tensor_array import TensorArray

__all__ = ["AttentionCellWrapper", "CompiledWrapper", "DeviceWrapper", "DropoutWrapper", "EmbeddingWrapper", "HighwayWrapper",
           "InputProjectionWrapper", "OutputProjectionWrapper", "ResidualWrapper"]


def _spares_memory(state: Any) -> Any:
    """Which parts of a state are dropped: of an LSTM its output, and no array."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(False, True)
    return not isinstance(state, TensorArray)


class DropoutWrapper(Wrapper):
    """Dropout of a cell's inputs, outputs and new state; each keep probability is a number or a scalar tensor.

    Of an LSTM's state only `h` is dropped, never the memory `c`: `dropout_state_filter_visitor(state)` says True, False or a
    structure of them for each part. With `variational_recurrent` one mask serves all steps and rows; `dtype`, and for inputs
    `input_size`, must be given then. Source: Gal, Ghahramani 2015.
    """

    def __init__(self, cell: RNNCell, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0, state_keep_prob: Any = 1.0,
                 variational_recurrent: bool = False, input_size: Any = None, dtype: Any = None, seed: int | None = None,
                 dropout_state_filter_visitor: Callable[[Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._keep = {"input": input_keep_prob, "output": output_keep_prob, "state": state_keep_prob}
        self._seed, self._filter = seed, dropout_state_filter_visitor or _spares_memory
        self._noise: dict[str, list[Tensor]] | None = None
        for what, keep in self._keep.items():
            if isinstance(keep, (int, float)) and not 0 <= keep <= 1:
                raise errors.InvalidArgumentError(f"DropoutWrapper: {what}_keep_prob is {keep}; use a number from 0 to 1")
        if variational_recurrent:
            self._noise = self._masks(input_size, dtype)

    def _masks(self, input_size: Any, dtype: Any) -> dict[str, list[Tensor]]:
        """Even numbers [1, size] for each part, drawn once in a step of the session."""
        if dtype is None or (input_size is None and self._drops("input")):
            raise errors.InvalidArgumentError(f"DropoutWrapper: variational_recurrent needs dtype, which is {dtype}, and for "
                                              f"input_keep_prob also input_size, which is {input_size}; give them")
        sizes = {"input": input_size, "output": self._cell.output_size, "state": self._cell.state_size}
        return {what: [ops.random_uniform(shape, dtype=dtype, seed=self._seed) for shape in sizes_mapped(size, 1)]
                for what, size in sizes.items() if self._drops(what)}

    def _drops(self, what: str) -> bool:
        keep = self._keep[what]
        return not isinstance(keep, (int, float)) or keep < 1

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        given = map_structure(convert, inputs) if isinstance(inputs, tuple) else convert(inputs)
        output, new = self._cell(self._dropped("input", given, True), state, scope)
        return self._dropped("output", output, True), self._dropped("state", new, self._filter(new))

    def _dropped(self, what: str, value: Any, wanted: Any) -> Any:
        """`value` with dropout in the parts that are wanted."""
        if not self._drops(what):
            return value
        chosen = _chosen(value, wanted, self._filter if what == "state" else None)
        made = [self._drop(x, self._keep[what], None if self._noise is None else self._noise[what][number]) if hit else x
                for number, (x, hit) in enumerate(zip(flatten(value), chosen))]
        found = iter(made)
        return map_structure(lambda _: next(found), value)

    def _drop(self, x: Tensor, keep: Any, noise: Tensor | None) -> Tensor:
        if noise is None:
            made: Tensor = ops.dropout(x, keep, seed=self._seed)
            return made
        share = convert(keep, x.dtype)
        return x / share * ops.floor(noise + share)


def _chosen(value: Any, wanted: Any, visitor: Callable[[Any], Any] | None) -> list[bool]:
    """For each leaf of `value`, is it dropped? A part that is wanted is asked for its own parts."""
    if not isinstance(value, (list, tuple)):
        return [bool(wanted)]
    inner = wanted if isinstance(wanted, (list, tuple)) else [wanted] * len(value)
    return [leaf for part, hit in zip(value, inner) for leaf in (
        [False] * len(flatten(part)) if hit is False
        else _chosen(part, hit if visitor is None or hit is not True else visitor(part), visitor))]


class ResidualWrapper(Wrapper):
    """Adds a cell's inputs to its outputs, which are equally wide, or joins both as `residual_fn(inputs, outputs)` does."""

    def __init__(self, cell: RNNCell, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._join = residual_fn

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        output, new = self._cell(inputs, state, scope)
        if self._join is not None:
            return self._join(inputs, output), new
        return map_structure(lambda x, y: y + convert(x), inputs if isinstance(output, tuple) else convert(inputs), output), new


class DeviceWrapper(Wrapper):
    """A cell whose steps, and state of zeros, are on `device`."""

    def __init__(self, cell: RNNCell, device: Any) -> None:
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with get_default_graph().device(self._device):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        with get_default_graph().device(self._device):
            return self._cell(inputs, state, scope)


class OutputProjectionWrapper(Wrapper):
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


class InputProjectionWrapper(Wrapper):
    """A linear map of a cell's inputs to `num_proj` numbers."""

    def __init__(self, cell: RNNCell, num_proj: int, activation: Callable[..., Any] | None = None,
                 input_size: Any = None, reuse: Any = None) -> None:
        super().__init__(cell, reuse)
        refuse("InputProjectionWrapper", "the width of the inputs is read from their shape", input_size=input_size)
        self._size, self._activation = num_proj, activation

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        projected = self.linear([inputs], self._size)
        return self._cell(projected if self._activation is None else self._activation(projected), state)


class EmbeddingWrapper(Wrapper):
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


class CompiledWrapper(Wrapper):
    """The cell: every graph is compiled here."""

    def __init__(self, cell: RNNCell, compile_stateful: bool = False) -> None:
        super().__init__(cell)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        return self._cell(inputs, state, scope)


class HighwayWrapper(Wrapper):
    """carry · inputs + transform · outputs, with gates of the inputs (Srivastava, Greff, Schmidhuber 2015).

    Variables `carry_w`, `carry_b` (from `carry_bias_init`) and, unless transform is 1 - carry, `transform_w`, `transform_b`,
    in the scope that the cell is called in. ShapeError where inputs and outputs differ in width.
    """

    def __init__(self, cell: RNNCell, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._coupled, self._bias = couple_carry_transform_gates, carry_bias_init

    def _gate(self, x: Tensor, name: str, start: float) -> Tensor:
        width = self.width([x])
        weights = self.variable(f"{name}_w", [width, width], x.dtype)
        made: Tensor = ops.sigmoid(ops.xw_plus_b(x, weights, self.variable(f"{name}_b", [width], x.dtype, Constant(start))))
        return made

    def _highway(self, x: Tensor, y: Tensor) -> Tensor:
        x.shape.merge(y.shape, "HighwayWrapper: inputs and outputs")
        carry = self._gate(x, "carry", self._bias)
        return x * carry + y * (1.0 - carry if self._coupled else self._gate(x, "transform", -self._bias))

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        output, new = self._cell(inputs, state, scope)
        return map_structure(self._highway, map_structure(convert, inputs) if isinstance(output, tuple) else convert(inputs),
                             output), new


class AttentionCellWrapper(Wrapper):
    """A cell that attends to its last `attn_length` outputs (after Bahdanau, Cho, Bengio 2014).

    Outputs are `attn_size` wide (by default as the cell's), scores come from `attn_vec_size` features (by default as many),
    the cell reads `input_size` numbers (by default as wide as the inputs). The state is (the cell's, what was attended to
    [batch, attn_size], the outputs [batch, attn_size · attn_length]), or one tensor of them. Variables: `kernel` and `bias`,
    `attn_w`, `attn_v`, `kernel` and `bias` below `attention`, `kernel` and `bias` below `attn_output_projection`.
    """

    def __init__(self, cell: RNNCell, attn_length: int, attn_size: int | None = None, attn_vec_size: int | None = None,
                 input_size: int | None = None, state_is_tuple: bool = True, reuse: Any = None) -> None:
        super().__init__(cell, reuse)
        if attn_length <= 0:
            raise errors.InvalidArgumentError(f"AttentionCellWrapper: attn_length should be greater than zero, got "
                                              f"{attn_length}; give how many outputs to look back")
        if isinstance(cell.state_size, tuple) and not state_is_tuple:
            raise errors.InvalidArgumentError(f"AttentionCellWrapper: Cell returns tuple of states {cell.state_size}, but "
                                              "state_is_tuple is not set; set it")
        self._length, self._size, self._state_is_tuple = attn_length, attn_size or cell.output_size, state_is_tuple
        self._features, self._input = attn_vec_size or self._size, input_size

    @property
    def state_size(self) -> Any:
        size = (self._cell.state_size, self._size, self._size * self._length)
        return size if self._state_is_tuple else sum(size)

    @property
    def output_size(self) -> int:
        return self._size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return RNNCell.zero_state(self, batch_size, dtype)

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        inner, seen, before = state if self._state_is_tuple else ops.split(
            state, num_or_size_splits=[self._cell.state_size, self._size, self._size * self._length], axis=1)
        window = ops.reshape(before, [-1, self._length, self._size])
        output, inner = self._cell(self.linear([inputs, seen], self._input or self.width([inputs])), inner)
        seen = self._attend(joined(flatten(inner)), window)
        output = self.linear([output, seen], self._size, "attn_output_projection/")
        window = ops.concat([window[:, 1:], ops.expand_dims(output, 1)], axis=1)
        new = (inner, seen, ops.reshape(window, [-1, self._length * self._size]))
        return output, new if self._state_is_tuple else ops.concat(list(new), axis=1)

    def _attend(self, query: Tensor, window: Tensor) -> Tensor:
        """The outputs [batch, length, size] weighted by how well they fit the query."""
        weights = self.variable("attention/attn_w", [1, 1, self._size, self._features], query.dtype)
        v = self.variable("attention/attn_v", [self._features], query.dtype)
        flat = ops.matmul(ops.reshape(window, [-1, self._size]), ops.reshape(weights, [self._size, self._features]))
        asked = ops.expand_dims(self.linear([query], self._features, "attention/"), 1)
        scores = ops.reduce_sum(v * ops.tanh(ops.reshape(flat, [-1, self._length, self._features]) + asked), axis=[2])
        share = ops.expand_dims(ops.softmax(scores), 2)
        found: Tensor = ops.reduce_sum(share * window, axis=[1])
        return found
