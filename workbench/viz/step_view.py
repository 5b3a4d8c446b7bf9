"""The course of each task's work, step by step: the newest accounted steps, their median and tail."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.viz.accounting import Step
from workbench.viz.ledger import PARTS
from workbench.viz.palette import color_of, device_order
from workbench.viz.schema import Cut, StepView, TaskSteps

__all__ = ["POINTS", "WINDOW", "Course", "StepTimes"]

WINDOW = 500  # steps shown per task, fewer where there are many tasks:
POINTS = 3000  # of all tasks together, so that an update stays small
MOST = 400  # tasks that travel: more lines than a screen has rows
STILL = 1.0  # seconds without a step, and this many times the usual distance of two steps,
LONG = 10  # from which a line is cut
CUTS = 50  # remembered


@dataclass(slots=True)
class _Lines:
    """One executable of one run: (end, number, milliseconds of work, serial number) per task."""

    run: str
    tasks: dict[str, deque[tuple[float, int, float, int]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    pieces: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Course:
    """A view, and the points it was made of: by task, in the order in which it shows them."""

    view: StepView
    points: dict[str, list[tuple[float, int, float, int]]]

    def newest(self, task: str) -> int:
        """Serial number of the newest point of `task`."""
        return max((serial for *_, serial in self.points[task]), default=0)

    def after(self, task: str, serial: int) -> int | None:
        """How many points of `task` come after the one numbered `serial`; None when others lie between."""
        points, later = self.points[task], 0
        for *_, number in reversed(points):
            if number <= serial:
                break
            later += 1
        return later if all(number <= serial for *_, number in points[: len(points) - later]) else None


class StepTimes:
    """Feed it accounted steps, ask it for the view; a step costs what its tasks are, a view `POINTS` at most."""

    def __init__(self, window: int = WINDOW, origin: float = 0.0) -> None:
        self._origin = origin  # seconds on the clock of the spans, from which `ends` counts
        self._window = window
        self._lines: dict[str, _Lines] = {}  # executable -> its steps
        self._cuts: deque[Cut] = deque(maxlen=CUTS)
        self._last = float("-inf")  # end of the newest step
        self._usual = 0.0  # seconds between the ends of two steps
        self._serial = 0

    def feed(self, steps: Iterable[Step]) -> bool:
        """Take in `steps`; True when there was one."""
        seen = False
        for step in steps:
            seen = True
            self._cut(step)
            lines = self._lines.setdefault(step.executable, _Lines(step.run))
            self._serial += 1
            tasks, parts = step.ledger.tasks.tolist(), step.ledger.parts
            work, pieces = (parts[:, PARTS.index(name)].tolist() for name in ("work", "pieces"))
            for task, seconds, count in zip(map(step.ledger.names.texts.__getitem__, tasks), work, pieces):
                if task not in lines.tasks:
                    lines.tasks[task] = deque(maxlen=self._window)
                lines.tasks[task].append((step.end, step.number, 1e3 * seconds, self._serial))
                lines.counts[task] += 1
                lines.pieces[task] = max(lines.pieces.get(task, 0), count)
        return seen

    def _cut(self, step: Step) -> None:
        """Note when nothing had stepped for long before this step: reading between two cells is no course of steps."""
        still, distance = step.start - self._last, step.end - self._last
        if self._last > float("-inf") and distance > 0:
            if still > STILL and still > LONG * self._usual:
                self._cuts.append(Cut(self._last - self._origin, step.start - self._origin))
                self._usual = 0.0
            else:
                self._usual = distance if self._usual == 0.0 else 0.9 * self._usual + 0.1 * distance
        self._last = max(self._last, step.end)

    def view(self, executables: Iterable[str], tasks: int = 32) -> Course:
        """The `tasks` that work longest by name, over what `executables` step, steps as they ended, milliseconds of work.

        A task that only lends a hand in the steps of others (it has less than half of their pieces) is shown by its own.
        """
        chosen = [self._lines[name] for name in executables if name in self._lines]
        most: dict[str, float] = {}
        recent: dict[str, float] = {}  # what the newest step was to a task
        for lines in chosen:
            for task, pieces in lines.pieces.items():
                most[task] = max(most.get(task, 0), pieces)
                recent[task] = max(recent.get(task, 0.0), lines.tasks[task][-1][2])
        shown = max(1, min(tasks, MOST, len(most)))
        newest = max(8, min(self._window, POINTS // max(1, shown)))
        longest = sorted(most, key=recent.__getitem__, reverse=True)[:shown]
        course = Course(StepView([], len(most) - len(longest), newest), {})
        for task in sorted(longest, key=device_order):
            own = [lines for lines in chosen if task in lines.tasks and 2 * lines.pieces[task] >= most[task]]
            points = sorted(point for lines in own for point in list(lines.tasks[task])[-newest:])[-newest:]
            course.points[task] = points
            course.view.tasks.append(self._task(task, points, sum(lines.counts[task] for lines in own)))
        first = min((task.ends[0] for task in course.view.tasks), default=0.0)
        course.view.cuts = [cut for cut in self._cuts if cut.end > first]
        return course

    def _task(self, task: str, points: list[tuple[float, int, float, int]], count: int) -> TaskSteps:
        ends, numbers, times, _ = (list(column) for column in zip(*points))
        ends = [end - self._origin for end in ends]
        cut = self._cuts[-1].end if self._cuts else float("-inf")
        ordered = sorted(time for time, end in zip(times, ends) if end > cut) or sorted(times)
        return TaskSteps(task, color_of(task), times, numbers, ordered[len(ordered) // 2],
                         ordered[int(0.95 * (len(ordered) - 1))], count, ends)
