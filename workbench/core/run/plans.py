"""The executables of a session: each is made once, by the first thread that needs it; a limit of bytes drops the least used."""
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from workbench.core import trace
from workbench.core.compile.budget import Budgeted
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.run.local import Runner
from workbench.core.run.losses import losses_of

__all__ = ["Definition", "Executable", "Family", "Form", "Plans"]

Fed = tuple[tuple[int, ...], ...]
"""The shapes that are fed, in the order of a definition's `feeds`."""

_SPECIAL = 32         # plans of one definition for shapes of their own
_OFTEN = 8            # uses that earn other shapes one of them, when a plan was idle meanwhile
_REMEMBERED = 1024    # shapes without a plan of their own whose uses are counted


class Definition(NamedTuple):
    """What a step computes, however it was asked for: its tensors, operations and feeds, each in an order of their own."""

    tensors: tuple[Tensor, ...]
    targets: tuple[Operation, ...]
    feeds: tuple[Tensor, ...]
    mutations: int


class Executable:
    """What runs steps of a definition, and for the session: where they are recorded, the bytes held, the last use; by device
    what a budget of bytes changed, and the graph that runs there."""

    __slots__ = ("__weakref__", "budgets", "count", "home", "name", "nbytes", "new", "runner", "shares", "used")

    def __init__(self, name: str, runner: Runner, home: str, nbytes: int, budgets: Mapping[str, Budgeted],
                 shares: Mapping[str, Graph]) -> None:
        self.name, self.runner, self.home, self.nbytes, self.budgets = name, runner, home, nbytes, budgets
        self.shares = shares
        self.used, self.count = 0, trace.journal.counter.of(name)      # the number of the step; how many there were
        self.new = False      # for further shapes, and no step of it came at a time when operations are timed

    def pop_new(self) -> bool:
        """Was it new, so that it is too early to time its operations? It is no more. The first step for further shapes makes
        kernels, whose time would be taken for theirs, and its instance would be one for that step."""
        new, self.new = self.new, False
        return new


class Family:
    """The executables of one definition. The first 32 shapes get one of their own each; later shapes share one that
    leaves shapes open, until they are used more than one of the 32."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.special: dict[Fed, Executable] = {}
        self.general: Executable | None = None
        self._others: dict[Fed, tuple[int, int]] = {}           # shapes -> (uses, the step before the first)

    def get(self, fed: Fed | None) -> Executable | None:
        return self.general if fed is None else self.special.get(fed)

    def known(self, fed: Fed) -> bool:
        """Have values of these shapes been fed before?"""
        return fed in self.special or fed in self._others

    def deserves(self, fed: Fed) -> bool:
        """Shall `fed` have an executable of its own? Counts as a use."""
        if fed in self.special or len(self.special) < _SPECIAL:
            return True
        used = [e.used for e in list(self.special.values())]
        uses, since = self._others.pop(fed, (0, max(used)))
        if uses + 1 >= _OFTEN:
            if min(used) < since:
                return True
            uses, since = 0, max(used)
        while len(self._others) >= _REMEMBERED:
            self._others.pop(next(iter(self._others)), None)
        self._others[fed] = uses + 1, since
        return False

    def all(self) -> list[Executable]:
        return [*list(self.special.values()), *([self.general] if self.general else [])]

    def forget(self, dropped: set[Executable]) -> None:
        for fed in [fed for fed, e in self.special.copy().items() if e in dropped]:
            self.special.pop(fed, None)
        if self.general in dropped:
            self.general = None


class Form:
    """One way to ask for a definition: how its results are put together, and where each fed value goes."""

    __slots__ = ("__weakref__", "build", "family", "losses", "mutations", "order", "ready")

    def __init__(self, family: Family, order: tuple[int, ...] | None, build: Callable[[Any], Any]) -> None:
        self.family, self.order, self.build = family, order, build
        self.losses = losses_of(family.definition.tensors)
        self.mutations = family.definition.mutations
        self.ready: dict[Fed, Executable] = {}      # by the shapes as they are fed here


class Plans:
    """The families of a session, within `limit` bytes. A thread that needs an executable which another one is making waits for
    that one alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._families: dict[Definition, Family] = {}
        self._making: dict[Any, threading.RLock] = {}
        self._forms: weakref.WeakSet[Form] = weakref.WeakSet()
        self._lock = threading.RLock()

    def __iter__(self) -> Any:
        return iter([e for family in list(self._families.values()) for e in family.all()])

    def family(self, definition: Definition) -> Family:
        """The family of `definition`. One of a graph that changed since is of no use any more, and goes."""
        with self._lock:
            for old in [d for d in self._families if d.mutations < definition.mutations]:
                self._drop(self._families.pop(old).all())
            return self._families.setdefault(definition, Family(definition))

    def watch(self, form: Form) -> None:
        """`form` remembers executables; it forgets those that are dropped."""
        with self._lock:
            self._forms.add(form)

    def find(self, family: Family, fed: Fed | None, make: Callable[[], Executable]) -> Executable:
        """The executable for the shapes `fed`, or for any with None; made now unless it is there or another thread makes
        it. Raises what `make` raises; whoever waited tries again."""
        found = family.get(fed)
        if found is not None:
            return found
        with self._making.setdefault((family.definition, fed), threading.RLock()):
            try:
                found = family.get(fed)
                if found is None:
                    found = make()
                    with self._lock:
                        self._keep(family, fed, found)
            finally:
                self._making.pop((family.definition, fed), None)
        return found

    def _keep(self, family: Family, fed: Fed | None, made: Executable) -> None:
        others = sorted(self, key=lambda e: e.used)
        made.used = others[-1].used if others else 0
        if fed is None:
            family.general = made
        else:
            if len(family.special) >= _SPECIAL:
                self._drop(sorted(family.special.values(), key=lambda e: e.used)[:1])
            made.new = bool(family.special)
            family.special[fed] = made
        held = made.nbytes + sum(e.nbytes for e in others)
        for executable in others:
            if held > self.limit:
                self._drop([executable])
                held -= executable.nbytes

    def _drop(self, executables: Iterable[Executable]) -> None:
        """Forget them here and in every form; steps that run them now still finish."""
        dropped = set(executables)
        for family in self._families.values():
            family.forget(dropped)
        for form in self._forms:
            for fed in [fed for fed, e in form.ready.copy().items() if e in dropped]:
                form.ready.pop(fed, None)

    def drop(self) -> None:
        """Forget all executables: each is made anew when it is next asked for."""
        with self._lock:
            self._drop(self)

    def clear(self) -> None:
        with self._lock:
            self._drop(self)
            self._families.clear()
