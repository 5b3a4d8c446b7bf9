"""What the spans of a step say, as columns: when each task works, transfers, waits for input, or for whom it waits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from workbench import errors
from workbench.core.names import split_edge, task_of
from workbench.core.trace import KINDS, Span, spans_of
from workbench.viz.batch import Batch
from workbench.viz.names import Names, begins, numbered
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

    def only(self, which: np.ndarray | slice) -> Stretches:
        return Stretches(*(column[which] for column in self))


class Told(NamedTuple):
    """What is known of a step: its stretches, and of each of its tasks what they do not say."""

    own: Stretches
    tasks: np.ndarray
    pieces: np.ndarray  # operations and segments
    scattered: np.ndarray  # seconds of turns of loops that were summed up, not recorded one by one


class _Said(NamedTuple):
    """Stretches, and the step of each, by its place."""

    own: Stretches
    step: np.ndarray


def tell(steps: Sequence[tuple[Batch, float]], names: Names) -> list[Told]:
    """What the spans of each of several steps of one run say, and when it ends: together they cost few calls. Who is done
    before waits for whoever works last."""
    teller = _Teller(steps, names)
    own, step = teller.said()
    tasks = len(teller.tasks)
    segments = ((teller.kind == _SEGMENT) & (teller.turns > 1)).nonzero()[0]
    turned = [span.seconds for span in spans_of(map(teller.batch.rows.__getitem__, segments.tolist()))]
    scattered = np.bincount(teller.rows[segments], turned, tasks)
    pieces = np.bincount(teller.rows[teller.kind <= _SEGMENT], minlength=tasks)
    if len(steps) == 1:
        return [Told(own, teller.tasks, pieces, scattered)]
    own, counts = own.only(np.argsort(step, kind="stable")), np.bincount(step, minlength=len(steps))
    borders, firsts = np.cumsum([0, *counts]).tolist(), [*teller.firsts.tolist(), tasks]
    return [Told(own.only(slice(at, until)), *(column[first:last] for column in (teller.tasks, pieces, scattered)))
            for at, until, first, last in zip(borders, borders[1:], firsts, firsts[1:])]


class _Teller:
    """The spans of some steps as columns. A task has a row in each step that it took part in."""

    def __init__(self, steps: Sequence[tuple[Batch, float]], names: Names) -> None:
        self.batch = steps[0][0] if len(steps) == 1 else Batch(list(chain.from_iterable(batch.rows for batch, _ in steps)))
        self._names, self._count = names, len(self.batch)
        self._start, self._end = self.batch.start, self.batch.end
        self._task, self._details = names.taken(self.batch.names, self.batch.task), self.batch.texts("detail")
        self._step = np.arange(len(steps)).repeat([len(batch) for batch, _ in steps])
        width = len(names.texts)
        numbers, self.rows = numbered(self._step * width + self._task)
        self._of, self.tasks = np.divmod(numbers, width)  # of each row its step and its task
        self.firsts = begins(self._of)  # of each step its first row
        self._until = np.array([until for _, until in steps])
        self.kind = _OF_KIND[self.batch.kind]
        self.turns = self.batch.numbers("turns", np.int64)

    def said(self) -> tuple[Stretches, np.ndarray]:
        """The stretches, and of each its step."""
        feeds = (np.zeros(self._count, bool) if FEEDS.isdisjoint(self._details)
                 else np.fromiter(map(FEEDS.__contains__, self._details), bool, self._count))
        timed = np.bincount(self.rows[self.kind == _OP], minlength=len(self.tasks)) > 0
        # of timed tasks the segments only repeat what their operations say
        runs = (self.kind == _OP) | ((self.kind == _SEGMENT) & (self.turns == 1) & ~timed[self.rows])
        queued, final = self.kind == _QUEUE, self._final()
        said = [
            self._done(final),
            self._waited((self.kind == _WAIT).nonzero()[0], final),
            self._named((queued & ~feeds).nonzero()[0], WAIT),
            *self._moved(),      # a receive knows best for whom it waits
            self._named(((runs | queued) & feeds).nonzero()[0], INPUT),
            self.works((runs & ~feeds).nonzero()[0]),
        ]
        own, steps = zip(*said)
        found, step = Stretches(*map(np.concatenate, zip(*own))), np.concatenate(steps)
        alone = np.bincount(self._of) == 1
        if alone.any():  # who tells nothing else works
            alone[step] = False
            works = self.works(alone[self._step].nonzero()[0])
            found, step = Stretches(*map(np.concatenate, zip(found, works.own))), np.concatenate([step, works.step])
        return found, step

    def works(self, at: np.ndarray) -> _Said:
        at, start, end = worked(self.batch, self.rows, at)
        return _Said(Stretches(self._task[at], start, end, np.full(len(at), WORK), self._task[at]), self._step[at])

    def _stretches(self, at: np.ndarray, kind: int, other: np.ndarray) -> _Said:
        own = Stretches(self._task[at], self._start[at], self._end[at], np.full(len(at), kind), other)
        return _Said(own, self._step[at])

    def _named(self, at: np.ndarray, kind: int) -> _Said:
        return self._stretches(at, kind, self._names.column([self.batch.rows[i][_NAME] for i in at.tolist()]))

    def _moved(self) -> list[_Said]:
        """A receive waits until its message is sent, from then on it transfers; a sender transfers."""
        sends, receives = (self.kind == _SEND).nonzero()[0], (self.kind == _RECV).nonzero()[0]
        texts = self.batch.texts("message")
        froms, intos = (np.fromiter(map(there.get, [texts[at] for at in here.tolist()], repeat(-1)), np.int64, len(here))
                        for here, there in ((receives, self.batch.left), (sends, self.batch.came)))
        known = np.where(froms >= 0, self._start[froms], np.inf)
        leaves = np.minimum(np.maximum(known, self._start[receives]), self._end[receives])
        links = self._links(froms, receives, receives)
        moved = self._stretches(receives, TRANSFER, links)
        late = leaves > self._start[receives]
        waits = self._stretches(receives[late], WAIT, self._names.sources(links[late]))
        return [waits._replace(own=waits.own._replace(end=leaves[late])),
                self._stretches(sends, TRANSFER, self._links(sends, intos, sends)),
                moved._replace(own=moved.own._replace(start=leaves))]

    def _waited(self, at: np.ndarray, final: np.ndarray) -> _Said:
        last = self.tasks[final[self._step[at]]].tolist()
        whom = [detail if (detail := self._details[i]).startswith("/job:") else self._names.texts[task]
                for i, task in zip(at.tolist(), last)]
        return self._stretches(at, WAIT, self._names.column(whom))

    def _final(self) -> np.ndarray:
        """Of each step the row of who works last."""
        doing, working = np.full(len(self.tasks), -1.0), self.kind <= _SEND
        np.maximum.at(doing, self.rows[working], self._end[working])
        last = (doing == np.maximum.reduceat(doing, self.firsts)[self._of]).nonzero()[0]
        return last[begins(self._of[last])]

    def _done(self, final: np.ndarray) -> _Said:
        """The part of a task may be over before the step is."""
        last, until = np.full(len(self.tasks), -np.inf), self._until[self._of]
        np.maximum.at(last, self.rows, self._end)
        early = last < until
        early[final] = False
        step, count = self._of[early], int(early.sum())
        whom = self.tasks[final[step]]
        return _Said(Stretches(self.tasks[early], last[early], until[early], np.full(count, WAIT), whom), step)

    def _links(self, sources: np.ndarray, targets: np.ndarray, at: np.ndarray) -> np.ndarray:
        """"source task|target task" of each message, as far as both its ends (-1: not known) have told: else as its text says,
        or that of its own task (`at`) where it names none."""
        links, known = np.empty(len(at), np.int64), (sources >= 0) & (targets >= 0)
        links[known] = self._names.links(self._task[sources[known]], self._task[targets[known]])
        for place in (~known).nonzero()[0].tolist():
            row, own = self.batch.rows[at[place]], self._names.texts[self._task[at[place]]]
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
