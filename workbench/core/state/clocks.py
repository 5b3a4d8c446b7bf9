"""Clocks of workers: how many steps each has done, and who waits because it is too far ahead (bounded staleness)."""
from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from workbench import errors

__all__ = ["Call", "Clocks"]

Call = Callable[[], None]


@dataclass(eq=False)
class _Wait:
    worker: str
    staleness: int
    done: Callable[[int], None]


class Clocks:
    """A worker begins a step when it is at most `staleness` steps ahead of the slowest one (Ho et al. 2013: SSP).

    A worker joins with its first wait, at the slowest one's step, and is waited for until it leaves. From then on it waits
    for nobody and nobody for it until it is admitted again: who evaluates its part of the graph later must not join for it.
    For the same reason one whose first steps end without an advance has not joined.
    """

    def __init__(self, name: str) -> None:
        self.name, self.closed = name, False
        self.clocks: dict[str, int] = {}
        self._left: set[str] = set()
        self._guests: set[str] = set()               # workers that have done no step yet
        self._inside: Counter[str] = Counter()       # their steps that have begun to wait and are not over
        self._waiting: list[_Wait] = []
        self._lock = threading.Lock()

    def wait(self, worker: str, staleness: int, done: Callable[[int], None],
             on_end: Callable[[Call], None] = lambda call: None) -> Call:
        """Call `done(the worker's own clock)` once it may begin a step; returns what takes the attempt back. As long as the
        worker has done no step, `on_end` gets what the end of this one has to call."""
        if staleness < 0:
            raise errors.InvalidArgumentError(f"clocks {self.name!r}: staleness is {staleness}; use 0 or more")
        attempt = _Wait(worker, staleness, done)
        with self._lock:
            if worker not in self._left and worker not in self.clocks:
                self.clocks[worker] = min(self.clocks.values(), default=0)
                self._guests.add(worker)
            guest = worker in self._guests
            self._inside[worker] += guest
            self._waiting.append(attempt)
        if guest:
            on_end(lambda: self._end(worker))
        self._serve()
        return lambda: self._withdraw(attempt)

    def advance(self, worker: str, clock: int) -> None:
        """The worker has done the step that it began at `clock`; saying so again changes nothing."""
        with self._lock:
            self._guests.discard(worker)
            if worker in self.clocks:
                self.clocks[worker] = max(self.clocks[worker], clock + 1)
        self._serve()

    def _end(self, worker: str) -> None:
        """A step that the worker began as a guest is over; without an advance it was somebody who evaluated."""
        with self._lock:
            self._inside[worker] -= 1
            if not self._inside[worker] and worker in self._guests:
                self._guests.discard(worker)
                self.clocks.pop(worker, None)
        self._serve()

    def leave(self, worker: str) -> None:
        """Nobody waits for this worker any more."""
        with self._lock:
            self.clocks.pop(worker, None)
            self._left.add(worker)
        self._serve()

    def rest(self, worker: str) -> None:
        """Nobody waits for this worker until its next wait, with which it joins again."""
        with self._lock:
            self.clocks.pop(worker, None)
        self._serve()

    def admit(self, worker: str) -> None:
        """One that left may join again, with its next wait. Clocks that were closed begin anew: nobody has one."""
        with self._lock:
            if self.closed:
                self.closed = False
                self.clocks.clear()
            self._left.discard(worker)

    def close(self, cancel_pending: bool = True) -> None:
        """Nobody waits for anybody any more, until somebody is admitted."""
        with self._lock:
            self.closed = True
        self._serve()

    def _withdraw(self, attempt: _Wait) -> None:
        with self._lock:
            self._waiting = [wait for wait in self._waiting if wait is not attempt]

    def _serve(self) -> None:
        with self._lock:
            slowest = min(self.clocks.values(), default=0)
            served = [(wait, self.clocks.get(wait.worker, slowest)) for wait in self._waiting
                      if self.closed or self.clocks.get(wait.worker, slowest) - slowest <= wait.staleness]
            gone = [wait for wait, _ in served]
            self._waiting = [wait for wait in self._waiting if wait not in gone]
        for wait, clock in served:
            wait.done(clock)
