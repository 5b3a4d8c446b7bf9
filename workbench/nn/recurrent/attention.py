"""Attention over a memory: scores of Bahdanau and Luong, and the cell that attends, as tf.contrib.seq2seq has them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.initializers import Constant, Zeros
from workbench.nn.layer_classes import Dense
from workbench.nn.recurrent.rnn_base import RNNCell
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.tensor_array import TensorArray

__all__ = ["AttentionMechanism", "AttentionWrapper", "AttentionWrapperState", "BahdanauAttention", "LuongAttention"]


class AttentionMechanism:
    """Scores of a query [batch, n] against a memory [batch, time, depth]: `mechanism(query, alignments)` [batch, time].

    Beyond `memory_sequence_length` memory is zero and scores are `score_mask_value`; keys are the memory through a layer of
    `num_units`; `probability_fn` (default: softmax) makes weights of scores.
    """

    _scope = "attention"      # of its variables

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any, probability_fn: Any, score_mask_value: Any,
                 name: str) -> None:
        self._units, self.name, self._mask = num_units, name, score_mask_value
        self._probability = probability_fn or ops.softmax
        values = convert(memory)
        self._lengths = None if memory_sequence_length is None else convert(memory_sequence_length)
        if self._lengths is not None:
            inside = ops.sequence_mask(self._lengths, ops.shape(values)[1], dtype=values.dtype)
            values = values * ops.expand_dims(inside, 2)
        self.values: Tensor = values
        self.keys: Tensor = Dense(num_units, use_bias=False, name="memory_layer")(values)
        self.batch_size = ops.shape(values)[0]

    @property
    def alignments_size(self) -> Any:
        """Length of the memory."""
        known = self.values.shape.as_list()[1]
        return ops.shape(self.values)[1] if known is None else known

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """The weights before the first step: zeros [batch, time]."""
        return ops.zeros(ops.stack([batch_size, self.alignments_size]), dtype)

    def _score(self, query: Tensor) -> Tensor:
        raise errors.UnimplementedError(f"{type(self).__name__}: _score(query) is missing; define it")

    def _weights(self, score: Tensor, _before: Any) -> Tensor:
        """Weights of the memory [batch, time] from scores; the weights of the step before are for who goes on from them."""
        found: Tensor = self._probability(score)
        return found

    def __call__(self, query: Any, previous_alignments: Any = None) -> Tensor:
        """Weights of the memory for a query; `previous_alignments` are those of the step before."""
        with variable_scope(None, self._scope):      # several in a cell have variables of their own
            score = self._score(convert(query))
            if self._lengths is not None:
                inside = ops.sequence_mask(self._lengths, ops.shape(score)[1])
                score = ops.where(inside, score, ops.ones_like(score) * self._mask)
            return self._weights(score, previous_alignments)


class LuongAttention(AttentionMechanism):
    """Scores query · key, with `scale` times a trained number. Source: Luong, Pham, Manning 2015."""

    _scope = "luong_attention"

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
                 probability_fn: Any = None, score_mask_value: Any = -np.inf, name: str = "LuongAttention") -> None:
        super().__init__(num_units, memory, memory_sequence_length, probability_fn, score_mask_value, name)
        self._scale = scale

    def _score(self, query: Tensor) -> Tensor:
        depth = query.shape.as_list()[-1]
        if depth != self._units:
            raise errors.ShapeError(f"LuongAttention: Incompatible or unknown inner dimensions between query and keys.  Query "
                                    f"({query.name}) has units: {depth}.  Keys ({self.keys.name}) have units: {self._units}.; "
                                    "make num_units the cell's output size")
        score = ops.squeeze(ops.matmul(ops.expand_dims(query, 1), self.keys, transpose_b=True), axis=[1])
        if self._scale:
            score = score * get_variable("attention_g", [], query.dtype, Constant(1.0))
        return score


class BahdanauAttention(AttentionMechanism):
    """Scores v · tanh(key + query through a layer), `normalize`d if asked. Source: Bahdanau, Cho, Bengio 2015."""

    _scope = "bahdanau_attention"

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
                 probability_fn: Any = None, score_mask_value: Any = -np.inf, name: str = "BahdanauAttention") -> None:
        super().__init__(num_units, memory, memory_sequence_length, probability_fn, score_mask_value, name)
        self._normalize = normalize

    def _score(self, query: Tensor) -> Tensor:
        with variable_scope("query_layer"):
            kernel = get_variable("kernel", [query.shape.as_list()[-1], self._units], query.dtype)
        asked = ops.expand_dims(ops.matmul(query, kernel), 1)
        v = get_variable("attention_v", [self._units], query.dtype)
        if not self._normalize:
            return ops.reduce_sum(v * ops.tanh(self.keys + asked), axis=[2])
        g = get_variable("attention_g", [], query.dtype, Constant((1.0 / self._units) ** 0.5))
        b = get_variable("attention_b", [self._units], query.dtype, initializer=Zeros())
        length = ops.rsqrt(ops.reduce_sum(ops.square(v.value())))
        return ops.reduce_sum(g * v * length * ops.tanh(self.keys + asked + b), axis=[2])


class AttentionWrapperState(NamedTuple):
    """The state of an AttentionWrapper."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """The same with other parts."""
        return self._replace(**kwargs)


class AttentionWrapper(RNNCell):
    """A cell that reads its input beside what it attended to last, and attends with its output.

    The attention is the context (the memory weighted), or with `attention_layer_size` a layer of it and the output; it is the
    output too unless `output_attention` is False. With `alignment_history` the state keeps a TensorArray of the weights.
    """

    def __init__(self, cell: RNNCell, attention_mechanism: Any, attention_layer_size: Any = None,
                 alignment_history: bool = False, cell_input_fn: Callable[..., Any] | None = None,
                 output_attention: bool = True, initial_cell_state: Any = None, name: str | None = None) -> None:
        super().__init__(name or "attention_wrapper")
        several = isinstance(attention_mechanism, (list, tuple))
        self._mechanisms, self._several = list(attention_mechanism) if several else [attention_mechanism], several
        given = [None] * len(self._mechanisms) if attention_layer_size is None else attention_layer_size
        self._sizes = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(self._sizes) != len(self._mechanisms):
            raise errors.InvalidArgumentError(f"AttentionWrapper: {len(self._mechanisms)} mechanisms but {len(self._sizes)} "
                                              "attention_layer_size; give one for each")
        self._cell, self._history, self._output, self._start = cell, alignment_history, output_attention, initial_cell_state
        self._join = cell_input_fn or (lambda inputs, attention: ops.concat([inputs, attention], axis=-1))

    @property
    def _width(self) -> int:
        return sum(m.values.shape.as_list()[-1] if size is None else size for m, size in zip(self._mechanisms, self._sizes))

    @property
    def output_size(self) -> int:
        return self._width if self._output else self._cell.output_size

    @property
    def state_size(self) -> Any:
        sizes = [m.alignments_size for m in self._mechanisms]
        return AttentionWrapperState(self._cell.state_size, self._width, (), sizes if self._several else sizes[0], ())

    def _one_or_all(self, items: list[Any]) -> Any:
        return tuple(items) if self._several else items[0]

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        start = self._cell.zero_state(batch_size, dtype) if self._start is None else self._start
        history: Any = ()
        if self._history:
            history = self._one_or_all([TensorArray(dtype, 0, dynamic_size=True) for _ in self._mechanisms])
        return AttentionWrapperState(
            start, ops.zeros(ops.stack([batch_size, self._width]), dtype), ops.constant(0),
            self._one_or_all([m.initial_alignments(batch_size, dtype) for m in self._mechanisms]), history)

    def call(self, inputs: Tensor, state: AttentionWrapperState) -> tuple[Any, Any]:
        output, cell_state = self._cell(self._join(inputs, state.attention), state.cell_state)
        before = list(state.alignments) if self._several else [state.alignments]
        arrays = list(state.alignment_history) if self._several else [state.alignment_history]
        attentions, weights, histories = [], [], []
        for number, (mechanism, size) in enumerate(zip(self._mechanisms, self._sizes)):
            found = mechanism(output, before[number])
            context = ops.squeeze(ops.matmul(ops.expand_dims(found, 1), mechanism.values), axis=[1])
            if size is not None:
                with variable_scope("attention_layer" if not number else f"attention_layer_{number}"):
                    both = ops.concat([output, context], axis=1)
                    context = ops.matmul(both, get_variable("kernel", [both.shape.as_list()[-1], size], both.dtype))
            attentions.append(context)
            weights.append(found)
            histories.append(arrays[number].write(state.time, found) if self._history else ())
        attention = ops.concat(attentions, axis=1)
        attention.set_shape([None, self._width])
        new = AttentionWrapperState(cell_state, attention, state.time + 1, self._one_or_all(weights),
                                    self._one_or_all(histories) if self._history else ())
        return (attention if self._output else output), new
