"""What the spans of a step say, as columns: when each task works, transfers, waits for input, or for whom it waits."""

from __future__ import annotations

from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

import numpy as np

from workbench import errors
from workbench.core.names import split_edge, task_of
from workbench.core.trace import KINDS, Span, spans_of
from workbench.viz.batch import Batch
from workbench.viz.names import Names, numbered
from workbench.viz.working import worked

__all__ = ["FEEDS", "INPUT", "TRANSFER", "WAIT", "WORK", "Stretches", "Told", "tell"]

WORK, TRANSFER, INPUT, WAIT = range(4)  # what counts where spans overlap, the first of them
FEEDS = frozenset(("queue_dequeue", "queue_dequeue_many", "queue_dequeue_up_to", "iterator_next", "reader_read"))
_OP, _SEGMENT, _SEND, _RECV, _QUEUE, _WAIT, _OTHER = range(7)
_NAME, _MESSAGE = map(Span._fields.index, ("name", "message"))
_KINDS = {"op": _OP, "segment": _SEGMENT, "send": _SEND, "recv": _RECV, "queue": _QUEUE, "wait": _WAIT}
_OF_KIND = np.array([_KINDS.get(kind, _OTHER) for kind in (*KINDS, "")])


class Stretches(NamedTuple):
    """Time of tasks that is one thing each, a column for each field; seconds, texts as their numbers."""

    task: np.ndarray
    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray  # WORK, TRANSFER, INPUT or WAIT
    other: np.ndarray  # the task itself where it works; "source task|target task"; the input; whom it waits for

    def only(self, which: np.ndarray) -> Stretches:
        return Stretches(*(column[which] for column in self))

    def painted(self) -> Stretches:
        """What counts more comes later, else in the given order."""
        return self.only(np.argsort(-self.kind, kind="stable"))


class Told(NamedTuple):
    """What is known of a step: its stretches, and of each of its tasks what they do not say."""

    own: Stretches
    tasks: np.ndarray
    pieces: np.ndarray  # operations and segments
    scattered: np.ndarray  # seconds of turns of loops that were summed up, not recorded one by one


def tell(batch: Batch, until: float, names: Names) -> Told:
    """What the spans of a step say that ends at `until`; who is done before waits for whoever works last."""
    teller = _Teller(batch, names)
    own = Stretches(*(np.concatenate(column) for column in zip(*teller.said(until))))
    if len(teller.tasks) == 1 and not len(own.task):
        own = teller.works(np.arange(len(batch)))
    segments = np.flatnonzero((teller.kind == _SEGMENT) & (teller.turns > 1))
    turned = [span.seconds for span in spans_of(map(batch.rows.__getitem__, segments.tolist()))]
    scattered = np.bincount(teller.rows[segments], turned, len(teller.tasks))
    pieces = np.bincount(teller.rows[teller.kind <= _SEGMENT], minlength=len(teller.tasks))
    return Told(own, teller.tasks, pieces, scattered)


