"""Whose doing a task's waiting is: the time of one step cut into cells, and every chain of waiting followed to its root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

__all__ = ["Account", "Grid", "Root", "Stretch"]

DEEP = 4  # a chain of waiting may pass 2 to this power tasks
ORDER = ("work", "transfer", "input", "wait")  # what counts where spans overlap
_PAINTED = {kind: -place for place, kind in enumerate(ORDER)}  # what counts more is painted later


class Root(NamedTuple):
    """What waiting is charged to: a task's work, a link's transfer, an input, or a task that stood still."""

    subject: str  # task; "source task|target task" of a transfer; operation of an input
    kind: str  # "work" | "transfer" | "input" | "still"


class Stretch(NamedTuple):
    """Time of one task that is one thing; seconds."""

    start: float
    end: float
    kind: str  # one of ORDER
    other: str  # whom it waits for, the link, the input


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
    links: dict[str, float] = field(default_factory=dict)  # "source|target" -> seconds of `transfer` that it received
    inputs: dict[str, float] = field(default_factory=dict)  # operation -> seconds of `input`
    pieces: int = 0  # spans of work: a task that only lends a hand has few

    @property
    def wait(self) -> float:
        return sum(self.waits.values())


Placed = tuple[int, Stretch]  # row of its task


class Grid:
    """The time of one step cut at every edge: what each task does in each cell, and the root of its waiting.

    All tasks' chains of waiting are followed at once, by squaring "who waits for whom" cell by cell. Pauses now and then.
    """

    def __init__(self, start: float, end: float) -> None:
        self._start, self._end = start, end
        self._tasks: dict[str, int] = {}
        self._known: list[Placed] = []
        self._roots: dict[Root, int] = {}

    def add(self, task: str, stretches: list[Stretch]) -> None:
        """What is known of `task` in this time, of whatever step."""
        row = self._tasks[task] = len(self._tasks)
        self._known += [(row, stretch) for stretch in stretches]

    def follow(self) -> Iterator[None]:
        """Find what waiting for each task is charged to, in each cell."""
        moments = [t for _, s in self._known for t in (s.start, s.end)]
        times = np.asarray([self._start, self._end, *moments])
        self._edges = np.unique(times[(times >= self._start) & (times <= self._end)])
        self._lengths = np.diff(self._edges)
        rows, cells = len(self._tasks), len(self._lengths)
        known = sorted(self._known, key=_painted)
        still = np.repeat(np.arange(len(known), len(known) + rows, dtype=np.int32)[:, None], cells, 1)
        yield
        doing = self._paint(still, known)
        yield
        after = [self._tasks.get(s.other, row) if s.kind == "wait" else row for row, s in known]
        names = list(self._tasks)
        roots = [self._root(names[row], s) for row, s in known] + [self._number(Root(name, "still")) for name in names]
        yield
        whom = np.array([*after, *range(rows)], np.int32)[doing]  # each waits for; itself when it does not wait
        columns = np.arange(cells)
        for _ in range(DEEP):
            yield
            further = whom[whom, columns]
            if np.array_equal(further, whom):
                break
            whom = further
        self._charged = np.array(roots, np.int32)[doing][whom, columns]  # the root that waiting for a task is charged to

    def fill(self, accounts: Mapping[str, Account], own: Mapping[str, list[Stretch]]) -> Iterator[None]:
        """The parts of each account from its task's own stretches in this step."""
        listed = sorted(((row, s) for row, task in enumerate(accounts) for s in own[task]), key=_painted)
        made = list(accounts.values())
        cells = len(self._lengths)
        doing = self._paint(np.full((len(made), cells), -1, np.int32), listed).ravel()
        yield
        covered = np.flatnonzero(doing >= 0)
        codes, rows, columns = doing[covered], covered // max(1, cells), covered % max(1, cells)
        lengths = self._lengths[columns]
        rest = self._lengths.sum() - np.bincount(rows, lengths, len(made))
        for account, uncovered in zip(made, rest.tolist()):
            account.uncovered = max(0.0, uncovered) if uncovered > 1e-12 else 0.0
        yield
        seconds = np.bincount(codes, lengths, len(listed)).tolist()
        for (row, stretch), length in zip(listed, seconds):
            if stretch.kind != "wait" and length > 0:
                _add(made[row], stretch, length)
        yield
        waits = np.array([s.kind == "wait" for _, s in listed], bool)[codes]
        self._charge(made, listed, codes[waits], rows[waits], columns[waits])

    def _charge(self, made: list[Account], listed: list[Placed], codes: np.ndarray, rows: np.ndarray,
                columns: np.ndarray) -> None:
        """Each cell of waiting to its root; waiting for a task of which nothing is known to that task."""
        for_whom = np.array([self._tasks.get(s.other, -1) for _, s in listed], np.int32)[codes]
        unknown = np.array([-1 if s.other in self._tasks or s.kind != "wait" else self._number(Root(s.other, "still"))
                            for _, s in listed], np.int32)[codes]
        roots = np.where(for_whom >= 0, self._charged[for_whom, columns], unknown)
        keys, places = np.unique(rows * len(self._roots) + roots, return_inverse=True)
        names = list(self._roots)
        for key, length in zip(keys.tolist(), np.bincount(places, self._lengths[columns], len(keys)).tolist()):
            row, root = divmod(key, len(names))
            made[row].waits[names[root]] = length

    def _paint(self, canvas: np.ndarray, stretches: list[Placed]) -> np.ndarray:
        """Number the cells that each stretch covers; later ones paint over earlier ones."""
        cells = len(self._lengths)
        firsts = np.searchsorted(self._edges, [s.start for _, s in stretches]).tolist()
        lasts = np.minimum(np.searchsorted(self._edges, [s.end for _, s in stretches]), cells).tolist()
        for number, ((row, _), first, last) in enumerate(zip(stretches, firsts, lasts)):
            canvas[row, first:last] = number
        return canvas

    def _number(self, root: Root) -> int:
        return self._roots.setdefault(root, len(self._roots))

    def _root(self, task: str, stretch: Stretch) -> int:
        """What a task that does this is the root of."""
        if stretch.kind in ("transfer", "input"):
            return self._number(Root(stretch.other, stretch.kind))
        return self._number(Root(task, "work" if stretch.kind == "work" else "still"))


def _painted(placed: Placed) -> int:
    return _PAINTED[placed[1].kind]


def _add(account: Account, stretch: Stretch, seconds: float) -> None:
    setattr(account, stretch.kind, getattr(account, stretch.kind) + seconds)
    if stretch.kind != "work":
        sums = account.links if stretch.kind == "transfer" else account.inputs
        sums[stretch.other] = sums.get(stretch.other, 0.0) + seconds
