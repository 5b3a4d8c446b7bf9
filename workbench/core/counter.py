"""How often each executable ran, and when: what records tell of only some of its steps cannot."""
from __future__ import annotations

import threading
from collections import deque

__all__ = ["Count", "StepCounter"]

_NAMES = 1024      # executables whose steps are counted, those that ran last
_LOOKS = 1000      # that are remembered


class Count:
    """Steps of one executable; whoever runs one adds it."""

    __slots__ = ("seen", "steps")

    def __init__(self) -> None:
        self.steps = self.seen = 0


class StepCounter:
    """Counts the steps of executables, recorded or not. Thread-safe; of steps that two threads begin at once one may be
    missed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Count] = {}
        self._looks: deque[tuple[float, dict[str, int]]] = deque(maxlen=_LOOKS)      # when, steps since the look before

    def of(self, name: str) -> Count:
        """The count of the executable `name`, to which its steps are added."""
        with self._lock:
            found = self._counts.setdefault(name, Count())
            while len(self._counts) > _NAMES:
                del self._counts[next(iter(self._counts))]
            return found

    def look(self, now: float) -> None:
        """Remember what ran until `now`, seconds; how often that is done is how fine `since` tells."""
        with self._lock:
            ran = {name: count.steps - count.seen for name, count in self._counts.items() if count.steps != count.seen}
            for name, steps in ran.items():
                count = self._counts[name] = self._counts.pop(name)
                count.seen += steps
            self._looks.append((now, ran))

    def since(self, start: float) -> dict[str, int]:
        """Executable -> its steps from `start` until now, with those between `start` and the look before it."""
        with self._lock:
            found = {name: count.steps - count.seen for name, count in self._counts.items()}
            for now, ran in self._looks:
                if now > start:
                    for name, steps in ran.items():
                        found[name] = found.get(name, 0) + steps
            return found
