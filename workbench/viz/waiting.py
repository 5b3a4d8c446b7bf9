"""Whose doing a task's waiting is: each task's time in a step as pieces, and every chain of waiting followed to its root.

Steps are looked at together, for a step of few tasks costs little more than the calls that are made for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from workbench.viz.ledger import ROOTS, Entries, Ledger
from workbench.viz.names import Names, ranked
from workbench.viz.slices import Slices
from workbench.viz.stretches import INPUT, TRANSFER, WAIT, Stretches, Told

__all__ = ["Grid", "Part", "painted"]

HOPS = 16  # tasks that a chain of waiting may pass
_STILL = ROOTS.index("still")


class Part(NamedTuple):
    """One step of those that a grid looks at."""

    start: float
    end: float
    tasks: np.ndarray  # its own, then whom they wait for besides
    known: Stretches  # of its time
    told: Told  # of the step itself


class _Rows(NamedTuple):
    """The tasks of several steps, one after the other, a column for each field."""

    step: np.ndarray  # its place among the steps
    task: np.ndarray
    start: np.ndarray  # of the step
    end: np.ndarray


class _Pieces:
    """Stretches of several rows as pieces of time end to end: in each the stretch that counts, or none."""

    def __init__(self, own: Stretches, rows: np.ndarray, all_: _Rows) -> None:
        start, end = all_.start[rows], all_.end[rows]
        begins, ends = np.minimum(np.maximum(own.start, start), end), np.minimum(np.maximum(own.end, start), end)
        n, count = len(rows), len(all_.task)
        times, at = ranked(np.concatenate([begins, ends, all_.start, all_.end]))
        width, numbers = len(times), np.arange(count)
        edges, at = ranked(np.concatenate([rows, rows, numbers, numbers]) * width + at)
        codes = painted(at[:n], at[n : 2 * n], len(edges))
        row, time = np.divmod(edges, width)
        first, final = np.zeros(len(edges), bool), np.zeros(len(edges), bool)  # of a row
        first[at[2 * n : 2 * n + count]] = final[at[2 * n + count :]] = True
        inside = ((first | (np.diff(codes, prepend=-2) != 0)) & ~final).nonzero()[0]
        # until the next piece, or the end of the row
        self.codes, self.rows = codes[inside], row[inside]  # -1: nothing is known
        self.begins = times[time[inside]]
        self.ends = all_.end[self.rows]
        within = (self.rows[1:] == self.rows[:-1]).nonzero()[0]
        self.ends[within] = self.begins[within + 1]


def painted(firsts: np.ndarray, lasts: np.ndarray, count: int) -> np.ndarray:
    """Of each of `count` cells the last of the stretches [first, last) that cover it, -1 where none does.

    A stretch is two that may overlap, as long as a power of two; all of one length are halved together, down to cells: work
    goes with the number of cells and stretches, however many of them lie upon each other.
    """
    levels = np.frexp(lasts - firsts)[1] - 1  # -1 of an empty one
    codes = np.full(count, -1)
    for level in range(int(levels.max(initial=-1)), -1, -1):
        half = 1 << level
        codes[half:] = np.maximum(codes[half:], codes[:-half])  # what is twice as long
        at = (levels == level).nonzero()[0]
        np.maximum.at(codes, np.concatenate([firsts[at], lasts[at] - half]), np.concatenate([at, at]))
    return codes


class Grid:
    """What each task does when, in some steps, and the root of its waiting.

    All chains of waiting are followed together: a piece of waiting becomes the pieces of whom it waits for in that time,
    until nobody in it waits. Work goes with the number of pieces. Pauses now and then.
    """

    def __init__(self, parts: Sequence[Part], names: Names) -> None:
        self._parts, self._names = parts, names
        counts = [len(part.tasks) for part in parts]
        self._bases = np.array([0, *accumulate(counts)])  # of each step its first row
        step, (starts, ends) = np.arange(len(parts)).repeat(counts), np.array([part[:2] for part in parts]).T
        self._all = _Rows(step, np.concatenate([part.tasks for part in parts]), starts[step], ends[step])
        self._row = np.full((len(parts), len(names.texts)), -1)  # of each name in each step
        self._row[step, self._all.task] = np.arange(len(step))
        self._apart = 2 * float((ends - starts).max())  # of two rows' keys
        self.looked = 0  # pieces that were looked at

    def _painted(self, several: Sequence[Stretches]) -> tuple[Stretches, np.ndarray, np.ndarray]:
        """What is said of the rows of each step, what counts more later; of each the step and the row."""
        own = Stretches(*map(np.concatenate, zip(*several))) if len(several) > 1 else several[0]
        step = np.arange(len(several)).repeat([len(one.task) for one in several])
        rows = self._row[step, own.task]
        order = np.argsort(-own.kind, kind="stable")
        order = order[rows[order] >= 0]
        return own.only(order), step[order], rows[order]

    def follow(self) -> Iterator[None]:
        """Find what each task does when: what waiting for it is charged to, or whom it waits for itself."""
        own, step, rows = self._painted([part.known for part in self._parts])
        pieces = _Pieces(own, rows, self._all)
        yield
        waits = own.kind == WAIT
        others = np.where(waits, self._row[step, own.other], -1)
        whom = np.where(others >= 0, others, rows)      # itself when it does not wait
        roots = len(ROOTS) * np.where(waits, own.task, own.other) + np.where(waits, _STILL, own.kind)
        still = len(ROOTS) * self._all.task + _STILL
        known = pieces.codes >= 0
        self._charged, self._whom = still[pieces.rows], pieces.rows.copy()
        self._charged[known], self._whom[known] = roots[pieces.codes[known]], whom[pieces.codes[known]]
        self._own, self._pieces = own, pieces
        self._keys = self._key(pieces.rows, pieces.begins)
        self.looked += len(pieces.codes)

    def fill(self) -> Slices[list[Ledger]]:
        """The accounts of each step's own tasks."""
        own, found = self._own, self._pieces
        if any(part.known is not part.told.own for part in self._parts):  # others did something meanwhile
            own, _, rows = self._painted([part.told.own for part in self._parts])
            found = _Pieces(own, rows, self._all)
            self.looked += len(found.codes)
        yield
        count, whole = len(self._all.task), self._all.end - self._all.start
        covered = (found.codes >= 0).nonzero()[0]
        rows, codes, begins, ends = (column[covered] for column in (found.rows, found.codes, found.begins, found.ends))
        kinds, names, lengths = own.kind[codes], own.other[codes], ends - begins
        sums = np.bincount(len(ROOTS) * rows + kinds, lengths, len(ROOTS) * count).reshape(-1, len(ROOTS))
        rest = whole - sums.sum(1)
        rest = np.where(rest > 1e-12, rest, 0.0)
        pieces, scattered = self._of_tasks("pieces"), self._of_tasks("scattered")
        moved = np.minimum(scattered, rest)  # turns of a loop that were not recorded one by one
        links, inputs = (Entries.summed(*(column[kinds == kind] for column in (rows, names, lengths)))
                         for kind in (TRANSFER, INPUT))
        yield
        waits = yield from self._charged_to(*(column[kinds == WAIT] for column in (rows, names, begins, ends)))
        waited = np.bincount(waits.rows, waits.seconds, count)
        parts = np.stack([sums[:, 0] + moved, sums[:, 1], sums[:, 2], waited, rest - moved, whole, pieces], 1)
        entries = zip(*(each.cut(self._bases) for each in (links, inputs, waits)))
        return [Ledger(self._names, one.told.tasks, parts[base : base + len(one.told.tasks)], *own)
                for one, base, own in zip(self._parts, self._bases.tolist(), entries)]

    def _of_tasks(self, name: str) -> np.ndarray:
        """Of each row what its step says of the task, nothing of whom it only waits for."""
        columns = [getattr(part.told, name) for part in self._parts]
        found = np.zeros(len(self._all.task))
        for column, base in zip(columns, self._bases.tolist()):
            found[base : base + len(column)] = column
        return found

    def _charged_to(self, owners: np.ndarray, others: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Slices[Entries]:
        """Each piece of waiting to its root; waiting for a task of which nothing is known to that task."""
        going = (owners, self._row[self._all.step[owners], others], len(ROOTS) * others + _STILL, begins, ends)
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
        return Entries.summed(owners, roots, ends - begins)

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
        return rows * self._apart + (times - self._all.start[rows])


_Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _only(columns: _Columns, which: np.ndarray) -> _Columns:
    a, b, c, d, e = columns
    return a[which], b[which], c[which], d[which], e[which]
