"""The steps that a verdict looks at, as columns: each step is taken apart once, medians are of all tasks at once."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from workbench.viz.palette import device_order
from workbench.viz.waiting import Account, Root

__all__ = ["PARTS", "Digest", "Window", "typical"]

PARTS = ("work", "transfer", "input", "wait", "uncovered", "whole", "pieces")
_COLUMN = {name: number for number, name in enumerate(PARTS)}
TRIMMED = 0.1  # part of the steps that does not count, the most expensive ones


def typical(values: Iterable[float]) -> float:
    """The mean without the most expensive tenth."""
    kept = sorted(values)
    left_out = max(1, int(TRIMMED * len(kept))) if len(kept) > 3 else 0
    return statistics.fmean(kept[: len(kept) - left_out]) if kept else 0.0


class Digest:
    """What is asked of one step again and again, found when it is first asked for."""

    def __init__(self, accounts: dict[str, Account]) -> None:
        self.accounts = accounts
        self.tasks = tuple(sorted(accounts, key=device_order))
        self.columns = np.array([[getattr(accounts[task], name) for name in PARTS] for task in self.tasks])

    @cached_property
    def links(self) -> dict[str, list[float]]:
        """Link -> seconds that its receivers saw of it."""
        found: dict[str, list[float]] = defaultdict(list)
        for task, account in self.accounts.items():
            for link, seconds in account.links.items():
                if not link.startswith(f"{task}|"):
                    found[link].append(seconds)
        return found

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
    def _medians(self) -> np.ndarray:
        ordered = np.sort(self._values, 0)  # what is missing comes last
        count = np.maximum(1, np.sum(~np.isnan(ordered), 0))
        low, high = (np.take_along_axis(ordered, half[None], 0)[0] for half in ((count - 1) // 2, count // 2))
        return np.asarray(np.nan_to_num((low + high) / 2))

    def medians(self, name: str) -> dict[str, float]:
        """Task -> its median over the steps in which it took part."""
        return dict(zip(self.tasks, self._medians[:, _COLUMN[name]].tolist()))

    @cached_property
    def workers(self) -> list[str]:
        """The tasks whose work is the step: workers where there are some, else all; without those that only lend a hand."""
        named = [t for t in self.tasks if device_order(t)[0] not in ("ps", "parameter_server", "chief")] or self.tasks
        pieces = self.medians("pieces")
        most = max((pieces[task] for task in named), default=0)
        return [task for task in named if 2 * pieces[task] >= most]

    def waited(self, number: int, root: Root) -> list[float]:
        """How long each worker that took part in a step waited for `root`."""
        step = self.steps[number]
        who = step.waited.get(root, {})
        return [who.get(task, 0.0) for task in self.workers if task in step.accounts]
