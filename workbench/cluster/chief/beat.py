"""When the chief asks its tasks for clocks and spans: twice a second, or as soon as they can tell of a step recorded rarely."""
from __future__ import annotations

import threading
import time

from workbench.cluster.task.engines import SPANS
from workbench.cluster.task.steps import LATE

__all__ = ["Beat"]

_PERIOD = 0.5           # seconds between two times, where no step is recorded or many are; elsewhere
_LONGEST = 0.8          # at most: else tasks were asked just before such a step ends, and once more behind it
_TELLING = LATE + 0.02  # after the end of a step tasks can tell all of it
_LEAST = 0.3            # seconds between two times, at least
_RARE = 0.3             # seconds between two recorded steps from which on each is waited for,
_GONE = 1.0             # until so many have passed without another


class Beat:
    """One thread waits for it; any may say that a recorded step has ended.

    Steps that are recorded as rarely as tasks are asked would else be told up to half a second after their end, and what is
    shown would be older than a second before the next one comes.
    """

    def __init__(self) -> None:
        self._asked, self._ended, self._rare = time.perf_counter(), float("-inf"), False
        self._over = False
        self._news = threading.Event()

    def ended(self, level: int = SPANS) -> None:
        """A step has ended on all of its tasks, of which so much was recorded."""
        if level < SPANS:
            return
        before, self._ended = self._ended, time.perf_counter()
        self._rare = self._ended - before >= _RARE
        if self._rare:
            self._news.set()

    @property
    def due(self) -> float:
        """When tasks are asked next, as far as is known."""
        if not self._rare or self._asked - self._ended > _GONE:
            return self._asked + _PERIOD
        return max(self._ended + _TELLING, self._asked + _LEAST) if self._ended > self._asked else self._asked + _LONGEST

    def asking(self) -> float:
        """Tasks are asked now: how many half seconds after the last time, as far as it waited; a process that slept did not."""
        now = time.perf_counter()
        beats, self._asked = min(_LONGEST + _TELLING, now - self._asked) / _PERIOD, now
        return beats

    def wait(self) -> bool:
        """Until it is time to ask; False when it is over."""
        while not self._over:
            left = self.due - time.perf_counter()
            if left <= 0:
                return True
            self._news.wait(left)
            self._news.clear()
        return False

    def end(self) -> None:
        self._over = True
        self._news.set()
