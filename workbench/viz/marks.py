"""Level of detail: spans as marks on rows, as many as pixels can show; what is narrower than one is drawn together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from workbench.core.trace import KINDS as SPAN_KINDS
from workbench.viz.batch import Batch
from workbench.viz.names import begins, ranked
from workbench.viz.timeline_rows import KINDS, WAITING, On
from workbench.viz.working import worked

__all__ = ["MOST", "Marks", "Parts", "joined", "marks_of", "parts_of"]

MOST = 1200  # marks of one picture: beyond, what counts as one pixel gets wider
_IS_RUN = np.array([kind in ("op", "segment") for kind in (*SPAN_KINDS, "")])


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


def parts_of(batch: Batch, on: On, sent: np.ndarray) -> Parts:
    """What spans say (`on`: their rows; `sent`: when their message was, as far as that is known): a receive waits until its
    message is sent, then it transfers; what works and sends on one thread does not work meanwhile. Names are the places of
    the spans. Where operations were timed one by one, the segments of their task's step only repeat what they say."""
    begin, leaves = batch.start.copy(), np.minimum(sent, batch.end)
    late = np.flatnonzero(leaves > begin)
    waits = Parts(on.waits[late], np.full(len(late), WAITING), begin[late], leaves[late], late)
    begin[late] = leaves[late]
    shown = _once(batch)
    works = shown & _IS_RUN[batch.kind]
    at, starts, ends = worked(batch, batch.task, np.flatnonzero(works))
    others = np.flatnonzero(shown & ~works)
    return joined([waits, Parts(on.lane[others], on.kind[others], begin[others], batch.end[others], others),
                   Parts(on.lane[at], on.kind[at], starts, ends, at)])


def _once(batch: Batch) -> np.ndarray:
    operations = batch.kind == SPAN_KINDS.index("op")
    if not operations.any():
        return np.ones(len(batch), bool)
    steps = ranked(batch.step)[1] * (batch.task.max() + 1) + batch.task
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
        numbers, index = ranked(_groups(lane, kind, begin, until, start, width))
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
    firsts = order[begins(index[order])]
    count = len(firsts)
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, index, begin)
    np.maximum.at(last, index, until)
    busy = np.minimum(np.bincount(index, until - begin, count), last - first)
    sorted_ = np.lexsort((busy - (last - first), first, lane[firsts]))
    chosen = firsts[sorted_]
    return Marks(lane[chosen], kind[chosen], first[sorted_], last[sorted_], busy[sorted_],
                 np.bincount(index, minlength=count)[sorted_], name[chosen])
