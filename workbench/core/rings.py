"""What a journal keeps its records in: the newest within bounds, and what a task's clock was at which time."""
from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Clock", "Ring", "Stages"]

_CLOCKS = 1000           # offsets kept per task
_RECORD = 160            # bytes of a graph's record besides its nodes


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
        lost = max(0, self.count - len(self.records) - cursor)
        return self.count, lost, self.between(cursor, self.count - 1)

    def between(self, first: int, last: int) -> list[Any]:
        """Those with the numbers `first` to `last`, as far as they are kept; what is older than these costs nothing."""
        first, last = max(first, self.count - len(self.records)), min(last, self.count - 1)
        newer = self.count - 1 - last
        return list(itertools.islice(reversed(self.records), newer, max(newer, self.count - first)))[::-1]


@dataclass
class _Nodes:
    """The nodes that one record or several show, and the memory that they take."""

    all: tuple[Any, ...]
    nbytes: int
    shown: int = 0       # in how many records


class Stages(Ring):
    """The newest graphs, within a number of bytes; the stages of an executable go together, the newest ones stay.

    A stage whose nodes are equal to those of another that is kept shows these: a model that is built again costs its records
    alone.
    """

    def __init__(self, size: Callable[[Any], int]) -> None:
        super().__init__(None)
        self.held = 0
        self._measured = size
        self._known: dict[tuple[Any, ...], _Nodes] = {}
        self._shown: deque[_Nodes] = deque()      # of each record
        self._newest: tuple[tuple[Any, ...], _Nodes] = (), _Nodes((), 0)      # as they came, as they are kept

    def keep(self, item: Any, nbytes: int) -> None:
        came, nodes = self._newest
        if came is not item.nodes or not nodes.shown:
            nodes = self._find(item)
            self._newest = item.nodes, nodes
        nodes.shown += 1
        self.held += _RECORD
        self._shown.append(nodes)
        self.append(replace(item, nodes=nodes.all))
        while self.held > nbytes and self.records[0].key != item.key:
            oldest = self.records[0].key
            while self.records[0].key == oldest:
                self._forget()

    def _find(self, item: Any) -> _Nodes:
        if item.nodes not in self._known:
            self._known[item.nodes] = _Nodes(item.nodes, self._measured(item))
            self.held += self._known[item.nodes].nbytes
        return self._known[item.nodes]

    def _forget(self) -> None:
        self.records.popleft()
        nodes = self._shown.popleft()
        nodes.shown -= 1
        self.held -= _RECORD
        if not nodes.shown:
            self.held -= nodes.nbytes
            del self._known[nodes.all]


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
