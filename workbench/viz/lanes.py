"""Spans onto parallel lanes, so that on one lane they nest or follow each other and never cross."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.trace import Span

__all__ = ["TRACKS", "lanes", "track_of"]

TRACKS = ("step", "compute", "send", "receive", "wait", "system")
_TRACK = {
    "step": "step",
    "segment": "compute",
    "op": "compute",
    "send": "send",
    "recv": "receive",
    "wait": "wait",
    "queue": "wait",
}


def track_of(kind: str) -> str:
    """The group of lanes that spans of `kind` are drawn on."""
    return _TRACK.get(kind, "system")


def lanes(spans: Iterable[Span]) -> list[tuple[int, Span]]:
    """(lane, span), in the order of their starts. Spans that have not ended count as moments."""
    open_until: list[list[float]] = []  # per lane: ends of the spans that are open, outermost first
    placed = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        end = max(span.start, span.end)
        lane = next((i for i, ends in enumerate(open_until) if _fits(ends, span.start, end)), len(open_until))
        if lane == len(open_until):
            open_until.append([])
        open_until[lane].append(end)
        placed.append((lane, span))
    return placed


def _fits(ends: list[float], start: float, end: float) -> bool:
    """Close what has ended; may a span from `start` to `end` lie in what is still open?"""
    while ends and ends[-1] <= start:
        ends.pop()
    return not ends or end <= ends[-1]
