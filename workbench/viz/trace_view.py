"""Spans as views: a timeline of tasks with transfers between them, and time per operation."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from workbench.core.trace import Span
from workbench.viz.chrome import to_chrome
from workbench.viz.lanes import TRACKS, lanes, track_of
from workbench.viz.palette import device_order
from workbench.viz.transfers import pairs

__all__ = ["Arrow", "Bar", "OpTotal", "Timeline", "op_totals", "pairs", "timeline", "to_chrome"]

BARS = 2000  # bars of one timeline


@dataclass(slots=True)
class Bar:
    """One span on one lane; milliseconds from the start of the timeline."""

    row: int
    kind: str
    name: str
    start: float
    end: float
    step: int
    detail: str = ""
    finished: bool = True


@dataclass(slots=True)
class Arrow:
    """One transfer: it left `source_row` at `start` and had arrived on `target_row` at `end`, milliseconds."""

    source_row: int
    target_row: int
    start: float
    end: float
    name: str
    nbytes: int
    message: str


@dataclass(slots=True)
class Timeline:
    rows: list[tuple[str, str]]  # (task, track)
    bars: list[Bar] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    length: float = 0.0  # milliseconds
    left_out: int = 0  # spans beyond the bound, the shortest ones


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


def timeline(spans: Sequence[Span], limit: int = BARS) -> Timeline:
    """All tasks on one time axis that starts with the first span. Beyond `limit` the shortest spans are left out.

    What computes gets as many lanes as run at once; messages and waits of a task overlap on one lane each.
    """
    kept = sorted(spans, key=lambda s: s.start - s.end)[:limit]
    if not kept:
        return Timeline([])
    origin = min(s.start for s in kept)
    length = max(max(s.start, s.end) for s in kept) - origin
    view = Timeline([], left_out=len(spans) - len(kept), length=1e3 * length)
    rows: dict[int, int] = {}  # id of a span -> row
    groups: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for span in kept:
        groups[span.task, track_of(span.kind)].append(span)
    for task, track in sorted(groups, key=lambda g: (device_order(g[0]), TRACKS.index(g[1]))):
        placed = lanes(groups[task, track]) if track == "compute" else [(0, span) for span in groups[task, track]]
        for lane, span in placed:
            rows[id(span)] = len(view.rows) + lane
            view.bars.append(_bar(len(view.rows) + lane, span, origin))
        view.rows += [(task, track)] * (1 + max(lane for lane, _ in placed))
    for send, recv in pairs(kept):
        start, end = 1e3 * (send.start - origin), 1e3 * (max(recv.end, send.start) - origin)
        ends = rows[id(send)], rows[id(recv)]
        view.arrows.append(Arrow(*ends, start, end, send.name, send.nbytes, send.message))
    return view


def _bar(row: int, span: Span, origin: float) -> Bar:
    start, end = 1e3 * (span.start - origin), 1e3 * (max(span.start, span.end) - origin)
    return Bar(row, span.kind, span.name, start, end, span.step, span.detail, span.end >= span.start)


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
