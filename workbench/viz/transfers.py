"""Sends and receives put together again by the identity of their message, and time that spans cover together."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.trace import Span
from workbench.viz.batch import Batch

__all__ = ["covered", "pairs"]


def pairs(spans: Iterable[Span]) -> dict[str, tuple[Span, Span]]:
    """Message -> (send, recv), of each that has both ends.

    A message seen more than once at one end (posted and delivered) counts from its first send to its last recv.
    """
    spans = list(spans)
    batch = Batch(spans)
    return {message: (spans[at], spans[batch.came[message]]) for message, at in batch.left.items() if message in batch.came}


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of `intervals`."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > until:
            total += end - max(start, until)
            until = end
    return total
