"""Long sequences in segments: each goes through training piece by piece, its states saved between the pieces."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.framework import control_dependencies, name_scope
from workbench.nn.variables import group
from workbench.train.input.barriers import Barrier
from workbench.train.input.queues import FIFOQueue
from workbench.train.sessions.coordinator import QueueRunner, add_queue_runner

__all__ = ["NextQueuedSequenceBatch", "SequenceQueueingStateSaver", "batch_sequences_with_states"]

_FIXED = ("length", "total_length", "next_key", "sequence", "sequence_count")
_FIXED_TYPES = ("int32", "int32", "string", "int32", "int32")


def _checked(value: Tensor, holds: Any, *told: Any) -> Tensor:
    """`value`, once `holds` was found true in the step; else InvalidArgumentError with what is told."""
    text = ops.string_join([_text(one) for one in told])
    with control_dependencies([ops.Assert(holds, [text])]):
        found: Tensor = ops.identity(value)
    return found


def _text(one: Any) -> Any:
    """A tensor as text; text as it is."""
    return one if isinstance(one, str) or one.dtype.name == "string" else ops.as_string(one)


def _sorted(what: str, given: Mapping[str, Any], first: int = 0) -> dict[str, Tensor]:
    """Tensors by name, in order; their shapes must be known, from axis `first` on."""
    found = {name: convert(given[name], name=f"{what}_{name}") for name in sorted(given)}
    for name, x in found.items():
        if x.shape.rank is None or None in x.shape.as_list()[first:]:
            raise errors.ShapeError(f"SequenceQueueingStateSaver: Shape for {what} {name} is not fully defined"
                                    f"{' (ignoring first dimension)' if first else ''}: {x.shape}; use set_shape")
    return found


def _scalar(what: str, value: Any, dtype: str) -> Tensor:
    x = convert(value)
    if x.dtype.name != dtype:
        raise errors.DtypeError(f"SequenceQueueingStateSaver: {what} dtype must be {dtype}, but received: {x.dtype.name}; "
                                "cast it")
    if x.shape.rank not in (None, 0):
        raise errors.ShapeError(f"SequenceQueueingStateSaver: Rank check failed for {what} {x.name}: {x.shape}; give a scalar")
    return _checked(x, ops.equal(ops.rank(x), 0), f"Rank of tensor {x.name} should be: 0")


class NextQueuedSequenceBatch:
    """The batch of segments that a SequenceQueueingStateSaver gives, [batch, …] each; steps read it and save states for what
    follows. Its tensors: `key`, `next_key`, `insertion_index`, `length` of the segment and `total_length` (int32 [batch]),
    `sequence`, the number of the segment, `sequence_count`, `batch_size`; `sequences` and `context` by name."""

    def __init__(self, state_saver: SequenceQueueingStateSaver) -> None:
        saver = self._saver = state_saver
        self.insertion_index, self.key, values = saver.barrier.take_many(saver.batch_size, saver.allow_small_batch)
        found = dict(zip(saver.components, values))
        self.length, self.total_length, self.next_key, self.sequence, self.sequence_count = (
            found["", name] for name in _FIXED)
        self.sequences: dict[str, Any] = {name: x for (kind, name), x in found.items() if kind == "sequence"}
        self.context: dict[str, Any] = {name: x for (kind, name), x in found.items() if kind == "context"}
        self.batch_size = ops.squeeze(ops.shape(self.length))
        done = ops.greater_equal(self.sequence + 1, self.sequence_count)
        self._going = ops.reshape(ops.where(ops.logical_not(done)), [-1])
        left = saver.room.dequeue_many(ops.reduce_sum(ops.cast(done, "int32")))
        with control_dependencies([left]):      # sequences that end make room
            self._states = {name: ops.identity(x) for (kind, name), x in found.items() if kind == "state"}

    def state(self, state_name: str) -> Tensor:
        """A state as the segment before left it. KeyError for one that was not declared."""
        if state_name not in self._states:
            raise errors.NotFoundError(f"state was not declared: {state_name}; the states are {', '.join(self._states)}")
        return self._states[state_name]

    def save_state(self, state_name: str, value: Any, name: str | None = None) -> Operation:
        """An operation that keeps `value` [batch, …] for the next segments; each state must be saved in each step.

        KeyError for a state that was not declared, ShapeError for another shape, in the step InvalidArgumentError.
        """
        state = self.state(state_name)
        with name_scope(name, "InputQueueingStateSaver_SaveState"):
            x = ops.identity(convert(value, state.dtype), name=f"convert_{state_name}")
            if x.shape.rank is not None and x.shape.rank != state.shape.rank:
                raise errors.ShapeError(f"Rank check failed for {x.name}: state {state_name} is {state.shape} but {x.shape} is "
                                        "saved; save what the state was")
            rank, title = state.shape.rank, x.name
            x = _checked(x, ops.equal(ops.rank(x), rank),
                         f"Rank of tensor {title} should be: {rank}, shape received:", "] ", _written(x))
            x = _checked(x, ops.reduce_all(ops.equal(ops.shape(x), ops.shape(state))),
                         f"Shape of tensor {title} should be: ", _written(state), ", shape received: ", _written(x))
            x.set_shape(state.shape)
            keys, rows = ops.gather(self.next_key, self._going), ops.gather(x, self._going)
            return self._saver.barrier.insert_many(self._saver.place("state", state_name), keys, rows)


def _written(x: Tensor) -> Tensor:
    """The shape of a tensor as text."""
    joined = ops.reduce_join(ops.as_string(ops.shape(x)), 0, separator=" ")
    found: Tensor = ops.string_join(["[", joined, "]"])
    return found


class SequenceQueueingStateSaver:
    """Cuts sequences [padded length, …] into segments of `num_unroll` steps and gives batches of segments in order, each with
    the states that were saved behind the segment before it (truncated backpropagation over sequences of any length).

    One example is `input_length` int32 [], `input_key` string [] (another for each example), `input_sequences`,
    `input_context` (the same for all segments) and `initial_states`, tensors by name. `prefetch_op` puts one in, `next_batch`
    takes out; at most `capacity` examples are inside. InvalidArgumentError for a capacity below the batch size, and in the
    step for a padded length that is no multiple of `num_unroll`, and for sequences of several lengths.
    """

    def __init__(self, batch_size: Any, num_unroll: int, input_length: Any, input_key: Any, input_sequences: Mapping[str, Any],
                 input_context: Mapping[str, Any], initial_states: Mapping[str, Any], capacity: int | None = None,
                 allow_small_batch: bool = False, name: str | None = None) -> None:
        self.batch_size, self.num_unroll, self.allow_small_batch = batch_size, num_unroll, allow_small_batch
        _check_states(initial_states)
        with name_scope(name, "InputQueueingStateSaver") as scope:
            self.name = scope
            key = _scalar("key", input_key, "string")
            if capacity is not None and isinstance(batch_size, Tensor):
                key = _checked(key, ops.less_equal(ops.cast(batch_size, "int64"), ops.constant(capacity, "int64")),
                               f"capacity needs to be >= batch_size: {capacity} and ", convert(batch_size))
            elif capacity is not None and capacity < batch_size:
                raise errors.InvalidArgumentError(f"capacity {capacity} needs to be >= batch_size {batch_size}")
            self._key, self._length = key, _scalar("length", convert(input_length), "int32")
            self._sequences = self._of_one_length(_sorted("sequence", input_sequences, 1))
            self._context, self._states = _sorted("context", input_context), _sorted("state", initial_states)
            self.room = FIFOQueue(-1 if capacity is None else capacity, ["int32"], [[]])
            self._make_barrier()
        self._prefetch: Operation | None = None
        self._next: NextQueuedSequenceBatch | None = None

    def _of_one_length(self, sequences: dict[str, Tensor]) -> dict[str, Tensor]:
        first = next(iter(sequences.values()))
        padded: Any = ops.shape(first)[0]
        fits = ops.logical_and(ops.equal(ops.floormod(padded, self.num_unroll), 0), ops.not_equal(padded, 0))
        padded = _checked(padded, fits, f"Tensor {first.name} should be a multiple of: {self.num_unroll}, but saw value: ",
                          padded, ". Consider setting pad=True.")
        self._length = _checked(self._length, ops.less_equal(self._length, padded),
                                "Input length should be <= than length from sequences: ", self._length, " vs. ", padded)
        self._padded = padded
        return {name: _checked(x, ops.equal(ops.shape(x)[0], padded),
                               f"Dimension 0 of tensor labeled sorted_sequences_{name} should be: ", padded,
                               ", shape received: ", ops.shape(x)[0]) for name, x in sequences.items()}

    def _make_barrier(self) -> None:
        kinds = {"sequence": self._sequences, "context": self._context, "state": self._states}
        named = {(kind, name): x for kind, given in kinds.items() for name, x in given.items()}
        self.components = [*(("", name) for name in _FIXED), *named]
        shapes = [[self.num_unroll, *x.shape.as_list()[1:]] if kind == "sequence" else x.shape.as_list()
                  for (kind, _), x in named.items()]
        self.barrier = Barrier([*_FIXED_TYPES, *(x.dtype for x in named.values())], [*([()] * len(_FIXED)), *shapes])

    def place(self, kind: str, name: str) -> int:
        """Which component of the barrier has this name."""
        return self.components.index((kind, name))

    @property
    def prefetch_op(self) -> Operation:
        """Put one example in; the step waits while there is no room."""
        if self._prefetch is None:
            with name_scope(None), name_scope(self.name):
                self._prefetch = self._insert()
        return self._prefetch

    def _insert(self) -> Operation:
        count = ops.floordiv(self._padded, self.num_unroll)
        number = ops.range(count)
        ones = ops.ones_like(number)
        keys = ops.string_join([ops.as_string(number, width=5, fill="0"), "_of_", ops.as_string(count, width=5, fill="0"), ":",
                                self._key])
        ends = ops.expand_dims(ops.string_join(["STOP:", self._key]), 0)
        length = ops.minimum(self.num_unroll, ops.maximum(0, self._length - self.num_unroll * number))
        values: dict[tuple[str, str], Any] = {
            ("", "length"): length, ("", "total_length"): self._length * ones, ("", "sequence"): number,
            ("", "next_key"): ops.concat([keys[1:], ends], 0), ("", "sequence_count"): count * ones}
        for name, x in self._sequences.items():
            values["sequence", name] = ops.reshape(x, ops.stack([count, self.num_unroll, *x.shape.as_list()[1:]]))
        for name, x in self._context.items():
            values["context", name] = ops.tile(ops.expand_dims(x, 0), ops.stack([count, *[1] * (x.shape.rank or 0)]))
        token = self.room.enqueue([ops.constant(0)])
        first = self.barrier.insert_many(self.place("", "sequence"), keys, values.pop(("", "sequence")))
        inserts = [token, first]
        inserts += [self.barrier.insert_many(self.place(*which), keys, x) for which, x in values.items()]
        with control_dependencies([first, token]):      # what comes last makes the first segment ready
            inserts += [self.barrier.insert_many(self.place("state", name), keys[:1], ops.expand_dims(ops.identity(x), 0))
                        for name, x in self._states.items()]
        return group(*inserts)

    @property
    def next_batch(self) -> NextQueuedSequenceBatch:
        """The batch that a step takes out; always the same one."""
        if self._next is None:
            with name_scope(None), name_scope(self.name):
                self._next = NextQueuedSequenceBatch(self)
        return self._next

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No further examples come; those inside are finished, unless they are cancelled, too."""
        with name_scope(name, "SQSSClose"):
            return group(self.barrier.close(cancel_pending_enqueues), self.room.close(cancel_pending_enqueues))


