"""How many cores of this process others use: kernels leave them alone meanwhile.

A kernel of as many threads as cores ends, beside a busy process, when the thread that was taken off its core is let on again, a
time slice later; and while they wait, the other threads spin. Fewer threads are then faster, and leave the neighbours alone.
Where others use every core, none is left to keep to: then each core gives a part of its time, and as many threads as cores,
each on its own (`workbench/core/kernels/places.py`), get more of it than one.
"""
from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from workbench.core.threads import core_count, usable_cores

__all__ = ["Crowd", "crowd"]

PERIOD: Final = 0.25
"""Seconds between two looks; the system counts in hundredths."""
WORKING: Final = 0.8
"""Part of the time between two looks in which the thread that looks ran or wanted to: it was at work all the while. Else, who
used the cores in its rest says nothing of the present."""
CAME, LEFT = 0.5, 0.3
"""Parts of a core: others who use more than the first have it, until they use less than the second."""
WAITED: Final = 0.15
"""Part of its time from which on a thread that waited for a core was kept from it by others, and they by the thread."""
CAME_TOO, LEFT_TOO = 0.15, 0.1
"""The same parts where they kept each other from a core: who uses a little of it would use all."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def busy_seconds() -> float | None:
    """What the cores that this process may use have worked since the machine started; None where no system tells."""
    cores = usable_cores()
    try:
        with open("/proc/stat") as file:
            lines = [line.split() for line in file if line.startswith("cpu")]
    except OSError:
        return None
    mine = [[int(part) for part in line[1:9]] for line in lines if line[0][3:].isdigit() and int(line[0][3:]) in cores]
    # user, nice, system, idle, iowait, irq, softirq, steal
    return sum(sum(core) - core[3] - core[4] for core in mine) / _TICKS if mine else None


def wanted_seconds() -> tuple[float, float]:
    """What the calling thread has run, and waited for a core; the former alone where no system tells the latter."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return time.thread_time(), 0.0
    return int(ran) / 1e9, int(waited) / 1e9


class Look(NamedTuple):
    """What one look found, in seconds since some beginning; `ran` and `waited` are of one thread."""

    now: float
    busy: float
    own: float
    ran: float
    waited: float
    thread: int


class Crowd:
    """Compares what all processes used of the cores with what this one did, now and then."""

    def __init__(self, busy: Callable[[], float | None] = busy_seconds, own: Callable[[], float] = time.process_time,
                 wanted: Callable[[], tuple[float, float]] = wanted_seconds, clock: Callable[[], float] = time.monotonic,
                 cores: Callable[[], int] = core_count) -> None:
        self._busy, self._own, self._wanted, self._clock, self._count = busy, own, wanted, clock, cores
        self.taken, self.cores = 0, cores()
        self._next = 0.0
        self._before: Look | None = None

    @property
    def everywhere(self) -> bool:
        """Others use every core."""
        return self.taken >= self.cores

    def look(self) -> None:
        """Between steps: mostly it is too early to look again, and costs nothing."""
        now = self._clock()
        if now >= self._next:
            self._look(now)

    def _look(self, now: float) -> None:
        busy, before, self.cores = self._busy(), self._before, self._count()
        if busy is None:      # there is nothing to be seen, here and later
            self._next = float("inf")
            return
        found = self._before = Look(now, busy, self._own(), *self._wanted(), threading.get_ident())
        self._next = now + max(PERIOD, 200 * (self._clock() - now))      # many cores make a long table
        if before is not None and found.thread == before.thread:
            passed, waited = now - before.now, found.waited - before.waited
            if found.ran - before.ran + waited > WORKING * passed:
                self._heard((busy - before.busy - (found.own - before.own)) / passed, waited / passed)

    def _heard(self, others: float, waited: float) -> None:
        """Others use so many cores, and we waited for one such a part of our time."""
        came, left = (CAME_TOO, LEFT_TOO) if waited > WAITED else (CAME, LEFT)
        if waited > WAITED and self.everywhere:      # they got half of each core that they use, and we the other
            others *= 2
        while self.taken < self.cores and others > self.taken + came:
            self.taken += 1
        while self.taken and others < self.taken - 1 + left:
            self.taken -= 1

    def leaves(self, threads: int) -> int:
        """Threads for a kernel that could use `threads`: all, or some parts of them, so that few kinds of kernels are made."""
        if not self.taken:
            return threads
        left = threads if self.everywhere and threads == self.cores else threads - self.taken
        parts = threads, threads * 3 // 4, threads // 2, threads // 4
        return max((part for part in parts if part <= left), default=1) or 1


crowd = Crowd()
"""That of this process."""
