"""The critical path of one step: the chain of work, transfers and waits that made it as long as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from workbench.core.trace import KINDS, Span
from workbench.viz.batch import Batch
from workbench.viz.names import different
from workbench.viz.units import ms

__all__ = ["Link", "critical_path", "explain", "path_through"]

_SLACK = 2e-6  # seconds by which spans that follow each other may overlap
_KIND = {kind: number for number, kind in enumerate(KINDS)}
_WAITS = np.array([kind in ("wait", "queue", "recv") for kind in (*KINDS, "")])
_WORKS = np.array([kind in ("op", "segment") for kind in (*KINDS, "")])
_MESSAGE, _DETAIL = map(Span._fields.index, ("message", "detail"))
_AT_ONCE = 4096  # spans that are looked through together, where a long one lies over many short ones
_LONGEST = 10_000  # links; a guard against spans that contradict each other


@dataclass(slots=True)
class Link:
    """One stretch of the path; times in milliseconds from the start of the step."""

    kind: str  # "work" | "transfer" | "wait" | "gap"
    task: str
    name: str
    start: float
    end: float
    message: str = ""  # of a transfer
    device: str = ""  # of the span, of a gap that of the one after it
    thread: int = 0


def critical_path(spans: Sequence[Span], step: int) -> list[Link]:
    """The path through `step` of these spans."""
    return path_through(Batch([s for s in spans if s.step == step and s.end >= s.start and s.kind not in ("step", "loop")]))


def path_through(batch: Batch, origin: float | None = None) -> list[Link]:
    """The path through one step with these spans, which have all ended, earliest link first; its links follow each other
    without holes and end with the step. Its times count from `origin`, else from the first span's start.

    Walks back from the span that ended last. A receive leads to its send (Coffman and Graham's longest path, with
    messages as edges across tasks), and a send to the operation or segment that was under way when it left; a wait without
    a message leads to whatever ended last before it did.
    """
    past = _Past(batch)
    if not len(past.leaves):
        return []
    start, end = batch.start, batch.end
    origin = float(start[past.leaves].min()) if origin is None else origin
    links: list[Link] = []
    at: int | None = int(past.leaves[end[past.leaves].argmax()])
    until = float(end[at])
    while at is not None and len(links) < _LONGEST:
        begin, before, link = _back(at, until, past)
        _, name, task, device, thread, *_ = row = batch.rows[at]
        message = row[_MESSAGE] if link == "transfer" else ""
        links.append(Link(link, task, name, 1e3 * (begin - origin), 1e3 * (until - origin), message, device, thread))
        ended = begin if before is None else min(begin, float(end[before]))
        if ended < begin - _SLACK:
            links.append(Link("gap", task, "", 1e3 * (ended - origin), 1e3 * (begin - origin), "", device, thread))
        until, at = ended, before
    return links[::-1]


class _Ended(NamedTuple):
    """Spans by their ends, a column for each field."""

    places: np.ndarray
    end: np.ndarray

    def backwards(self, until: float) -> Iterator[int]:
        """Those that ended by then, the last one first; who takes few pays for few."""
        for at in range(int(self.end.searchsorted(until, "right")) - 1, -1, -1):
            yield int(self.places[at])


class _Begun(NamedTuple):
    """A task's work by its beginnings, a column for each field."""

    places: np.ndarray
    start: np.ndarray
    end: np.ndarray
    latest: np.ndarray  # end of it and of those before


