"""Idle instances of plans, and the arenas that they share: a step takes one, and gives it back when it ended well."""
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.compile.explain import needs
from workbench.core.compile.instance import Arena, Instance
from workbench.core.compile.plan import Plan
from workbench.core.device.interface import Memory
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.threads import adopt_threads
from workbench.core.run.collector import uncollected
from workbench.core.state.container import Container

__all__ = ["Arenas", "InstancePool"]

_COPIED = 1 << 16      # bytes that are copied sooner than their owner is looked for
_SPARE = 4      # an arena may be this many times as large as asked for


class Arenas:
    """The arenas of one process's share of a session. Plans that run one after the other use the same memory; an arena
    goes with the last instance that is bound to it."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[Arena] = weakref.WeakSet()
        self._lock = threading.Lock()

    def take(self, nbytes: int, counted: Memory, what: str, details: Callable[[], str]) -> Arena:
        """An arena of at least `nbytes` that are counted in `counted`, locked for the caller: the smallest that fits and is
        free, else a new one for `what`, see Arena."""
        with self._lock:
            for arena in sorted(self._all, key=lambda a: a.nbytes):
                fits = nbytes <= arena.nbytes <= _SPARE * nbytes and arena.counted is counted
                if fits and arena.lock.acquire(blocking=False):
                    return arena
            arena = Arena(nbytes, counted, what, details)
            arena.lock.acquire()
            if nbytes:
                self._all.add(arena)
            return arena

    def spare(self, value: Any) -> bool:
        """Is it a large array that is not written while a reference to it exists? A small one is copied unasked."""
        return isinstance(value, np.ndarray) and value.nbytes > _COPIED and not self.hold(value)

    def hold(self, array: np.ndarray[Any, Any]) -> bool:
        """Is this memory of an arena, which later lines and steps write again?"""
        address = array.__array_interface__["data"][0]
        with self._lock:
            return any(arena.begin <= address < arena.begin + arena.nbytes for arena in self._all)

    def sizes(self) -> list[int]:
        """Bytes of each arena there is."""
        with self._lock:
            return sorted(arena.nbytes for arena in self._all)


class InstancePool:
    """Idle instances of one plan; concurrent steps each take their own, on an arena of their own."""

    def __init__(self, plan: Plan, container: Container, device: str, arenas: Arenas, light: bool = False) -> None:
        """`light`: steps of the plan are short, see adopt_threads."""
        self.plan, self.container, self.device, self.arenas, self._light = plan, container, device, arenas, light
        self._idle: dict[bool, list[Instance]] = {False: [], True: []}
        self._made: weakref.WeakSet[Instance] = weakref.WeakSet()

    def cancel(self) -> None:
        """End the loops of the steps that are running; an instance of theirs is not used again."""
        for instance in list(self._made):
            if instance.arena.lock.locked():
                instance.cancelled.set()

    def take(self, traced: bool = False, adopts: bool = True) -> Instance:
        """An instance whose arena nobody else uses until `give` or `abandon`. Who runs it with `adopt_threads` of its own takes
        it without."""
        if adopts:
            adopt_threads(self._light)
        try:
            instance = self._idle[traced].pop()
        except IndexError:
            memory = self.container.device(self.device).memory
            arena = self.arenas.take(self.plan.arena_bytes, memory, f"plan {self.plan.name!r}", lambda: needs(self.plan))
            with uncollected(), Arithmetic():      # what it packs may start OpenMP's threads
                made = Instance(self.plan, self.container, self.device, traced, arena)
            self._made.add(made)
            return made
        return instance if instance.arena.lock.acquire(False) else self._next(instance, traced)

    def _next(self, busy: Instance, traced: bool) -> Instance:
        """Another instance than the one whose arena is in use."""
        try:
            return self.take(traced, adopts=False)
        finally:
            self._idle[traced].append(busy)

    def give(self, instance: Instance) -> None:
        """The step ended well: the next one may have the instance."""
        instance.arena.lock.release()
        if not instance.cancelled.is_set():
            self._idle[instance.traced].append(instance)

    def abandon(self, instance: Instance) -> None:
        """The step failed, and nothing of it runs any more: its memory is free, the instance is not used again."""
        instance.arena.lock.release()

    @property
    def idle(self) -> int:
        """How many instances wait for a step."""
        return sum(map(len, self._idle.values()))
