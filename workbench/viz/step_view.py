"""Step times per task, fed with spans as they come: the newest steps of each task, their median and tail."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import numpy as np

from workbench.core.trace import Span
from workbench.viz.palette import Palette, device_order
from workbench.viz.recent import Recent
from workbench.viz.schema import StepView, TaskSteps

__all__ = ["WINDOW", "StepTimes"]

WINDOW = 500  # steps kept per task
SESSIONS = 8  # sessions remembered per task
_WORK = frozenset(("segment", "op", "send", "recv", "wait", "queue"))


class _Task:
    """Steps of one task: its own step spans, or where it has few of them the extents of what it did for each step."""

    def __init__(self, window: int) -> None:
        self.own: dict[str, deque[tuple[float, int, float]]] = {}  # session -> (end, step, milliseconds)
        self.extents = Recent(window, lambda step: [float("inf"), float("-inf")])  # first start, last end; seconds
        self.counts: Counter[str] = Counter()
        self.window = window

    def step(self, span: Span) -> None:
        own = self.own.get(span.name)
        if own is None:
            if len(self.own) >= SESSIONS:
                del self.own[next(iter(self.own))]
            own = self.own[span.name] = deque(maxlen=self.window)
        own.append((span.end, span.step, 1e3 * (span.end - span.start)))
        self.counts[span.name] += 1

    def part(self, span: Span) -> None:
        extent = self.extents.at(span)
        if extent is not None:
            extent[0] = min(extent[0], span.start)
            extent[1] = max(extent[1], span.end)

    def name_of(self, session: str) -> str:
        """`session` if it stepped here, else the one that did so last."""
        return session if session in self.own else next(reversed(self.own), "")

    def own_count(self, session: str) -> int:
        return len(self.own.get(self.name_of(session), ()))

    def steps(self, session: str, own: bool) -> tuple[list[tuple[float, int, float]], int]:
        """(end in seconds, step, milliseconds) of the newest steps, and how many were seen."""
        name = self.name_of(session)
        if own or not self.extents.items:
            return sorted(self.own.get(name, ())), self.counts[name]
        return sorted((b, step, 1e3 * (b - a)) for step, (a, b) in self.extents.items.items()), self.extents.count


class StepTimes:
    """Feed it spans, ask it for the view. The cost of a span is constant, that of a view does not depend on history."""

    def __init__(self, palette: Palette | None = None, window: int = WINDOW, origin: float = 0.0) -> None:
        self._palette = palette or Palette()
        self._origin = origin  # seconds on the clock of the spans, from which `ends` counts
        self._tasks: dict[str, _Task] = {}
        self._window = window

    def feed(self, spans: Iterable[Span]) -> bool:
        """Take in `spans`; True when a step time changed. Spans that have not ended (end < start) are ignored."""
        changed = False
        for span in spans:
            if span.step < 0 or span.end < span.start:
                continue
            task = self._tasks.get(span.task)
            if task is None:
                task = self._tasks[span.task] = _Task(self._window)
            if span.kind == "step":
                task.step(span)
                changed = True
            elif span.kind in _WORK:
                task.part(span)
                changed = True
        return changed

    def view(self, session: str = "") -> StepView:
        """Steps of `session`, of the newest one when it has none; tasks by name, steps as they ended, milliseconds.

        A step span is seen from the session: it counts when each task of the job has its own, as asynchronous
        replicas do. In a step that tasks take together, each counts for as long as it took part. All tasks are shown
        from the same moment on, the one from which all of them are remembered.
        """
        own = self._own_by_job(session)
        found = {name: task.steps(session, own[device_order(name)[0]]) for name, task in self._tasks.items()}
        since = max((steps[0][0] for steps, count in found.values() if 0 < len(steps) < count), default=float("-inf"))
        made = []
        for name in sorted(found, key=device_order):
            steps, count = found[name]
            if steps:
                steps = [step for step in steps if step[0] >= since] or steps  # or it has long been idle
                ends, numbers, times = (list(column) for column in zip(*steps))
                median, p95 = np.percentile(times, (50, 95)).tolist()
                ends = [end - self._origin for end in ends]
                made.append(TaskSteps(name, self._palette[name], times, numbers, median, p95, count, ends))
        return StepView(made)

    def _own_by_job(self, session: str) -> dict[str, bool]:
        """Do all tasks of the job step themselves, and are these half of the steps that it took part in?"""
        jobs: dict[str, list[_Task]] = {}
        for name, task in self._tasks.items():
            jobs.setdefault(device_order(name)[0], []).append(task)
        own = {}
        for job, tasks in jobs.items():
            counts = [task.own_count(session) for task in tasks]
            own[job] = min(counts) > 0 and 2 * sum(counts) >= max(len(t.extents.items) for t in tasks)
        return own