class _Teller:
    """The spans of a step as columns."""

    def __init__(self, batch: Batch, names: Names) -> None:
        self._names, self._count, self._batch = names, len(batch), batch
        self._start, self._end = batch.start, batch.end
        self._task, self._details = names.column(batch.texts("task")), batch.texts("detail")
        self.tasks, self.rows = numbered(self._task)
        self.kind = _OF_KIND[batch.kind]
        self.turns = batch.numbers("turns", np.int64)

    def said(self, until: float) -> list[Stretches]:
        feeds = (np.zeros(self._count, bool) if FEEDS.isdisjoint(self._details)
                 else np.fromiter(map(FEEDS.__contains__, self._details), bool, self._count))
        timed = np.bincount(self.rows[self.kind == _OP], minlength=len(self.tasks)) > 0
        # of timed tasks the segments only repeat what their operations say
        runs = (self.kind == _OP) | ((self.kind == _SEGMENT) & (self.turns == 1) & ~timed[self.rows])
        queued, final = self.kind == _QUEUE, self._final()
        return [
            self._done(until, final),
            self._waited(np.flatnonzero(self.kind == _WAIT), final),
            self._named(np.flatnonzero(queued & ~feeds), WAIT),
            *self._moved(),      # a receive knows best for whom it waits
            self._named(np.flatnonzero((runs | queued) & feeds), INPUT),
            self.works(np.flatnonzero(runs & ~feeds)),
        ]

    def works(self, at: np.ndarray) -> Stretches:
        at, start, end = worked(self._batch, self._task, at)
        return Stretches(self._task[at], start, end, np.full(len(at), WORK), self._task[at])

    def _stretches(self, at: np.ndarray, kind: int, other: np.ndarray) -> Stretches:
        return Stretches(self._task[at], self._start[at], self._end[at], np.full(len(at), kind), other)

    def _named(self, at: np.ndarray, kind: int) -> Stretches:
        return self._stretches(at, kind, self._names.column([self._batch.rows[i][_NAME] for i in at.tolist()]))

    def _moved(self) -> list[Stretches]:
        """A receive waits until its message is sent, from then on it transfers; a sender transfers."""
        sends, receives = np.flatnonzero(self.kind == _SEND), np.flatnonzero(self.kind == _RECV)
        texts = self._batch.texts("message")
        froms, intos = (np.fromiter(map(there.get, [texts[at] for at in here.tolist()], repeat(-1)), np.int64, len(here))
                        for here, there in ((receives, self._batch.left), (sends, self._batch.came)))
        known = np.where(froms >= 0, self._start[froms], np.inf)
        leaves = np.minimum(np.maximum(known, self._start[receives]), self._end[receives])
        links = self._links(froms, receives, receives)
        moved = self._stretches(receives, TRANSFER, links)._replace(start=leaves)
        waits = self._stretches(receives, WAIT, self._names.sources(links))
        waits = waits._replace(end=leaves).only(leaves > waits.start)
        return [waits, self._stretches(sends, TRANSFER, self._links(sends, intos, sends)), moved]

    def _waited(self, at: np.ndarray, final: int) -> Stretches:
        whom = [detail if (detail := self._details[i]).startswith("/job:") else self._names.texts[final] for i in at.tolist()]
        return self._stretches(at, WAIT, self._names.column(whom))

    def _final(self) -> int:
        """Who works last."""
        doing, working = np.full(len(self.tasks), -1.0), self.kind <= _SEND
        np.maximum.at(doing, self.rows[working], self._end[working])
        return int(self.tasks[doing.argmax()])

    def _done(self, until: float, final: int) -> Stretches:
        """The part of a task may be over before the step is."""
        last = np.full(len(self.tasks), -np.inf)
        np.maximum.at(last, self.rows, self._end)
        early = (last < until) & (self.tasks != final)
        count = int(early.sum())
        return Stretches(self.tasks[early], last[early], np.full(count, until), np.full(count, WAIT), np.full(count, final))

    def _links(self, sources: np.ndarray, targets: np.ndarray, at: np.ndarray) -> np.ndarray:
        """"source task|target task" of each message, as far as both its ends (-1: not known) have told: else as its text says,
        or that of its own task (`at`) where it names none."""
        links, known = np.empty(len(at), np.int64), (sources >= 0) & (targets >= 0)
        links[known] = self._names.links(self._task[sources[known]], self._task[targets[known]])
        for place in np.flatnonzero(~known).tolist():
            row, own = self._batch.rows[at[place]], self._names.texts[self._task[at[place]]]
            links[place] = self._names.number(_ends(row[_MESSAGE].partition("|")[2]) or f"{own}|{own}")
        return links


@lru_cache(1 << 14)  # the same messages come in every step
def _ends(message: str) -> str:
    """The two tasks of a message, without its step; "" of one that names none."""
    try:
        sent = split_edge(message)
    except errors.InvalidArgumentError:
        return ""
    return f"{task_of(sent.source)}|{task_of(sent.target)}"
