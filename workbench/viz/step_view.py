"""The course of each task's work, step by step: the newest accounted steps, their median and tail."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.viz.accounting import Step
from workbench.viz.palette import color_of, device_order
from workbench.viz.schema import StepView, TaskSteps

__all__ = ["POINTS", "WINDOW", "StepTimes"]

WINDOW = 500  # steps shown per task, fewer where there are many tasks:
POINTS = 4000  # of all tasks together, so that an update stays small
LINES = 32  # tasks that travel, those that work longest


@dataclass(slots=True)
class _Lines:
    """One executable of one run: (end, number, milliseconds of work) per task."""

    run: str
    tasks: dict[str, deque[tuple[float, int, float]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    pieces: dict[str, int] = field(default_factory=dict)


class StepTimes:
    """Feed it accounted steps, ask it for the view; a step costs what its tasks are, a view `POINTS` at most."""

    def __init__(self, window: int = WINDOW, origin: float = 0.0) -> None:
        self._origin = origin  # seconds on the clock of the spans, from which `ends` counts
        self._window = window
        self._lines: dict[str, _Lines] = {}  # executable -> its steps

    def feed(self, steps: Iterable[Step]) -> bool:
        """Take in `steps`; True when there was one."""
        seen = False
        for step in steps:
            seen = True
            lines = self._lines.setdefault(step.executable, _Lines(step.run))
            for task, account in step.accounts.items():
                if task not in lines.tasks:
                    lines.tasks[task] = deque(maxlen=self._window)
                lines.tasks[task].append((step.end, step.number, 1e3 * account.work))
                lines.counts[task] += 1
                lines.pieces[task] = max(lines.pieces.get(task, 0), account.pieces)
        return seen

    def view(self, executables: Iterable[str]) -> StepView:
        """Tasks by name over what `executables` step, steps as they ended, milliseconds of work.

        A task that only lends a hand in the steps of others (it has less than half of their pieces) is shown by its own.
        """
        chosen = [self._lines[name] for name in executables if name in self._lines]
        most: dict[str, int] = {}
        for lines in chosen:
            for task, pieces in lines.pieces.items():
                most[task] = max(most.get(task, 0), pieces)
        newest = max(8, min(self._window, POINTS // max(1, min(LINES, len(most)))))
        made = []
        longest = sorted(most, key=lambda task: -self._recent(task, chosen))[:LINES]
        for task in sorted(longest, key=device_order):
            own = [lines for lines in chosen if task in lines.tasks and 2 * lines.pieces[task] >= most[task]]
            points = sorted(point for lines in own for point in list(lines.tasks[task])[-newest:])[-newest:]
            ends, numbers, times = (list(column) for column in zip(*points))
            ordered = sorted(times)
            made.append(TaskSteps(task, color_of(task), times, numbers, ordered[len(ordered) // 2],
                                  ordered[int(0.95 * (len(ordered) - 1))], sum(lines.counts[task] for lines in own),
                                  [end - self._origin for end in ends]))
        return StepView(made, len(most) - len(longest))

    @staticmethod
    def _recent(task: str, chosen: Iterable[_Lines]) -> float:
        """What the newest step was to `task`."""
        return max((lines.tasks[task][-1][2] for lines in chosen if task in lines.tasks), default=0.0)
