"""Steps that a task passes on to others: who of them is through, so that it gives the chief one answer for all."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.cluster.task.failures import failed
from workbench.cluster.wire import messages as m

__all__ = ["Relays"]

_KEPT = 256      # orders that are kept, for they come again and again


class Relays:
    """Thread-safe. A step is here from the moment it is passed on until all are through or it failed somewhere: then each
    task deals with the chief itself, and what the others say here of the step is not heard any more.

    `post(tasks, message, step)` tells other tasks, `answer(message, step)` the chief; `mark_last(task, step)` lets a tensor
    that goes to a task say that this one is through, if there is one.
    """

    def __init__(self, name: str, post: Callable[[Sequence[str], m.Message, int], None],
                 answer: Callable[[m.Message, int], None], mark_last: Callable[[str, int], bool]) -> None:
        self._name, self._post, self._answer, self._mark_last = name, post, answer, mark_last
        self._through = m.Through((name,))
        self._lock = threading.Lock()
        self._missing: dict[int, set[str]] = {}
        self._parties: dict[int, tuple[str, ...]] = {}      # for whom this answers

    def __contains__(self, step: int) -> bool:
        return step in self._missing

    def begin(self, step: int, order: m.RunStep) -> None:
        """Pass the step on to those that the order names."""
        with self._lock:
            self._parties[step] = parties = (self._name, *order.relay)
            self._missing[step] = set(parties)
        self._post(order.relay, _passed(order.handle, order.live, order.trace, order.driver, order.incarnation,
                                        order.sequence), step)

    def ended(self, step: int, relay: str, fetches: list[Any]) -> None:
        """This task is done with a step that `relay` passed on to it, or else it to others."""
        try:
            if fetches:
                raise errors.InternalError(f"step {step}: {self._name} has something to fetch, which no relay takes along; "
                                           "register it without one")
            if relay:
                if not self._mark_last(relay, step):
                    self._post((relay,), self._through, step)
            else:
                self.through(step, self._through.tasks)
        except errors.Error as error:
            self.drop(step)
            self._answer(failed(error, relay), step)

    def through(self, step: int, tasks: tuple[str, ...]) -> None:
        """This task, or one that heard of the step here, is done with it; the last one is the end."""
        with self._lock:
            missing = self._missing.get(step)
            if missing is None or not missing.issuperset(tasks):
                return
            missing.difference_update(tasks)
            if missing:
                return
            del self._missing[step]
            parties = self._parties.pop(step)
        self._answer(_through(parties), step)

    def drop(self, step: int) -> None:
        """It failed."""
        if step in self._missing:
            with self._lock:
                self._missing.pop(step, None)
                self._parties.pop(step, None)

    def known(self) -> list[int]:
        """For people and for leak checks; takes no lock."""
        return sorted(self._missing)


_through = functools.lru_cache(_KEPT)(m.Through)


@functools.lru_cache(_KEPT)
def _passed(handle: str, live: tuple[int, ...], trace: int, driver: str, incarnation: int, sequence: int) -> m.RunStep:
    """The order as others get it."""
    return m.RunStep(handle, live, trace, {}, driver, incarnation, sequence)
