"""The newest steps of one task, by number, however late and mixed their spans arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from workbench.core.trace import Span

__all__ = ["RESTART", "Recent"]

RESTART = 10  # steps by which a number may fall behind half of the newest before steps count from 0 again
T = TypeVar("T")


class Recent(Generic[T]):
    """At most `window` items, one a step. Spans reach us in batches, a step's in several: an old step that comes late
    must neither push out a new one nor come back as half a step."""

    def __init__(self, window: int, make: Callable[[int], T]) -> None:
        self.items: dict[int, T] = {}
        self.count = 0  # steps seen since the start of the session
        self._window = window
        self._make = make
        self._newest = -1
        self._end = float("-inf")

    def at(self, span: Span) -> T | None:
        """The item of the span's step, made when it is new; None when the step is older than all that are kept."""
        item = self.items.get(span.step)
        if item is None:
            if span.step < self._newest // 2 - RESTART and span.start > self._end:
                self.items.clear()  # a later span with a far lower number: a new session
                self.count, self._newest = 0, -1
            if len(self.items) >= self._window:
                oldest = min(self.items)
                if span.step < oldest:
                    return None
                del self.items[oldest]
            item = self.items[span.step] = self._make(span.step)
            self.count += 1
            self._newest = max(self._newest, span.step)
        self._end = max(self._end, span.end)
        return item
