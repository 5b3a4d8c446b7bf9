"""The critical path of one step: the chain of work, transfers and waits that made it as long as it was."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, itemgetter

from workbench.core.trace import Span
from workbench.viz.transfers import pairs
from workbench.viz.units import ms

__all__ = ["Link", "critical_path", "explain", "path_through"]

_SLACK = 2e-6  # seconds by which spans that follow each other may overlap
_START, _END = map(itemgetter, map(Span._fields.index, ("start", "end")))  # by their places: of all spans
_LONGEST = 10_000  # links; a guard against spans that contradict each other


@dataclass(slots=True)
class Link:
    """One stretch of the path; times in milliseconds from the start of the step."""

    kind: str  # "work" | "transfer" | "wait" | "gap"
    task: str
    name: str
    start: float
    end: float
    message: str = ""  # of a transfer


def critical_path(spans: Sequence[Span], step: int) -> list[Link]:
    """The path through `step` of these spans."""
    own = [s for s in spans if s.step == step and s.end >= s.start and s.kind not in ("step", "loop")]
    return path_through(own, pairs(own))


def path_through(spans: Sequence[Span], moved: Mapping[str, tuple[Span, Span]]) -> list[Link]:
    """The path through one step with these spans and messages, earliest link first; its links follow each other without
    holes and end with the step.

    Walks back from the span that ended last. A receive leads to its send (Coffman and Graham's longest path, with
    messages as edges across tasks); a wait without a message leads to whatever ended last before it did.
    """
    leaves = _leaves(spans)
    if not leaves:
        return []
    origin = min(map(_START, leaves))
    past = _Past(leaves)
    links: list[Link] = []
    at: Span | None = max(leaves, key=_END)
    until = at.end if at is not None else 0.0
    while at is not None and len(links) < _LONGEST:
        begin, before, link = _back(at, until, past, moved)
        message = at.message if link == "transfer" else ""
        links.append(Link(link, at.task, at.name, 1e3 * (begin - origin), 1e3 * (until - origin), message))
        if before is not None and before.end < begin - _SLACK:
            links.append(Link("gap", at.task, "", 1e3 * (before.end - origin), 1e3 * (begin - origin)))
        until = begin if before is None else min(before.end, begin)
        at = before
    return links[::-1]


def _leaves(spans: Sequence[Span]) -> Sequence[Span]:
    """Spans without the segments whose operations were recorded one by one."""
    starts: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for span in spans:
        if span.kind == "op":
            starts[span.task].append((span.start, span.end))
    if not starts:
        return spans
    for own in starts.values():
        own.sort()
    return [s for s in spans if s.kind != "segment" or not _holds(s, starts[s.task])]


def _holds(segment: Span, operations: list[tuple[float, float]]) -> bool:
    """Does one of these operations, by their starts, lie in the segment?"""
    for start, end in operations[bisect_left(operations, (segment.start - _SLACK, 0.0)):]:
        if start > segment.end:
            return False
        if end <= segment.end + _SLACK:
            return True
    return False


class _Past:
    """Spans by their ends: of each task, and of all; sorted when the path first comes by, which passes few of many tasks."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._of: dict[str, list[Span]] = defaultdict(list)
        for span in spans:
            self._of[span.task].append(span)
        self._sorted: dict[str, tuple[list[Span], list[float]]] = {}

    def last(self, task: str, before: float, but: Span) -> Span | None:
        """The span of `task` that ended last before `before`."""
        if task not in self._sorted:
            self._sorted[task] = _by_end(self._of[task])
        own, ends = self._sorted[task]
        for at in range(bisect_right(ends, before + _SLACK) - 1, -1, -1):
            if own[at] is not but and own[at].start < before:
                return own[at]
        return None

    @cached_property
    def _doing(self) -> tuple[list[Span], list[float]]:
        return _by_end(span for span in self._spans if span.kind not in ("wait", "queue", "recv"))

    def ended_last(self, wait: Span) -> Span | None:
        """What another task finished last while `wait` waited."""
        doing, ends = self._doing
        for at in range(bisect_right(ends, wait.end + _SLACK) - 1, -1, -1):
            span = doing[at]
            if span.end <= wait.start:
                return None
            if span.task != wait.task:
                return span
        return None


def _by_end(spans: Iterable[Span]) -> tuple[list[Span], list[float]]:
    """The spans in the order in which they ended, and when."""
    own = sorted(spans, key=attrgetter("end", "start"))
    return own, [span.end for span in own]


def _back(at: Span, until: float, past: _Past, moved: Mapping[str, tuple[Span, Span]]) -> tuple[float, Span | None, str]:
    """(start of the link that ends in `at`, the span before it, kind of the link)."""
    send, recv = moved.get(at.message, (None, None))
    if recv is at and send is not None and send.start > at.start - _SLACK and send.start < until:
        return send.start, past.last(send.task, send.start, at), "transfer"
    if at.kind in ("wait", "queue", "recv"):
        cause = past.ended_last(at)
        if cause is not None:
            return cause.end, cause, "wait"
        return at.start, past.last(at.task, at.start, at), "wait"
    return at.start, past.last(at.task, at.start, at), "transfer" if at.kind == "send" else "work"


def explain(links: Sequence[Link]) -> str:
    """One sentence: how much of the path is work, transfer and wait, and its most expensive link."""
    if not links:
        return "Nothing of this step was recorded."
    length = links[-1].end - links[0].start
    parts = [
        f"{ms(sum(k.end - k.start for k in links if k.kind == kind))} {word}"
        for kind, word in (("work", "work"), ("transfer", "transfer"), ("wait", "waiting"), ("gap", "between spans"))
        if any(k.kind == kind for k in links)
    ]
    longest = max((k for k in links if k.kind != "gap"), key=lambda k: k.end - k.start)
    return (
        f"{ms(length)}: {', '.join(parts)}; the longest link is {longest.name or longest.kind} "
        f"({ms(longest.end - longest.start)})."
    )
