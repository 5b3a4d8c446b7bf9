"""What the accounting found of one step: columns for those who count over steps, an account of each task to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from workbench.viz.names import Names, begins, ranked

__all__ = ["PARTS", "ROOTS", "Account", "Entries", "Ledger", "Root", "look", "root_of"]

PARTS = ("work", "transfer", "input", "wait", "uncovered", "whole", "pieces")
ROOTS = ("work", "transfer", "input", "still")  # kinds of roots: who waits stands still as far as others can tell
TRANSFER = ROOTS.index("transfer")


class Root(NamedTuple):
    """What waiting is charged to: a task's work, a link's transfer, an input, or a task that stood still."""

    subject: str  # task; "source task|target task" of a transfer; operation of an input
    kind: str  # "work" | "transfer" | "input" | "still"


@dataclass(slots=True)
class Account:
    """One task in one step; seconds."""

    task: str
    whole: float
    work: float = 0.0
    transfer: float = 0.0
    input: float = 0.0
    uncovered: float = 0.0
    waits: dict[Root, float] = field(default_factory=dict)
    links: dict[str, float] = field(default_factory=dict)  # "source|target" -> seconds of `transfer` on it
    inputs: dict[str, float] = field(default_factory=dict)  # operation -> seconds of `input`
    pieces: int = 0  # spans of work: a task that only lends a hand has few

    @property
    def wait(self) -> float:
        return sum(self.waits.values())


class Entries(NamedTuple):
    """Seconds of tasks under names, a column for each field; a task has a name once at most."""

    rows: np.ndarray  # of the tasks in their ledger
    codes: np.ndarray  # numbers of links and inputs, or of roots
    seconds: np.ndarray

    @classmethod
    def summed(cls, rows: np.ndarray, codes: np.ndarray, seconds: np.ndarray) -> Entries:
        """Those of several pieces of time, as far as they have any."""
        most = int(codes.max(initial=0)) + 1
        keys, places = ranked(rows * most + codes)
        sums = np.bincount(places, seconds, len(keys))
        keys, sums = keys[sums > 0], sums[sums > 0]
        return cls(keys // most, keys % most, sums)

    def only(self, which: np.ndarray) -> Entries:
        return Entries(self.rows[which], self.codes[which], self.seconds[which])

    def cut(self, bases: np.ndarray) -> list[Entries]:
        """Those of the rows from each of `bases` to the next, from which they count then; given by rows, as `summed` does."""
        if len(bases) == 2:
            return [self]
        borders = np.searchsorted(self.rows, bases).tolist()
        return [Entries(self.rows[at:until] - base, self.codes[at:until], self.seconds[at:until])
                for base, at, until in zip(bases.tolist(), borders, borders[1:])]

    def cut_by_code(self, codes: np.ndarray, bases: np.ndarray) -> list[Entries]:
        """Those with the codes from each of `codes` to the next, which count from there, as their rows do from `bases`; given
        by codes."""
        borders = np.searchsorted(self.codes, codes).tolist()
        return [Entries(self.rows[at:until] - base, self.codes[at:until] - first, self.seconds[at:until])
                for first, base, at, until in zip(codes.tolist(), bases.tolist(), borders, borders[1:])]

    def largest(self) -> Entries:
        """The one with the most seconds of each code."""
        if not len(self.codes):
            return self
        order = np.lexsort((self.seconds, self.codes))[::-1]
        return self.only(order[begins(self.codes[order])][::-1])

    def each(self) -> Iterator[tuple[int, int, float]]:
        return zip(self.rows.tolist(), self.codes.tolist(), self.seconds.tolist())


NOTHING = Entries(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


class Ledger:
    """The accounts of some tasks of one step; texts are their numbers in `names`."""

    def __init__(self, names: Names, tasks: np.ndarray, parts: np.ndarray, links: Entries = NOTHING, inputs: Entries = NOTHING,
                 waits: Entries = NOTHING) -> None:
        self.names, self.tasks = names, tasks
        self.parts = parts  # [task, part], seconds but for the pieces
        self.links, self.inputs = links, inputs  # a link is that of who sends, too
        self.waits = waits  # whose codes are those of roots
        self.blamed: Any = None  # what `blame` found of it last
        self.looked: tuple[Entries, Entries] | None = None  # what `look` found of it

    @cached_property
    def accounts(self) -> dict[str, Account]:
        """Task -> its account."""
        texts = self.names.texts
        found = [Account(texts[task], whole, work, transfer, feed, uncovered, pieces=int(pieces)) for task, (
            work, transfer, feed, _, uncovered, whole, pieces) in zip(self.tasks.tolist(), self.parts.tolist())]
        for row, link, seconds in self.links.each():
            found[row].links[texts[link]] = seconds
        for row, name, seconds in self.inputs.each():
            found[row].inputs[texts[name]] = seconds
        for row, code, seconds in self.waits.each():
            found[row].waits[root_of(self.names, code)] = seconds
        return {account.task: account for account in found}

    @cached_property
    def longest_link(self) -> float:
        """Seconds that none of `held_up` has more than, found without looking at each."""
        late = self.waits.codes % len(ROOTS) == TRANSFER
        return float(self.links.seconds.max(initial=0.0) + self.waits.seconds[late].max(initial=0.0))

    @property
    def received(self) -> Entries:
        """Links with the seconds that their receivers saw of them, by their numbers."""
        return look([self])[0][0]

    @property
    def held_up(self) -> Entries:
        """Links with the most seconds of receiving, and of waiting for it, that one task had."""
        return look([self])[0][1]

    @cached_property
    def moved(self) -> dict[str, float]:
        """Link -> seconds of all tasks together."""
        sums: dict[str, float] = defaultdict(float)
        for _, link, seconds in self.links.each():
            sums[self.names.texts[link]] += seconds
        return sums


def look(steps: Sequence[Ledger]) -> list[tuple[Entries, Entries]]:
    """`received` and `held_up` of each of these steps of one accounting, found once, of several together in few calls."""
    new = [step for step in steps if step.looked is None]
    if new:
        names, bases = new[0].names, np.array([0, *accumulate(len(step.tasks) for step in new)])
        links, at = _joined([step.links for step in new], bases)
        came = np.concatenate([step.tasks for step in new])[links.rows] != names.sources(links.codes)
        waits, late = _joined([step.waits for step in new], bases)
        transfers = waits.codes % len(ROOTS) == TRANSFER
        most = len(names.texts)  # a code counts on from step to step
        links, waits = (Entries(each.rows, step * most + codes, each.seconds).only(which) for each, step, codes, which in (
            (links, at, links.codes, came), (waits, late, waits.codes // len(ROOTS), transfers)))
        received = links.only(np.argsort(links.codes, kind="stable"))
        held_up = Entries.summed(*(np.concatenate(columns) for columns in zip(received, waits))).largest()
        borders = most * np.arange(len(new) + 1)
        for step, *found in zip(new, *(each.cut_by_code(borders, bases) for each in (received, held_up))):
            step.looked = found[0], found[1]
    return [step.looked for step in steps if step.looked]


def _joined(several: Sequence[Entries], bases: np.ndarray) -> tuple[Entries, np.ndarray]:
    """The entries of several steps, whose rows count from these, and of each its step."""
    found = Entries(*(np.concatenate(columns) for columns in zip(*several)))
    step = np.arange(len(several)).repeat([len(each.rows) for each in several])
    return found._replace(rows=found.rows + bases[step]), step


def root_of(names: Names, code: int) -> Root:
    """The root with this number."""
    subject, kind = divmod(code, len(ROOTS))
    return Root(names.texts[subject], ROOTS[kind])
