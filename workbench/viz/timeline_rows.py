"""The rows of a timeline: which tasks, devices and threads have one, in which order, and on which each span lies."""

from __future__ import annotations

from collections import Counter, OrderedDict
from functools import cached_property
from typing import NamedTuple

import numpy as np

from workbench.core.trace import KINDS as SPAN_KINDS
from workbench.viz.batch import Batch
from workbench.viz.names import Names, begins, different, ranked
from workbench.viz.palette import color_of, device_order, short_device, short_task
from workbench.viz.stretches import FEEDS

__all__ = ["KINDS", "TRACKS", "WAITING", "Layout", "On", "TimelineRows"]

KINDS = ("work", "transfer", "input", "wait", "system")
TRACKS = ("work", "transfer", "wait", "system")
WAITING = KINDS.index("wait")  # the kind of the marks of who waits
INPUT, SYSTEM = KINDS.index("input"), KINDS.index("system")
_OF_KIND = {"op": 0, "segment": 0, "send": 1, "recv": 1, "wait": WAITING, "queue": WAITING}
_KIND = np.array([_OF_KIND.get(kind, SYSTEM) for kind in (*SPAN_KINDS, "")])
_TRACK = np.array((0, 1, 2, 2, 3))  # of a kind; input is waited for
_WORK, _TRANSFER, _WAIT, _SYSTEM = range(len(TRACKS))
_RECV = SPAN_KINDS.index("recv")
_BITS = 20  # of a device's number, and of a thread's
REMEMBERED = 16  # layouts

Row = tuple[str, str, str, int]  # task, track, device, thread
_WORDS = {"transfer": "transfers", "wait": "waiting", "system": "beside steps"}


class On(NamedTuple):
    """Where spans lie, a column for each field."""

    lane: np.ndarray  # the place of their row
    kind: np.ndarray  # of their marks
    waits: np.ndarray  # the row on which their task waits, -1 where it has none


class Layout:
    """The rows of a picture, tasks by name; tasks wait and transfer on a row each, which all have where one has. Where links
    are told apart what comes to a task has a row for each task that it comes from, in the place of a device."""

    def __init__(self, codes: np.ndarray, names: Names, devices: Names, threads: np.ndarray) -> None:
        fields = _apart(codes)
        thread = np.where(fields[1] == _WORK, threads[fields[3]], 0)
        rows = [(names.texts[task], TRACKS[track], devices.texts[device], thread) for task, track, device, thread in zip(
            *(column.tolist() for column in (*fields[:3], thread)))]
        tasks, others = (_ranks(each.texts, of) for each, of in ((names, fields[0]), (devices, fields[2])))
        order = np.lexsort((fields[3], others[fields[2]], fields[1], tasks[fields[0]]))
        self.rows: list[Row] = [rows[at] for at in order.tolist()]
        self.owners = [row[0] for row in self.rows]
        self.task = fields[0][order]  # of each row its task's number
        self._described: tuple[range, list[tuple[str, str, str, str]]] = range(0), []  # what was asked for last
        self._codes, self._lane = codes, np.empty(len(codes), np.int64)
        self._lane[order] = np.arange(len(codes))

    def lane(self, codes: np.ndarray) -> np.ndarray:
        """The places of the rows with these codes, -1 where there is none."""
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[at] == codes, self._lane[at], -1)

    def track(self, tasks: np.ndarray, name: str) -> np.ndarray:
        """The rows of tasks, by their numbers, on this track; -1 where there is none."""
        return self.lane(_code(tasks, TRACKS.index(name)))

    @cached_property
    def at(self) -> dict[Row, int]:
        """The place of a row."""
        return {row: place for place, row in enumerate(self.rows)}

    @cached_property
    def firsts(self) -> dict[tuple[str, str], int]:
        """The first row of a task's track."""
        return {row[:2]: place for place, row in reversed(list(enumerate(self.rows)))}

    @cached_property
    def _threads(self) -> Counter[tuple[str, ...]]:
        return Counter(row[:3] for row in self.rows if row[1] == "work")

    def described(self, places: range) -> list[tuple[str, str, str, str]]:
        """(task, track, label, colour) of these rows."""
        if self._described[0] != places:
            self._described = places, [(row[0], row[1], self._label(place, row), color_of(row[0])) for place, row in zip(
                places, self.rows[places.start : places.stop])]
        return self._described[1]

    def _label(self, place: int, row: Row) -> str:
        task, track, device, _ = row
        if track != "work":
            return f"{short_task(task)} from {short_task(device)}" if device else f"{short_task(task)} {_WORDS[track]}"
        where = short_device(device) if device and device != task else short_task(task)
        if self._threads[row[:3]] == 1:
            return where
        # a system's own numbers are long, and others in each process
        return f"{where} thread {sum(one[:3] == row[:3] for one in self.rows[: place + 1])}"


