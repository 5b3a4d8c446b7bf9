"""Where a task receives: on one core, where that core lets it, so that the messages of short steps wake no other.

The system puts a thread that a message wakes on a core that idles. Where idle cores sleep deeply, those of virtual machines
above all, to wake one takes as long as a task's part in a short step; on the core of the thread that sent the message, which
is about to wait, it costs next to nothing. So the tasks number i of all jobs of a cluster, which wait for each other, receive
on one core. Only the role of the receiver stands there: whoever computes for longer hands it over before (`Leadership`), and
is free, as is who runs a step that more than one core could share (`GraphEngine.run`).
"""
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from workbench.core.kernels.arithmetic import computing
from workbench.core.kernels.crowd import wanted_seconds
from workbench.core.threads import free_core, keep_core, usable_cores

__all__ = ["Stand"]

LONG: Final = 0.1
"""Seconds that one thread receives where steps are short: it hands over when the chief asks how it goes, twice a second. Where
steps compute for longer it does so in each, and a core of its own would only be in the way."""
WAITED: Final = 0.4
"""Part of the time that it wanted to run in which it waited for the core: others want it, who may not leave, or not at once."""
_RESTS: Final = 64      # long receptions at most for which it stays free then


class Stand:
    """Of one task; of the thread that receives at the time."""

    def __init__(self, number: int, wanted: Callable[[], tuple[float, float]] = wanted_seconds,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """The core is the one of that `number` among those of the process, counted around."""
        self._number, self._wanted, self._clock = number, wanted, clock
        self._settled = False      # the last thread received for long
        self._rests = 0            # long receptions until a core is tried again
        self._next_rests = 1       # after the next failure

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """For the thread that receives, as long as it does; it runs light steps itself, so it computes as they do."""
        with computing():
            began, bound = self._clock(), self._settled and not self._rests
            if bound:
                ran, waited = self._wanted()
                cores = sorted(usable_cores())
                keep_core(cores[self._number % len(cores)])
            try:
                yield
            finally:
                self._settled = self._clock() - began >= LONG
                if bound:
                    free_core()
                    ran_since, waited_since = self._wanted()
                    self._tried(ran_since - ran, waited_since - waited)
                elif self._settled and self._rests:
                    self._rests -= 1

    def _tried(self, ran: float, waited: float) -> None:
        """A core was kept, on which the thread ran and waited for so long."""
        if not self._settled:
            return
        if waited > WAITED * (ran + waited):
            self._rests = self._next_rests
            self._next_rests = min(2 * self._next_rests, _RESTS)
        else:
            self._next_rests = 1
