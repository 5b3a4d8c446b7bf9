"""The course of each task's work, step by step: the newest accounted steps, their median and tail."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from workbench.viz.accounting import Step
from workbench.viz.ledger import PARTS
from workbench.viz.names import Names, numbered
from workbench.viz.palette import color_of, device_order
from workbench.viz.schema import Cut, StepView, TaskSteps

__all__ = ["POINTS", "WINDOW", "Course", "StepTimes"]

WINDOW = 500  # steps shown per task, fewer where there are many tasks:
POINTS = 3000  # of all tasks together, so that an update stays small
MOST = 400  # tasks that travel: more lines than a screen has rows
STILL = 1.0  # seconds without a step, and this many times the usual distance of two steps,
LONG = 10  # from which a line is cut
CUTS = 50  # remembered
FIRST = 16  # steps that there is room for at first
_WORK, _PIECES = PARTS.index("work"), PARTS.index("pieces")


class _Lines:
    """The newest steps of one executable as columns: of each its end, number and serial number, and milliseconds of work
    [step, task], nothing (NaN) where a task took no part."""

    def __init__(self, names: Names, window: int) -> None:
        self.names, self._window = names, window
        self.tasks = np.empty(0, np.int64)  # their numbers, as they were first seen
        self._slots = np.empty(0, np.int64)  # number -> place among the tasks
        self.counts = self.pieces = self.recent = np.empty(0)  # of each task: steps, most pieces, work in its newest step
        self._count = 0  # of steps that are kept, at most twice `window`
        self._steps, self._work = np.empty((FIRST, 3)), np.empty((FIRST, 0))

    def add(self, step: Step, serial: int) -> None:
        ledger = step.ledger
        slots = self._places(self.names.column(list(map(ledger.names.texts.__getitem__, ledger.tasks.tolist()))))
        work, pieces = 1e3 * ledger.parts[:, _WORK], ledger.parts[:, _PIECES]
        self.counts[slots] += 1
        self.pieces[slots] = np.maximum(self.pieces[slots], pieces)
        self.recent[slots] = work
        self._make_room()
        self._steps[self._count] = step.end, step.number, serial
        self._work[self._count, slots] = work
        self._count += 1

    def _places(self, tasks: np.ndarray) -> np.ndarray:
        """Where these stand among the tasks, after which new ones come."""
        most = int(tasks.max(initial=-1)) + 1
        if most > len(self._slots):
            self._slots = np.append(self._slots, np.full(most - len(self._slots), -1))
        new = tasks[self._slots[tasks] < 0]
        if len(new):
            self._slots[new] = len(self.tasks) + np.arange(len(new))
            self.tasks = np.append(self.tasks, new)
            more = np.zeros(len(new))
            self.counts, self.pieces, self.recent = (np.append(one, more) for one in (self.counts, self.pieces, self.recent))
            self._work = np.hstack([self._work, np.full((len(self._work), len(new)), np.nan)])
        return np.asarray(self._slots[tasks])

    def _make_room(self) -> None:
        """For one more step; the oldest go when there are twice as many as are shown."""
        if self._count == 2 * self._window:
            for columns in (self._steps, self._work):
                columns[: self._window] = columns[self._window : self._count]
            self._count = self._window
            self._work[self._count :] = np.nan
        elif self._count == len(self._steps):
            more = min(2 * self._window, 2 * self._count) - self._count
            self._steps = np.vstack([self._steps, np.empty((more, 3))])
            self._work = np.vstack([self._work, np.full((more, len(self.tasks)), np.nan)])

    def slot(self, task: int) -> int:
        """The place of a task among the tasks, -1 where it is none."""
        return int(self._slots[task]) if task < len(self._slots) else -1

    def points(self, slots: list[int], newest: int) -> list[Points]:
        """The newest of each of these tasks, as they ended; those that took part in all of them share the columns."""
        first = max(0, self._count - self._window)
        steps, work = self._steps[first : self._count], self._work[first : self._count, slots].T
        order = _as_ended(*steps[-newest:].T)
        (end, number, serial), last = steps[-newest:][order].T.copy(), work[:, -newest:][:, order]
        whole: list[bool] = np.logical_not(np.isnan(last).any(1)).tolist()
        return [Points(end, number, serial, last[at]) if all_of_them else _known(steps, work[at], newest)
                for at, all_of_them in enumerate(whole)]


class Points(NamedTuple):
    """Steps of one task, a column for each field."""

    end: np.ndarray
    number: np.ndarray
    serial: np.ndarray
    work: np.ndarray  # milliseconds

    def only(self, which: np.ndarray | slice) -> Points:
        return Points(*(column[which] for column in self))


def _known(steps: np.ndarray, work: np.ndarray, newest: int) -> Points:
    known = np.flatnonzero(~np.isnan(work))[-newest:]
    end, number, serial = steps[known].T
    found = Points(end, number, serial, work[known])
    return found.only(_as_ended(found.end, found.number, found.serial))


def _as_ended(end: np.ndarray, number: np.ndarray, serial: np.ndarray) -> np.ndarray | slice:
    return slice(None) if (end[1:] > end[:-1]).all() else np.lexsort((serial, number, end))


def _together(several: Sequence[Points], newest: int) -> Points:
    """The newest of them all, as they ended."""
    if len(several) == 1:
        return several[0]
    found = Points(*map(np.concatenate, zip(*several)))
    return found.only(np.lexsort((found.serial, found.work, found.number, found.end))[-newest:])


@dataclass(slots=True)
class Course:
    """A view, and the serial numbers of the points it was made of: by task, in the order in which it shows them."""

    view: StepView
    serials: dict[str, np.ndarray]
    _newest: dict[int, int] = field(default_factory=dict)  # of columns that tasks have in common, by their identity
    _after: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def newest(self, task: str) -> int:
        """Serial number of the newest point of `task`."""
        serials = self.serials[task]
        if id(serials) not in self._newest:
            self._newest[id(serials)] = int(serials.max(initial=0))
        return self._newest[id(serials)]

    def after(self, task: str, serial: int) -> int | None:
        """How many points of `task` come after the one numbered `serial`; None when others lie between."""
        key = id(self.serials[task]), serial
        if key not in self._after:
            later = self.serials[task] > serial
            count = int(np.count_nonzero(later))
            self._after[key] = count if later[len(later) - count :].all() else None
        return self._after[key]


class StepTimes:
    """Feed it accounted steps, ask it for the view; a step costs what its tasks are, a view `POINTS` at most."""

    def __init__(self, window: int = WINDOW, origin: float = 0.0) -> None:
        self._origin = origin  # seconds on the clock of the spans, from which `ends` counts
        self._window = window
        self._names = Names()  # of tasks
        self._lines: dict[str, _Lines] = {}  # executable -> its steps
        self._cuts: deque[Cut] = deque(maxlen=CUTS)
        self._last = float("-inf")  # end of the newest step
        self._usual = 0.0  # seconds between the ends of two steps
        self._serial = 0

    def feed(self, steps: Iterable[Step], begun: float = float("-inf")) -> bool:
        """Take in `steps`; True when there was one. The newest training began when it was `begun`."""
        seen = False
        for step in steps:
            seen = True
            self._cut(step, begun)
            if step.executable not in self._lines:
                self._lines[step.executable] = _Lines(self._names, self._window)
            self._serial += 1
            self._lines[step.executable].add(step, self._serial)
        return seen

    def _cut(self, step: Step, begun: float) -> None:
        """Note when nothing had stepped for long before this step, or it is the first one of a training: reading between two
        cells is no course of steps."""
        still, distance = step.start - self._last, step.end - self._last
        if self._last > float("-inf") and distance > 0:
            if (still > STILL and still > LONG * self._usual) or self._last <= begun <= step.start:
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
        every = [np.concatenate(column) for column in zip(*((one.tasks, one.pieces, one.recent) for one in chosen))]
        numbers, at = numbered(every[0]) if every else (np.empty(0, np.int64),) * 2
        most, recent, first = (np.zeros(len(numbers)) for _ in range(3))
        if every:
            np.maximum.at(most, at, every[1])
            np.maximum.at(recent, at, every[2])  # what the newest step was to a task
            first[at[::-1]] = np.arange(len(at))[::-1]
        shown = max(1, min(tasks, MOST, len(most)))
        newest = max(8, min(self._window, POINTS // max(1, shown)))
        longest = np.lexsort((first, -recent))[:shown].tolist()
        course = Course(StepView([], len(most) - len(longest), newest), {})
        texts = self._names.texts
        longest.sort(key=lambda place: device_order(texts[numbers[place]]))
        drawn: dict[int, tuple[float, list[Points], list[int]]] = {  # task -> its most pieces, its points, how many of all
            int(numbers[place]): (float(most[place]), [], []) for place in longest}
        for lines in chosen:
            own = [task for task, (pieces, *_) in drawn.items()
                   if (slot := lines.slot(task)) >= 0 and 2 * lines.pieces[slot] >= pieces]
            slots = list(map(lines.slot, own))
            for task, slot, points in zip(own, slots, lines.points(slots, newest) if slots else ()):
                drawn[task][1].append(points)
                drawn[task][2].append(int(lines.counts[slot]))
        alike: dict[int, list[tuple[int, Points, int]]] = {}  # tasks that have their columns in common, but for their work
        for task, (_, several, counts) in drawn.items():
            points = _together(several, newest)
            alike.setdefault(id(points.end), []).append((task, points, sum(counts)))
        made = {task: line for group in alike.values() for task, line in self._alike(group)}
        for task in drawn:
            line, course.serials[line.task] = made[task]
            course.view.tasks.append(line)
        begin = min((task.ends[0] for task in course.view.tasks), default=0.0)
        course.view.cuts = [cut for cut in self._cuts if cut.end > begin]
        return course

    def _alike(self, group: Sequence[tuple[int, Points, int]]) -> Iterator[tuple[int, tuple[TaskSteps, np.ndarray]]]:
        """The line of each task, and the serial numbers of its points."""
        tasks, several, counts = zip(*group)
        ends, serial, work = several[0].end - self._origin, several[0].serial, np.array([points.work for points in several])
        ordered = np.sort(work[:, self._since_cut(ends)], 1)
        middles, tails = (ordered[:, at].tolist() for at in (ordered.shape[1] // 2, int(0.95 * (ordered.shape[1] - 1))))
        numbers, listed = several[0].number.astype(np.int64).tolist(), ends.tolist()
        for task, count, times, middle, tail in zip(tasks, counts, work.tolist(), middles, tails):
            name = self._names.texts[task]
            yield task, (TaskSteps(name, color_of(name), times, numbers, middle, tail, count, listed), serial)

    def _since_cut(self, ends: np.ndarray) -> np.ndarray:
        """Which of them come after the last cut; all where none does."""
        later = ends > (self._cuts[-1].end if self._cuts else float("-inf"))
        return later if later.any() else np.ones(len(ends), bool)
