"""Whose doing a task's waiting is: each task's time in a step as pieces, and every chain of waiting followed to its root."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.viz.ledger import ROOTS, Entries, Ledger
from workbench.viz.names import Names, ranked
from workbench.viz.slices import Slices
from workbench.viz.stretches import INPUT, TRANSFER, WAIT, Stretches

__all__ = ["Grid", "painted"]

HOPS = 16  # tasks that a chain of waiting may pass
_STILL = ROOTS.index("still")


class _Pieces:
    """Stretches of several rows as pieces of time end to end: in each the stretch that counts, or none."""

    def __init__(self, own: Stretches, rows: np.ndarray, count: int, start: float, end: float) -> None:
        begins, ends, n = np.clip(own.start, start, end), np.clip(own.end, start, end), len(rows)
        times, at = np.unique(np.concatenate([begins, ends, [start, end]]), return_inverse=True)
        width = len(times)
        borders = np.arange(count) * width
        edges, at = ranked(np.concatenate([width * rows + at[:n], width * rows + at[n:-2], borders, borders + width - 1]))
        codes = painted(at[:n], at[n : 2 * n], len(edges))
        row, time = np.divmod(edges, width)
        inside = np.flatnonzero(((time == 0) | (np.diff(codes, prepend=-2) != 0)) & (time < width - 1))
        last = np.append(inside[1:], len(edges) - 1)[: len(inside)]
        until = np.where(row[last] == row[inside], time[last], width - 1)  # the next piece, or the end of the row
        self.codes, self.rows = codes[inside], row[inside]  # -1: nothing is known
        self.begins, self.ends = times[time[inside]], times[until]


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
        at = np.flatnonzero(levels == level)
        np.maximum.at(codes, np.concatenate([firsts[at], lasts[at] - half]), np.concatenate([at, at]))
    return codes


class Grid:
    """What each of `tasks` does when, in one step, and the root of its waiting.

    All chains of waiting are followed together: a piece of waiting becomes the pieces of whom it waits for in that time,
    until nobody in it waits. Work goes with the number of pieces. Pauses now and then.
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
        self._own, self._pieces = own, pieces
        self._keys = self._key(pieces.rows, pieces.begins)
        self.looked += len(pieces.codes)

    def fill(self, own: Stretches, count: int, pieces: np.ndarray, scattered: np.ndarray) -> Slices[Ledger]:
        """The accounts of the first `count` tasks from their `own` stretches in this step.

        pieces, scattered: of each, how many operations and segments it has, and seconds of turns that were summed up.
        """
        if own is self._known:  # nothing else happened meanwhile
            own, found = self._own, self._pieces
        else:
            own = own.painted()
            found = _Pieces(own, self._row[own.task], count, self._start, self._end)
            self.looked += len(found.codes)
        yield
        covered = np.flatnonzero(found.codes >= 0)
        rows, codes, begins, ends = (column[covered] for column in (found.rows, found.codes, found.begins, found.ends))
        kinds, names, lengths = own.kind[codes], own.other[codes], ends - begins
        whole = self._end - self._start
        sums = np.bincount(len(ROOTS) * rows + kinds, lengths, len(ROOTS) * count).reshape(-1, len(ROOTS))
        rest = whole - sums.sum(1)
        rest = np.where(rest > 1e-12, rest, 0.0)
        moved = np.minimum(scattered, rest)  # turns of a loop that were not recorded one by one
        links, inputs = (Entries.summed(*(column[kinds == kind] for column in (rows, names, lengths)))
                         for kind in (TRANSFER, INPUT))
        yield
        waits = yield from self._charged_to(*(column[kinds == WAIT] for column in (rows, names, begins, ends)))
        waited = np.bincount(waits.rows, waits.seconds, count)
        parts = np.stack([sums[:, 0] + moved, sums[:, 1], sums[:, 2], waited, rest - moved, np.full(count, whole), pieces], 1)
        return Ledger(self._names, self._tasks[:count], parts, links, inputs, waits)

    def _charged_to(self, owners: np.ndarray, others: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Slices[Entries]:
        """Each piece of waiting to its root; waiting for a task of which nothing is known to that task."""
        going = (owners, self._row[others], len(ROOTS) * others + _STILL, begins, ends)
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
        return rows * (2 * (self._end - self._start)) + (times - self._start)


_Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _only(columns: _Columns, which: np.ndarray) -> _Columns:
    a, b, c, d, e = columns
    return a[which], b[which], c[which], d[which], e[which]
