"""How often to save: as often as the measured cost of a checkpoint allows."""
from __future__ import annotations

import math
from collections import deque

__all__ = ["Interval"]

_LEAST, _MOST = 5.0, 600.0      # seconds; nothing is gained outside: a restart takes about as long as the least
_STEPS = 64                     # the newest steps that tell what one takes


class Interval:
    """Seconds from one checkpoint to the next: fixed, or the fewest by which saving slows training down by `share` at most.

    What a checkpoint costs is measured (Mohan et al., CheckFreq, FAST 2021): the pause in which values are pinned, and what
    steps take longer while they are written. No clock here: durations are told, in seconds.
    """

    def __init__(self, fixed: float | None = None, share: float = 0.02) -> None:
        self.fixed, self.share = fixed, share
        self.cost = 0.0                                          # of the newest checkpoint
        self._written = 0.0                                      # how long it took to write
        self._alone: deque[float] = deque(maxlen=_STEPS)         # steps while nothing was written
        self._slowed: list[float] = []                           # steps since the values were pinned

    def stepped(self, seconds: float, writing: bool) -> None:
        """A training step took so long, while a checkpoint was written or not."""
        if writing:
            self._slowed.append(seconds)
        else:
            self._alone.append(seconds)

    def written(self, pause: float, seconds: float) -> None:
        """A checkpoint is complete: values were pinned in `pause` and written in `seconds`."""
        usual = sorted(self._alone)[len(self._alone) // 2] if self._alone else 0.0
        lost = sum(step - usual for step in self._slowed) if usual else 0.0
        self.cost, self._written = pause + max(0.0, lost), seconds
        self._slowed.clear()

    @property
    def seconds(self) -> float:
        """From the beginning of one checkpoint to that of the next."""
        if self.fixed is not None:
            return self.fixed
        return max(self._written, min(_MOST, max(_LEAST, self.cost / self.share)))

    def best(self, between_failures: float) -> float:
        """The interval that loses the least time in all when a failure comes every so many seconds: Young, CACM 1974."""
        return math.sqrt(2 * self.cost * between_failures)
