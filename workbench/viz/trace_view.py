"""Time per operation, over all the spans that were recorded."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.core.trace import Span

__all__ = ["OpTotal", "op_totals"]


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


def op_totals(spans: Iterable[Span]) -> list[OpTotal]:
    """Time per operation and device, the most expensive first; steps that were not recorded in detail do not count."""
    found: dict[tuple[str, str], OpTotal] = {}
    lengths: dict[tuple[str, str], list[float]] = defaultdict(list)
    for span in spans:
        if span.kind != "op" or span.end < span.start:
            continue
        total = found.setdefault((span.name, span.device), OpTotal(span.name, span.detail, span.device))
        length = 1e3 * (span.end - span.start)
        lengths[span.name, span.device].append(length)
        total.count += 1
        total.total += length
        total.longest = max(total.longest, length)
        total.nbytes += span.nbytes
    for key, total in found.items():
        total.median = statistics.median(lengths[key])
    return sorted(found.values(), key=lambda t: (-t.usual, t.name, t.device))
