"""How many cores of this process others use: kernels leave them alone meanwhile.

A kernel of as many threads as cores ends, beside a busy process, when the thread that was taken off its core is let on again, a
time slice later; and while they wait, the other threads spin. Fewer threads are then faster, and leave the neighbours alone.
"""
from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Crowd", "crowd"]

PERIOD: Final = 0.25
"""Seconds between two looks; the system counts in hundredths."""
WORKING: Final = 0.8
"""Part of the time between two looks in which the thread that looks ran or wanted to: it was at work all the while. Else, who
used the cores in its rest says nothing of the present."""
CAME, LEFT = 0.5, 0.3
"""Parts of a core: others who use more than the first have it, until they use less than the second."""
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


def wanted_seconds() -> float:
    """What the calling thread has run, or waited for a core; the former alone where no system tells the latter."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return time.thread_time()
    return (int(ran) + int(waited)) / 1e9


class Look(NamedTuple):
    """What one look found, in seconds since some beginning; `wanted` is of one thread."""

    now: float
    busy: float
    own: float
    wanted: float
    thread: int


class Crowd:
    """Compares what all processes used of the cores with what this one did, now and then."""

    def __init__(self, busy: Callable[[], float | None] = busy_seconds, own: Callable[[], float] = time.process_time,
                 wanted: Callable[[], float] = wanted_seconds, clock: Callable[[], float] = time.monotonic) -> None:
        self._busy, self._own, self._wanted, self._clock = busy, own, wanted, clock
        self.taken = 0
        self._next = 0.0
        self._before: Look | None = None

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
        found = self._before = Look(now, busy, self._own(), self._wanted(), threading.get_ident())
        self._next = now + max(PERIOD, 200 * (self._clock() - now))      # many cores make a long table
        if before is not None and found.thread == before.thread and found.wanted - before.wanted > WORKING * (now - before.now):
            self._heard((busy - before.busy - (found.own - before.own)) / (now - before.now))

    def _heard(self, others: float) -> None:
        """Others use so many cores."""
        while others > self.taken + CAME:
            self.taken += 1
        while self.taken and others < self.taken - 1 + LEFT:
            self.taken -= 1

    def leaves(self, cores: int) -> int:
        """Threads for a kernel that could use `cores`: all, or some parts of them, so that few kinds of kernels are made."""
        if not self.taken:
            return cores
        return max((part for part in (cores * 3 // 4, cores // 2, cores // 4) if part <= cores - self.taken), default=1) or 1


crowd = Crowd()
"""That of this process."""
