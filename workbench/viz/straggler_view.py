"""Which task holds the others up: working time told from waiting, cost as "the step without it", and one reason."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.core.trace import Span
from workbench.viz.palette import device_order, short_task
from workbench.viz.recent import Recent
from workbench.viz.schema import Straggler, StragglerView
from workbench.viz.transfers import covered
from workbench.viz.units import ms

__all__ = ["NOTICEABLE", "StragglerModel", "Work"]

WINDOW = 40  # steps per task that the ranking looks at
_WAITS = frozenset(("recv", "wait", "queue"))
SLOW = 1.15  # slowdown from which a reason is given
NOTICEABLE = 0.03  # share of a step from which a task is said to cost something


@dataclass(slots=True)
class Work:
    """What one task did in one step; seconds. Measured when asked for, and again only after it grew."""

    step: int
    start: float = float("inf")
    end: float = float("-inf")
    whole: float = 0.0  # of the step span
    active: list[tuple[float, float]] = field(default_factory=list)
    idle: list[tuple[float, float]] = field(default_factory=list)
    sending: float = 0.0
    waited_for: dict[str, float] = field(default_factory=dict)  # task (or queue) -> seconds
    _waiting: float = -1.0

    def add(self, span: Span) -> None:
        length = span.end - span.start
        if span.kind == "step":
            self.whole += length
            return
        self._waiting = -1.0
        self.start, self.end = min(self.start, span.start), max(self.end, span.end)
        if span.kind in _WAITS:
            self.idle.append((span.start, span.end))
            cause = _cause(span)
            self.waited_for[cause] = self.waited_for.get(cause, 0.0) + length
        else:
            self.active.append((span.start, span.end))
            self.sending += length if span.kind == "send" else 0.0

    @property
    def total(self) -> float:
        """As long as the task took part; the session's view of the step where nothing else is known."""
        return self.end - self.start if self.end >= self.start else self.whole

    @property
    def waiting(self) -> float:
        """Time in which the task waited and did nothing else."""
        if self._waiting < 0:
            self._waiting = min(self.total, covered(self.active + self.idle) - covered(self.active))
        return self._waiting

    @property
    def working(self) -> float:
        """Time the task itself needed: all that was not waiting."""
        return self.total - self.waiting


class StragglerModel:
    """Feed it spans, ask it for the ranking; it looks at the newest `WINDOW` steps of each task."""

    def __init__(self) -> None:
        self._tasks: dict[str, Recent[Work]] = {}
        self._wholes: dict[str, Recent[Work]] = {}       # what sessions say of steps, under numbers of their own

    def feed(self, spans: Iterable[Span]) -> None:
        for span in spans:
            if span.step < 0 or span.end < span.start:
                continue
            tasks = self._wholes if span.kind == "step" else self._tasks
            recent = tasks.get(span.task)
            if recent is None:
                recent = tasks[span.task] = Recent(WINDOW, Work)
            work = recent.at(span)
            if work is not None:
                work.add(span)

    def view(self) -> StragglerView:
        """Tasks are compared within their job; the most expensive first, then by name."""
        jobs: dict[str, dict[str, list[Work]]] = {}
        for task, recent in (self._wholes | self._tasks).items():      # a task's own records where there are any
            works = [recent.items[step] for step in sorted(recent.items)]
            works = [w for w in works if w.end >= w.start] or works  # details of the newest steps may be on their way
            jobs.setdefault(device_order(task)[0], {})[task] = works
        lengths = _lengths(work for tasks in jobs.values() for works in tasks.values() for work in works)
        rows = [row for tasks in jobs.values() for row in _rank(_taking_part(tasks), lengths)]
        return StragglerView(sorted(rows, key=lambda r: (-round(r.share, 3), device_order(r.task))))


def _lengths(works: Iterable[Work]) -> dict[int, float]:
    """Step -> seconds that the longest of all tasks took part in it."""
    lengths: dict[int, float] = {}
    for work in works:
        lengths[work.step] = max(lengths.get(work.step, 0.0), work.total)
    return lengths


def _taking_part(tasks: dict[str, list[Work]]) -> dict[str, list[Work]]:
    """Without steps in which a task only lent a hand: it did less than half as many things as another of its job.

    An asynchronous replica's step may pass through the device of the first worker, which then is not slow, nor fast.
    """
    most: Counter[int] = Counter()
    for works in tasks.values():
        for work in works:
            most[work.step] = max(most[work.step], len(work.active))
    own = {task: [w for w in works if 2 * len(w.active) >= most[w.step]] for task, works in tasks.items()}
    return {task: works or tasks[task] for task, works in own.items()}       # one that always does little is shown too


