"""Spans of one step by what made them: the first ones each, the rest of a loop's turns as one summary."""
from __future__ import annotations

from workbench.core.trace import Journal, Span

__all__ = ["EACH", "Tally"]

EACH = 32        # turns of one segment that are recorded one by one


class Tally:
    """Bounds what a step adds to the journal: by the number of its segments, whatever its loops do."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._counts: dict[int, int] = {}
        self._rest: dict[int, Span] = {}

    def add(self, segment: int, span: Span) -> None:
        """Record `span`, or add it to the summary of its segment."""
        seen = self._counts[segment] = self._counts.get(segment, 0) + 1
        if seen <= EACH:
            self._journal.span(span)
            return
        took, rest = span.end - span.start, self._rest.get(segment)
        if rest is None:
            self._rest[segment] = span._replace(total=took, longest=took, message="")
        else:
            self._rest[segment] = rest._replace(end=max(rest.end, span.end), turns=rest.turns + 1, total=rest.total + took,
                                                longest=max(rest.longest, took), nbytes=rest.nbytes + span.nbytes)

    def finish(self) -> None:
        """Record the summaries and forget."""
        for rest in self._rest.values():
            self._journal.span(rest)
        self._rest.clear()
        self._counts.clear()
