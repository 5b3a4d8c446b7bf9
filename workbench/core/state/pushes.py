"""Pushes of workers to several parameter servers, as one server sees them, and the moments between them at which all agree."""
from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Pushes"]

Call = Callable[[], None]


class _Part(NamedTuple):
    """A server's part of one push; two tries of it are two parts."""

    worker: str
    number: int
    places: tuple[str, ...]
    begun: Call


class Pushes:
    """An update of several servers is a push: a part on each of its `places`, which begins there and ends. Thread-safe.

    A server asks nobody before a part begins. For a checkpoint each is told to `hold`: no part begins from then on, and it
    says what began since the last moment, by worker. What began on one server may begin on the others too, and nothing else
    (`settle`); when it has ended there, all servers have the same pushes, whole. So a moment takes as long as the skew of the
    pushes under way, as with the markers of Chandy and Lamport, and pushes send nothing for it.

    A worker has one push at a time, and its numbers grow: what is newest of it on one server was its last but one, or the
    same, on any other.
    """

    def __init__(self, name: str) -> None:
        self.name, self.held = name, False
        self.newest: dict[str, tuple[int, tuple[str, ...]]] = {}      # since the last moment: worker -> number, places
        self._whole: Mapping[str, int] = {}           # what the last moment found: worker -> number
        self._under_way: set[_Part] = set()
        self._coming: list[_Part] = []                # that are held up
        self._cut: Mapping[str, int] = {}             # what may begin although parts are held up: worker -> number
        self._waiting: list[Call] = []                # who waits until that has ended
        self._lock = threading.Lock()

    def begin(self, worker: str, number: int, places: Sequence[str], done: Call, on_end: Callable[[Call], None]) -> Call:
        """Call `done` once the server's part of push `number` of the worker may begin, which has parts on `places`; `on_end` is
        given what the end of its step has to call. Returns what takes the attempt back."""
        part = _Part(worker, number, tuple(places), done)
        on_end(lambda: self._end(part))
        with self._lock:
            free = not self.held
            if free:
                self._begun(part)
            else:
                self._coming.append(part)
        if free:
            done()
        else:
            self._serve()
        return lambda: self._withdraw(part)

    def hold(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        """No part begins from now on. The newest push that did of each worker since the last moment: its number, its places."""
        with self._lock:
            self.held, self._cut = True, {}
            return dict(self.newest)

    def settle(self, cut: Mapping[str, int], done: Call) -> Call:
        """Let begin what `cut` says, up to a number of each worker; `done` is called when it has ended, at once where nothing
        is held (see `release`). Returns what takes the attempt back."""
        with self._lock:
            self._cut = cut if self.held else {}
            self._waiting.append(done)
        self._serve()
        return lambda: self._give_up(done)

    def forget(self) -> None:
        """What was to begin or to end does not any more: whoever began it is gone."""
        with self._lock:
            for worker, number in self._cut.items():
                if self._number(worker) < number:
                    self.newest[worker] = number, ()
            self._under_way.clear()
        self._serve()

    def release(self) -> bool:
        """Pushes go on. False where they did all the time: the server was opened anew since it was told to hold them."""
        with self._lock:
            held, self.held, self._cut = self.held, False, {}
        self._serve()
        return held

    def close(self, cancel_pending: bool = True) -> None:
        """Nobody waits any more."""
        self.forget()
        self.release()

    def _number(self, worker: str) -> int:
        return self.newest[worker][0] if worker in self.newest else -1

    def _begun(self, part: _Part) -> None:
        if part.number > max(self._number(part.worker), self._whole.get(part.worker, -1)):
            self.newest[part.worker] = part.number, part.places
        self._under_way.add(part)

    def _end(self, part: _Part) -> None:
        with self._lock:
            self._under_way.discard(part)
            awaited = bool(self._waiting)
        if awaited:
            self._serve()

    def _withdraw(self, part: _Part) -> None:
        with self._lock:
            self._coming = [one for one in self._coming if one is not part]

    def _give_up(self, done: Call) -> None:
        with self._lock:
            self._waiting = [one for one in self._waiting if one is not done]

    def _serve(self) -> None:
        with self._lock:
            may = [part for part in self._coming if not self.held or part.number <= self._cut.get(part.worker, -1)]
            self._coming = [part for part in self._coming if part not in may]
            for part in may:
                self._begun(part)
            calls = [part.begun for part in may]
            if self._waiting and not (self.held and self._under_way) and all(self._has(*one) for one in self._cut.items()):
                calls, self._waiting = [*calls, *self._waiting], []
                if self.held:      # all that began is whole everywhere
                    self.newest.clear()
                    self._whole = self._cut
        for call in calls:
            call()

    def _has(self, worker: str, number: int) -> bool:
        """Has the push come, or a later one of the worker, which has given it up?"""
        newest = max(self._number(worker), self._whole.get(worker, -1))
        return newest >= number or any(part.worker == worker and part.number > number for part in self._coming)
