"""What a task knows of steps: which run here, which are being ended, which are over, and the tensors that came for them."""
from __future__ import annotations

import threading
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.names import split_edge, task_of
from workbench.core.run.rendezvous import LocalRendezvous
from workbench.core.run.where import place_of_any

__all__ = ["LATE", "Active", "Broken", "Steps"]

_EARLY = 2 << 30       # bytes that one peer may have waiting for steps that have not begun, besides those of one such step
_LONG = 1.0            # seconds from which on people want to know where a step is
LATE = 0.1             # seconds within which a span that has ended is recorded
_WORDS = 300           # characters of that, a message holds 512 bytes
_NONE: frozenset[int] = frozenset()
_ENTRY = 1 << 10       # what a tensor takes besides its bytes


class Active(NamedTuple):
    """A step that runs here."""

    started: float
    handle: str
    trace: int
    relay: str = ""            # the task that passed it on, which wants to know when it is done


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
        self._early: dict[int, dict[str, int]] = {}        # step that has not begun here -> peer -> bytes that came for it
        self._waiting: dict[str, int] = {}                 # peer -> all such bytes
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

    def begin(self, step: int, live: tuple[int, ...], active: Active) -> LocalRendezvous | bool:
        """The table of a step that begins; True when it has begun before, False when it is over without. Earlier steps that are
        not in `live` are forgotten."""
        with self._lock:
            if step > self._newest and not (live or self._active or self._aborting or self._tables) and (
                    not self._finished or max(self._finished) < step):      # nearly always: nothing else is known here
                self._newest, self._live = step, _NONE
                self._finished.clear()
                self._answered.clear()
                self._active[step] = active
                table = self._tables[step] = LocalRendezvous()
                return table
            if step in self._active or step in self._aborting or step in self._answered:      # it runs here, or did
                return True
            if step > self._newest:                        # else a later one overtook it on its way
                self._look_back(step, live)
            if step in self._finished or self._past(step):
                return False
            self._active[step] = active
            if self._early:
                self._settle(step)
            return self._table(step)

    def _look_back(self, step: int, live: tuple[int, ...]) -> None:
        self._newest, self._live = step, frozenset(live) if live else _NONE
        self._finished = {one for one in self._finished if not self._past(one)}
        self._answered &= self._finished
        if len(self._tables) > len(self._active):
            for one in [s for s in self._tables if self._past(s) and s not in self._active]:
                self._forget(one)

    def _forget(self, step: int) -> LocalRendezvous | None:
        if self._early:
            self._settle(step)
        return self._tables.pop(step, None)

    def _settle(self, step: int) -> None:
        """Nothing is early for the step any more: it begins, or is over."""
        for peer, nbytes in self._early.pop(step, {}).items():
            self._waiting[peer] -= nbytes
            if not self._waiting[peer]:
                del self._waiting[peer]

    def _table(self, step: int) -> LocalRendezvous:
        table = self._tables.get(step)
        if table is None:
            table = self._tables[step] = LocalRendezvous()
        return table

    def table(self, step: int, peer: str, nbytes: int) -> LocalRendezvous | None:
        """Where a tensor of `nbytes` that came from `peer` belongs, also before its step begins; None when that is over.

        DataLossError when the peer sends and sends for steps that do not begin.
        """
        with self._lock:
            table = self._tables.get(step)
            if table is not None and step in self._active and (step >= self._newest or step in self._live):
                return table
            if self._over(step):
                return None
            if step not in self._active and step not in self._aborting:
                self._count_early(step, peer, nbytes + _ENTRY)
            return self._table(step)

    def _count_early(self, step: int, peer: str, nbytes: int) -> None:
        came, waiting = self._early.setdefault(step, {}), self._waiting.get(peer, 0)
        others = waiting - came.get(peer, 0)
        if others > _EARLY:
            raise errors.DataLossError(f"{peer}: it sent {others} bytes for steps that have not begun here, and goes on with "
                                       f"step {step}; {_EARLY} are kept at most, the stream is damaged")
        came[peer] = came.get(peer, 0) + nbytes
        self._waiting[peer] = waiting + nbytes

    def lost(self, peer: str) -> None:
        """A connection from the peer ended, and with it all steps that wait for what it sent: they need not begin."""
        with self._lock:
            for step in [step for step, came in self._early.items() if peer in came]:
                self._forget(step)

    def done(self, step: int) -> tuple[Active | None, bool, LocalRendezvous | None]:
        """The last kernel returned: (the step if it was active, else None; whether the chief awaits the end; its table)."""
        with self._lock:
            active = self._active.pop(step, None)
            awaited = active is None and self._aborting.pop(step, False)
            if step >= self._newest or step in self._live:
                self._finished.add(step)
                if active is not None:
                    self._answered.add(step)
            if self._early:
                self._settle(step)
            return active, awaited, self._tables.pop(step, None)

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
        return self._forget(step)

    def active(self) -> dict[int, Active]:
        with self._lock:
            return dict(self._active)

    def doing(self, now: float) -> str:
        """What a step that takes long does here: "in " an operation, "for " a task whose tensors it waits for; "" otherwise."""
        with self._lock:
            long = {step: run.handle for step, run in self._active.items() if now - run.started > _LONG}
            tables = [self._tables[step] for step in long if step in self._tables]
        if not long:
            return ""
        place = place_of_any(set(long.values()))
        waits = sorted({task_of(split_edge(edge).source) for table in tables for edge in table.pending})
        return (f"in {place}" if place else f"for {waits[0]}" if waits else "")[:_WORDS]

    def told(self, now: float) -> float:
        """Until when all that ended is recorded: a step that runs here may yet say what it did, one that is over hardly."""
        with self._lock:
            return min([now - LATE, *(run.started for run in self._active.values())])

    def known(self) -> list[int]:
        """Steps that somebody may wait for."""
        with self._lock:
            return list(self._tables)

    def facts(self) -> dict[str, Any]:
        """For people and for leak checks. No lock: whoever asks why all hangs must not hang, too (see `pending`)."""
        waiting = [edge for table in list(self._tables.values()) for edge in table.pending]
        return {"active": sorted(self._active), "aborting": sorted(self._aborting), "waiting": waiting,
                "early": sum(list(self._waiting.values())),
                "tables": len(self._tables), "remembered": len(self._finished)}
