"""How long each operation takes in a step: the colour of graphs, live and in reports, one number wherever it is shown."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable

from workbench.core.trace import Span

__all__ = ["Heat"]

STEPS = 9  # newest timed steps of an operation whose median counts: a pause of one step is no heat


class _Operation:
    """The newest steps of one operation; one that ran more than once in a step has the sum."""

    __slots__ = ("milliseconds", "steps")

    def __init__(self) -> None:
        self.steps: deque[int] = deque(maxlen=STEPS)
        self.milliseconds: deque[float] = deque(maxlen=STEPS)

    def add(self, step: int, length: float) -> None:
        if self.steps and self.steps[-1] == step:
            self.milliseconds[-1] += length
        else:
            self.steps.append(step)
            self.milliseconds.append(length)


class Heat:
    """Times of the operations of one executable."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._operations: dict[str, _Operation] = {}
        self._medians: dict[str, float] = {}
        self._stale: set[str] = set()  # operations whose median is another one now
        self.version = 0
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> None:
        """Take in one span of kind "op" that has ended."""
        known = self._operations.get(span.name)
        if known is None:
            known = self._operations[span.name] = _Operation()
        known.add(span.step, 1e3 * (span.end - span.start))
        self._stale.add(span.name)
        self.version += 1

    @property
    def milliseconds(self) -> dict[str, float]:
        """Operation -> its usual time in a step, as the accounting of steps counts it: a loop with all of its turns."""
        for name in self._stale:
            self._medians[name] = statistics.median(self._operations[name].milliseconds)
        self._stale.clear()
        return self._medians
