"""Level of detail: spans as marks on rows, as many as pixels can show; what is narrower than one is drawn together."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from workbench.core.trace import KINDS as SPAN_KINDS
from workbench.core.trace import Row as SpanRow
from workbench.core.trace import Span
from workbench.viz.batch import Batch
from workbench.viz.palette import color_of, device_order, short_device, short_task
from workbench.viz.stretches import FEEDS
from workbench.viz.working import worked

__all__ = ["KINDS", "MOST", "WAITING", "Layout", "Marks", "Parts", "joined", "layout", "marks_of", "parts_of", "places_of",
           "waiting_place"]

KINDS = ("work", "transfer", "input", "wait", "system")
MOST = 1200  # marks of one picture: beyond, what counts as one pixel gets wider
TRACKS = ("work", "transfer", "wait", "system")
_KIND = {"op": 0, "segment": 0, "send": 1, "recv": 1, "wait": 3, "queue": 3}
_RUNS = [SPAN_KINDS.index(kind) for kind in ("op", "segment")]
_TRACK = (0, 1, 2, 2, 3)  # of a kind; input is waited for

Place = tuple[str, str, str, int, str]  # what decides where a span lies: kind, task, device, thread, detail
Row = tuple[str, str, str, int]  # task, track, device, thread
WAITING = "wait", KINDS.index("wait")  # the kind of a span that waits, and of its marks


class Parts(NamedTuple):
    """Spans, or pieces of them, that are one thing each, a column for each field; seconds."""

    lane: np.ndarray
    kind: np.ndarray
    begin: np.ndarray
    until: np.ndarray
    name: np.ndarray  # numbers


@dataclass(slots=True)
class Marks:
    """Columns, one entry per mark; seconds."""

    lane: np.ndarray
    kind: np.ndarray
    begin: np.ndarray
    until: np.ndarray
    busy: np.ndarray
    count: np.ndarray
    name: np.ndarray


@dataclass(slots=True)
class Layout:
    """The rows of a picture, and on which of them its spans lie, which have a number for each place."""

    lanes: list[tuple[str, str, str, str]]  # task, track, label, colour
    numbers: dict[Place, int]
    task: np.ndarray  # of each number its task's
    kind: np.ndarray  # of its marks
    lane: np.ndarray
    waits: np.ndarray  # the row on which its task waits, -1 where it has none
    tasks: dict[str, int]
    at: dict[Row, int]  # the place of a row among the lanes

    def column(self, places: Iterable[Place]) -> np.ndarray:
        """Their numbers."""
        return np.fromiter(map(self.numbers.__getitem__, places), np.int64)


_PLACE = itemgetter(*map(Span._fields.index, ("kind", "task", "device", "thread", "detail")))


def places_of(rows: Iterable[SpanRow]) -> list[Place]:
    """Where each of these spans lies."""
    return list(map(_PLACE, rows))


def waiting_place(task: str) -> Place:
    """Where a task waits that no span says to wait."""
    return WAITING[0], task, "", 0, ""


@functools.lru_cache(16)  # the same places come in every step
def layout(places: frozenset[Place]) -> Layout:
    """The rows for these, tasks by name."""
    ordered = sorted(places)
    placed = [_placed(*place) for place in ordered]
    own = {row for _, row in placed} | {_waiting(place[1]) for place in ordered if place[0] == "recv"}
    tracks = {row[1] for row in own} & {"transfer", "wait"}      # where one task has them all have: rows do not come and go
    rows = sorted(own | {(task, track, "", 0) for task in {row[0] for row in own} for track in tracks},
                  key=lambda row: (device_order(row[0]), TRACKS.index(row[1]), device_order(row[2]), row[3]))
    at = {row: number for number, row in enumerate(rows)}
    tasks = {task: number for number, task in enumerate(dict.fromkeys(row[0] for row in rows))}
    return Layout(_lanes(rows), {place: number for number, place in enumerate(ordered)},
                  np.array([tasks[place[1]] for place in ordered], np.int64), np.array([kind for kind, _ in placed], np.int64),
                  np.array([at[row] for _, row in placed], np.int64),
                  np.array([at.get(_waiting(place[1]), -1) for place in ordered], np.int64), tasks, at)


def _placed(kind: str, task: str, device: str, thread: int, detail: str) -> tuple[int, Row]:
    """What a span is, and the row that it lies on; tasks wait and transfer on a row each."""
    number = 2 if detail in FEEDS else _KIND.get(kind, 4)
    track = TRACKS[_TRACK[number]]
    return number, (task, track, device, thread) if track == "work" else (task, track, "", 0)


def _waiting(task: str) -> Row:
    return task, "wait", "", 0


def _lanes(rows: Sequence[Row]) -> list[tuple[str, str, str, str]]:
    """(task, track, label, colour) of each row."""
    words = {"transfer": "transfers", "wait": "waiting", "system": "beside steps"}
    threads = Counter(row[:3] for row in rows)
    numbers, lanes = Counter[tuple[str, ...]](), []
    for task, track, device, _ in rows:
        place = short_device(device) if device and device != task else short_task(task)
        numbers[task, track, device] += 1      # a system's own are long, and others in each process
        several = threads[task, track, device] > 1
        label = f"{place} thread {numbers[task, track, device]}" if several else place
        lanes.append((task, track, label if track == "work" else f"{short_task(task)} {words[track]}", color_of(task)))
    return lanes


def parts_of(batch: Batch, rows: Layout, codes: np.ndarray) -> Parts:
    """What spans say (`codes`: the numbers of their places): a receive waits until its message is sent, as far as that is
    known, then it transfers; what works and sends on one thread does not work meanwhile. Names are the places of the spans.
    Where operations were timed one by one, the segments of their task's step only repeat what they say."""
    sent = np.flatnonzero(batch.senders >= 0)
    begin = batch.start.copy()
    leaves = np.minimum(batch.start[batch.senders[sent]], batch.end[sent])
    sent, leaves = sent[leaves > begin[sent]], leaves[leaves > begin[sent]]
    waits = Parts(rows.waits[codes[sent]], np.full(len(sent), WAITING[1]), begin[sent], leaves, sent)
    begin[sent] = leaves
    shown = _once(batch, rows.task[codes])
    works = shown & np.isin(batch.kind, _RUNS)
    at, starts, ends = worked(batch, rows.task[codes], np.flatnonzero(works))
    others = np.flatnonzero(shown & ~works)
    return joined([waits, Parts(rows.lane[codes[others]], rows.kind[codes[others]], begin[others], batch.end[others], others),
                   Parts(rows.lane[codes[at]], rows.kind[codes[at]], starts, ends, at)])