class _Past:
    """The spans of a step, by their places, and which of them ended when: of few of many tasks, as the path comes by."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._task = batch.task
        self.leaves = np.arange(len(batch))
        operations, segments = (np.flatnonzero(batch.kind == _KIND[kind]) for kind in ("op", "segment"))
        if len(operations):  # without the segments whose operations were recorded one by one
            self.leaves = np.flatnonzero(~self._hold(operations, segments))
        self._of: dict[int, _Ended] = {}  # a task's
        self._works: dict[int, _Begun] = {}

    def _hold(self, operations: np.ndarray, segments: np.ndarray) -> np.ndarray:
        """Of each span: is it one of these segments, and does one of its task's operations lie in it?"""
        batch, found = self.batch, np.zeros(len(self.batch), bool)
        for task in different(self._task[segments]).tolist():
            own, mine = (places[self._task[places] == task] for places in (operations, segments))
            own = own[np.lexsort((batch.end[own], batch.start[own]))]
            soonest = np.append(np.minimum.accumulate(batch.end[own][::-1])[::-1], np.inf)  # of those from each one on
            found[mine] = soonest[np.searchsorted(batch.start[own], batch.start[mine] - _SLACK)] <= batch.end[mine] + _SLACK
        return found

    def last(self, of: int, before: float, but: int) -> int | None:
        """The span that ended last before `before`, of the task that the span `of` belongs to."""
        own = self._own(int(self._task[of]))
        for place in own.backwards(before + _SLACK):
            if place != but and self.batch.start[place] < before:
                return place
        return None

    def left_from(self, send: int, sent: float, but: int) -> int | None:
        """What the task of a send did when the message left: what of its work was under way, that which began last, else what
        ended last before."""
        begun = self._begun(int(self._task[send]))
        last = int(begun.start.searchsorted(sent))
        while last > 0 and begun.latest[last - 1] > sent + _SLACK:  # what ended by then was not under way, nor those before
            first = max(0, last - _AT_ONCE)
            under_way = np.flatnonzero(begun.end[first:last] > sent + _SLACK)
            if len(under_way):
                return int(begun.places[first + under_way[-1]])
            last = first
        return self.last(send, sent, but)

    def _own(self, task: int) -> _Ended:
        if task not in self._of:
            self._of[task] = self._by_end(self.leaves[self._task[self.leaves] == task])
        return self._of[task]

    def _begun(self, task: int) -> _Begun:
        if task not in self._works:
            places = self._own(task).places
            places = places[_WORKS[self.batch.kind[places]]]
            order = np.lexsort((-np.arange(len(places)), self.batch.start[places]))  # of those that began together the first
            places = places[order]
            end = self.batch.end[places]
            self._works[task] = _Begun(places, self.batch.start[places], end, np.maximum.accumulate(end))
        return self._works[task]

    @cached_property
    def _doing(self) -> _Ended:
        return self._by_end(self.leaves[~_WAITS[self.batch.kind[self.leaves]]])

    def ended_last(self, wait: int) -> int | None:
        """What another task finished last while the span `wait` waited."""
        start, end = self.batch.start[wait], self.batch.end
        for place in self._doing.backwards(end[wait] + _SLACK):
            if end[place] <= start:
                return None
            if self._task[place] != self._task[wait]:
                return place
        return None

    def _by_end(self, places: np.ndarray) -> _Ended:
        places = places[np.lexsort((self.batch.start[places], self.batch.end[places]))]
        return _Ended(places, self.batch.end[places])


def _back(at: int, until: float, past: _Past) -> tuple[float, int | None, str]:
    """(start of the link that ends in the span `at`, the span before it, kind of the link)."""
    batch = past.batch
    start, kind, send = float(batch.start[at]), batch.kind[at], int(batch.senders[at])
    if send >= 0 and start - _SLACK < (sent := float(batch.start[send])) < until:
        return sent, past.left_from(send, sent, at), "transfer"
    if _WAITS[kind]:
        cause = past.ended_last(at)
        if cause is not None:
            return float(batch.end[cause]), cause, "wait"
        return start, past.last(at, start, at), "wait"
    sends = kind == _KIND["send"] or batch.rows[at][_DETAIL] == "send"  # as an operation that was timed
    return start, past.last(at, start, at), "transfer" if sends else "work"


def explain(links: Sequence[Link]) -> str:
    """One sentence: how much of the path is work, transfer and wait, and its most expensive link."""
    if not links:
        return "Nothing of this step was recorded."
    length = links[-1].end - links[0].start
    parts = [
        f"{ms(sum(k.end - k.start for k in links if k.kind == kind))} {word}"
        for kind, word in (("work", "work"), ("transfer", "transfer"), ("wait", "waiting"), ("gap", "between spans"))
        if any(k.kind == kind for k in links)
    ]
    longest = max((k for k in links if k.kind != "gap"), key=lambda k: k.end - k.start)
    return (
        f"{ms(length)}: {', '.join(parts)}; the longest link is {longest.name or longest.kind} "
        f"({ms(longest.end - longest.start)})."
    )
