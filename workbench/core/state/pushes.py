"""Pushes of workers to several parameter servers, and the moments between them at which all servers agree."""
from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Pushes"]

Call = Callable[[], None]


class Pushes:
    """An update of all servers is a push: it begins, and ends when each server has its part. A checkpoint holds pushes up.

    Who wants a moment between pushes waits for those under way, while none begins; so it is as long as the skew of one push
    (Chandy and Lamport's markers, for a star). A worker has one push at a time: one that begins again has given up the one
    before, because its step was aborted.
    """

    def __init__(self, name: str) -> None:
        self.name, self.held = name, False
        self.under_way: set[str] = set()
        self._coming: list[tuple[str, Call]] = []         # workers that wait, and what lets them go on
        self._holders: list[Call] = []                    # who waits for the moment
        self._lock = threading.Lock()

    def begin(self, worker: str, done: Call) -> Call:
        """Call `done` once the worker may push; returns what takes the attempt back."""
        attempt = (worker, done)
        with self._lock:
            self.under_way.discard(worker)
            self._coming.append(attempt)
        self._serve()
        return lambda: self._withdraw(attempt)

    def end(self, worker: str) -> None:
        """Every server has its part of the worker's push."""
        with self._lock:
            self.under_way.discard(worker)
        self._serve()

    def hold(self, done: Call) -> Call:
        """No push begins from now on; `done` is called when none is under way. Returns what takes the attempt back."""
        with self._lock:
            self.held = True
            self._holders.append(done)
        self._serve()
        return lambda: self._give_up(done)

    def release(self, forget: bool = False) -> None:
        """Pushes go on. With `forget`, those under way are given up: whoever began them is gone."""
        with self._lock:
            self.held = False
            if forget:
                self.under_way.clear()
        self._serve()

    def close(self, cancel_pending: bool = True) -> None:
        """Nobody waits any more."""
        self.release(forget=True)

    def _withdraw(self, attempt: tuple[str, Call]) -> None:
        with self._lock:
            self._coming = [one for one in self._coming if one is not attempt]

    def _give_up(self, done: Call) -> None:
        with self._lock:
            self._holders = [one for one in self._holders if one is not done]

    def _serve(self) -> None:
        with self._lock:
            calls: list[Call] = []
            if not self.held:
                self.under_way.update(worker for worker, _ in self._coming)
                calls, self._coming = [done for _, done in self._coming], []
            if not self.under_way:
                calls, self._holders = [*calls, *self._holders], []
        for call in calls:
            call()
