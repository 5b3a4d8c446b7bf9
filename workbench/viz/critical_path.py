"""The critical path of one step: the chain of work, transfers and waits that made it as long as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.trace import Span
from workbench.viz.transfers import pairs
from workbench.viz.units import ms

__all__ = ["Link", "critical_path", "explain"]

_SLACK = 2e-6  # seconds by which spans that follow each other may overlap
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
    """The path through `step`, earliest link first; its links follow each other without holes and end with the step.

    Walks back from the span that ended last. A receive leads to its send (Coffman and Graham's longest path, with
    messages as edges across tasks); a wait without a message leads to whatever ended last before it did.
    """
    all_of = [s for s in spans if s.step == step and s.end >= s.start and s.kind != "step"]
    leaves = _leaves(all_of)
    if not leaves:
        return []
    origin = min(s.start for s in leaves)
    sends = {recv: send for send, recv in pairs(leaves)}
    links: list[Link] = []
    at: Span | None = max(leaves, key=lambda s: s.end)
    until = at.end if at is not None else 0.0
    while at is not None and len(links) < _LONGEST:
        begin, before, link = _back(at, until, leaves, sends)
        links.append(
            Link(
                link,
                at.task,
                at.name,
                1e3 * (begin - origin),
                1e3 * (until - origin),
                at.message if link == "transfer" else "",
            )
        )
        if before is not None and before.end < begin - _SLACK:
            links.append(Link("gap", at.task, "", 1e3 * (before.end - origin), 1e3 * (begin - origin)))
        until = begin if before is None else min(before.end, begin)
        at = before
    return links[::-1]


def _leaves(spans: list[Span]) -> list[Span]:
    """Spans without the segments whose operations were recorded one by one."""
    ops = [s for s in spans if s.kind == "op"]
    return [
        s
        for s in spans
        if s.kind != "segment"
        or not any(o.task == s.task and o.start >= s.start - _SLACK and o.end <= s.end + _SLACK for o in ops)
    ]


def _back(at: Span, until: float, spans: list[Span], sends: dict[Span, Span]) -> tuple[float, Span | None, str]:
    """(start of the link that ends in `at`, the span before it, kind of the link)."""
    send = sends.get(at)
    if at.kind == "recv" and send is not None and send.start > at.start - _SLACK and send.start < until:
        return send.start, _last(spans, send.task, send.start, at), "transfer"
    if at.kind in ("wait", "queue", "recv"):
        cause = _ended_last(spans, at)
        if cause is not None:
            return cause.end, cause, "wait"
        return at.start, _last(spans, at.task, at.start, at), "wait"
    return at.start, _last(spans, at.task, at.start, at), "transfer" if at.kind == "send" else "work"


def _last(spans: list[Span], task: str, before: float, but: Span) -> Span | None:
    """The span of `task` that ended last before `before`."""
    found = [s for s in spans if s.task == task and s.end <= before + _SLACK and s is not but and s.start < before]
    return max(found, key=lambda s: (s.end, s.start), default=None)


def _ended_last(spans: list[Span], wait: Span) -> Span | None:
    """What another task finished last while `wait` waited."""
    found = [
        s
        for s in spans
        if s.task != wait.task and s.kind not in ("wait", "queue", "recv") and wait.start < s.end <= wait.end + _SLACK
    ]
    return max(found, key=lambda s: s.end, default=None)


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
