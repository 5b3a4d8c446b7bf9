"""Decoding sequences step by step: decoders, and the helpers that say what they read next, as tf.contrib.seq2seq has them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.embedding import embedding_lookup
from workbench.nn.nest import flatten, map_structure, pack_sequence_as
from workbench.nn.recurrent.rnn import lengths_of
from workbench.nn.scopes import variable_scope
from workbench.nn.tensor_array import TensorArray

__all__ = ["BasicDecoder", "BasicDecoderOutput", "CustomHelper", "Decoder", "GreedyEmbeddingHelper", "Helper",
           "InferenceHelper", "SampleEmbeddingHelper", "ScheduledEmbeddingTrainingHelper", "ScheduledOutputTrainingHelper",
           "TrainingHelper", "dynamic_decode", "hardmax", "tile_batch"]


class Decoder:
    """What dynamic_decode runs: `batch_size`, `output_size`, `output_dtype`; `initialize()` gives (finished, inputs, state),
    `step(time, inputs, state)` gives (outputs, state, inputs, finished)."""

    batch_size: Any
    output_size: Any
    output_dtype: Any

    def initialize(self,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        """(is each sequence finished, first inputs, first state)."""
        raise errors.UnimplementedError(f"{type(self).__name__}: initialize() is missing; define it")

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        """(outputs, next state, next inputs, is each sequence finished)."""
        raise errors.UnimplementedError(f"{type(self).__name__}: step(time, inputs, state) is missing; define it")

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """(outputs, state) as they are handed out."""
        return outputs, final_state

    @property
    def tracks_own_finished(self) -> bool:
        """Does `step` say of all sequences whether they are finished? Else those that once were stay so."""
        return False


def dynamic_decode(decoder: Decoder, output_time_major: bool = False, impute_finished: bool = False,
                   maximum_iterations: Any = None, parallel_iterations: int = 32, swap_memory: bool = False,
                   scope: Any = None) -> tuple[Any, Any, Tensor]:
    """(outputs [batch, time, ...], or time first, last state, lengths int32 [batch]): steps until all sequences are finished.

    With `impute_finished` the outputs of a finished sequence are zeros and its state stays. TypeError for what is no Decoder.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with variable_scope(scope, "decoder"):
        finished, inputs, state = decoder.initialize()
        limit = None if maximum_iterations is None else ops.cast(convert(maximum_iterations), "int32")
        if limit is not None:
            finished = ops.logical_or(finished, limit <= 0)
        shapes, dtypes = flatten_sizes(decoder.output_size), flatten(decoder.output_dtype)
        arrays = [TensorArray(dtype, 0, dynamic_size=True, element_shape=Shape([None]) + shape)
                  for shape, dtype in zip(shapes, dtypes)]

        lengths = ops.zeros_like(finished, dtype="int32")
        start = [ops.constant(0), arrays, state, inputs, finished, lengths]
        _, arrays, state, _, _, lengths = ops.while_loop(
            lambda _time, _arrays, _state, _inputs, finished, _lengths: ops.logical_not(ops.reduce_all(finished)),
            _turn(decoder, limit, impute_finished), start,
            parallel_iterations=parallel_iterations)
        outputs = pack_sequence_as(decoder.output_dtype, [array.stack() for array in arrays])
        outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = map_structure(_batch_first, outputs)
        return outputs, state, lengths


