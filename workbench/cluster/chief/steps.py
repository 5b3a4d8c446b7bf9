"""Steps in flight as the chief sees them: who still owes an answer, and what went wrong first."""
from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from workbench import errors
from workbench.cluster.chief.member import Member
from workbench.cluster.link.callers import CallerGroup
from workbench.cluster.wire import messages as m
from workbench.viz.palette import short_task

__all__ = ["PendingStep", "Tries"]

_ANSWERS = frozenset((m.Through.kind, m.Done.kind))      # that may come twice, see `CallerGroup.receive`
_SILENT = 2      # probes without an answer, twice a second, after which a task is said not to answer


class PendingStep:
    """One step: counts answers, keeps the first failure, wakes its caller once. Thread-safe."""

    __slots__ = ("_latch", "_lock", "_over", "_primary", "_receiving", "error", "handle", "missing", "results", "secondary",
                 "sequence", "step", "tasks", "trace")

    def __init__(self, step: int, handle: str, tasks: tuple[str, ...], trace: int = 0) -> None:
        self.step, self.handle, self.tasks, self.trace = step, handle, frozenset(tasks), trace
        self.sequence = 0                    # of a step that may be tried again: the number of its first try
        self.missing = dict.fromkeys(tasks)  # that have not said their last word of this step
        self.results: dict[str, list[Any]] = {}
        self.error: errors.Error | None = None
        self.secondary = False               # the error only reports that some peer was lost
        self._lock = threading.Lock()
        self._latch = threading.Lock()       # held until the step is decided: cheaper than an Event
        self._latch.acquire()
        self._receiving: CallerGroup | None = None            # in which the caller waits itself
        self._primary: threading.Condition | None = None      # somebody waits for the primary failure
        self._over: threading.Event | None = None             # somebody waits for the last word of the last task

    def done(self, fetches: Mapping[str, list[Any]]) -> None:
        """These tasks succeeded; what is said once more when all have is nothing new, though the caller has not woken yet."""
        with self._lock:
            if not self.missing:
                return
            self.results.update(fetches)
            for task in fetches:
                self.missing.pop(task, None)
            if not self.missing:
                if self._over is not None:
                    self._over.set()
                if self.error is None:
                    self._decide()

    def _decide(self) -> None:
        self._latch.release()
        group = self._receiving      # NOTE: only now, or one may come; and once, for one that sees the decision leaves
        if group is not None:
            group.nudge()

    def over_at(self, task: str) -> None:
        """Nothing of a step that failed runs at `task` any more."""
        with self._lock:
            self.missing.pop(task, None)
            if not self.missing and self._over is not None:
                self._over.set()

    def fail(self, error: errors.Error, secondary: bool = False) -> None:
        """Record a failure. A primary one replaces a secondary one, which only names its consequence."""
        with self._lock:
            if not self.missing and self.error is None:
                return                       # all answered: it succeeded
            if self.error is None:
                self.error, self.secondary = error, secondary
                self._decide()
            elif self.secondary and not secondary:
                self.error, self.secondary = error, False
                if self._primary is not None:
                    self._primary.notify_all()

    def wait(self, timeout: float | None, group: CallerGroup | None = None) -> bool:
        """Block until all answered or one failed; False when `timeout` seconds passed. Without such a limit this thread
        receives in place of that of `group`."""
        if group is not None and timeout is None:
            self._receiving = group
            group.receive(self._decided, _ANSWERS)
            self._receiving = None
        return self._latch.acquire(timeout=-1 if timeout is None else max(0.0, timeout))

    def _decided(self) -> bool:
        return not self._latch.locked()

    def wait_until_over(self, timeout: float) -> bool:
        """After a failure: block until nothing of the step runs anywhere; False when `timeout` seconds passed."""
        with self._lock:
            if not self.missing:
                return True
            self._over = threading.Event()
        return self._over.wait(timeout)

    def wait_for_cause(self, timeout: float) -> None:
        """After a secondary failure: give the primary one a moment to arrive."""
        if self.secondary:
            with self._lock:
                self._primary = threading.Condition(self._lock)
                self._primary.wait_for(lambda: not self.secondary, timeout)

    def doing(self, members: Mapping[str, Member]) -> tuple[str, str]:
        """It waits for a task that does not answer, computes in an operation, or waits for a task; in words for people."""
        late = [task for task in list(self.missing) if task in members]
        silent = [task for task in late if members[task].unanswered > _SILENT]
        if silent:
            return "waiting", f"for {short_task(silent[0])}, which does not answer"
        said = {task: members[task].doing for task in late}
        place = next(((task, doing) for task, doing in said.items() if doing.startswith("in ")), None)
        if place is not None:
            return "running", f"{place[1].removeprefix('in ')} on {short_task(place[0])}"
        whom = next((doing.removeprefix("for ") for doing in said.values() if doing), "")
        return ("waiting", f"for {short_task(whom)}") if whom else ("running", "")


class Tries:
    """A step that is tried until it succeeds: what a try does to state that outlives it no later try does again.

    Use it with `with` around each try, one step on this thread; `over()` when nobody tries any more.
    """

    def __init__(self, trying: threading.local, forget: Callable[[int], object]) -> None:
        self.sequence = 0                    # the number of the first try, once there was one
        self._trying, self._forget = trying, forget

    def __enter__(self) -> None:
        self._trying.tries = self

    def __exit__(self, *raised: object) -> None:
        self._trying.tries = None

    def over(self) -> None:
        """It succeeded, or was given up."""
        self._forget(self.sequence)
