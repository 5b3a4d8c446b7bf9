"""What threads work: their operations and segments, without the time in which the same thread sends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.core.trace import KINDS
from workbench.viz.batch import Batch

__all__ = ["Worked", "worked"]

_SEND = KINDS.index("send")


class Worked(NamedTuple):
    """Pieces of spans, a column for each field; a span that sends in the middle has two."""

    at: np.ndarray  # the span's place in its batch
    start: np.ndarray  # seconds
    end: np.ndarray


def worked(batch: Batch, tasks: np.ndarray, runs: np.ndarray) -> Worked:
    """What the spans at the places `runs` say without the sends within them; `tasks`: of each span the number of its task.

    A thread that sends copies, or waits until somebody takes what it sends: that is transfer. Who sends on another thread
    goes on working.
    """
    sends = ((batch.kind == _SEND) & (batch.end > batch.start)).nonzero()[0]
    holders = _holders(batch, tasks, runs, sends) if len(runs) and len(sends) else np.empty(0, np.int64)
    sends, holders = sends[holders >= 0] if len(holders) else sends[:0], holders[holders >= 0]
    if not len(sends):
        return Worked(runs, batch.start[runs], batch.end[runs])
    at = np.concatenate([runs, holders])
    starts, ends = np.concatenate([batch.start[runs], batch.end[sends]]), np.concatenate([batch.end[runs], batch.start[sends]])
    first, last = np.lexsort((starts, at)), np.lexsort((ends, at))  # of each run equally many
    at, starts, ends = at[first], starts[first], ends[last]
    kept = ends > starts
    return Worked(at[kept], starts[kept], ends[kept])


def _holders(batch: Batch, tasks: np.ndarray, runs: np.ndarray, sends: np.ndarray) -> np.ndarray:
    """Of each send the run of its own thread that it lies in, -1 for none."""
    both = np.concatenate([runs, sends])
    thread, task, begin = batch.thread[both], tasks[both], batch.start[both]
    order = np.lexsort((begin, thread, task))  # a run before a send that begins with it
    before = np.maximum.accumulate(np.where(order < len(runs), np.arange(len(both)), -1))
    places = np.empty(len(both), np.int64)
    places[order] = before
    found = places[len(runs):]
    run, send = order[found], np.arange(len(runs), len(both))
    inside = (found >= 0) & (task[run] == task[send]) & (thread[run] == thread[send]) & (
        batch.end[both[send]] <= batch.end[both[run]])
    return np.where(inside, both[run], -1)
