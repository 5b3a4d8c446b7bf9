"""The topic "timeline": what every task did in a stretch of time, as many marks as the watcher's pixels can show."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from workbench.core.names import task_of
from workbench.core.trace import KINDS as SPAN_KINDS
from workbench.core.trace import Journal, Span, run_of
from workbench.viz.batch import Batch
from workbench.viz.books import Books
from workbench.viz.critical_path import Link, explain, path_through
from workbench.viz.marks import Marks, Parts, joined, marks_of, parts_of
from workbench.viz.names import Names, found
from workbench.viz.reader import CATCH_UP, Reader, Shared
from workbench.viz.step_index import Recorded, StepIndex
from workbench.viz.timeline_rows import KINDS, WAITING, Layout, On, TimelineRows
from workbench.viz.views.base import View, view

__all__ = ["Lane", "Timeline", "TimelineParameters", "TimelineView"]

STEPS = 10_000  # recorded steps that can be picked
SETTLED = 0.7  # seconds without a new span from which a step is complete although not all tasks have told until its end
SPARING = 200.0  # the newest step is drawn again when this many times the cost of the last drawing has passed, at the
FRESH = 0.35  # latest after so many seconds
LOOKED_BACK = 200  # steps among which one is followed that was recorded in full
CAME = 4  # steps whose spans are kept as they came, with what others have read of them
REMEMBERED = 8  # pictures, and critical paths
WHOLE = 50_000  # spans of the steps that are kept for who moves through them, beside those of the newest
SPANS = 200_000  # in one picture; of more the newest
ARROWS = 150  # the longest transfers of a picture
LINKS = 200  # of the critical path, the longest ones
ROWS = 100  # at once
_NAME, _NBYTES = map(Span._fields.index, ("name", "nbytes"))
_END_OF_STEP = "the end of the step"  # what who is done waits for
_DRAWN = np.array([kind not in ("step", "loop") for kind in (*SPAN_KINDS, "")])
_LINK = {"work": ("work", 0), "transfer": ("transfer", 1), "wait": ("wait", 3), "gap": ("work", 3)}  # track, kind


@dataclass(slots=True)
class Lane:
    """One row: a thread of a device of a task, its transfers, its waiting, or what it does beside steps."""

    task: str
    track: str  # "work" | "transfer" | "wait" | "system"
    label: str  # "worker:0 CPU:0", "worker:0 transfers", …
    color: str  # of the task


@dataclass(slots=True)
class TimelineParameters:
    """What to show; a page that pans or zooms watches with other parameters."""

    run: str = ""  # "" = the one that stepped last
    step: int = -1  # -1 = the newest complete one, followed; one that is not recorded: the next that is,
    before: int = 0  # 1 = the one before it
    start: float = 0.0  # milliseconds from the beginning of the step; both 0 = the whole step
    end: float = 0.0
    pixels: int = 800  # that a row is wide
    first: int = 0  # row at the top
    task: str = ""  # whose rows must be in sight, instead of `first`
    rows: int = 40  # rows that can be seen
    links: int = 0  # 1 = what comes to a task has a row for each task that it comes from


@dataclass(slots=True)
class TimelineView:
    """Marks, arrows and path of the visible rows; all times in milliseconds from the beginning of the step `step`."""

    run: str
    step: int
    origin: float  # when the step began, seconds as `TaskSteps.ends`
    length: float  # of the step
    start: float  # the stretch that is shown
    end: float
    oldest: int  # recorded steps of the run lie between these
    newest: int
    lanes: list[Lane]  # the visible ones, from row `first` on
    first: int
    lane_count: int  # of all
    kinds: list[str]  # what `kind` counts: work, transfer, input, wait, system
    names: list[str]  # what the name columns count
    lane: Sequence[int]  # one entry per mark: index in `lanes`
    kind: Sequence[int]
    begin: Sequence[float]
    until: Sequence[float]
    busy: Sequence[float]  # milliseconds in it that are covered
    count: Sequence[int]  # spans it stands for
    name: Sequence[int]  # of its longest span
    arrow_source: Sequence[int]  # one entry per message: index in `lanes`, -1 = not visible
    arrow_target: Sequence[int]
    arrow_begin: Sequence[float]
    arrow_until: Sequence[float]
    arrow_name: Sequence[int]
    arrow_bytes: Sequence[int]
    arrows_left_out: int  # the shortest ones
    spans_left_out: int  # the oldest of the stretch: too many for one picture, or no longer kept
    path_lane: Sequence[int]  # the critical path: index in `lanes`, -1 = not visible
    path_kind: Sequence[int]
    path_begin: Sequence[float]
    path_until: Sequence[float]
    path_name: Sequence[int]
    path: str  # the path in one sentence


@view("timeline", TimelineView, TimelineParameters)
class Timeline(View):
    """Spans stay where they are, in the journal; kept here is which of them belong to which step."""

    accounts = True
    large = True

    def __init__(self, journal: Journal, books: Books, shared: Shared) -> None:
        super().__init__(journal, books, shared)
        self._spans = Reader(shared.since, CATCH_UP)
        self.readers = (self._spans,)
        self._steps, self._rows = StepIndex(STEPS), TimelineRows(shared.names)
        self._newest: dict[str, Recorded] = {}  # run -> its newest complete step, that is followed
        self._run = ""
        self._next = 0.0
        self._came: OrderedDict[tuple[int, int], Batch] = OrderedDict()  # first and last number -> spans of a step as they came
        self._views: OrderedDict[Hashable, TimelineView] = OrderedDict()      # of all who watch alike
        self._wholes: OrderedDict[Hashable, tuple[Batch, Batch, int]] = OrderedDict()
        self._paths: OrderedDict[tuple[str, int, float], tuple[list[Link], str]] = OrderedDict()

    def advance(self, now: float) -> None:
        rows = self._spans.new()
        if rows:
            self._take(self.shared.batch(rows), self._spans.cursor - len(rows), now)
        if now >= self._next:
            self._follow(now)

    def _take(self, batch: Batch, first: int, now: float) -> None:
        self._steps.take(batch, first, now)
        for piece in batch.pieces:
            begin, last = map(int, piece.places[[0, -1]])
            if batch.mostly(piece) and last - begin + 1 == len(piece.places):
                self._came[first + begin, first + last] = batch.of(piece)
        while len(self._came) > CAME:
            self._came.popitem(last=False)

    def rest(self) -> None:
        super().rest()
        self._came.clear()
        self._views.clear()
        self._wholes.clear()  # spans that the journal may have forgotten

    def _follow(self, now: float) -> None:
        """The newest step of which no more spans come, if one has more than its length near the end, one of these; of a run
        whose steps are judged one of these, not what fills its queues or evaluates now and then."""
        told, regular = self.journal.told, self.books.regular
        judged = set(map(run_of, regular))
        complete = (one for one in self._steps.newest_first() if (one.executable in regular or one.run not in judged)
                    and (one.end <= told or now - one.touched >= SETTLED))
        near = list(islice(complete, 1))
        near += islice(complete, LOOKED_BACK) if near and near[0].bare else ()
        if near:
            recorded = next((one for one in near if not one.bare), near[0])
            self._newest[recorded.run], self._run = recorded, recorded.run

    def _chosen(self, params: TimelineParameters) -> Recorded | None:
        run = params.run or self._run
        return self._newest.get(run) if params.step < 0 else self._steps.at(run, params.step, bool(params.before))

    def version(self, params: Any) -> Hashable:
        chosen = self._chosen(params)
        return None if chosen is None else (chosen.run, chosen.number, chosen.touched, _key(params))

    def whole(self, params: Any) -> TimelineView | None:
        chosen = self._chosen(params)
        if chosen is None:
            return None
        version = self.version(params)
        if version not in self._views:
            began = time.thread_time()
            self._views[version] = self._draw(chosen, params)
            if params.step < 0:
                self._next = time.perf_counter() + min(FRESH, SPARING * (time.thread_time() - began))
            if len(self._views) > REMEMBERED:
                self._views.popitem(last=False)
        return self._views[version]

    def _draw(self, step: Recorded, params: TimelineParameters) -> TimelineView:
        """What is not on a visible row is only looked at as far as its rows, and messages between it and those, say."""
        start = step.start + 1e-3 * params.start
        end = step.start + 1e-3 * params.end if params.end > params.start else step.end
        near, own, cut = self._near(step, start, end)
        idle = _idle(own, near, step.end)
        drawn, codes, kinds = self._rows.of(near, len(idle.task) > 0, bool(params.links))
        inside = (near.start <= end) & (near.end >= start)
        batch, codes, kinds = near.only(inside), codes[inside], kinds[inside]
        rows, count = max(1, min(params.rows, ROWS)), len(drawn.rows)
        shown = range(count)[(first := _first(params, drawn.owners, rows)) :][:rows]
        tasks = np.zeros(len(batch.names.texts), bool)
        tasks[drawn.task[shown.start : shown.stop]] = True
        seen = tasks[batch.task]
        visible, leaves = batch.only(seen), np.where(batch.senders >= 0, batch.start[batch.senders], -np.inf)[seen]
        on = On(drawn.lane(codes[seen]), kinds[seen], drawn.track(visible.task, "wait"))
        parts = joined([parts_of(visible, on, leaves), _waits(idle, drawn, len(visible))])
        marks = marks_of(parts, shown, start, end, max(50, min(params.pixels, 4000)))
        names, transfers = Names(), drawn.lane(codes) - shown.start
        transfers[(transfers < 0) | (transfers >= len(shown))] = -1
        arrows, left_out = _arrows(batch, transfers, names, step.start)
        named = names.column(list(map([*visible.texts("name"), _END_OF_STEP].__getitem__, marks.name.tolist())))
        path, sentence = self._path(step, own)
        bounds = self._steps.bounds(step.run)
        columns: list[Any] = [*_columns(marks, step.start), named, *arrows, left_out, cut]
        columns += [*_links(path, drawn, shown, names), sentence]
        return TimelineView(
            step.run, step.number, step.start - self.journal.origin, 1e3 * (step.end - step.start), 1e3 * (start - step.start),
            1e3 * (end - step.start), *bounds, [Lane(*lane) for lane in drawn.described(shown)], first, count, list(KINDS),
            names.texts, *columns)

    def _near(self, step: Recorded, start: float, end: float) -> tuple[Batch, Batch, int]:
        """The spans that a picture of a stretch has rows for, those that belong to the step, and how many more could not be
        looked at: as long as some of the step is in sight all of it has rows, so that they do not come and go, and where
        nothing was recorded it keeps them."""
        whole, own, cut = self._read(step)
        first, last = min(start, step.start), max(end, step.end)
        if (first, last) == (step.start, step.end) and not cut:
            return whole, own, 0
        if cut or start > step.end or end < step.start:
            first, last = start, end
        near, cut = self._between(self._steps.within(first, last), first, last)
        return near if len(near) else whole, own, cut

    def _read(self, step: Recorded) -> tuple[Batch, Batch, int]:
        """The spans that reach into a step, those that belong to it, and how many more there are that could not be looked at:
        read once for whoever moves through it."""
        near = self._steps.within(step.start, step.end)
        key = step.run, step.number, tuple((one.first, one.last, one.touched) for one in near)
        if key not in self._wholes:
            whole, cut = self._between(near, step.start, step.end)
            alone = len(near) == 1 and (step.first, step.last) in self._came
            self._wholes[key] = whole, whole if alone else self._own(step, whole), cut
            while len(self._wholes) > 1 and sum(len(one) for one, *_ in self._wholes.values()) > WHOLE:
                self._wholes.popitem(last=False)
        self._wholes.move_to_end(key)
        return self._wholes[key]

    def _between(self, near: Sequence[Recorded], start: float, end: float) -> tuple[Batch, int]:
        """The spans of these steps that reach into a stretch of time, and how many more could not be looked at."""
        if not near:
            return Batch([], self._rows.names), 0
        first, last = min(step.first for step in near), max(step.last for step in near)
        kept = self._came.get((first, last))
        if kept is None:
            kept = Batch(self.journal.rows_between(max(first, last - SPANS), last), self._rows.names)
        reach = (kept.end >= kept.start) & (kept.start <= end) & (kept.end >= start) & _DRAWN[kept.kind]
        return kept.only(reach), last + 1 - first - len(kept)

    def _own(self, step: Recorded, batch: Batch) -> Batch:
        """Those that belong to the step; `batch` itself when all do."""
        executables = batch.texts("executable")
        ours = {name: run_of(name) == step.run for name in set(executables)}
        mine = batch.step == step.number
        return batch.only(mine if all(ours.values()) else mine & found(ours, executables).astype(bool))

    def _path(self, step: Recorded, own: Batch) -> tuple[list[Link], str]:
        """The longest links of the critical path of a step with these spans, in milliseconds from its beginning, and the path
        in a sentence."""
        known = (step.run, step.number, step.touched)
        if known not in self._paths:
            links = path_through(own, step.start)
            self._paths[known] = sorted(links, key=lambda link: link.start - link.end)[:LINKS], explain(links)
            if len(self._paths) > REMEMBERED:
                self._paths.popitem(last=False)
        return self._paths[known]


class _Idle(NamedTuple):
    """Tasks, by their numbers, that are done with a step before it ends: a column for each field, seconds."""

    task: np.ndarray
    begin: np.ndarray
    until: np.ndarray


def _idle(own: Batch, batch: Batch, end: float) -> _Idle:
    """Who is done with a step before it `end`s waits for the others, as its account says, until it does something else."""
    mine, others = own.task, batch.task
    last, until = np.full(len(own.names.texts), -np.inf), np.full(len(own.names.texts), end)
    np.maximum.at(last, mine, own.end)
    if own is not batch:
        later = (batch.end > last[others]) & (batch.start < until[others])
        np.minimum.at(until, others[later], batch.start[later])
    several = np.count_nonzero(last > -np.inf) > 1
    task = np.flatnonzero((-np.inf < last) & (last < until) & several)
    return _Idle(task, last[task], until[task])


def _waits(idle: _Idle, drawn: Layout, name: int) -> Parts:
    """What `_idle` says as parts of a picture with this name."""
    count = len(idle.task)
    return Parts(drawn.track(idle.task, "wait"), np.full(count, WAITING), idle.begin, idle.until, np.full(count, name))


def _key(params: TimelineParameters) -> tuple[Any, ...]:
    return (params.run, params.step, params.before, params.start, params.end, params.pixels, params.first, params.task,
            params.rows, params.links)


def _first(params: TimelineParameters, tasks: Sequence[str], rows: int) -> int:
    """The row at the top: a third of the rows above the wanted task, as long as there are rows for all of the picture."""
    if params.task in tasks:
        return max(0, min(tasks.index(params.task) - rows // 3, len(tasks) - rows))
    return min(max(0, params.first), max(0, len(tasks) - 1))


def _columns(marks: Marks, origin: float) -> Iterable[Any]:
    """The columns of the marks in the order of the record, but for their names."""
    return marks.lane, marks.kind, 1e3 * (marks.begin - origin), 1e3 * (marks.until - origin), 1e3 * marks.busy, marks.count


def _arrows(batch: Batch, rows: np.ndarray, names: Names, origin: float) -> tuple[list[Any], int]:
    """The columns of the longest messages that begin or end in a visible row (`rows`: of each span that of its task's
    transfers, -1 = none), and how many shorter ones there are."""
    came = np.flatnonzero(batch.senders >= 0)
    left = batch.senders[came]
    seen = (rows[left] >= 0) | (rows[came] >= 0)
    left, came = left[seen], came[seen]
    longest = np.argsort(batch.start[left] - batch.end[came], kind="stable")[:ARROWS]
    longest = longest[np.argsort(batch.start[left[longest]], kind="stable")]
    count = len(left)
    left, came = left[longest], came[longest]
    begin, until = batch.start[left], np.maximum(batch.end[came], batch.start[left])
    sends = [batch.rows[at] for at in left.tolist()]
    named, nbytes = names.column([row[_NAME] for row in sends]), [row[_NBYTES] for row in sends]
    return [rows[left], rows[came], 1e3 * (begin - origin), 1e3 * (until - origin), named, nbytes], count - len(left)


def _links(path: Sequence[Link], drawn: Layout, shown: range, names: Names) -> list[list[Any]]:
    """The columns of links, on the rows of what they are, as far as these are `shown`."""
    lanes = [_lane(link, drawn) for link in path]
    rows = [(lane - shown.start if lane in shown else -1, _LINK[link.kind][1], link.start, link.end, names.number(link.name))
            for lane, link in sorted(zip(lanes, path), key=lambda pair: pair[1].start)]
    return _transposed(rows, 5)


def _lane(link: Link, drawn: Layout) -> int:
    """The row of a link; of what is on none, a gap between two messages say, the first one of its task; -1 = nowhere."""
    track = _LINK[link.kind][0]
    sources = ((task_of(device), 0) for device in link.message.split("|")[2:3])  # of a message: where links are told apart
    places = (drawn.at.get((link.task, track, *own)) for own in
              ([(link.device, link.thread)] if track == "work" else [*sources, ("", 0)]))
    return next((place for place in places if place is not None), drawn.firsts.get((link.task, track), -1))


def _transposed(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows)] if rows else [[] for _ in range(width)]
