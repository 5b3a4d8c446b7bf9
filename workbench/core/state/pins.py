"""Pins: values that variables had at one moment, also of tables whose rows are overwritten before they are read."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.state.changes import Changes, told_apart
from workbench.core.state.tensorfile import Rows
from workbench.core.state.variables import VariableState

__all__ = ["Pin", "Pinned", "snapshot_together"]

Array = np.ndarray[Any, Any]

UNIT_BYTES = 4 << 10       # rows are saved in units of about so many bytes
PIECE_BYTES = 4 << 20      # and read, while writers of the table wait, in pieces of about so many
_READ = -1


class Pin:
    """A table in the host's memory as it was when it was pinned; each block of its rows can be read once.

    It refers to the buffer, once, so that what updates the whole variable writes another one. What updates rows overwrites
    them in place where nobody else refers to it, and before `save`s here what stood there. The variable refers to its pins
    weakly: one is over when nobody else refers to it.
    """

    def __init__(self, state: VariableState, value: Array) -> None:
        self.dtype, self.shape, self.ndim = value.dtype, value.shape, value.ndim
        self._state, self._value = state, value
        row = value.nbytes // len(value)
        self._unit = max(1, UNIT_BYTES // row)                                # rows
        self._step = max(1, PIECE_BYTES // (row * self._unit)) * self._unit
        whole = len(value) // self._unit
        self._marks = np.zeros(whole, np.int32)      # of each unit: 0, or n when it was saved as the n-th, or _READ
        self._saved: list[tuple[Array, Array]] = []      # (units, ascending; what was in them)
        self._end = whole * self._unit
        self._tail = value[self._end:].copy()            # the rows that fill no unit

    def is_of(self, buffer: Array | None) -> bool:
        """Does it read rows of that buffer?"""
        return self._value is buffer

    def save(self, rows: Any) -> None:
        """Whoever calls has the variable's `_pointer`, and is about to overwrite these rows."""
        units = np.unique(np.asarray(rows).reshape(-1) // self._unit)
        units = units[units < len(self._marks)]
        units = units[self._marks[units] == 0]
        if len(units):
            content = self._units(self._value[:self._end])[units]
            self._state.device.memory.count(content, f"pinned rows of variable {self._state.name!r}")
            self._saved.append((units, content))
            self._marks[units] = len(self._saved)      # NOTE: at last, so that Ctrl-C before it does no harm

    def rows(self, first: int, end: int) -> Rows:
        """These rows, to be read later."""
        return Rows(self.dtype, (end - first, *self.shape[1:]), functools.partial(self._pieces, first, end),
                    functools.partial(self._forget, first, end))

    def _pieces(self, first: int, end: int) -> Iterator[Array]:
        room = np.empty((min(self._step, end - first) + 2 * self._unit, *self.shape[1:]), self.dtype)
        for start in range(first, end, self._step):
            yield self._read(start, min(start + self._step, end), room)

    def _read(self, first: int, end: int, room: Array) -> Array:
        """These rows as they were: in `room`, or where they lie when nobody overwrites them any more."""
        low, high = first // self._unit, min(-(-end // self._unit), len(self._marks))
        begin, stop = low * self._unit, max(end, high * self._unit)
        found = room[:stop - begin]
        with self._state._pointer:
            marks = self._marks[low:high].copy()
            copied = end > self._end or bool(marks.any()) or self.is_of(self._state._buffer)
            if copied:
                np.copyto(found, self._value[begin:stop])
            self._done(first, end)
        if (marks == _READ).any():
            raise errors.InternalError(f"pin of variable {self._state.name!r}: rows {first} to {end} were read before, and "
                                       "may be overwritten since; take another snapshot")
        if not copied:
            return self._value[first:end]
        for number in np.unique(marks[marks > 0]).tolist():
            units, content = self._saved[number - 1]
            some = slice(*np.searchsorted(units, (low, high)))
            self._units(found[:high * self._unit - begin])[units[some] - low] = content[some]
        found[max(first, self._end) - begin:end - begin] = self._tail[max(first - self._end, 0):max(end - self._end, 0)]
        return found[first - begin:end - begin]

    def _units(self, rows: Array) -> Array:
        return rows.reshape(-1, self._unit, *self.shape[1:])

    def _forget(self, first: int, end: int) -> None:
        with self._state._pointer:
            self._done(first, end)

    def _done(self, first: int, end: int) -> None:
        self._marks[-(-first // self._unit):end // self._unit] = _READ


class Pinned(NamedTuple):
    """A value of a variable, and what changed in it when: (first row, end, version) of each block of rows."""

    version: int
    value: Array | Pin | None
    blocks: list[tuple[int, int, int]]
    changes: Changes               # whose versions these are


def snapshot_together(states: Sequence[VariableState]) -> list[Pinned]:
    """The values that the variables have at one moment: an update of several is in all of them or in none.

    NOTE: call it on a thread of its own: in the main thread Ctrl-C may come between a lock and the `with` that frees it,
    and there may be too many locks for one `with` in another.
    """
    with contextlib.ExitStack() as held:
        for state in sorted(states, key=id):
            held.enter_context(state._pointer)
        return [_pinned(state) for state in states]


def _pinned(state: VariableState) -> Pinned:
    version, value = state.snapshot()
    blocks = state.changes.blocks(value.shape)
    if not isinstance(value, np.ndarray) or not told_apart(value) or value.dtype.kind in "Oc" or not value.flags.c_contiguous:
        return Pinned(version, value, blocks, state.changes)
    pin = Pin(state, value)
    state.pinned_by(pin)
    return Pinned(version, pin, blocks, state.changes)
