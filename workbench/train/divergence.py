"""A loss that has run away while it is a number still, as stable losses do of weights that grew too fast."""
from __future__ import annotations

__all__ = ["Divergence"]

TIMES = 1000.0     # what it began with, or 1, the order of a mean over examples: no model that learns stays above that
STEPS = 20         # on end: a spike is no divergence


class Divergence:
    """Looks at one loss after the other."""

    def __init__(self) -> None:
        self._usual, self._high = 0.0, 0

    def times(self, loss: float) -> float:
        """How many times the first loss this one is, where it and the STEPS - 1 before it were more than TIMES; else 0."""
        self._usual = self._usual or max(1.0, abs(loss))
        self._high = self._high + 1 if abs(loss) > TIMES * self._usual else 0
        return abs(loss) / self._usual if self._high >= STEPS else 0.0
