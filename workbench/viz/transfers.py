"""Sends and receives put together again by the identity of their message, and time that spans cover together."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.trace import Span

__all__ = ["covered", "pairs"]


def pairs(spans: Iterable[Span]) -> dict[str, tuple[Span, Span]]:
    """Message -> (send, recv), of each that has both ends.

    A message seen more than once at one end (posted and delivered) counts from its first send to its last recv.
    """
    sends: dict[str, Span] = {}
    recvs: dict[str, Span] = {}
    for span in spans:
        kind, message = span.kind, span.message
        if message and span.end >= span.start:
            if kind == "send" and (message not in sends or span.start < sends[message].start):
                sends[message] = span
            elif kind == "recv" and (message not in recvs or span.end > recvs[message].end):
                recvs[message] = span
    return {message: (send, recvs[message]) for message, send in sends.items() if message in recvs}


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of `intervals`."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > until:
            total += end - max(start, until)
            until = end
    return total
