"""Which steps of a cluster leave records: as many as the chief pays for taking them in, of each executable in proportion."""
from __future__ import annotations

import time

from workbench.cluster.task.engines import LONG, OPERATIONS, SILENT, SPANS
from workbench.core.pace import Pace
from workbench.core.trace import Journal

__all__ = ["Sampling"]

_RECORD_SECONDS = 0.05    # between two steps of one executable that are recorded, at least, and
_RARELY = 0.6             # at most: nothing on screen is more than a second behind (docs/design.md, "how old")
_SHARE = 0.01             # of the time that it takes to take in what tasks record; as often as that allows steps are recorded
_PRICED = 16              # recorded steps after which it is measured anew what one costs
_FIRST = 5                # steps of a training that are recorded whatever it costs, so that a short one can be judged
_SELDOM = 6               # times as long as between others, after which a step is recorded of what seldom runs
_LAPSES = 3               # times as long after which the busiest executable is no longer said to run


class _Executable:
    """Steps of one executable."""

    __slots__ = ("chosen", "late", "pace", "passed")

    def __init__(self) -> None:
        self.pace = Pace(_SHARE, 1, _RECORD_SECONDS, _RARELY)
        self.chosen = 0              # steps of this training that are recorded
        self.passed = 0              # since the last that was recorded, with the next
        self.late = float("-inf")    # from when on the next is recorded however few they were


class Sampling:
    """Of short steps that follow each other some are recorded, by time; a training that begins is recorded anew. An
    executable that runs seldom, as an evaluation after every hundredth step, is recorded once in about as many of its own
    steps as the one that runs most: by time alone each of its steps would be, and it would look as if it ran half as often."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._executables: dict[str, _Executable] = {}          # by handle
        self._busiest, self._stride, self._until = "", 0, 0.0   # which runs most, steps between two recorded, and until when
        self._price, self._priced = 0.0, (0, 0.0)               # seconds for one; steps and seconds when it was measured
        self._chosen = 0                                        # recorded steps
        self._begun = journal.begun                             # when the training began that is recorded

    def level(self, handle: str, timed: bool) -> int:
        """What the tasks record of the next step of `handle`; of one that takes long they tell anyhow. `timed`: somebody asked
        for the times of its operations."""
        if not self._journal.enabled:
            return SILENT
        if self._begun != self._journal.begun:
            self._begun, self._executables, self._until = self._journal.begun, {}, 0.0
        now, its = time.perf_counter(), self._executables.get(handle)
        if its is None:
            its = self._executables[handle] = _Executable()
        its.passed += 1
        if not timed and (now < its.pace.due or (2 * its.passed < self._stride and now < min(its.late, self._until))):
            return LONG
        self._chosen += 1
        count, taken = self._chosen - self._priced[0], self._journal.taking - self._priced[1]
        if count >= _PRICED and taken > 0:
            self._price, self._priced = taken / count, (self._chosen, self._journal.taking)
        its.pace.paid(now, self._price * len(self._executables))
        its.chosen += 1
        if its.chosen < _FIRST:
            its.pace.due = min(its.pace.due, now + _RECORD_SECONDS)
        wait = its.pace.due - now
        if handle == self._busiest or its.passed > self._stride or now > self._until:
            self._busiest, self._stride, self._until = handle, its.passed, now + _LAPSES * wait
        its.passed, its.late = 0, now + _SELDOM * wait
        return OPERATIONS if timed else SPANS

    def forget(self, handle: str) -> None:
        """`handle` takes no more steps."""
        self._executables.pop(handle, None)
