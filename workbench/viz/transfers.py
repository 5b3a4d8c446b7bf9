"""Sends and receives put together again by the identity of their message, and time that spans cover together."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.trace import Span

__all__ = ["covered", "pairs"]


def pairs(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """(send, recv) of each message that has both ends, by the order of sending.

    A message seen more than once at one end (posted and delivered) counts from its first send to its last recv.
    """
    sends: dict[str, Span] = {}
    recvs: dict[str, Span] = {}
    for span in spans:
        if span.message and span.end >= span.start:
            if span.kind == "send" and (span.message not in sends or span.start < sends[span.message].start):
                sends[span.message] = span
            elif span.kind == "recv" and (span.message not in recvs or span.end > recvs[span.message].end):
                recvs[span.message] = span
    return sorted(
        ((send, recvs[m]) for m, send in sends.items() if m in recvs), key=lambda p: (p[0].start, p[0].message)
    )


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of `intervals`."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > until:
            total += end - max(start, until)
            until = end
    return total
