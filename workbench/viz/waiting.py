"""Whose doing a task's waiting is: each task's time in a step as pieces, and every chain of waiting followed to its root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

__all__ = ["Account", "Grid", "Root", "Stretch"]

HOPS = 16  # tasks that a chain of waiting may pass
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


class _Pieces:
    """Stretches of several rows as pieces of time end to end: in each the stretch that counts, or none."""

    def __init__(self, placed: list[Placed], rows: int, start: float, end: float) -> None:
        self.placed = sorted(placed, key=_painted)
        begins = np.clip(np.array([s.start for _, s in self.placed]), start, end)
        ends = np.clip(np.array([s.end for _, s in self.placed]), start, end)
        times = np.unique(np.concatenate([begins, ends, [start, end]]))
        width, borders = len(times), np.arange(rows) * len(times)
        shift = width * np.array([row for row, _ in self.placed], np.int64)
        firsts, lasts = shift + np.searchsorted(times, begins), shift + np.searchsorted(times, ends)
        edges = np.unique(np.concatenate([firsts, lasts, borders, borders + width - 1]))
        codes = np.full(len(edges), -1)
        places = zip(np.searchsorted(edges, firsts).tolist(), np.searchsorted(edges, lasts).tolist())
        for number, (first, last) in enumerate(places):
            codes[first:last] = number      # later ones paint over earlier ones
        changes = (edges % width == 0) | (edges % width == width - 1) | (np.diff(codes, prepend=-2) != 0)
        edges, codes = edges[changes], codes[changes]
        inside = np.flatnonzero(edges % width < width - 1)
        self.codes, self.rows = codes[inside], edges[inside] // width  # -1: nothing is known
        self.begins, self.ends = times[edges[inside] % width], times[edges[inside + 1] % width]


class Grid:
    """What each task does when, in one step, and the root of its waiting.

    All chains of waiting are followed together: a piece of waiting becomes the pieces of whom it waits for in that time,
    until nobody in it waits. Work goes with the number of pieces. Pauses now and then.
    """

    def __init__(self, start: float, end: float) -> None:
        self._start, self._end = start, end
        self._tasks: dict[str, int] = {}
        self._known: list[Placed] = []
        self._roots: dict[Root, int] = {}
        self.looked = 0  # pieces that were looked at

    def add(self, task: str, stretches: list[Stretch]) -> None:
        """What is known of `task` in this time, of whatever step."""
        row = self._tasks[task] = len(self._tasks)
        self._known += [(row, stretch) for stretch in stretches]

    def follow(self) -> Iterator[None]:
        """Find what each task does when: what waiting for it is charged to, or whom it waits for itself."""
        pieces = _Pieces(self._known, len(self._tasks), self._start, self._end)
        yield
        names = list(self._tasks)
        still = np.array([self._number(Root(name, "still")) for name in names], np.int64)
        roots = np.array([self._root(names[row], s) for row, s in pieces.placed] or [0], np.int64)
        others = [self._tasks.get(s.other, row) if s.kind == "wait" else row for row, s in pieces.placed]
        whom = np.array(others or [0], np.int64)
        known = pieces.codes >= 0
        self._charged = np.where(known, roots[pieces.codes], still[pieces.rows])
        self._whom = np.where(known, whom[pieces.codes], pieces.rows)      # itself when it does not wait
        self._pieces = pieces
        self._keys = self._key(pieces.rows, pieces.begins)
        self.looked += len(pieces.codes)

    def fill(self, accounts: Mapping[str, Account], own: Mapping[str, list[Stretch]]) -> Iterator[None]:
        """The parts of each account from its task's own stretches in this step."""
        made = list(accounts.values())
        pieces = _Pieces([(row, s) for row, task in enumerate(accounts) for s in own[task]], len(made), self._start, self._end)
        self.looked += len(pieces.codes)
        yield
        lengths, covered = pieces.ends - pieces.begins, pieces.codes >= 0
        rest = np.bincount(pieces.rows[~covered], lengths[~covered], len(made))
        for account, uncovered in zip(made, rest.tolist()):
            account.uncovered = uncovered if uncovered > 1e-12 else 0.0
        seconds = np.bincount(pieces.codes[covered], lengths[covered], len(pieces.placed)).tolist()
        for (row, stretch), length in zip(pieces.placed, seconds):
            if length > 0 and stretch.kind != "wait":
                _add(made[row], stretch, length)
        yield
        waits = np.array([s.kind == "wait" for _, s in pieces.placed] or [False], bool)[pieces.codes] & covered
        yield from self._charge(made, pieces, np.flatnonzero(waits))

    def _charge(self, made: list[Account], pieces: _Pieces, waits: np.ndarray) -> Iterator[None]:
        """Each piece of waiting to its root; waiting for a task of which nothing is known to that task."""
        whom = np.array([self._tasks.get(s.other, -1) if s.kind == "wait" else -1 for _, s in pieces.placed] or [-1], np.int64)
        roots = np.array([self._number(Root(s.other, "still")) if at < 0 and s.kind == "wait" else -1
                          for at, (_, s) in zip(whom.tolist(), pieces.placed)] or [-1], np.int64)
        codes = pieces.codes[waits]
        going = (pieces.rows[waits], whom[codes], roots[codes], pieces.begins[waits], pieces.ends[waits])
        found = [_only(going, going[1] < 0)]
        going = _only(going, going[1] >= 0)
        for hop in range(HOPS + 1):
            going = self._further(going)
            self.looked += len(going[0])
            ended = (self._whom[going[2]] == going[1]) | (hop == HOPS)
            owner, _, at, begins, ends = _only(going, ended)
            found.append((owner, at, self._charged[at], begins, ends))
            owner, _, at, begins, ends = _only(going, ~ended)
            if not len(owner):
                break
            going = owner, self._whom[at], at, begins, ends
            yield
        self._sum(made, *(np.concatenate(column) for column in zip(*found)))

    def _further(self, going: _Columns) -> _Columns:
        """Each time of waiting for somebody cut into that one's pieces: (whose waiting, whom for, the piece, begin, end)."""
        owner, whom, _, begins, ends = going
        first = np.searchsorted(self._keys, self._key(whom, begins), "right") - 1
        counts = np.searchsorted(self._keys, self._key(whom, ends), "left") - first
        many = np.repeat(np.arange(len(owner)), counts)
        at = np.arange(len(many)) - np.repeat(np.cumsum(counts) - counts, counts) + first[many]
        return (owner[many], whom[many], at, np.maximum(begins[many], self._pieces.begins[at]),
                np.minimum(ends[many], self._pieces.ends[at]))

    def _sum(self, made: list[Account], owners: np.ndarray, _: np.ndarray, roots: np.ndarray, begins: np.ndarray,
             ends: np.ndarray) -> None:
        names = list(self._roots)
        keys, places = np.unique(owners * len(names) + roots, return_inverse=True)
        for key, length in zip(keys.tolist(), np.bincount(places, ends - begins, len(keys)).tolist()):
            row, root = divmod(key, len(names))
            made[row].waits[names[root]] = length

    def _key(self, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Ascending by row, then by time."""
        return rows * (2 * (self._end - self._start)) + (times - self._start)

    def _number(self, root: Root) -> int:
        return self._roots.setdefault(root, len(self._roots))

    def _root(self, task: str, stretch: Stretch) -> int:
        """What a task that does this is the root of."""
        if stretch.kind in ("transfer", "input"):
            return self._number(Root(stretch.other, stretch.kind))
        return self._number(Root(task, "work" if stretch.kind == "work" else "still"))


_Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _only(columns: _Columns, which: np.ndarray) -> _Columns:
    a, b, c, d, e = columns
    return a[which], b[which], c[which], d[which], e[which]


def _painted(placed: Placed) -> int:
    return _PAINTED[placed[1].kind]


def _add(account: Account, stretch: Stretch, seconds: float) -> None:
    if stretch.kind == "work":
        account.work += seconds
    elif stretch.kind == "transfer":
        account.transfer += seconds
        account.links[stretch.other] = account.links.get(stretch.other, 0.0) + seconds
    else:
        account.input += seconds
        account.inputs[stretch.other] = account.inputs.get(stretch.other, 0.0) + seconds
