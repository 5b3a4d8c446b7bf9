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

UNIT_BYTES = 1 << 10       # rows are saved in units of about so many bytes
PIECE_BYTES = 4 << 20      # and read in pieces of about so many
_READ = -1


class Pin:
    """A table in the host's memory as it was when it was pinned; each block of its rows can be read once.

    It refers to the buffer, once, so that what updates the whole variable writes another one. What updates rows overwrites
    them in place where nobody else refers to it, and before `save`s here what stood there. The variable refers to its pins
    weakly: one is over when nobody else refers to it. Who reads takes no lock, and no reference that a writer would count.
    """

    def __init__(self, state: VariableState, value: Array) -> None:
        self.dtype, self.shape, self.ndim = value.dtype, value.shape, value.ndim
        self._name, self._memory, self._value = state.name, state.device.memory, value
        self._rows = np.asarray(_Memory(value)).view(value.dtype).reshape(value.shape)
        row = value.nbytes // len(value)
        self._unit = max(1, UNIT_BYTES // row)                                # rows
        self._step = max(1, PIECE_BYTES // (row * self._unit)) * self._unit
        whole = len(value) // self._unit
        self._marks = np.zeros(whole, np.int64)      # of each unit: 0, or n when it was saved as the n-th, or _READ
        self._saved: list[Array] = []                # what was in units, as many in each as a piece has
        self._count = 0                              # of units in them
        self._end = whole * self._unit
        self._tail = self._rows[self._end:].copy()       # the rows that fill no unit

    def is_of(self, buffer: Array | None) -> bool:
        """Does it read rows of that buffer?"""
        return self._value is buffer

    def save(self, rows: Any) -> None:
        """Whoever calls has the variable's `_pointer`, and is about to overwrite these rows."""
        units = np.asarray(rows).reshape(-1) // self._unit
        units = units[units < len(self._marks)]
        units = np.sort(units[self._marks[units] == 0])
        units = units[:1] if len(units) < 2 else units[np.append(True, units[1:] != units[:-1])]
        while len(units):      # NOTE: marks come last, so that Ctrl-C before them does no harm
            places, number = self._room(len(units)), self._count
            np.take(self._units(self._rows[:self._end]), units[:len(places)], axis=0, out=places, mode="clip")
            self._count += len(places)
            self._marks[units[:len(places)]] = np.arange(number, self._count) + 1
            units = units[len(places):]

    def _room(self, count: int) -> Array:
        """Where the next units are saved: so many, or fewer."""
        number, place = divmod(self._count, self._step // self._unit)
        if number == len(self._saved):
            room = np.empty((self._step // self._unit, self._unit, *self.shape[1:]), self.dtype)
            self._memory.count(room, f"pinned rows of variable {self._name!r}")
            self._saved.append(room)
        return self._saved[number][place:place + count]

    def rows(self, first: int, end: int) -> Rows:
        """These rows, to be read later."""
        return Rows(self.dtype, (end - first, *self.shape[1:]), functools.partial(self._pieces, first, end),
                    functools.partial(self._forget, first, end))

    def _pieces(self, first: int, end: int) -> Iterator[Array]:
        room = np.empty((min(self._step, end - first) + 2 * self._unit, *self.shape[1:]), self.dtype)
        for start in range(first, end, self._step):
            yield self._read(start, min(start + self._step, end), room)

    def _read(self, first: int, end: int, room: Array) -> Array:
        """These rows as they were, in `room`.

        NOTE: the marks are looked at after the rows were copied. A unit that has none then was not overwritten before, for
        it is marked first; what was overwritten, and what was just being, is taken of what was saved.
        """
        low, high = first // self._unit, min(-(-end // self._unit), len(self._marks))
        begin, stop = low * self._unit, max(end, high * self._unit)
        found = room[:stop - begin]
        np.copyto(found, self._rows[begin:stop])
        marks = self._marks[low:high].copy()
        self._forget(first, end)
        if (marks == _READ).any():
            raise errors.InternalError(f"pin of variable {self._name!r}: rows {first} to {end} were read before, and may be "
                                       "overwritten since; take another snapshot")
        units = np.flatnonzero(marks)
        numbers, places = np.divmod(marks[units] - 1, self._step // self._unit)
        for number in set(numbers.tolist()):
            some = numbers == number
            self._units(found[:high * self._unit - begin])[units[some]] = self._saved[number][places[some]]
        found[max(first, self._end) - begin:end - begin] = self._tail[max(first - self._end, 0):max(end - self._end, 0)]
        return found[first - begin:end - begin]

    def _units(self, rows: Array) -> Array:
        return rows.reshape(-1, self._unit, *self.shape[1:])

    def _forget(self, first: int, end: int) -> None:
        """Nobody will read these rows: what is in the units that they fill need not be saved."""
        self._marks[-(-first // self._unit):end // self._unit] = _READ


class _Memory:
    """That of an array, for another one which does not refer to it, nor do its parts."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = {"data": (array.ctypes.data, False), "shape": (array.nbytes,), "typestr": "|u1",
                                    "version": 3}


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
