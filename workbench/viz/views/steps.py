"""The topic "steps": the course of each task's work, step by step; what travels are the new points."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.core.trace import Journal
from workbench.viz.books import Books
from workbench.viz.reader import Shared
from workbench.viz.schema import StepParameters, StepView, TaskSteps
from workbench.viz.step_view import Course, StepTimes
from workbench.viz.views.base import View, view

__all__ = ["Steps"]


@dataclass
class _Sent:
    """What a watcher has: of each task the number of its newest point, in lines of so many tasks over these executables."""

    version: Hashable = None
    lines: Hashable = None
    newest: dict[str, int] = field(default_factory=dict)


@view("steps", StepView, StepParameters)
class Steps(View):
    """Window and number of tasks are bounded together (`step_view.POINTS`)."""

    accounts = True

    def __init__(self, journal: Journal, books: Books, shared: Shared) -> None:
        super().__init__(journal, books, shared)
        self._times = StepTimes(origin=journal.origin)
        self._version = self._cursor = 0
        self._regular: tuple[str, ...] = ()
        self._made: dict[int, tuple[int, Course]] = {}      # tasks asked for -> version and what was made of it

    def advance(self, now: float) -> None:
        self._cursor, steps = self.books.steps_since(self._cursor)
        self._version += self._times.feed(steps, self.journal.begun) + (self._regular != self.books.regular)
        self._regular = self.books.regular      # of a verdict, which comes after its steps

    def version(self, params: Any) -> Hashable:
        return self._version, params.tasks

    def whole(self, params: Any) -> StepView | None:
        return self._course(params).view if self._version else None

    def _course(self, params: Any) -> Course:
        version, course = self._made.get(params.tasks, (0, None))
        if course is None or version != self._version:
            course = self._times.view(self._regular, params.tasks)
            self._made = {tasks: made for tasks, made in self._made.items() if made[0] == self._version}
            self._made[params.tasks] = self._version, course
        return course

    def delta(self, sent: Any, params: Any) -> tuple[StepView | None, Any]:
        before, version = sent or _Sent(), self.version(params)
        if not self._version or before.version == version:
            return None, sent
        course, lines = self._course(params), (self._regular, params.tasks)
        same = before.lines == lines
        now = _Sent(version, lines, {task: course.newest(task) for task in course.serials})
        tasks = [_since(task, course.after(task.task, before.newest[task.task]))
                 if same and task.task in before.newest else task for task in course.view.tasks]
        return replace(course.view, tasks=tasks), now


def _since(task: TaskSteps, points: int | None) -> TaskSteps:
    """The newest `points` alone; the whole line when they do not simply follow what was sent."""
    if points is None or points > len(task.times):
        return task
    first = len(task.times) - points
    return replace(task, times=task.times[first:], steps=task.steps[first:], ends=task.ends[first:], fresh=False)
