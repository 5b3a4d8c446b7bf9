"""How often something that costs time is done: so often that it takes no more than a share of it, on any machine."""
from __future__ import annotations

import math

__all__ = ["Chosen", "Pace"]

FIRST = 64               # steps of a session that are recorded one after the other, at first and again after a pause
SHARE = 0.0025           # of the time that recording steps takes; who watches them pays some times as much
UNUSUAL = 2.0            # times as long as steps usually are, and
LONG = 0.0005            # seconds from which a step is recorded though it is not its turn:
ODD, ODD_FIRST = 0.25, 16    # a part as many of these as of the others, or they would be taken for what is usual
_NEW, _JUMP = 0.1, 10.0  # what the newest one counts, and how many times the usual it counts for at most


class Pace:
    """When a thing may be done again that costs what it cost before: it takes `share` of the time, and what was not used is
    saved for up to `first` times, which may then follow each other at once. At least `least` and at most `most` seconds lie
    between two times on average."""

    __slots__ = ("_least", "_most", "_saved", "_share", "cost", "due")

    def __init__(self, share: float, first: int, least: float = 0.0, most: float = math.inf) -> None:
        self._share, self._saved, self._least, self._most = share, max(0, first - 1), least, most
        self.cost = 0.0          # seconds, usually
        self.due = -math.inf     # from when on it may be done again; a plain number, since each step compares with it

    def paid(self, now: float, cost: float) -> None:
        """It was done until `now` and took `cost` seconds; a pause of the machine meanwhile says little of the next time."""
        self.cost += _NEW * (min(cost, _JUMP * self.cost) - self.cost) if self.cost else cost
        wait = min(max(self._least, self.cost / self._share), self._most)
        self.due = max(self.due, now - self._saved * wait) + wait if self._saved else now + wait


class Chosen:
    """Which steps of a session are recorded: all while they are few or take long, else as many as `SHARE` of the time pays
    for, and besides some of those that take unusually long."""

    __slots__ = ("_odd", "_turns", "_usual", "due", "unusual")

    def __init__(self) -> None:
        self._turns, self._odd = Pace(SHARE, FIRST), Pace(ODD * SHARE, ODD_FIRST)
        self._usual = 0.0
        self.due = -math.inf     # a step that begins from then on is recorded (of those that end, long ones would be most),
        self.unusual = math.inf  # and one that takes longer than this

    def recorded(self, start: float, end: float, now: float) -> None:
        """A step was recorded, which took from `end` until `now`."""
        took = end - start
        if start >= self.due:
            self._usual += _NEW * (min(took, UNUSUAL * self._usual) - self._usual) if self._usual else took
            self._turns.paid(now, now - end)
            self.due = self._turns.due
        else:
            self._odd.paid(now, now - end)
        self.unusual = max(LONG, UNUSUAL * self._usual) if now >= self._odd.due else math.inf
