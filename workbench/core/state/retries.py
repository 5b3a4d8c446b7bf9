"""What steps that may be tried again have done to the state of a task: a later try does none of it once more."""
from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench import errors

__all__ = ["Ledger", "Try", "TryOf"]

class TryOf(NamedTuple):
    """Whose step is tried: number `sequence`, that of its first try, of a driver in one life of its process.

    `live` are earlier steps of the driver that are not over, or may be tried again.
    """

    driver: str
    incarnation: int
    sequence: int
    live: tuple[int, ...]


class _Done:
    """What one operation gave, in the order in which the step called it (a loop does so often)."""

    __slots__ = ("lock", "results")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.results: list[Any] = []


class _Step:
    """A step of a driver, of which several tries may have begun; the newest one alone may go on."""

    def __init__(self) -> None:
        self.done: dict[str, _Done] = {}
        self.newest: Try | None = None


class Try:
    """One try of a step, as its operations on state ask it. Thread-safe."""

    def __init__(self, step: _Step, cancel: Callable[[], None], whose: tuple[str, int]) -> None:
        self._step, self.cancel, self.whose = step, cancel, whose
        self._called: Counter[str] = Counter()

    def once(self, name: str, kernel: Callable[..., Any], arguments: tuple[Any, ...], value: bool) -> Any:
        """`kernel(*arguments)`, or what it gave to an earlier try; with `value` that is what the variable is now."""
        done = self._step.done.setdefault(name, _Done())
        with done.lock:
            number = self._next(name)
            if number < len(done.results):
                return arguments[0].read() if value else done.results[number]
            given = kernel(*arguments)
            done.results.append(None if value else _kept(given))      # who keeps a variable's buffer makes its next update copy
            return given

    def waits(self, name: str, begin: Callable[[Callable[..., None]], None], done: Callable[..., None]) -> None:
        """For what calls back: `begin(done)`, or `done` with what an earlier try was given."""
        before = self._step.done.setdefault(name, _Done())

        def first(*outputs: Any) -> None:
            before.results.append(_kept(outputs))
            done(*outputs)
        with before.lock:
            number = self._next(name)
            earlier = before.results[number] if number < len(before.results) else None
            if earlier is None:
                begin(first)
        if earlier is not None:
            done(*earlier)

    def _next(self, name: str) -> int:
        if self._step.newest is not self:
            raise errors.AbortedError(f"{name}: its step is being tried again; this try is over")
        self._called[name] += 1
        return self._called[name] - 1


def _kept(value: Any) -> Any:
    """The same for later: memory of a plan is written again."""
    if isinstance(value, tuple):
        return tuple(map(_kept, value))
    return value.copy() if isinstance(value, np.ndarray) else value


class Ledger:
    """The steps that may be tried again, of all drivers, as one task knows them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drivers: dict[str, tuple[int, dict[int, _Step]]] = {}

    def begin(self, of: TryOf, step: int, cancel: Callable[[], None]) -> Try:
        """A try begins, as step number `step`; an earlier one that still runs is told by its `cancel()` to end.

        What earlier steps of the driver did is forgotten, unless they are live; and all of an earlier life of it.
        """
        with self._lock:
            incarnation, steps = self._drivers.get(of.driver, (of.incarnation, {}))
            if incarnation != of.incarnation:
                steps = {}
            for old in [number for number in steps if number < step and number not in (*of.live, of.sequence)]:
                del steps[old]
            self._drivers[of.driver] = of.incarnation, steps
            tried = steps.setdefault(of.sequence, _Step())
            before, tried.newest = tried.newest, Try(tried, cancel, (f"{of.driver} {of.incarnation}", of.sequence))
            begun = tried.newest
        if before is not None:
            before.cancel()
        return begun

    def __len__(self) -> int:
        with self._lock:
            return sum(len(steps) for _, steps in self._drivers.values())
