"""Decoding by a search over beams: the most probable of several continuations of each sequence go on."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.embedding import embedding_lookup
from workbench.nn.nest import flatten, map_structure
from workbench.nn.recurrent.attention import AttentionWrapperState
from workbench.nn.recurrent.decoders import Decoder
from workbench.nn.recurrent.rnn_base import RNNCell
from workbench.nn.tensor_array import TensorArray

__all__ = ["BeamSearchDecoder", "BeamSearchDecoderOutput", "BeamSearchDecoderState", "FinalBeamSearchDecoderOutput",
           "gather_tree"]


class BeamSearchDecoderState(NamedTuple):
    """Where a search is: states of the cell [batch, beams, …], log probabilities, finished and lengths [batch, beams], and
    what attention each place got so far [batch, beams, time], () where no coverage is counted."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any = ()


class BeamSearchDecoderOutput(NamedTuple):
    """What a step chose, each [batch, beams]: scores, ids, and the beams that they go on from."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The ids of each beam [batch, time, beams], the best first, -1 behind their ends; and what each step chose."""

    predicted_ids: Any
    beam_search_decoder_output: Any


def gather_tree(step_ids: Any, parent_ids: Any, sequence_length: Any = None, name: str | None = None,
                max_sequence_lengths: Any = None, end_token: Any = None) -> Tensor:
    """int [time, batch, beams]: the ids on the path of each beam through `step_ids` and `parent_ids` of that shape.

    A path has `sequence_length` [batch, beams] steps, and is -1 beyond; or it has `max_sequence_lengths` [batch], ends at the
    first `end_token`, and is that beyond.
    InvalidArgumentError unless one of the two is given, and in a step for a parent that is no beam. Source: Wu et al. 2016.
    """
    ids = convert(step_ids)
    if (sequence_length is None) == (max_sequence_lengths is None):
        raise errors.InvalidArgumentError(f"gather_tree: sequence_length is {sequence_length} and max_sequence_lengths "
                                          f"{max_sequence_lengths}; give one of them")
    if sequence_length is None:
        beams = ops.fill(ops.stack([1, ops.shape(ids)[2]]), 0)
        lengths = ops.expand_dims(ops.cast(convert(max_sequence_lengths), "int32"), 1) + beams
    else:
        lengths = ops.cast(convert(sequence_length), "int32")
    end = ops.cast(convert(-1 if end_token is None else end_token), ids.dtype)
    found: Tensor = ops.tree_paths(ids, ops.cast(convert(parent_ids), ids.dtype), lengths, end, name=name)
    return found


