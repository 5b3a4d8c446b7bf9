"""What a journal keeps its records in: the newest within bounds, and what a task's clock was at which time."""
from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Clock", "Ring"]

_CLOCKS = 1000           # offsets kept per task


class Ring:
    """The newest records, numbered from 0 without gaps: at most `capacity`, and at most `limit` bytes of them."""

    def __init__(self, capacity: int | None, limit: int = 0, size: Callable[[Any], int] | None = None) -> None:
        self.capacity, self.limit = capacity, limit
        self.records: deque[Any] = deque()
        self.count = 0                   # records ever appended
        self.nbytes = 0
        self._size = size or (lambda record: 0)

    def append(self, item: Any) -> None:
        self.records.append(item)
        self.count += 1
        self.nbytes += self._size(item)
        while (self.capacity is not None and len(self.records) > self.capacity) or (
                self.nbytes > self.limit > 0 and len(self.records) > 1):
            self.nbytes -= self._size(self.records.popleft())

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def since(self, cursor: int) -> tuple[int, int, list[Any]]:
        """(next cursor, how many were lost to the bound, records from `cursor` on)."""
        kept = len(self.records)
        first = self.count - kept
        lost = max(0, first - cursor)
        newest = list(itertools.islice(reversed(self.records), min(kept, self.count - cursor)))   # costs the new ones only
        return self.count, lost, newest[::-1]


class Clock:
    """What a task's clock reads more than ours: entries (the task's time, offset, error bound) in order.

    A new offset counts from the time it was measured at, and only when it differs by more than both errors: the spans
    of one step are not moved against each other because a later probe was a little luckier.
    """

    def __init__(self) -> None:
        self.entries: deque[tuple[float, float, float]] = deque(maxlen=_CLOCKS)

    def learn(self, moment: float, offset: float, error: float) -> None:
        if self.entries:
            _, before, bound = self.entries[-1]
            if abs(offset - before) <= error + bound and not error < bound / 2:
                return
        self.entries.append((moment, offset, error))

    def at(self, moment: float) -> float:
        """The offset for a time on the task's clock."""
        for since, offset, _ in reversed(self.entries):
            if moment >= since:
                return offset
        return self.entries[0][1] if self.entries else 0.0
