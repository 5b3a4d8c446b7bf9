"""Iterators over described datasets: where they are, where they go on after a restart; safe for several threads."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.state import ahead, cached, elements, mapped, queries
from workbench.core.state.passing import Failure, Found, Partitions, Run, no_partitions

__all__ = ["DatasetIterator"]

Array = np.ndarray[Any, Any]
Element = tuple[Array, ...]
Program = tuple[Any, ...]

Run.kinds.update({**elements.KINDS, **mapped.KINDS, **ahead.KINDS, **cached.KINDS, **queries.KINDS})
Run.checks.update({**elements.CHECKS, **queries.CHECKS})


class DatasetIterator:
    """Where a program is in its data; safe for several threads, each element goes to one of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.compiled: dict[Any, Callable[..., Any]] = {}      # bodies of a graph -> the functions that they are here
        self._lock = threading.Lock()
        self._run = Run(())
        self._program: Program = ()
        self._rest: Iterator[Found] | None = None
        self._taken = 0
        self._resume: Mapping[str, Any] | None = None      # where to go on at the next start

    @property
    def initialized(self) -> bool:
        return self._rest is not None

    def initialize(self, program: Program, sources: Sequence[Array], functions: Sequence[Callable[..., Any]] = (),
                   only_new: bool = False, partitions: Partitions = no_partitions) -> None:
        """Begin at the start of what `program` describes over `sources`, which are kept; with `only_new` just the first
        time. `functions` are those that it names: arrays of an element, and some of the sources, to arrays. `partitions`
        gives those that lie in the task."""
        with self._lock:
            if self._rest is None or not only_new:
                self._start(Run(sources, functions, partitions=partitions), program)

    def _start(self, run: Run, program: Program) -> None:
        run.check(program)
        position, self._resume = self._resume or {"taken": 0, "generators": []}, None
        run.begun = {(seed, seed2): state for seed, seed2, state in position["generators"]}
        self._run, self._program, self._rest, self._taken = run, program, run.elements(program), position["taken"]
        for _ in itertools.islice(self._rest, self._taken):
            pass

    def only(self, program: Program, sources: Sequence[Array], functions: Sequence[Callable[..., Any]],
             partitions: Partitions) -> Element:
        """The one element of what `program` describes over `sources`. InvalidArgumentError for none, or more than one."""
        run = Run(sources, functions, partitions=partitions)
        with self._lock:      # the functions run one at a time
            try:
                found = list(itertools.islice(run.elements(program), 2))
            finally:
                _close(run)
        if found and isinstance(found[0], Failure):
            raise found[0].error
        if len(found) != 1:
            raise errors.InvalidArgumentError(f"dataset of {self.name!r}: "
                                              + ("Dataset had more than one element" if found else "Dataset was empty")
                                              + "; exactly one is wanted: batch it, or take(1)")
        return found[0]      # type: ignore[return-value]

    def position(self) -> dict[str, Any] | None:
        """How far it is, as plain JSON: elements taken, and what its random order began with. None before the start."""
        with self._lock:
            if self._rest is None:
                return None
            return {"taken": self._taken, "generators": [[*seeds, state] for seeds, state in dict(self._run.begun).items()]}

    def resume(self, position: Mapping[str, Any]) -> None:
        """Go on from a position: now when it has started, else as soon as it does. The elements before are read again."""
        with self._lock:
            self._resume = position
            if self._rest is not None:
                self._start(Run(self._run.sources, self._run.functions, partitions=self._run.partitions), self._program)

    def abandon(self) -> None:
        """Read no more ahead: the state that it belongs to is gone. Who waits for an element gets CancelledError."""
        _close(self._run)

    def take(self) -> Element:
        """The next element. OutOfRangeError at the end, FailedPreconditionError before the start."""
        with self._lock:
            if self._rest is None:
                raise errors.FailedPreconditionError(f"iterator {self.name!r}: it was not initialised; run its initializer "
                                                     "first (the iterator has not been initialized)")
            found = next(self._rest, None)
            self._taken += found is not None
        if isinstance(found, Failure):
            raise found.error
        if found is None:
            raise errors.OutOfRangeError(f"iterator {self.name!r}: End of sequence: its data are all read; stop, or initialise "
                                         "it again")
        return found


def _close(run: Run) -> None:
    for reading in list(run.ahead):
        reading.close()