def _once(batch: Batch, tasks: np.ndarray) -> np.ndarray:
    operations = batch.kind == SPAN_KINDS.index("op")
    if not operations.any():
        return np.ones(len(batch), bool)
    steps = np.unique(batch.step, return_inverse=True)[1] * (tasks.max() + 1) + tasks
    return np.asarray((batch.kind != SPAN_KINDS.index("segment")) | ~np.isin(steps, steps[operations]))


def joined(several: Iterable[Parts]) -> Parts:
    return Parts(*map(np.concatenate, zip(*several)))


def marks_of(parts: Parts, rows: range, start: float, end: float, pixels: int) -> Marks:
    """The marks of `rows` between two moments; indices count from the first of `rows`.

    What is narrower than a pixel is drawn together with its neighbours of the same kind.
    """
    lane, kind, begin, until, name = parts._replace(lane=parts.lane - rows.start)
    shown = np.flatnonzero((lane >= 0) & (lane < len(rows)) & (begin <= end) & (until >= start))
    if not len(shown):
        none = np.empty(0, np.int64)
        return Marks(none, none, none, none, none, none, none)
    lane, kind, begin, until, name = (column[shown] for column in (lane, kind, begin, until, name))
    width = max(end - start, 1e-9) / pixels
    while True:
        numbers, index = np.unique(_groups(lane, kind, begin, until, start, width), return_inverse=True)
        if len(numbers) <= MOST:
            return _marks(lane, kind, begin, until, index, name)
        width *= 2


def _groups(lane: np.ndarray, kind: np.ndarray, begin: np.ndarray, until: np.ndarray, start: float, width: float) -> np.ndarray:
    """Parts with the same number become one mark; a part wider than a pixel has one of its own."""
    bins = np.floor((np.maximum(begin, start) - start) / width).astype(np.int64)
    joint = (lane.astype(np.int64) * len(KINDS) + kind) * (int(bins.max()) + 1) + bins
    wide = until - begin >= width
    return np.where(wide, -1 - np.arange(len(joint)), joint)


def _marks(lane: np.ndarray, kind: np.ndarray, begin: np.ndarray, until: np.ndarray, index: np.ndarray,
           name: np.ndarray) -> Marks:
    """One mark per number of a group: from its first beginning to its last end, called as its longest part."""
    order = np.lexsort((begin - until, index))
    firsts = order[np.flatnonzero(np.diff(index[order], prepend=-1))]
    count = len(firsts)
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, index, begin)
    np.maximum.at(last, index, until)
    busy = np.minimum(np.bincount(index, until - begin, count), last - first)
    sorted_ = np.lexsort((busy - (last - first), first, lane[firsts]))
    chosen = firsts[sorted_]
    return Marks(lane[chosen], kind[chosen], first[sorted_], last[sorted_], busy[sorted_],
                 np.bincount(index, minlength=count)[sorted_], name[chosen])