def _rank(tasks: dict[str, list[Work]], lengths: Mapping[int, float]) -> list[Straggler]:
    medians = {task: statistics.median(w.working for w in works) for task, works in tasks.items()}
    shares = _shares(tasks, lengths)
    rows = []
    for task, works in tasks.items():
        others = [m for t, m in medians.items() if t != task]
        usual = statistics.median(others) if others else medians[task]
        slowdown = medians[task] / usual if usual > 0 else 1.0
        rows.append(
            Straggler(
                task,
                1e3 * medians[task],
                slowdown,
                shares.get(task, 0.0),
                _why(works, medians[task], usual, others, shares.get(task, 0.0)),
            )
        )
    return rows


def _shares(tasks: dict[str, list[Work]], lengths: Mapping[int, float]) -> dict[str, float]:
    """Part of the time that would be saved without each task: (T - T without it) / T, over the steps.

    In a step that all tasks of a job take together, T without the slowest is T less what it works longer than the
    next. Tasks that step on their own (asynchronous
    replicas) hold nobody up: their share is the part of the group's steps that is missing because of them.
    """
    if len(tasks) < 2:
        return {}
    rounds = _rounds(list(tasks.values()))
    if rounds is None:
        return _missing(tasks)
    saved, whole, names = dict.fromkeys(tasks, 0.0), 0.0, list(tasks)
    for works in rounds:
        times = [work.working for work in works]
        first, second = sorted(times, reverse=True)[:2]
        whole += max(lengths.get(work.step, 0.0) for work in works)
        saved[names[times.index(first)]] += first - second
    return {task: saved[task] / whole if whole > 0 else 0.0 for task in tasks}


def _rounds(works: Sequence[Sequence[Work]]) -> list[tuple[Work, ...]] | None:
    """What all tasks did in each common step, or None when the tasks step on their own.

    Tasks share steps by number; replicas that number their own steps share them when they finish equally many.
    """
    by_number = [{w.step: w for w in group} for group in works]
    common = set.intersection(*(set(group) for group in by_number))
    if 2 * len(common) >= min(map(len, by_number)):
        return [tuple(group[step] for group in by_number) for step in sorted(common)]
    begin, end = max(g[0].start for g in works), min(g[-1].end for g in works)
    counts = [sum(begin <= w.start and w.end <= end for w in g) for g in works]
    if min(counts) >= 3 and max(counts) - min(counts) <= max(1, 0.05 * max(counts)):
        newest = min(len(g) for g in works)
        return list(zip(*(g[-newest:] for g in works)))
    return None


def _missing(tasks: dict[str, list[Work]]) -> dict[str, float]:
    """Steps lost per step of the group, were each task as fast as the median of all."""
    rates = {task: 1 / max(1e-9, statistics.median(w.total for w in works)) for task, works in tasks.items()}
    usual = statistics.median(rates.values())
    return {task: max(0.0, usual - rate) / (usual * len(rates)) for task, rate in rates.items()}


def _why(works: Sequence[Work], working: float, usual: float, others: Sequence[float], share: float) -> str:
    """One sentence: what most of this task's time is, and against what."""
    total = statistics.median(w.total for w in works)
    waiting = statistics.median(w.waiting for w in works)
    sending = statistics.median(w.sending for w in works)
    if others and working > SLOW * usual:
        part = f", {_time(sending)} of it sending" if sending > 0.5 * working else ""
        return f"Its own work takes {_time(working)}{part}; the median of its peers is {_time(usual)}."
    if others and share >= NOTICEABLE:
        return f"Takes turns at being the last: its own work usually takes {_time(working)}, its peers' {_time(usual)}."
    if waiting > 0.3 * total:
        causes: Counter[str] = Counter()
        for work in works:
            causes.update(work.waited_for)
        cause, _ = causes.most_common(1)[0]
        return f"Waits {_time(waiting)} of {_time(total)} for {cause}."
    return (
        f"Keeps pace: works {_time(working)} of {_time(total)}."
        if others
        else f"Works {_time(working)} of {_time(total)}."
    )


def _cause(span: Span) -> str:
    """Whom a span waited for: the sender of a message, else what its detail or name says."""
    parts = span.message.split("|")
    if len(parts) >= 4:
        return short_task(parts[2].partition("/device:")[0])
    return span.detail or span.name or "another task"


def _time(seconds: float) -> str:
    return ms(1e3 * seconds)
