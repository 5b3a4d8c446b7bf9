"""Spans as views: a timeline of tasks with transfers between them, time per operation, work and wait, critical path."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from workbench.core.trace import Span
from workbench.viz.chrome import to_chrome
from workbench.viz.lanes import TRACKS, lanes, track_of
from workbench.viz.palette import device_order
from workbench.viz.transfers import covered, pairs

__all__ = ["Arrow", "Bar", "OpTotal", "Split", "Timeline", "op_totals", "pairs", "splits", "timeline", "to_chrome"]

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


@dataclass(slots=True)
class Split:
    """Where the time of one task's step goes, medians over its steps; milliseconds. `other` is what no span covers."""

    task: str
    whole: float
    work: float
    transfer: float
    wait: float
    other: float


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


def splits(spans: Iterable[Span]) -> list[Split]:
    """Work, transfer and wait per task, over the steps recorded in detail; spans that overlap count once, in that
    order. A step lasts as long as the task took part in it."""
    steps: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in spans:
        if span.step >= 0 and span.end >= span.start and span.kind != "step":
            steps[span.task][span.step].append(span)
    return [_split(task, list(steps[task].values())) for task in sorted(steps, key=device_order)]


def _split(task: str, steps: list[list[Span]]) -> Split:
    rows = [_split_step(spans) for spans in steps]
    whole, work, transfer, wait, other = (statistics.median(column) for column in zip(*rows))
    return Split(task, whole, work, transfer, wait, other)


def _split_step(spans: list[Span]) -> tuple[float, float, float, float, float]:
    """A recv waits until its message was sent; only what follows is transfer, known when the send was recorded too."""
    begin = min(s.start for s in spans)
    end = max(s.end for s in spans)
    work = [(s.start, s.end) for s in spans if s.kind in ("segment", "op")]
    transfer = [(s.start, s.end) for s in spans if s.kind == "send"]
    wait = [(s.start, s.end) for s in spans if s.kind in ("wait", "queue", "recv")]
    worked = covered(work)
    moved = covered(work + transfer) - worked
    waited = covered(work + transfer + wait) - worked - moved
    whole = end - begin
    return tuple(1e3 * t for t in (whole, worked, moved, waited, max(0.0, whole - worked - moved - waited)))  # type: ignore