class BeamSearchDecoder(Decoder):
    """Decodes with `beam_width` continuations of each sequence, by dynamic_decode.

    `embedding` is a table or a function of ids; sequences begin with `start_tokens` int32 [batch] and end with `end_token`.
    `initial_state` is the cell's for batch · beam_width rows (tile_batch makes it). Scores are the log probability divided by
    ((5 + length) / 6) ** length_penalty_weight, plus, for beams that have finished, coverage_penalty_weight times the sum of
    log(min(attention so far, 1)) over the places that got some. Source: Wu et al. 2016. A step's finished beams put all
    probability on the end token; lengths count that token from the step behind it on. TypeError for a state that keeps a
    TensorArray.
    """

    def __init__(self, cell: RNNCell, embedding: Any, start_tokens: Any, end_token: Any, initial_state: Any, beam_width: int,
                 output_layer: Any = None, length_penalty_weight: float = 0.0, coverage_penalty_weight: float = 0.0) -> None:
        self._coverage = coverage_penalty_weight
        self._cell, self._layer, self._width, self._penalty = cell, output_layer, beam_width, length_penalty_weight
        self._embed = embedding if callable(embedding) else lambda ids: embedding_lookup(embedding, ids)
        self._start, self._end = ops.cast(convert(start_tokens), "int32"), ops.cast(convert(end_token), "int32")
        if self._start.shape.rank != 1 or self._end.shape.rank != 0:
            raise errors.ShapeError(f"BeamSearchDecoder: start_tokens must be a vector and end_token must be a scalar; they "
                                    f"have shapes {self._start.shape} and {self._end.shape}")
        if any(isinstance(part, TensorArray) for part in flatten(initial_state)):
            raise TypeError("TensorArray state is not supported by BeamSearchDecoder; make the cell without alignment_history")
        self.batch_size, self._rows = ops.size(self._start), self._start.shape.as_list()[0]
        self._state = map_structure(lambda t: self._apart(convert(t)), initial_state)
        self._dtype = flatten(self._state)[0].dtype

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams change their places from step to step."""
        return True

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        """The number of beams for each part."""
        size = Shape([self._width])
        return BeamSearchDecoderOutput(size, size, size)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        """Scores are of the state's dtype, ids and parents int32."""
        return BeamSearchDecoderOutput(self._dtype, "int32", "int32")

    def _apart(self, x: Tensor) -> Tensor:
        """[batch · beams, …] as [batch, beams, …]; scalars as they are."""
        if x.shape.rank is None:
            raise errors.ShapeError(f"BeamSearchDecoder: {x.name} has shape {x.shape}; parts of the state need a known rank")
        if x.shape.rank == 0:
            return x
        made = ops.reshape(x, ops.concat([ops.stack([self.batch_size, self._width]), ops.shape(x)[1:]], axis=0))
        made.set_shape([self._rows, self._width, *x.shape.as_list()[1:]])
        return made

    def _together(self, x: Tensor) -> Tensor:
        """[batch, beams, …] as [batch · beams, …]; scalars as they are."""
        if not x.shape.rank:
            return x
        made = ops.reshape(x, ops.concat([[self.batch_size * self._width], ops.shape(x)[2:]], axis=0))
        made.set_shape([None if self._rows is None else self._rows * self._width, *x.shape.as_list()[2:]])
        return made

    def _taken(self, x: Tensor, beams: Tensor) -> Tensor:
        """The rows of x [batch · beams, …] for the beams [batch, beams] chosen, as [batch, beams, …]; scalars as they are."""
        if not x.shape.rank:
            return x
        first = ops.expand_dims(ops.range(self.batch_size) * self._width, 1)
        return self._apart(ops.gather(x, ops.reshape(beams + first, [-1])))

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        nothing = ops.zeros(ops.stack([self.batch_size, self._width]), "int32")
        finished = ops.not_equal(nothing, 0)
        alone = ops.one_hot(ops.zeros_like(self._start), self._width, on_value=True, off_value=False, dtype="bool")
        zeros = ops.cast(nothing, self._dtype)
        start = ops.where(alone, zeros, zeros - np.inf)      # all beams are equal at first: one of them counts
        inputs = self._embed(ops.expand_dims(self._start, 1) + nothing)
        return finished, inputs, BeamSearchDecoderState(self._state, start, finished, nothing, self._attention(self._state))

    def _counts_coverage(self) -> bool:
        return not isinstance(self._coverage, (int, float)) or self._coverage != 0

    def _attention(self, cell_state: Any) -> Any:
        """The weights of the memory [batch, beams, time], side by side for several attentions; () where none are asked for.

        InvalidArgumentError (a ValueError) where the cell does not attend.
        """
        if not self._counts_coverage():
            return ()
        parts = cell_state if type(cell_state) is tuple else [cell_state]
        found = [part.alignments for part in parts if isinstance(part, AttentionWrapperState)]
        if not found:
            raise errors.InvalidArgumentError(f"BeamSearchDecoder: coverage_penalty_weight is {self._coverage} but the cell's "
                                              "state tells no attention; use an AttentionWrapper, or 0")
        return found[0] if len(found) == 1 else ops.concat(found, axis=-1)

    def _covered(self, state: BeamSearchDecoderState, cell_state: Any) -> Any:
        """What attention each place got with this step."""
        if not self._counts_coverage():
            return ()
        goes_on = ops.cast(ops.logical_not(state.finished), self._dtype)
        return state.accumulated_attention_probs + self._attention(cell_state) * ops.expand_dims(goes_on, 2)

    def _scored(self, logits: Tensor, state: BeamSearchDecoderState, classes: Tensor) -> tuple[Tensor, Tensor]:
        """(log probabilities, scores) [batch, beams, classes] of every continuation."""
        finished = ops.expand_dims(state.finished, 2)
        ended = ops.one_hot(self._end, classes, dtype="float32") > 0.5
        only_end = ops.where(ended, ops.zeros([], logits.dtype), convert(np.finfo(logits.dtype.numpy).min, logits.dtype))
        total = ops.expand_dims(state.log_probs, 2) + ops.select(finished, only_end, ops.log_softmax(logits))
        if isinstance(self._penalty, (int, float)) and self._penalty == 0:
            return total, total
        longer = ops.cast(ops.logical_not(ops.logical_or(finished, ended)), "int32")
        lengths = ops.cast(ops.expand_dims(state.lengths, 2) + longer, total.dtype)
        return total, total / ops.pow((5.0 + lengths) / 6.0, convert(self._penalty, total.dtype))

    def _uncovered(self, state: BeamSearchDecoderState, covered: Tensor) -> Tensor:
        """[batch, beams, 1]: below 0 for beams that have finished without attention to places that they began to look at."""
        seen = ops.select(ops.equal(covered, 0.0), ops.ones_like(covered), covered)
        found = ops.reduce_sum(ops.log(ops.minimum(seen, 1.0)), 2) * ops.cast(state.finished, self._dtype)
        return ops.expand_dims(found, 2)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        outputs, cell_state = self._cell(map_structure(self._together, inputs), map_structure(self._together, state.cell_state))
        logits = self._apart(outputs)
        if self._layer is not None:
            logits = self._layer(logits)
        classes = ops.shape(logits)[2]
        total, scores = self._scored(logits, state, classes)
        covered = self._covered(state, map_structure(self._apart, cell_state))
        if self._counts_coverage():
            scores = scores + self._coverage * self._uncovered(state, covered)
        flat = ops.stack([self.batch_size, self._width * classes])
        best, places = ops.top_k(ops.reshape(scores, flat), self._width)
        words, parents = ops.floormod(places, classes), ops.floordiv(places, classes)
        rows = ops.expand_dims(ops.range(self.batch_size) * self._width * classes, 1)
        log_probs = ops.gather(ops.reshape(total, [-1]), places + rows)
        for chosen in (best, words, parents, log_probs):
            chosen.set_shape([self._rows, self._width])
        before = self._taken(self._together(state.finished), parents)
        lengths = self._taken(self._together(state.lengths), parents) + ops.cast(ops.logical_not(before), "int32")
        finished = ops.logical_or(before, ops.equal(words, self._end))
        new = BeamSearchDecoderState(map_structure(lambda x: self._taken(x, parents), cell_state), log_probs, finished, lengths,
                                     self._taken(self._together(covered), parents) if self._counts_coverage() else ())
        return BeamSearchDecoderOutput(best, words, parents), new, self._embed(words), finished

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        paths = gather_tree(outputs.predicted_ids, outputs.parent_ids, end_token=self._end,
                            max_sequence_lengths=ops.reduce_max(final_state.lengths, axis=1))
        return FinalBeamSearchDecoderOutput(paths, outputs), final_state
