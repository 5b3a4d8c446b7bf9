"""What a journal keeps its records in: the newest within bounds, and what a task's clock was at which time."""
from __future__ import annotations

import itertools
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Clock", "Ring", "Rows", "Stages", "broken_with", "bytes_of_nodes", "node_bytes"]

_CLOCKS = 1000           # offsets kept per task
_RECORD = 160            # bytes of a graph's record besides its nodes
_TUPLE, _TEXT = sys.getsizeof(()), sys.getsizeof("")      # bytes of empty ones
_PLACE = sys.getsizeof((0,)) - _TUPLE      # bytes of one item of a tuple
_BLOCK = 512             # rows that stand together


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


class Rows:
    """A ring of plain tuples of texts and numbers, hundreds of thousands of them, that costs the garbage collector nothing.

    Python's collector walks all objects that may hold others whenever their number has grown by a quarter, and with a full
    ring of named tuples that is 80 ms in the middle of a step. Of a plain tuple it sees once that it holds nothing, then
    leaves it alone; so it does with a tuple of these, which is what they stand in.
    """

    def __init__(self, capacity: int, limit: int, size: Callable[[tuple[Any, ...]], int]) -> None:
        self.capacity, self.limit = capacity, limit
        self.count = 0                   # rows ever appended
        self.kept = 0                    # the newest of them that are still here
        self.nbytes = 0
        self._size = size
        self._blocks: deque[tuple[Any, ...]] = deque()       # of `_BLOCK` rows each
        self._open: list[tuple[Any, ...]] = []               # the newest rows
        self._gone = 0                   # rows at the beginning of the first block that count no longer

    def append(self, row: tuple[Any, ...]) -> None:
        self._open.append(tuple(row))
        self.count += 1
        self.kept += 1
        self.nbytes += self._size(row)
        if len(self._open) == _BLOCK:
            self._blocks.append(tuple(self._open))
            self._open = []
        while self.kept > self.capacity or (self.nbytes > self.limit > 0 and self.kept > 1):
            self._forget()

    def _forget(self) -> None:
        oldest = self._blocks[0] if self._blocks else self._open
        self.nbytes -= self._size(oldest[self._gone])
        self.kept -= 1
        self._gone += 1
        if self._gone == len(oldest):
            self._gone = 0
            self._blocks.popleft() if self._blocks else self._open.clear()

    def since(self, cursor: int) -> tuple[int, int, list[tuple[Any, ...]]]:
        """(next cursor, how many were lost to the bound, rows from `cursor` on)."""
        return self.count, max(0, self.count - self.kept - cursor), self.between(cursor, self.count - 1)

    def between(self, first: int, last: int) -> list[tuple[Any, ...]]:
        """Those with the numbers `first` to `last`, as far as they are kept; what is older or newer costs nothing."""
        oldest = self.count - self.kept
        behind = oldest - self._gone     # the number of the first row of the first block
        at, until = max(first, oldest) - behind, min(last, self.count - 1) - behind + 1
        found: list[tuple[Any, ...]] = []
        while at < until:
            block, place = divmod(at, _BLOCK)
            rows = self._blocks[block] if block < len(self._blocks) else self._open
            found += rows[place : place + until - at]
            at += _BLOCK - place
        return found


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
        self.append(item if item.nodes is nodes.all else replace(item, nodes=nodes.all))
        while self.held > nbytes and self.records[0].key != item.key:
            oldest = self.records[0].key
            while self.records[0].key == oldest:
                self._forget()

    def _find(self, item: Any) -> _Nodes:
        made = _Nodes(item.nodes, 0)
        found = self._known.setdefault(item.nodes, made)      # asked once: each time all nodes are hashed
        if found is made:
            made.nbytes = self._measured(item)
            self.held += made.nbytes
        return found

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


def node_bytes(node: Any) -> int:
    """About what a node's record takes of memory, without the texts that other records share."""
    texts = [text for text in node.inputs if text.endswith(":0")]
    places = len(node) + len(node.inputs) + len(node.control)
    return 3 * _TUPLE + _PLACE * places + _TEXT * (1 + len(texts)) + len(node.name) + sum(map(len, texts))


def bytes_of_nodes(nodes: tuple[Any, ...]) -> int:
    """About what records of nodes take of memory, with the texts that they share among each other."""
    shared = {text for node in nodes for text in (node.attributes, node.gradient_of)}
    return sum(map(node_bytes, nodes)) + sum(map(sys.getsizeof, shared))


def broken_with(before: tuple[tuple[str, int], ...], series: str, step: int, value: float) -> tuple[tuple[str, int], ...]:
    """The series that end in no finite number, and since which step, once `series` has got `value`; `before` it, those."""
    if math.isfinite(value):
        return tuple(one for one in before if one[0] != series) if before else before
    return before if any(name == series for name, _ in before) else (*before, (series, step))
