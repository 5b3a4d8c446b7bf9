"""Step times per task, fed with spans as they come: the newest steps of each task, their median and tail."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from workbench.core.trace import Span
from workbench.viz.palette import Palette, device_order
from workbench.viz.schema import StepView, TaskSteps

__all__ = ["WINDOW", "StepTimes"]

WINDOW = 500          # steps kept per task
_WORK = frozenset(("segment", "op", "send", "recv", "wait", "queue"))


class _Task:
    """Steps of one task. One with no step spans of its own gets its steps from the extent of its other spans."""

    def __init__(self, window: int) -> None:
        self.own: deque[tuple[int, float]] = deque(maxlen=window)      # (step, milliseconds)
        self.extents: dict[int, list[float]] = {}                      # step -> [first start, last end], seconds
        self.window = window
        self.count = 0

    def step(self, span: Span) -> None:
        if self.extents:
            self.extents.clear()
            self.count = 0
        self.own.append((span.step, 1e3 * (span.end - span.start)))
        self.count += 1

    def part(self, span: Span) -> None:
        extent = self.extents.get(span.step)
        if extent is None:
            if len(self.extents) >= self.window:
                del self.extents[next(iter(self.extents))]
            self.extents[span.step] = [span.start, span.end]
            self.count += 1
        else:
            extent[0] = min(extent[0], span.start)
            extent[1] = max(extent[1], span.end)

    def steps(self) -> list[tuple[int, float]]:
        return sorted(self.own or ((step, 1e3 * (b - a)) for step, (a, b) in self.extents.items()))


class StepTimes:
    """Feed it spans, ask it for the view. The cost of a span is constant, that of a view does not depend on history."""

    def __init__(self, palette: Palette | None = None, window: int = WINDOW) -> None:
        self._palette = palette or Palette()
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
            elif not task.own and span.kind in _WORK:
                task.part(span)
                changed = True
        return changed

    def view(self) -> StepView:
        """Times in milliseconds, tasks in the order of their names, in the order of steps."""
        made = []
        for name in sorted(self._tasks, key=device_order):
            task = self._tasks[name]
            steps = task.steps()
            if steps:
                times = [milliseconds for _, milliseconds in steps]
                median, p95 = np.percentile(times, (50, 95)).tolist()
                made.append(TaskSteps(name, self._palette[name], times, [step for step, _ in steps], median, p95, task.count))
        return StepView(made)
