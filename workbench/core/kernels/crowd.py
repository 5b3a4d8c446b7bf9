"""Whether other processes want the cores of this one: while they do, kernels keep to one thread each.

A kernel of two threads beside a busy process ends when the thread that was taken off its core is let on again, a time slice
later; and while it waits, its other thread spins. One thread is then faster than two, and leaves its neighbours alone.
"""
from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

__all__ = ["Crowd", "crowd"]

PERIOD: Final = 0.25
"""Seconds between two looks; the system counts in hundredths."""
WORKING: Final = 0.4
"""Cores that this process used between two looks, from which on it was at work all the while. Else, who used the others
in its rest says nothing of the present."""
CAME, LEFT = 0.3, 0.15
"""Cores that others use: from the first on they are in the way, until it is less than the second."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def busy_seconds() -> float | None:
    """What the cores that this process may use have worked since the machine started; None where no system tells."""
    try:
        cores = os.sched_getaffinity(0)
        with open("/proc/stat") as file:
            lines = [line.split() for line in file if line.startswith("cpu")]
    except (AttributeError, OSError):
        return None
    mine = [[int(part) for part in line[1:9]] for line in lines if line[0][3:].isdigit() and int(line[0][3:]) in cores]
    # user, nice, system, idle, iowait, irq, softirq, steal
    return sum(sum(core) - core[3] - core[4] for core in mine) / _TICKS if mine else None


class Crowd:
    """Compares what all processes used of the cores with what this one did, now and then."""

    def __init__(self, busy: Callable[[], float | None] = busy_seconds, own: Callable[[], float] = time.process_time,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._busy, self._own, self._clock = busy, own, clock
        self.near = False
        self._next = 0.0
        self._before: tuple[float, float, float] | None = None

    def look(self) -> None:
        """Between steps: mostly it is too early to look again, and costs nothing."""
        now = self._clock()
        if now >= self._next:
            self._look(now)

    def _look(self, now: float) -> None:
        busy, before = self._busy(), self._before
        if busy is None:      # there is nothing to be seen, here and later
            self._next = float("inf")
            return
        cost = self._clock() - now      # many cores make a long table
        self._next = now + max(PERIOD, 200 * cost)
        self._before = now, busy, self._own()
        if before is not None:
            elapsed, everybody, ours = (one - other for one, other in zip(self._before, before))
            if ours > WORKING * elapsed:
                self.near = everybody - ours > (LEFT if self.near else CAME) * elapsed


crowd = Crowd()
"""That of this process."""
