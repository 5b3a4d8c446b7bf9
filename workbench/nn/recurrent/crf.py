"""Conditional random fields over sequences of tags: scores, likelihoods, the best sequence."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.recurrent.rnn import lengths_of
from workbench.nn.recurrent.rnn_base import PlainCell
from workbench.nn.scopes import get_variable

__all__ = ["CrfDecodeBackwardRnnCell", "CrfDecodeForwardRnnCell", "CrfForwardRnnCell", "crf_binary_score", "crf_decode",
           "crf_log_likelihood", "crf_log_norm", "crf_sequence_score", "crf_unary_score", "viterbi_decode"]


def _mask(lengths: Any, most: Any, dtype: Any) -> Tensor:
    return ops.sequence_mask(convert(lengths), most, dtype=dtype)


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Tensor:
    """[batch]: the sum of the scores `inputs` [batch, time, tags] of the tags `tag_indices` [batch, time]."""
    x, tags = convert(inputs), convert(tag_indices)
    chosen = ops.reduce_sum(x * ops.one_hot(tags, ops.shape(x)[2], dtype=x.dtype), axis=2)
    return ops.reduce_sum(chosen * _mask(sequence_lengths, ops.shape(tags)[1], x.dtype), axis=1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """[batch]: the sum of the transitions [tags, tags] from each tag to the next."""
    tags, table = convert(tag_indices), convert(transition_params)
    count = ops.shape(table)[0]
    places = ops.cast(tags[:, :-1], "int32") * count + ops.cast(tags[:, 1:], "int32")
    steps = ops.gather(ops.reshape(table, [-1]), places)
    inside = _mask(ops.maximum(convert(sequence_lengths) - 1, 0), ops.shape(tags)[1] - 1, table.dtype)
    return ops.reduce_sum(steps * inside, axis=1)


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """[batch]: the score of a sequence of tags, not normalized."""
    return (crf_unary_score(tag_indices, sequence_lengths, inputs)
            + crf_binary_score(tag_indices, sequence_lengths, transition_params))


class CrfForwardRnnCell(PlainCell):
    """A step forwards: from log sums [batch, tags] over sequences so far and scores [batch, tags] to the next log sums."""

    def __init__(self, transition_params: Any) -> None:
        super().__init__()
        self._table = ops.expand_dims(convert(transition_params), 0)
        self._num_units = int(self._table.shape.as_list()[1] or 0)

    def _sums(self, state: Any) -> Tensor:
        """[batch, tags before, tags]: what was so far, and a transition."""
        return ops.expand_dims(convert(state), 2) + self._table

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        new = inputs + ops.reduce_logsumexp(self._sums(state), axis=1)
        return new, new


class CrfDecodeForwardRnnCell(CrfForwardRnnCell):
    """A step forwards in search of the best: outputs are the tags int32 [batch, tags] before each tag, the state their best
    scores [batch, tags]."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        options = self._sums(state)
        return ops.cast(ops.argmax(options, axis=1), "int32"), inputs + ops.reduce_max(options, axis=1)


class CrfDecodeBackwardRnnCell(PlainCell):
    """A step backwards: of the tags int32 [batch, tags] before each tag that before the state's, int32 [batch, 1]."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self._tags, self._num_units = num_tags, 1

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        chosen = ops.one_hot(ops.squeeze(convert(state), axis=[1]), self._tags, dtype=inputs.dtype)
        new = ops.reduce_sum(inputs * chosen, axis=1, keepdims=True)
        return new, new


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """[batch]: log of the sum of exp(score) over all sequences of tags."""
    x = convert(inputs)
    lengths = lengths_of(sequence_lengths, x, 0)
    cell = CrfForwardRnnCell(transition_params)

    def step(alphas: Any, given: Any) -> Any:
        scores, time = given
        return ops.where(time < lengths, cell.call(scores, alphas)[1], alphas)
    times = ops.range(1, ops.shape(x)[1])
    last = ops.foldl(step, (ops.transpose(x[:, 1:], [1, 0, 2]), times), initializer=x[:, 0])
    total = ops.reduce_logsumexp(last, axis=1)
    return ops.where(lengths > 0, total, ops.zeros_like(total))


def crf_log_likelihood(inputs: Any, tag_indices: Any, sequence_lengths: Any,
                       transition_params: Any = None) -> tuple[Tensor, Any]:
    """(log likelihood of the tags [batch], transitions): a variable `transitions` [tags, tags] where none are given."""
    x = convert(inputs)
    if transition_params is None:
        tags = x.shape.as_list()[2]
        transition_params = get_variable("transitions", [tags, tags], x.dtype)
    score = crf_sequence_score(x, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(x, sequence_lengths, transition_params), transition_params


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], float]:
    """(the best sequence of tags, its score) of arrays: scores [time, tags], transitions [tags, tags]."""
    score, table = np.asarray(score), np.asarray(transition_params)
    best, back = score[0], np.zeros(score.shape, int)
    for time in range(1, len(score)):
        options = best[:, None] + table
        back[time] = options.argmax(0)
        best = score[time] + options.max(0)
    tags = [int(best.argmax())]
    for pointers in back[:0:-1]:
        tags.append(int(pointers[tags[-1]]))
    return tags[::-1], best.max()


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Tensor, Tensor]:
    """(the best tags int32 [batch, time], 0 beyond the lengths; their scores [batch])."""
    x = convert(potentials)
    lengths = lengths_of(sequence_length, x, 0)
    count, cell = ops.shape(x)[2], CrfDecodeForwardRnnCell(transition_params)

    def forward(state: Any, given: Any) -> Any:
        best, _ = state
        scores, time = given
        found, new = cell.call(scores, best)
        going = time < lengths
        stay = ops.zeros_like(ops.cast(best, "int32")) + ops.range(count)
        return ops.where(going, new, best), ops.where(going, found, stay)
    rows = (ops.transpose(x[:, 1:], [1, 0, 2]), ops.range(1, ops.shape(x)[1]))
    start = (x[:, 0], ops.zeros_like(ops.cast(x[:, 0], "int32")))
    bests, pointers = ops.scan(forward, rows, initializer=start)
    final = ops.concat([ops.expand_dims(x[:, 0], 0), bests], axis=0)[-1]
    last = ops.cast(ops.argmax(final, axis=1), "int32")

    def backward(tag: Any, found: Any) -> Any:
        return ops.reduce_sum(found * ops.one_hot(tag, count, dtype="int32"), axis=1)
    earlier = ops.scan(backward, pointers, initializer=last, reverse=True)
    tags = ops.transpose(ops.concat([earlier, ops.expand_dims(last, 0)], axis=0))
    return tags * _mask(lengths, ops.shape(x)[1], "int32"), ops.reduce_max(final, axis=1)