def _check_states(states: Any) -> None:
    if not isinstance(states, Mapping):
        raise TypeError(f"initial_states must be a dictionary; it is {states!r}")
    if not states:
        raise errors.InvalidArgumentError("initial_states may not be empty: at least one state variable is required to make "
                                          "segments wait for each other; give one")
    for name in states:
        if not isinstance(name, str):
            raise TypeError(f"state name must be a string: {name!r}")
        if ":" in name:
            raise errors.InvalidArgumentError(f"state name may not have a colon: {name!r}; take another sign")


def batch_sequences_with_states(
        input_key: Any, input_sequences: Mapping[str, Any], input_context: Mapping[str, Any], input_length: Any,
        initial_states: Mapping[str, Any], num_unroll: int, batch_size: Any, num_threads: int = 3, capacity: int = 1000,
        allow_small_batch: bool = True, pad: bool = True, make_keys_unique: bool = False, make_keys_unique_seed: Any = None,
        name: str | None = None) -> NextQueuedSequenceBatch:
    """Batches of segments of the examples that tensors give, by threads of a queue runner: see SequenceQueueingStateSaver.

    With `pad` zeros make sequences as long as a multiple of `num_unroll`, and `input_length` may be None; keys may be made
    unique by random numbers behind them. UnimplementedError for SparseTensors.
    """
    for given in (*input_sequences.values(), *input_context.values()):
        if hasattr(given, "dense_shape"):
            raise errors.UnimplementedError("batch_sequences_with_states: SparseTensors are not offered; make them dense")
    with name_scope(name, "batch_sequences_with_states"):
        sequences = {key: convert(x) for key, x in input_sequences.items()}
        if pad:
            lengths = [ops.shape(x)[0] for x in sequences.values()]
            for one in lengths[1:]:
                lengths[0] = _checked(lengths[0], ops.equal(lengths[0], one),
                                      "All sequence lengths must match, but received lengths: ", lengths[0], " and ", one)
            input_length = lengths[0] if input_length is None else input_length
            sequences = {key: _padded(x, lengths[0], num_unroll) for key, x in sequences.items()}
        if make_keys_unique:
            tail = ops.random_uniform([], 0, 100_000_000, "int32", seed=make_keys_unique_seed)
            input_key = ops.string_join([input_key, ops.as_string(tail)])
        saver = SequenceQueueingStateSaver(batch_size, num_unroll, input_length, input_key, sequences, input_context,
                                           initial_states, capacity, allow_small_batch)
        add_queue_runner(QueueRunner(saver, [saver.prefetch_op] * num_threads))
        return saver.next_batch


def _padded(x: Tensor, length: Any, unroll: int) -> Tensor:
    missing = ops.floormod(unroll - ops.floormod(length, unroll), unroll)
    shape = ops.concat([ops.expand_dims(missing, 0), ops.shape(x)[1:]], 0)
    found: Tensor = ops.concat([x, ops.fill(shape, ops.constant("" if x.dtype.name == "string" else 0, x.dtype))], 0)
    found.set_shape([None, *x.shape.as_list()[1:]])
    return found
