"""What a task knows of steps: which run here, which are being ended, which are over, and the tensors that came for them."""
from __future__ import annotations

import threading
from typing import Any, NamedTuple

from workbench.core.run.rendezvous import LocalRendezvous

__all__ = ["Active", "Broken", "Steps"]


class Active(NamedTuple):
    """A step that runs here."""

    started: float
    handle: str
    trace: int


class Broken(NamedTuple):
    """A step ended from outside: was it active, does a kernel of it still run, the tensors somebody waits for."""

    active: bool
    runs: bool
    table: LocalRendezvous | None


class Steps:
    """Thread-safe. A step is active, then perhaps aborting (its kernels have not all returned), then over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[int, LocalRendezvous] = {}      # of steps that run here, or whose tensors came early
        self._active: dict[int, Active] = {}
        self._aborting: dict[int, bool] = {}               # does the chief wait for its end?
        self._finished: set[int] = set()                   # over here, perhaps not yet elsewhere
        self._answered: set[int] = set()                   # of those, the ones that ran here to their end
        self._newest = 0                                   # step whose RunStep told of the steps before it
        self._live: frozenset[int] = frozenset()           # those that are not over everywhere

    def _over(self, step: int) -> bool:
        return step in self._finished or self._past(step)

    def _past(self, step: int) -> bool:
        return step < self._newest and step not in self._live

    def begun(self, step: int) -> bool:
        """Does the step run here, or has it been answered?"""
        with self._lock:
            return step in self._active or step in self._aborting or step in self._answered

    def begin(self, step: int, live: tuple[int, ...], active: Active) -> LocalRendezvous | None:
        """The table of a step that begins; None when it is over already. Earlier steps not in `live` are forgotten."""
        with self._lock:
            if step > self._newest:                        # else a later one overtook it on its way
                self._look_back(step, live)
            if self._over(step):
                return None
            self._active[step] = active
            return self._table(step)

    def _look_back(self, step: int, live: tuple[int, ...]) -> None:
        self._newest, self._live = step, frozenset(live)
        if self._finished:
            self._finished = {one for one in self._finished if not self._past(one)}
            self._answered &= self._finished
        if len(self._tables) > len(self._active):
            for one in [s for s in self._tables if self._past(s) and s not in self._active]:
                del self._tables[one]

    def _table(self, step: int) -> LocalRendezvous:
        table = self._tables.get(step)
        if table is None:
            table = self._tables[step] = LocalRendezvous()
        return table

    def table(self, step: int) -> LocalRendezvous | None:
        """Where a tensor that came for the step belongs, also before it begins; None when it is over."""
        with self._lock:
            return None if self._over(step) else self._table(step)

    def done(self, step: int) -> tuple[Active | None, bool, LocalRendezvous | None]:
        """The last kernel returned: (the step if it was active, else None; whether the chief awaits the end; its table)."""
        with self._lock:
            active = self._active.pop(step, None)
            awaited = active is None and self._aborting.pop(step, False)
            table = self._strike(step)
            if active is not None and step in self._finished:
                self._answered.add(step)
            return active, awaited, table

    def abort(self, step: int, awaited: bool) -> Broken:
        """End a step from outside; `awaited`: the chief waits for its end. Until `done` it counts as aborting."""
        with self._lock:
            active = self._active.pop(step, None) is not None
            runs = active or step in self._aborting
            if runs:
                self._aborting[step] = awaited or self._aborting.get(step, False)
            return Broken(active, runs, self._strike(step))

    def _strike(self, step: int) -> LocalRendezvous | None:
        if not self._past(step):
            self._finished.add(step)
        return self._tables.pop(step, None)

    def active(self) -> dict[int, Active]:
        with self._lock:
            return dict(self._active)

    def known(self) -> list[int]:
        """Steps that somebody may wait for."""
        with self._lock:
            return list(self._tables)

    def facts(self) -> dict[str, Any]:
        """For people and for leak checks."""
        with self._lock:
            waiting = [key for table in self._tables.values() for key in table.pending]
            return {"active": sorted(self._active), "aborting": sorted(self._aborting), "waiting": waiting,
                    "tables": len(self._tables), "remembered": len(self._finished)}
