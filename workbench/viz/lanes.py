"""Spans onto parallel lanes, so that on one lane they nest or follow each other and never cross."""
from __future__ import annotations

from collections.abc import Iterable

from workbench.core.trace import Span

__all__ = ["TRACKS", "lanes", "track_of"]

TRACKS = ("step", "compute", "send", "receive", "wait", "system")
_TRACK = {"step": "step", "segment": "compute", "op": "compute", "send": "send", "recv": "receive", "wait": "wait",
          "queue": "wait"}


def track_of(kind: str) -> str:
    """The group of lanes that spans of `kind` are drawn on."""
    return _TRACK.get(kind, "system")


def lanes(spans: Iterable[Span]) -> list[tuple[int, Span]]:
    """(lane, span), in the order of their starts. Spans that have not ended count as moments."""
    open_until: list[list[float]] = []               # per lane: ends of the spans that are open, outermost first
    placed = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        end = max(span.start, span.end)
        for lane, ends in enumerate(open_until):
            while ends and ends[-1] <= span.start:
                ends.pop()
            if not ends or end <= ends[-1]:
                break
        else:
            lane, ends = len(open_until), []
            open_until.append(ends)
        ends.append(end)
        placed.append((lane, span))
    return placed
