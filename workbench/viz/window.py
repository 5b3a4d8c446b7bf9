"""The steps that a verdict looks at, as columns: each step is taken apart once, medians are of all tasks at once."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from workbench.viz.names import Names
from workbench.viz.palette import device_order
from workbench.viz.waiting import Account, Root

__all__ = ["PARTS", "Digest", "Window", "middles", "typical", "typicals"]

PARTS = ("work", "transfer", "input", "wait", "uncovered", "whole", "pieces")
_COLUMN = {name: number for number, name in enumerate(PARTS)}
BLOCK = 1 << 20  # sums that are looked through at once
TRIMMED = 0.1  # part of the steps that does not count, the most expensive ones


def typical(values: Iterable[float]) -> float:
    """The mean without the most expensive tenth."""
    kept = sorted(values)
    left_out = max(1, int(TRIMMED * len(kept))) if len(kept) > 3 else 0
    return statistics.fmean(kept[: len(kept) - left_out]) if kept else 0.0


def typicals(values: np.ndarray) -> np.ndarray:
    """`typical` of each column of [step, name]; nothing (NaN) does not count."""
    ordered, count = np.sort(values, 0), np.sum(~np.isnan(values), 0)
    kept = count - np.where(count > 3, np.maximum(1, (TRIMMED * count).astype(np.int64)), 0)
    sums = np.cumsum(np.nan_to_num(ordered), 0)
    return np.asarray(np.take_along_axis(sums, kept[None] - 1, 0)[0] / kept)


def middles(values: np.ndarray) -> np.ndarray:
    """The median of each column of [step, …]; nothing (NaN) does not count."""
    ordered = np.sort(values, 0)  # what is missing comes last
    count = np.maximum(1, np.sum(~np.isnan(ordered), 0))
    low, high = (np.take_along_axis(ordered, half[None], 0)[0] for half in ((count - 1) // 2, count // 2))
    return np.asarray(np.nan_to_num((low + high) / 2))


class Digest:
    """What is asked of one step again and again, found when it is first asked for."""

    def __init__(self, accounts: dict[str, Account]) -> None:
        self.accounts = accounts
        self.tasks = tuple(sorted(accounts, key=device_order))
        self.columns = np.array([[getattr(accounts[task], name) for name in PARTS] for task in self.tasks])

    @cached_property
    def links(self) -> dict[str, float]:
        """Link -> seconds that its receiver saw of it."""
        return {link: seconds for task, account in self.accounts.items() for link, seconds in account.links.items()
                if not link.startswith(f"{task}|")}

    @cached_property
    def held_up(self) -> dict[str, float]:
        """Link -> the most seconds of transfer, and of waiting for it, that one task had."""
        most: dict[str, float] = defaultdict(float)
        for task, account in self.accounts.items():
            for link, seconds in account.links.items():
                if not link.startswith(f"{task}|"):
                    most[link] = max(most[link], seconds + account.waits.get(Root(link, "transfer"), 0.0))
            for root, seconds in account.waits.items():
                if root.kind == "transfer":
                    most[root.subject] = max(most[root.subject], seconds)
        return most

    @cached_property
    def moved(self) -> dict[str, float]:
        """Link -> seconds of all tasks together."""
        sums: dict[str, float] = defaultdict(float)
        for account in self.accounts.values():
            for link, seconds in account.links.items():
                sums[link] += seconds
        return sums

    @cached_property
    def waited(self) -> dict[Root, dict[str, float]]:
        """Root -> who waited for it, and for how long."""
        found: dict[Root, dict[str, float]] = defaultdict(dict)
        for task, account in self.accounts.items():
            for root, seconds in account.waits.items():
                found[root][task] = seconds
        return found

    @cached_property
    def roots(self) -> tuple[list[Root], np.ndarray, np.ndarray, np.ndarray]:
        """(all roots of waiting; of each wait its task's place in `tasks`, the place of its root, and its seconds)."""
        codes: dict[Root, int] = {}
        rows: list[int] = []
        places: list[int] = []
        seconds: list[float] = []
        for row, task in enumerate(self.tasks):
            waits = self.accounts[task].waits
            rows += [row] * len(waits)
            places += [codes.setdefault(root, len(codes)) for root in waits]
            seconds += waits.values()
        return list(codes), np.array(rows, np.int64), np.array(places, np.int64), np.array(seconds)


class Window:
    """Some steps side by side: [step, task, part], nothing (NaN) where a task took no part."""

    def __init__(self, steps: Sequence[Digest]) -> None:
        self.steps = steps
        self.tasks = sorted({task for step in steps for task in step.tasks}, key=device_order)
        self.place = {task: number for number, task in enumerate(self.tasks)}
        self._values = np.full((len(steps), len(self.tasks), len(PARTS)), np.nan)
        for number, step in enumerate(steps):
            self._values[number, [self.place[task] for task in step.tasks]] = step.columns

    def part(self, name: str) -> np.ndarray:
        """[step, task] of one part."""
        return self._values[:, :, _COLUMN[name]]

    @cached_property
    def middle(self) -> np.ndarray:
        """[task, part]: medians over the steps in which a task took part."""
        return middles(self._values)

    def medians(self, name: str) -> dict[str, float]:
        """Task -> its median over the steps in which it took part."""
        return dict(zip(self.tasks, self.middle[:, _COLUMN[name]].tolist()))

    @cached_property
    def workers(self) -> list[str]:
        """The tasks whose work is the step: workers where there are some, else all; without those that only lend a hand."""
        named = [t for t in self.tasks if device_order(t)[0] not in ("ps", "parameter_server", "chief")] or self.tasks
        pieces = self.medians("pieces")
        most = max((pieces[task] for task in named), default=0)
        return [task for task in named if 2 * pieces[task] >= most]

    @cached_property
    def present(self) -> np.ndarray:
        """[step, task]: did it take part?"""
        return np.asarray(~np.isnan(self.part("whole")))

    def waits_for(self, counted: np.ndarray) -> list[Root | None]:
        """The root of most of each task's waiting in its `counted` steps ([step, task]); None where it never waits."""
        codes: dict[Root, int] = {}
        columns = []
        for number, step in enumerate(self.steps):
            names, rows, places, seconds = step.roots
            roots = np.array([codes.setdefault(root, len(codes)) for root in names], np.int64)
            tasks = np.array([self.place[task] for task in step.tasks], np.int64)[rows]
            kept = counted[number, tasks]
            columns.append((tasks[kept], roots[places[kept]], seconds[kept]))
        tasks, roots, seconds = (np.concatenate(column) for column in zip(*columns))
        found: list[Root | None] = []
        names, block = list(codes), max(1, BLOCK // max(1, len(codes)))
        for first in range(0, len(self.tasks), block) if names else ():
            here = (tasks >= first) & (tasks < first + block)
            keys = (tasks[here] - first) * len(names) + roots[here]
            size = min(block, len(self.tasks) - first)
            sums = np.bincount(keys, seconds[here], size * len(names)).reshape(size, len(names))
            found += [names[at] if row[at] > 0 else None for at, row in zip(sums.argmax(1).tolist(), sums)]
        return found or [None] * len(self.tasks)

    def by_name(self, steps: Sequence[Mapping[str, float]]) -> tuple[list[str], np.ndarray]:
        """All names, and [step, name] of their values; nothing (NaN) where a step has none."""
        numbers = Names()
        columns = [numbers.column(list(step)) for step in steps]
        values = np.full((len(steps), len(numbers.texts)), np.nan)
        for row, column, step in zip(values, columns, steps):
            row[column] = list(step.values())
        return numbers.texts, values

    def waited(self, number: int, root: Root) -> list[float]:
        """How long each worker that took part in a step waited for `root`, in no order."""
        found = [seconds for task, seconds in self.steps[number].waited.get(root, {}).items() if task in self._working]
        return found + [0.0] * (self._taking_part[number] - len(found))

    @cached_property
    def _working(self) -> frozenset[str]:
        return frozenset(self.workers)

    @cached_property
    def _taking_part(self) -> list[int]:
        """Of each step, how many workers took part."""
        counts: list[int] = self.present[:, [self.place[worker] for worker in self.workers]].sum(1).tolist()
        return counts
