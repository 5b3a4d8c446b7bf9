"""Level of detail: spans as marks on rows, as many as pixels can show; what is narrower than one is drawn together."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from workbench.core.trace import Span
from workbench.viz.palette import color_of, device_order, short_device, short_task
from workbench.viz.stretches import FEEDS

__all__ = ["KINDS", "MOST", "Marks", "Part", "lanes_of", "marks_of", "parts_of", "places_of", "rows_of"]

KINDS = ("work", "transfer", "input", "wait", "system")
MOST = 1200  # marks of one picture: beyond, what counts as one pixel gets wider
TRACKS = ("work", "transfer", "wait", "system")
_KIND = {"op": 0, "segment": 0, "send": 1, "recv": 1, "wait": 3, "queue": 3}
_TRACK = (0, 1, 2, 2, 3)  # of a kind; input is waited for

Row = tuple[str, str, str, int]  # task, track, device, thread
Part = tuple[Row, int, float, float, str]  # a span, or a piece of one, that is one thing: kind, start, end (seconds), name
Places = Mapping[tuple[Any, ...], tuple[int, Row, Row | None]]


@dataclass(slots=True)
class Marks:
    """Columns, one entry per mark; seconds."""

    lane: np.ndarray
    kind: np.ndarray
    begin: np.ndarray
    until: np.ndarray
    busy: np.ndarray
    count: np.ndarray
    names: list[str]


_PLACE, _SAYS = (itemgetter(*map(Span._fields.index, names)) for names in (  # by their places: of all spans
    ("kind", "task", "device", "thread", "detail"), ("start", "end", "name", "message")))


@functools.lru_cache(1 << 14)  # the same ones come in every step
def _placed(kind: str, task: str, device: str, thread: int, detail: str) -> tuple[int, Row, Row | None]:
    """What a span is, the row that it lies on, and that where it waits before; tasks wait and transfer on a row each."""
    number = 2 if detail in FEEDS else _KIND.get(kind, 4)
    track = TRACKS[_TRACK[number]]
    row = (task, track, device, thread) if track == "work" else (task, track, "", 0)
    return number, row, (task, "wait", "", 0) if kind == "recv" else None


def parts_of(spans: Sequence[Span], known: Places, moved: Mapping[str, tuple[Span, Span]]) -> list[Part]:
    """What spans say: a receive waits until its message is sent, as far as that is known, then it transfers."""
    parts: list[Part] = []
    for place, (start, end, name, message) in zip(map(_PLACE, spans), map(_SAYS, spans)):
        kind, row, waiting = known[place]
        if waiting is not None and message in moved:
            leaves = min(moved[message][0].start, end)
            if leaves > start:
                parts.append((waiting, 3, start, leaves, name))
                start = leaves
        parts.append((row, kind, start, end, name))
    return parts


def places_of(spans: Iterable[Span]) -> Places:
    """Where all spans that are alike lie."""
    return {place: _placed(*place) for place in set(map(_PLACE, spans))}


def rows_of(known: Places) -> frozenset[Row]:
    """The rows of these places; a receive waits and transfers."""
    _, rows, waiting = zip(*known.values()) if known else ((),) * 3
    return frozenset(rows).union(waiting) - {None}


@functools.lru_cache(16)
def lanes_of(own: frozenset[Row]) -> tuple[list[tuple[str, str, str, str]], dict[Row, int]]:
    """(task, track, label, colour) of each row, tasks by name, and the numbers of the rows."""
    tracks = {row[1] for row in own} & {"transfer", "wait"}      # where one task has them all have: rows do not come and go
    rows = sorted(own | {(task, track, "", 0) for task in {row[0] for row in own} for track in tracks},
                  key=lambda row: (device_order(row[0]), TRACKS.index(row[1]), device_order(row[2]), row[3]))
    words = {"transfer": "transfers", "wait": "waiting", "system": "beside steps"}
    threads = {row[:3] for row in rows if row[3]}
    lanes = []
    for task, track, device, thread in rows:
        place = short_device(device) if device and device != task else short_task(task)
        label = f"{place} thread {thread}" if track == "work" and (task, track, device) in threads else place
        lanes.append((task, track, label if track == "work" else f"{short_task(task)} {words[track]}", color_of(task)))
    return lanes, {row: number for number, row in enumerate(rows)}


def marks_of(parts: Sequence[Part], place: Mapping[Row, int], rows: range, start: float, end: float, pixels: int) -> Marks:
    """The marks of `rows` between two moments; indices count from the first of `rows`.

    What is narrower than a pixel is drawn together with its neighbours of the same kind.
    """
    on, *rest, names = zip(*parts) if parts else ((),) * 5
    lane, (kind, begin, until) = np.array([place[row] for row in on], np.int64) - rows.start, map(np.array, rest)
    shown = np.flatnonzero((lane >= 0) & (lane < len(rows)) & (begin <= end) & (until >= start))
    if not len(shown):
        none = np.empty(0)
        return Marks(none, none, none, none, none, none, [])
    lane, kind, begin, until = (column[shown] for column in (lane, kind, begin, until))
    width = max(end - start, 1e-9) / pixels
    while True:
        numbers, index = np.unique(_groups(lane, kind, begin, until, start, width), return_inverse=True)
        if len(numbers) <= MOST:
            return _joined(lane, kind, begin, until, index, [names[i] for i in shown.tolist()])
        width *= 2


def _groups(lane: np.ndarray, kind: np.ndarray, begin: np.ndarray, until: np.ndarray, start: float, width: float) -> np.ndarray:
    """Parts with the same number become one mark; a part wider than a pixel has one of its own."""
    bins = np.floor((np.maximum(begin, start) - start) / width).astype(np.int64)
    joint = (lane.astype(np.int64) * len(KINDS) + kind) * (int(bins.max()) + 1) + bins
    wide = until - begin >= width
    return np.where(wide, -1 - np.arange(len(joint)), joint)


def _joined(lane: np.ndarray, kind: np.ndarray, begin: np.ndarray, until: np.ndarray, index: np.ndarray,
            names: Sequence[str]) -> Marks:
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
                 np.bincount(index, minlength=count)[sorted_], [names[i] for i in chosen.tolist()])
