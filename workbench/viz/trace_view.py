"""Time per operation, over all the spans that were recorded."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workbench.core.trace import Span
from workbench.viz.palette import natural

__all__ = ["OpTotal", "OpTotals", "op_totals"]

LENGTHS = 1000  # newest runs of an operation whose median counts


@dataclass(slots=True)
class OpTotal:
    """All runs of one operation that were recorded; milliseconds."""

    name: str
    type: str
    device: str
    count: int = 0
    total: float = 0.0
    longest: float = 0.0
    nbytes: int = 0
    median: float = 0.0

    @property
    def usual(self) -> float:
        """All runs as long as the median one: a first run, in which a kernel is compiled, does not lead the list."""
        return self.median * self.count


class OpTotals:
    """Time per operation and device; steps that were not recorded in detail do not count."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], OpTotal] = {}
        self._lengths: dict[tuple[str, str], deque[float]] = {}
        self._order: dict[tuple[str, str], tuple[Any, Any]] = {}  # of what takes equally long
        self.count = 0  # runs

    def add(self, span: Span) -> None:
        """Take in one span of kind "op"."""
        if span.end < span.start:
            return
        key, length = (span.name, span.device), 1e3 * (span.end - span.start)
        total = self._found.get(key)
        if total is None:
            total = self._found[key] = OpTotal(span.name, span.detail, span.device)
            self._lengths[key] = deque(maxlen=LENGTHS)
            self._order[key] = natural(span.name), natural(span.device)
        self._lengths[key].append(length)
        total.count += 1
        total.total += length
        total.longest = max(total.longest, length)
        total.nbytes += span.nbytes
        self.count += 1

    def rows(self) -> list[OpTotal]:
        """The most expensive first."""
        for key, total in self._found.items():
            total.median = statistics.median(self._lengths[key])
        return sorted(self._found.values(), key=lambda t: (-round(t.usual, 6), self._order[t.name, t.device]))


def op_totals(spans: Iterable[Span]) -> list[OpTotal]:
    """`OpTotals` of all of them, the most expensive first."""
    totals = OpTotals()
    for span in spans:
        if span.kind == "op":
            totals.add(span)
    return totals.rows()
