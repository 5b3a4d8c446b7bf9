"""The topic "steps": the course of each task's work, step by step; what travels are the new points."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.core.trace import Journal
from workbench.viz.books import Books
from workbench.viz.reader import Shared
from workbench.viz.schema import StepView, TaskSteps
from workbench.viz.step_view import StepTimes
from workbench.viz.views.base import View, view

__all__ = ["Steps"]


@dataclass
class _Sent:
    """What a watcher has: of each task the number of its newest point, in lines made of these executables."""

    version: int = -1
    executables: tuple[str, ...] = ()
    newest: dict[str, int] = field(default_factory=dict)


@view("steps", StepView)
class Steps(View):
    """Window and number of tasks are bounded together (`step_view.POINTS`)."""

    accounts = True

    def __init__(self, journal: Journal, books: Books, shared: Shared) -> None:
        super().__init__(journal, books, shared)
        self._times = StepTimes(origin=journal.origin)
        self._version = self._cursor = 0
        self._regular: tuple[str, ...] = ()
        self._made: tuple[int, StepView | None] = (0, None)

    def advance(self, now: float) -> None:
        self._cursor, steps = self.books.steps_since(self._cursor)
        self._version += self._times.feed(steps) + (self._regular != self.books.regular)
        self._regular = self.books.regular      # of a verdict, which comes after its steps

    def version(self, params: Any) -> Hashable:
        return self._version

    def whole(self, params: Any) -> StepView | None:
        if self._made[0] != self._version:
            self._made = self._version, self._times.view(self._regular)
        return self._made[1]

    def delta(self, sent: Any, params: Any) -> tuple[StepView | None, Any]:
        whole = self.whole(params)
        before = sent or _Sent()
        if whole is None or before.version == self._version:
            return None, sent
        same = before.executables == self._regular
        now = _Sent(self._version, self._regular, {task.task: self._times.newest(task.task) for task in whole.tasks})
        tasks = [_since(task, self._times.after(task.task, before.newest[task.task]))
                 if same and task.task in before.newest else task for task in whole.tasks]
        return replace(whole, tasks=tasks), now


def _since(task: TaskSteps, points: int | None) -> TaskSteps:
    """The newest `points` alone; the whole line when they do not simply follow what was sent."""
    if points is None or points > len(task.times):
        return task
    first = len(task.times) - points
    return replace(task, times=task.times[first:], steps=task.steps[first:], ends=task.ends[first:], fresh=False)
