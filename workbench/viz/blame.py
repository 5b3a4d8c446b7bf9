"""What one step says of who holds it up, found once however many verdicts look at it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.viz.ledger import PARTS, ROOTS, Ledger

__all__ = ["LEADS", "Blame", "blame", "middles"]

LEADS = (("work", "work"), ("still", "uncovered"))  # what waiting is charged to, and the part of a step that it is


class Blame(NamedTuple):
    """Of one step; tasks are their numbers."""

    served: np.ndarray  # of each server: how long half of the workers wait for its work, seconds
    first: tuple[int, ...]  # of each of `LEADS` the worker with most of it, -1 = none,
    lead: tuple[float, ...]  # and how much more than the second, as far as somebody waited for it: seconds


def blame(step: Ledger, workers: np.ndarray, servers: np.ndarray) -> Blame:
    """Among these workers, those that took part, and these servers."""
    key = workers.tobytes(), servers.tobytes()
    if step.blamed is None or step.blamed[0] != key:
        step.blamed = key, _blame(step, workers, servers)
    found: Blame = step.blamed[1]
    return found


def middles(values: np.ndarray) -> np.ndarray:
    """The median of each column of [step, …]; nothing (NaN) does not count."""
    ordered = np.sort(values, 0, kind="stable")  # of few values; what is missing comes last
    if not np.isnan(ordered[-1]).any():
        return np.asarray((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)
    count = (~np.isnan(ordered)).sum(0)
    low, high = (np.take_along_axis(ordered, half[None], 0)[0] for half in (np.maximum(count - 1, 0) // 2, count // 2))
    return np.asarray(np.where(count > 0, (low + high) / 2, 0.0))


def _blame(step: Ledger, workers: np.ndarray, servers: np.ndarray) -> Blame:
    row, column = np.full((2, len(step.names.texts)), -1)  # of each task among its workers, among the servers
    row[workers], column[servers] = 0, np.arange(len(servers))
    working = (row[step.tasks] == 0).nonzero()[0]  # their places in the step
    if not len(working):
        return Blame(np.zeros(len(servers)), (-1,) * len(LEADS), (0.0,) * len(LEADS))
    row[step.tasks[working]] = np.arange(len(working))
    owners, (subjects, kinds) = row[step.tasks[step.waits.rows]], np.divmod(step.waits.codes, len(ROOTS))
    ours = owners >= 0
    owners, subjects, kinds, seconds = owners[ours], subjects[ours], kinds[ours], step.waits.seconds[ours]
    waited = np.zeros((len(working), len(servers)))
    of = ((column[subjects] >= 0) & (kinds == ROOTS.index("work"))).nonzero()[0]
    waited[owners[of], column[subjects[of]]] = seconds[of]
    leads = [_lead(step, working, part, subjects, np.where(kinds == ROOTS.index(kind), seconds, 0.0)) for kind, part in LEADS]
    return Blame(middles(waited), *zip(*leads))


def _lead(step: Ledger, working: np.ndarray, part: str, subjects: np.ndarray, waited: np.ndarray) -> tuple[int, float]:
    """Who of them has most of `part`, and how much more than the second, as far as somebody `waited` for it."""
    own = step.parts[working, PARTS.index(part)]
    first = len(own) - 1 - int(own[::-1].argmax())  # of equal ones the last
    task = int(step.tasks[working[first]])
    ahead = float(own[first] - np.delete(own, first).max()) if len(own) > 1 else 0.0
    return task, max(0.0, min(ahead, float(waited[subjects == task].max(initial=0.0))))
