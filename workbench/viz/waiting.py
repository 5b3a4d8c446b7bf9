"""Whose doing a task's waiting is: each task's time in a step as pieces, and every chain of waiting followed to its root."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from workbench.viz.names import Names
from workbench.viz.stretches import INPUT, TRANSFER, WAIT, Stretches

__all__ = ["Account", "Grid", "Root"]

HOPS = 16  # tasks that a chain of waiting may pass
ROOTS = ("work", "transfer", "input", "still")  # kinds of roots: who waits stands still as far as others can tell
_STILL = ROOTS.index("still")


class Root(NamedTuple):
    """What waiting is charged to: a task's work, a link's transfer, an input, or a task that stood still."""

    subject: str  # task; "source task|target task" of a transfer; operation of an input
    kind: str  # "work" | "transfer" | "input" | "still"


@lru_cache(1 << 14)  # the same ones come in every step
def _root(subject: str, kind: int) -> Root:
    return Root(subject, ROOTS[kind])


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


class _Pieces:
    """Stretches of several rows as pieces of time end to end: in each the stretch that counts, or none."""

    def __init__(self, own: Stretches, rows: np.ndarray, count: int, start: float, end: float) -> None:
        begins, ends = np.clip(own.start, start, end), np.clip(own.end, start, end)
        times = np.unique(np.concatenate([begins, ends, [start, end]]))
        width, borders = len(times), np.arange(count) * len(times)
        firsts, lasts = width * rows + np.searchsorted(times, begins), width * rows + np.searchsorted(times, ends)
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
    """What each of `tasks` does when, in one step, and the root of its waiting.

    All chains of waiting are followed together: a piece of waiting becomes the pieces of whom it waits for in that time,
    until nobody in it waits. Work goes with the number of pieces. Pauses now and then. A root is a number: its subject's,
    times the kinds of roots, and its kind.
    """

    def __init__(self, start: float, end: float, tasks: np.ndarray, known: Stretches, names: Names) -> None:
        self._start, self._end = start, end
        self._tasks, self._known, self._names = tasks, known, names
        self._row = np.full(len(names.texts), -1)  # of each name
        self._row[tasks] = np.arange(len(tasks))
        self.looked = 0  # pieces that were looked at

    def follow(self) -> Iterator[None]:
        """Find what each task does when: what waiting for it is charged to, or whom it waits for itself."""
        own = self._known.only(self._row[self._known.task] >= 0).painted()
        rows = self._row[own.task]
        pieces = _Pieces(own, rows, len(self._tasks), self._start, self._end)
        yield
        waits = own.kind == WAIT
        others = np.where(waits, self._row[own.other], -1)
        whom = np.where(others >= 0, others, rows)      # itself when it does not wait
        roots = len(ROOTS) * np.where(waits, own.task, own.other) + np.where(waits, _STILL, own.kind)
        still = len(ROOTS) * self._tasks + _STILL
        known = pieces.codes >= 0
        self._charged, self._whom = still[pieces.rows], pieces.rows.copy()
        self._charged[known], self._whom[known] = roots[pieces.codes[known]], whom[pieces.codes[known]]
        self._pieces = pieces
        self._keys = self._key(pieces.rows, pieces.begins)
        self.looked += len(pieces.codes)

    def fill(self, accounts: list[Account], own: Stretches) -> Iterator[None]:
        """The parts of the accounts of the first tasks from their own stretches in this step."""
        own = own.painted()
        pieces = _Pieces(own, self._row[own.task], len(accounts), self._start, self._end)
        self.looked += len(pieces.codes)
        yield
        lengths, covered = pieces.ends - pieces.begins, np.flatnonzero(pieces.codes >= 0)
        owners, codes = pieces.rows[covered], pieces.codes[covered]
        kinds = own.kind[codes]
        whole = np.bincount(pieces.rows, lengths, len(accounts))
        sums = np.bincount(len(ROOTS) * owners + kinds, lengths[covered], len(ROOTS) * len(accounts)).reshape(-1, len(ROOTS))
        rest = (whole - sums.sum(1)).tolist()
        for account, (work, transfer, feed, _), uncovered in zip(accounts, sums.tolist(), rest):
            account.work, account.transfer, account.input = work, transfer, feed
            account.uncovered = uncovered if uncovered > 1e-12 else 0.0
        yield
        for kind in (TRANSFER, INPUT):
            at = kinds == kind
            for row, name, seconds in self._by_name(owners[at], own.other[codes[at]], lengths[covered[at]]):
                (accounts[row].links if kind == TRANSFER else accounts[row].inputs)[name] = seconds
        yield
        at = kinds == WAIT
        yield from self._charge(accounts, owners[at], own.other[codes[at]], pieces, covered[at])

    def _by_name(self, owners: np.ndarray, numbers: np.ndarray, seconds: np.ndarray) -> Iterator[tuple[int, str, float]]:
        """(whose, name, seconds) added up."""
        for key, length in _added(len(self._names.texts) * owners + numbers, seconds):
            row, number = divmod(key, len(self._names.texts))
            yield row, self._names.texts[number], length

    def _charge(self, accounts: list[Account], owners: np.ndarray, others: np.ndarray, pieces: _Pieces,
                at: np.ndarray) -> Iterator[None]:
        """Each piece of waiting to its root; waiting for a task of which nothing is known to that task."""
        going = (owners, self._row[others], len(ROOTS) * others + _STILL, pieces.begins[at], pieces.ends[at])
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
        owners, _, roots, begins, ends = (np.concatenate(column) for column in zip(*found))
        most = len(ROOTS) * len(self._names.texts)
        for key, length in _added(owners * most + roots, ends - begins):
            number, kind = divmod(key % most, len(ROOTS))
            accounts[key // most].waits[_root(self._names.texts[number], kind)] = length

    def _further(self, going: _Columns) -> _Columns:
        """Each time of waiting for somebody cut into that one's pieces: (whose waiting, whom for, the piece, begin, end)."""
        owner, whom, _, begins, ends = going
        first = np.searchsorted(self._keys, self._key(whom, begins), "right") - 1
        counts = np.searchsorted(self._keys, self._key(whom, ends), "left") - first
        many = np.repeat(np.arange(len(owner)), counts)
        at = np.arange(len(many)) - np.repeat(np.cumsum(counts) - counts, counts) + first[many]
        return (owner[many], whom[many], at, np.maximum(begins[many], self._pieces.begins[at]),
                np.minimum(ends[many], self._pieces.ends[at]))

    def _key(self, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Ascending by row, then by time."""
        return rows * (2 * (self._end - self._start)) + (times - self._start)


_Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _only(columns: _Columns, which: np.ndarray) -> _Columns:
    a, b, c, d, e = columns
    return a[which], b[which], c[which], d[which], e[which]


def _added(keys: np.ndarray, seconds: np.ndarray) -> Iterator[tuple[int, float]]:
    """(key, seconds) of each key, as far as it has any."""
    found, places = np.unique(keys, return_inverse=True)
    for key, length in zip(found.tolist(), np.bincount(places, seconds, len(found)).tolist()):
        if length > 0:
            yield key, length
