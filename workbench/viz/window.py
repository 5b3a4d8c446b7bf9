"""The steps that a verdict looks at, as columns: each step is taken apart once, medians are of all tasks at once."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

import numpy as np

from workbench.viz.blame import Blame, blame, middles
from workbench.viz.ledger import PARTS, Entries, Ledger, Root, root_of
from workbench.viz.names import numbered
from workbench.viz.palette import device_order

__all__ = ["Window", "middles_of_others", "typical", "typicals"]

_COLUMN = {name: number for number, name in enumerate(PARTS)}
BLOCK = 1 << 20  # sums that are looked through at once
SERVING = ("ps", "parameter_server", "chief")  # jobs
TRIMMED = 0.1  # part of the steps that does not count, the most expensive ones


def _left_out(count: int) -> int:
    """How many of so many are the most expensive tenth."""
    return max(1, int(TRIMMED * count)) if count > 3 else 0


def typical(values: Iterable[float]) -> float:
    """The mean without the most expensive tenth."""
    kept = sorted(values)
    return statistics.fmean(kept[: len(kept) - _left_out(len(kept))]) if kept else 0.0


def typicals(values: np.ndarray) -> np.ndarray:
    """`typical` of each column of [step, name]; nothing (NaN) does not count."""
    ordered = np.sort(values, 0, kind="stable")  # of few values; what is missing comes last
    known = ~np.isnan(ordered)
    if known[-1].all():
        return np.asarray(ordered[: len(ordered) - _left_out(len(ordered))].mean(0))
    count = known.sum(0)
    kept = count - np.where(count > 3, np.maximum(1, (TRIMMED * count).astype(np.int64)), 0)
    sums = np.cumsum(np.where(known, ordered, 0.0), 0)
    return np.asarray(np.take_along_axis(sums, kept[None] - 1, 0)[0] / kept)


def middles_of_others(values: np.ndarray) -> np.ndarray:
    """Of each of two or more values the median of all others."""
    ordered, others = np.sort(values), len(values) - 1
    at = np.searchsorted(ordered, values)
    low, high = ((half + (half >= at)) for half in ((others - 1) // 2, others // 2))
    return np.asarray((ordered[low] + ordered[high]) / 2)


@lru_cache(16)  # the same tasks come in every verdict
def _ordered(tasks: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The places of these in the order of their names, and of each in this order: does it serve by its name?"""
    order = sorted(range(len(tasks)), key=lambda at: device_order(tasks[at]))
    return np.array(order), np.array([device_order(tasks[at])[0] in SERVING for at in order])


class Window:
    """Some steps of one accounting side by side: [step, task, part], nothing (NaN) where a task took no part."""

    def __init__(self, steps: Sequence[Ledger]) -> None:
        self.steps, self.names = steps, steps[0].names
        texts = self.names.texts
        numbers = np.flatnonzero(np.bincount(np.concatenate([step.tasks for step in steps]))).tolist()
        order, self._serving = _ordered(tuple(map(texts.__getitem__, numbers)))
        self._numbers = np.array(numbers)[order]  # of the tasks
        self.tasks = list(map(texts.__getitem__, self._numbers.tolist()))
        self.place = {task: at for at, task in enumerate(self.tasks)}
        at = np.full(len(texts), -1)
        at[self._numbers] = np.arange(len(numbers))
        self._rows = [at[step.tasks] for step in steps]  # of each step, its tasks' places
        self._values = np.full((len(steps), len(self.tasks), len(PARTS)), np.nan)
        for number, (rows, step) in enumerate(zip(self._rows, steps)):
            self._values[number, rows] = step.parts

    def part(self, name: str) -> np.ndarray:
        """[step, task] of one part."""
        return self._values[:, :, _COLUMN[name]]

    @cached_property
    def middle(self) -> np.ndarray:
        """[task, part]: medians over the steps in which a task took part."""
        return middles(self._values)

    def middle_of(self, counted: np.ndarray) -> np.ndarray:
        """[task, part]: medians over the `counted` steps ([step, task])."""
        return middles(np.where(counted[:, :, None], self._values, np.nan))

    def medians(self, name: str) -> dict[str, float]:
        """Task -> its median over the steps in which it took part."""
        return dict(zip(self.tasks, self.middle[:, _COLUMN[name]].tolist()))

    @cached_property
    def working(self) -> np.ndarray:
        """The places of the tasks whose work is the step: of workers where there are some, else of all; without those that
        only lend a hand."""
        pieces, named = self.middle[:, _COLUMN["pieces"]], ~self._serving if not self._serving.all() else self._serving
        return np.flatnonzero(named & (2 * pieces >= pieces[named].max(initial=0)))

    @cached_property
    def workers(self) -> list[str]:
        """These tasks."""
        return list(map(self.tasks.__getitem__, self.working.tolist()))

    @cached_property
    def present(self) -> np.ndarray:
        """[step, task]: did it take part?"""
        return np.asarray(~np.isnan(self.part("whole")))

    def waits_for(self, counted: np.ndarray) -> list[Root | None]:
        """The root of most of each task's waiting in its `counted` steps ([step, task]); None where it never waits."""
        waits = [step.waits for step in self.steps]
        tasks = np.concatenate([rows[each.rows] for rows, each in zip(self._rows, waits)])
        codes, seconds = (np.concatenate([each[column] for each in waits]) for column in (1, 2))
        if counted is not self.present:
            here = counted[np.arange(len(waits)).repeat([len(each.rows) for each in waits]), tasks]
            tasks, seconds, codes = tasks[here], seconds[here], codes[here]
        codes, roots = numbered(codes)
        known: dict[int, Root] = {}  # of those that somebody waits for most
        found: list[Root | None] = [None] * len(self.tasks)
        block = max(1, BLOCK // max(1, len(codes)))
        for first in range(0, len(self.tasks), block) if len(codes) else ():
            size = min(block, len(self.tasks) - first)
            inside = (tasks >= first) & (tasks < first + block) if size < len(self.tasks) else slice(None)
            sums = np.bincount((tasks[inside] - first) * len(codes) + roots[inside], seconds[inside],
                               size * len(codes)).reshape(size, len(codes))
            most, some = sums.argmax(1).tolist(), (sums.max(1) > 0).tolist()
            known.update({root: root_of(self.names, int(codes[root])) for root in set(most) - known.keys()})
            found[first : first + size] = [known[root] if any_ else None for root, any_ in zip(most, some)]
        return found

    def side_by_side(self, steps: Sequence[Entries]) -> tuple[np.ndarray, np.ndarray]:
        """All codes of these entries of each step, where each comes once, ascending, and [step, code] of their seconds;
        nothing (NaN) where a step has none."""
        if all(np.array_equal(step.codes, steps[0].codes) for step in steps):  # as they mostly are
            return steps[0].codes, np.array([step.seconds for step in steps])
        codes, at = numbered(np.concatenate([step.codes for step in steps]))
        values = np.full((len(steps), len(codes)), np.nan)
        values[np.repeat(np.arange(len(steps)), [len(step.codes) for step in steps]), at] = np.concatenate(
            [step.seconds for step in steps])
        return codes, values

    @cached_property
    def servers(self) -> list[str]:
        """All others: who serves them."""
        workers = set(self.workers)
        return [task for task in self.tasks if task not in workers]

    @cached_property
    def blames(self) -> list[Blame]:
        """What each step says of its workers and servers."""
        numbers = self._numbers[self.working], np.delete(self._numbers, self.working)
        return [blame(step, *numbers) for step in self.steps]