def _turn(decoder: Decoder, limit: Any, impute: bool) -> Callable[..., Any]:
    """One step of the loop."""
    def body(time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
        outputs, new, following, done = decoder.step(time, inputs, state)
        done = done if decoder.tracks_own_finished else ops.logical_or(done, finished)
        if limit is not None:
            done = ops.logical_or(done, time + 1 >= limit)
        lengths = ops.where(finished, lengths, ops.fill(ops.shape(lengths), time + 1))
        if impute:
            outputs = map_structure(lambda out: ops.where(finished, ops.zeros_like(out), out), outputs)
            new = map_structure(lambda a, b: _kept(finished, a, b), new, state)
        arrays = [array.write(time, out) for array, out in zip(arrays, flatten(outputs))]
        return time + 1, arrays, new, following, done, lengths
    return body


def flatten_sizes(size: Any) -> list[Shape]:
    """The shapes of outputs, from numbers and shapes."""
    if isinstance(size, Shape):
        return [size]
    if isinstance(size, tuple):
        return [shape for item in size for shape in flatten_sizes(item)]
    return [Shape([int(size)])]


def _kept(finished: Any, new: Any, old: Any) -> Any:
    if not isinstance(new, Tensor) or new.shape.rank == 0:
        return new
    return ops.where(finished, old, new)


def _batch_first(x: Tensor) -> Tensor:
    rank = x.shape.rank or 2
    return ops.transpose(x, [1, 0, *range(2, rank)])


class BasicDecoderOutput(NamedTuple):
    """What a BasicDecoder gives each step."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell whose outputs, through `output_layer` if given, are sampled by a helper, which also says what is read next."""

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None) -> None:
        self._cell, self._helper, self._state, self._layer = cell, helper, initial_state, output_layer
        self._sizes: Shape | None = None

    @property
    def batch_size(self) -> Any:
        """How many sequences."""
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        """The width of the outputs and of the samples."""
        width = self._cell.output_size
        if self._layer is not None:
            units = getattr(self._layer, "units", None)
            width = Shape([units]) if units is not None else Shape([None])
        return BasicDecoderOutput(width, self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        """The dtypes of the outputs and of the samples."""
        return BasicDecoderOutput(flatten(self._state)[0].dtype, self._helper.sample_ids_dtype)

    def initialize(self,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        return (*self._helper.initialize(), self._state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        outputs, state = self._cell(inputs, state)
        if self._layer is not None:
            outputs = self._layer(outputs)
        ids = self._helper.sample(time=time, outputs=outputs, state=state)
        finished, following, state = self._helper.next_inputs(time=time, outputs=outputs, state=state, sample_ids=ids)
        return BasicDecoderOutput(outputs, ids), state, following, finished


class Helper:
    """What a BasicDecoder reads: the first inputs, samples of its outputs, the inputs after them."""

    batch_size: Any
    sample_ids_shape: Any = Shape([])
    sample_ids_dtype: Any = "int32"

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """(is each sequence finished, first inputs)."""
        raise errors.UnimplementedError(f"{type(self).__name__}: initialize() is missing; define it")

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Samples of the outputs."""
        raise errors.UnimplementedError(f"{type(self).__name__}: sample(time, outputs, state) is missing; define it")

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        """(is each sequence finished, next inputs, state)."""
        raise errors.UnimplementedError(f"{type(self).__name__}: next_inputs(…) is missing; define it")


class CustomHelper(Helper):
    """A helper of three functions."""

    def __init__(self, initialize_fn: Callable[..., Any], sample_fn: Callable[..., Any], next_inputs_fn: Callable[..., Any],
                 sample_ids_shape: Any = None, sample_ids_dtype: Any = None) -> None:
        self._functions = initialize_fn, sample_fn, next_inputs_fn
        self.sample_ids_shape = Shape([]) if sample_ids_shape is None else Shape(sample_ids_shape)
        self.sample_ids_dtype = sample_ids_dtype or "int32"
        self._size: Any = None

    @property
    def batch_size(self) -> Any:
        """How many sequences, once it is initialised."""
        if self._size is None:
            raise errors.InvalidArgumentError("CustomHelper: batch_size accessed before initialize was called; call it first")
        return self._size

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        finished, inputs = self._functions[0]()
        self._size = ops.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._functions[1](time=time, outputs=outputs, state=state)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        return self._functions[2](time=time, outputs=outputs, state=state, sample_ids=sample_ids)


def _best(outputs: Any) -> Tensor:
    """The class of each row that has the largest output, int32."""
    made: Tensor = ops.cast(ops.argmax(outputs, axis=-1), "int32")
    return made


class TrainingHelper(Helper):
    """Reads given inputs [batch, time, ...] (nested; `time_major`: time first) of given lengths; samples are the best."""

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None) -> None:
        given = map_structure(convert, inputs)
        self._rows = given if time_major else map_structure(_batch_first, given)
        self.sequence_length = ops.cast(convert(sequence_length), "int32", name=name)
        if self.sequence_length.shape.rank not in (1, None):
            raise errors.ShapeError("TrainingHelper: Expected sequence_length to be a vector, but received shape: "
                                    f"{self.sequence_length.shape}; give one length for each sequence")
        self.sequence_length = lengths_of(self.sequence_length, self._rows, 1)
        self.batch_size = ops.size(self.sequence_length)

    def _at(self, time: Any) -> Any:
        return map_structure(lambda rows: ops.gather(rows, time), self._rows)

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        return ops.equal(0, self.sequence_length), self._at(0)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return _best(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        last = ops.shape(flatten(self._rows)[0])[0] - 1
        return time + 1 >= self.sequence_length, self._at(ops.minimum(time + 1, last)), state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """As TrainingHelper, but with `sampling_probability` an input is the embedding of what was sampled."""

    def __init__(self, inputs: Any, sequence_length: Any, embedding: Any, sampling_probability: Any, time_major: bool = False,
                 seed: int | None = None, scheduling_seed: int | None = None, name: str | None = None) -> None:
        super().__init__(inputs, sequence_length, time_major, name)
        self._embed = embedding if callable(embedding) else lambda ids: embedding_lookup(embedding, ids)
        self._probability, self._seed, self._second = sampling_probability, seed, scheduling_seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        taken = ops.random_uniform(ops.shape(outputs)[:1], seed=self._second) < self._probability
        drawn = ops.reshape(ops.cast(ops.multinomial(outputs, 1, seed=self._seed), "int32"), [-1])
        return ops.where(taken, drawn, ops.fill(ops.shape(drawn), -1))

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        made = self._embed(ops.maximum(sample_ids, 0))
        return finished, ops.where(sample_ids >= 0, made, given), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """As TrainingHelper, but with `sampling_probability` an input is the output before it, through `next_inputs_fn` if given.

    `auxiliary_inputs` [batch, time, ...] stand behind the inputs, whichever they are. Samples are 1 where that happened.
    """

    def __init__(self, inputs: Any, sequence_length: Any, sampling_probability: Any, time_major: bool = False,
                 seed: int | None = None, next_inputs_fn: Callable[[Any], Any] | None = None, auxiliary_inputs: Any = None,
                 name: str | None = None) -> None:
        given = inputs if auxiliary_inputs is None else map_structure(
            lambda x, more: ops.concat([convert(x), convert(more)], axis=-1), inputs, auxiliary_inputs)
        super().__init__(given, sequence_length, time_major, name)
        self._probability, self._seed, self._next = sampling_probability, seed, next_inputs_fn
        self._beside = None if auxiliary_inputs is None else TrainingHelper(auxiliary_inputs, sequence_length, time_major)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        drawn = ops.random_uniform(ops.stack([self.batch_size]), seed=self._seed)
        return ops.cast(drawn < self._probability, "int32")

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        made = outputs if self._next is None else self._next(outputs)
        if self._beside is not None:
            _, more, _ = self._beside.next_inputs(time, outputs, state, sample_ids)
            made = map_structure(lambda x, extra: ops.concat([x, extra], axis=-1), made, more)
        return finished, map_structure(lambda new, old: ops.where(sample_ids > 0, new, old), made, given), state


class GreedyEmbeddingHelper(Helper):
    """Reads the embedding (a table, or a function of ids) of the best output; finished at `end_token`."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embed = embedding if callable(embedding) else lambda ids: embedding_lookup(embedding, ids)
        self._start, self._end = ops.cast(convert(start_tokens), "int32"), ops.cast(convert(end_token), "int32")
        if self._start.shape.rank not in (1, None) or self._end.shape.rank not in (0, None):
            raise errors.ShapeError(f"GreedyEmbeddingHelper: start_tokens must be a vector and end_token must be a scalar; "
                                    f"they have shapes {self._start.shape} and {self._end.shape}")
        self.batch_size = ops.size(self._start)

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        return ops.zeros_like(self._start, dtype="bool"), self._embed(self._start)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return _best(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        return ops.equal(sample_ids, self._end), self._embed(sample_ids), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """As GreedyEmbeddingHelper, with ids drawn by the outputs as logits."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any, softmax_temperature: float | None = None,
                 seed: int | None = None) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        logits = outputs if self._temperature is None else outputs / self._temperature
        return ops.reshape(ops.cast(ops.multinomial(logits, 1, seed=self._seed), "int32"), [-1])


class InferenceHelper(Helper):
    """Reads its own samples: functions draw them, say where a sequence ends, and make inputs of them."""

    def __init__(self, sample_fn: Callable[[Any], Any], sample_shape: Any, sample_dtype: Any, start_inputs: Any,
                 end_fn: Callable[[Any], Any], next_inputs_fn: Callable[[Any], Any] | None = None) -> None:
        self._sample, self._end, self._next = sample_fn, end_fn, next_inputs_fn
        self.sample_ids_shape, self.sample_ids_dtype = Shape(sample_shape), sample_dtype
        self._start = convert(start_inputs)
        self.batch_size = ops.shape(self._start)[0]

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        return ops.fill([self.batch_size], False), self._start

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        following = sample_ids if self._next is None else self._next(sample_ids)
        return self._end(sample_ids), following, state


def hardmax(logits: Any, name: str | None = None) -> Tensor:
    """1 at the largest of the last axis, 0 elsewhere."""
    x = convert(logits)
    return ops.one_hot(ops.argmax(x, axis=-1), ops.shape(x)[-1], dtype=x.dtype, name=name)


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Each row `multiplier` times, one after the other; nested."""
    def tiled(x: Any) -> Tensor:
        x = convert(x)
        spread = ops.tile(ops.expand_dims(x, 1), [1, multiplier, *[1] * ((x.shape.rank or 1) - 1)])
        made = ops.reshape(spread, ops.concat([[ops.shape(x)[0] * multiplier], ops.shape(x)[1:]], axis=0), name=name)
        first = x.shape.as_list()[0]
        made.set_shape([None if first is None else first * multiplier, *x.shape.as_list()[1:]])
        return made
    return map_structure(tiled, t)