class TimelineRows:
    """The layouts of one timeline: the same rows come in every step."""

    def __init__(self, names: Names) -> None:
        self.names = names  # of tasks
        self._devices = Names()
        self._devices.number("")  # of rows that are no device's: 0
        self._known: OrderedDict[tuple[bytes, bytes], Layout] = OrderedDict()

    def of(self, batch: Batch, idle: bool, links: bool = False) -> tuple[Layout, np.ndarray, np.ndarray]:
        """(the rows for these spans, of each span the code of its own, and the kind of its marks); tasks wait where one of
        them is `idle`, or receives. With `links` each message that came is on the row of who sent it."""
        kind = _KIND[batch.kind]
        if not FEEDS.isdisjoint(details := batch.texts("detail")):
            kind = np.where([detail in FEEDS for detail in details], INPUT, kind)
        track = _TRACK[kind]
        codes, works = _code(batch.task, track), np.flatnonzero(track == _WORK)
        thread, device = batch.thread[works], batch.texts("device")
        threads, numbers = (np.zeros(1, np.int64), 0) if not thread.any() else ranked(thread)
        codes[works] += (self._devices.column([device[at] for at in works.tolist()]) << _BITS) + numbers
        tasks, found = different(batch.task), [codes[(track == _WORK) | (track == _SYSTEM)]]
        for shared, there in ((_TRANSFER, track == _TRANSFER), (_WAIT, (track == _WAIT) | (batch.kind == _RECV))):
            if there.any() or (shared == _WAIT and idle):  # where one task has them all have: rows do not come and go
                found.append(_code(tasks, shared))
        if links:
            came = np.flatnonzero(batch.senders >= 0)
            senders = batch.task[batch.senders[came]].tolist()
            codes[came] += self._devices.column([self.names.texts[task] for task in senders]) << _BITS
            found.append(codes[came])
        rows = np.sort(np.concatenate(found))
        return self._layout(rows[begins(rows)], threads), codes, kind

    def _layout(self, codes: np.ndarray, threads: np.ndarray) -> Layout:
        key = codes.tobytes(), threads.tobytes()
        if key not in self._known:
            self._known[key] = Layout(codes, self.names, self._devices, threads)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]


def _code(tasks: np.ndarray, track: np.ndarray | int) -> np.ndarray:
    """The code of rows of tasks; of those that work device and thread are still to be added."""
    return np.asarray((tasks * len(TRACKS) + track) << 2 * _BITS)


def _apart(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The numbers of task, track, device and thread."""
    most = (1 << _BITS) - 1
    return *np.divmod(codes >> 2 * _BITS, len(TRACKS)), codes >> _BITS & most, codes & most


def _ranks(texts: list[str], used: np.ndarray) -> np.ndarray:
    """Of each number its text's place among those that are used, in the order of devices."""
    ranks = np.zeros(len(texts), np.int64)
    for rank, number in enumerate(sorted(different(used).tolist(), key=lambda number: device_order(texts[number]))):
        ranks[number] = rank
    return ranks
