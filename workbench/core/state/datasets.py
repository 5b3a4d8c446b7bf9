"""Datasets as plain descriptions, and the iterators over them: rows, files, order, batches; no graph, no clock."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.state import tfrecord as records

__all__ = ["DatasetIterator", "generator_state", "set_generator_state"]

Array = np.ndarray[Any, Any]
Element = tuple[Array, ...]
Program = tuple[Any, ...]


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """How far a generator is, as plain JSON."""
    state: Any = generator.bit_generator.state
    return {"bits": state["bit_generator"], "counter": state["state"]["counter"].tolist(),
            "key": state["state"]["key"].tolist(), "buffer": state["buffer"].tolist(), "buffer_pos": state["buffer_pos"],
            "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def set_generator_state(generator: np.random.Generator, found: Mapping[str, Any]) -> None:
    """Go on as the generator whose state this is. DataLossError when it is none."""
    try:
        generator.bit_generator.state = {
            "bit_generator": found["bits"], "buffer_pos": found["buffer_pos"], "has_uint32": found["has_uint32"],
            "uinteger": found["uinteger"], "buffer": np.array(found["buffer"], np.uint64),
            "state": {"counter": np.array(found["counter"], np.uint64), "key": np.array(found["key"], np.uint64)}}
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise errors.DataLossError(f"random generator: {str(found)[:80]} is no state of one ({problem}); the checkpoint is "
                                   "damaged or another program's") from problem


class _Run:
    """One initialised iterator: the arrays it reads from, and the random generators that go on from epoch to epoch.

    `begun` are the states that generators are to begin with, by their seeds.
    """

    def __init__(self, sources: Sequence[Array], begun: Mapping[Program, Any] | None = None) -> None:
        self.sources = list(sources)
        self.generators: dict[Program, np.random.Generator] = {}
        self.begun = dict(begun or {})

    def number(self, value: Any) -> int:
        """A count that is written in the program, or stands in a source."""
        return int(self.sources[value[1]]) if isinstance(value, tuple) else int(value)

    def elements(self, program: Program) -> Iterator[Element]:
        """One pass over what `program` describes."""
        return _KINDS[program[0]](self, *program[1:])

    def generator(self, seed: int, seed2: int) -> np.random.Generator:
        key = (seed, seed2)
        if key not in self.generators:
            bits = np.random.Philox() if key == (0, 0) else np.random.Philox(key=[seed, seed2])
            made = self.generators[key] = np.random.Generator(bits)
            if key in self.begun:
                set_generator_state(made, self.begun[key])
            self.begun[key] = generator_state(made)
        return self.generators[key]


# sources

def _tensors(run: _Run, first: int, count: int) -> Iterator[Element]:
    yield tuple(_element(run.sources[first + i]) for i in range(count))


def _slices(run: _Run, first: int, count: int) -> Iterator[Element]:
    columns = run.sources[first:first + count]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise errors.InvalidArgumentError(f"from_tensor_slices: the tensors have {', '.join(map(str, sorted(lengths)))} "
                                          "rows; give each the same number")
    for row in zip(*columns):
        yield tuple(_element(part) for part in row)


def _range(run: _Run, start: Any, stop: Any, step: Any) -> Iterator[Element]:
    for value in range(run.number(start), run.number(stop), run.number(step)):
        yield (np.asarray(value, np.int64),)


def _element(value: Any) -> Array:
    return np.array(value, dtype=object) if isinstance(value, bytes) else np.asarray(value)


def _files(run: _Run, source: int, compression: Any = "") -> Iterator[tuple[str, Any]]:
    for raw in np.asarray(run.sources[source], object).ravel():
        path = raw.decode("utf-8", "surrogateescape")
        try:
            file = open(path, "rb")      # noqa: SIM115
        except OSError as error:
            raise errors.NotFoundError(f"dataset: {path!r} cannot be read ({error.strerror}); check the path") from None
        with file:
            yield path, records.expanded(file, compression, path)


def _lines(run: _Run, source: int, compression: str = "") -> Iterator[Element]:
    for _, file in _files(run, source, compression):
        for line in file:
            yield (_element(line.removesuffix(b"\n").removesuffix(b"\r")),)


def _records(run: _Run, source: int, compression: str = "") -> Iterator[Element]:
    for path, file in _files(run, source, compression):
        for _, record in records.frames(file, path):
            yield (_element(record),)


def _fixed(run: _Run, source: int, size: int, header: int, footer: int) -> Iterator[Element]:
    for _, file in _files(run, source):
        end = file.seek(0, 2) - footer
        file.seek(header)
        while file.tell() + size <= end:
            yield (_element(file.read(size)),)


# order and number

def _shuffle(run: _Run, program: Program, buffer: Any, seed: int, seed2: int, again: bool) -> Iterator[Element]:
    room = run.number(buffer)
    if room < 1:
        raise errors.InvalidArgumentError(f"shuffle: buffer_size is {room}; use 1 or more")
    generator = run.generator(seed, seed2) if again else _Run(()).generator(seed, seed2)
    held: list[Element] = []
    for element in run.elements(program):
        if len(held) < room:
            held.append(element)
            continue
        place = int(generator.integers(room))
        out, held[place] = held[place], element
        yield out
    for place in generator.permutation(len(held)).tolist():
        yield held[place]


def _repeat(run: _Run, program: Program, count: Any) -> Iterator[Element]:
    epochs = run.number(count)
    for _ in itertools.count() if epochs < 0 else range(epochs):
        first = True
        for element in run.elements(program):
            first = False
            yield element
        if first:      # nothing to repeat for ever
            return


def _take(run: _Run, program: Program, count: Any) -> Iterator[Element]:
    most = run.number(count)
    return itertools.islice(run.elements(program), None if most < 0 else most)


def _skip(run: _Run, program: Program, count: Any) -> Iterator[Element]:
    least = run.number(count)
    return iter(()) if least < 0 else itertools.islice(run.elements(program), least, None)


def _shard(run: _Run, program: Program, count: Any, index: Any) -> Iterator[Element]:
    return itertools.islice(run.elements(program), run.number(index), None, run.number(count))


def _zip(run: _Run, programs: Sequence[Program]) -> Iterator[Element]:
    for parts in zip(*[run.elements(program) for program in programs]):
        yield tuple(itertools.chain.from_iterable(parts))


def _concatenate(run: _Run, programs: Sequence[Program]) -> Iterator[Element]:
    return itertools.chain.from_iterable(run.elements(program) for program in programs)


def _batch(run: _Run, program: Program, size: Any, drop: bool) -> Iterator[Element]:
    count = run.number(size)
    if count < 1:
        raise errors.InvalidArgumentError(f"batch: batch_size is {count}; use 1 or more")
    source = run.elements(program)
    while rows := list(itertools.islice(source, count)):
        if len(rows) < count and drop:
            return
        yield tuple(_stacked(column) for column in zip(*rows))


def _stacked(column: Sequence[Array]) -> Array:
    shapes = sorted({part.shape for part in column})
    if len(shapes) > 1:
        raise errors.InvalidArgumentError(f"batch: elements have shapes {list(shapes[0])} and {list(shapes[1])}; all of a "
                                          "batch must have one")
    return np.stack(column)


_KINDS: dict[str, Callable[..., Iterator[Element]]] = {
    "tensors": _tensors, "slices": _slices, "range": _range, "lines": _lines, "records": _records, "fixed": _fixed,
    "shuffle": _shuffle, "repeat": _repeat, "take": _take, "skip": _skip, "shard": _shard, "zip": _zip,
    "concatenate": _concatenate, "batch": _batch}


class DatasetIterator:
    """Where a program is in its data; safe for several threads, each element goes to one of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._run = _Run(())
        self._program: Program = ()
        self._rest: Iterator[Element] | None = None
        self._taken = 0
        self._resume: Mapping[str, Any] | None = None      # where to go on at the next start

    @property
    def initialized(self) -> bool:
        return self._rest is not None

    def initialize(self, program: Program, sources: Sequence[Array], only_new: bool = False) -> None:
        """Begin at the start of what `program` describes over `sources`, which are kept; with `only_new` just the first
        time."""
        with self._lock:
            if self._rest is None or not only_new:
                self._start(_Run(sources), program)

    def _start(self, run: _Run, program: Program) -> None:
        position, self._resume = self._resume or {"taken": 0, "generators": []}, None
        run.begun = {(seed, seed2): state for seed, seed2, state in position["generators"]}
        self._run, self._program, self._rest, self._taken = run, program, run.elements(program), position["taken"]
        for _ in itertools.islice(self._rest, self._taken):
            pass

    def position(self) -> dict[str, Any] | None:
        """How far it is, as plain JSON: elements taken, and what its random order began with. None before the start."""
        with self._lock:
            if self._rest is None:
                return None
            return {"taken": self._taken, "generators": [[*seeds, state] for seeds, state in self._run.begun.items()]}

    def resume(self, position: Mapping[str, Any]) -> None:
        """Go on from a position: now when it has started, else as soon as it does. The elements before are read again."""
        with self._lock:
            self._resume = position
            if self._rest is not None:
                self._start(_Run(self._run.sources), self._program)

    def take(self) -> Element:
        """The next element. OutOfRangeError at the end, FailedPreconditionError before the start."""
        with self._lock:
            if self._rest is None:
                raise errors.FailedPreconditionError(f"iterator {self.name!r}: it was not initialised; run its initializer "
                                                     "first")
            found = next(self._rest, None)
            self._taken += found is not None
        if found is None:
            raise errors.OutOfRangeError(f"iterator {self.name!r}: it is at the end of its data; stop, or initialise it "
                                         "again")
        return found
