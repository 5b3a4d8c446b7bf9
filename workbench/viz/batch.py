"""Spans that came together as columns: what many are asked for at once costs a pass, not a call for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import compress, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from workbench.core.trace import KINDS, Row, Span, run_of, spans_of
from workbench.viz.names import Names, begins, found, packed

__all__ = ["Batch", "Piece"]

PIECES = 64  # stretches of spans of one step from which it is worth sorting them
_STEPS = 1 << 40  # more than any run has
_FIELD = {name: number for number, name in enumerate(Span._fields)}
_KIND = {kind: number for number, kind in enumerate(KINDS)}
_NUMBERS = {"kind", "task", "thread", "step", "start", "end"}  # columns that a part of a batch shares


class Piece(NamedTuple):
    """Spans of one step in a batch, ended ones alone; a step may have several pieces."""

    run: str
    executable: str
    step: int
    start: float  # seconds
    end: float
    places: np.ndarray  # of its rows in the batch, ascending


class Batch:
    """Spans that came together, as rows, and their columns, each made once for all who read them: numbers as arrays, texts
    as lists. Who asks for nothing but `pieces` pays for few steps, not for many spans."""

    def __init__(self, rows: Sequence[Row], names: Names | None = None) -> None:
        self.rows = rows
        self.names = Names() if names is None else names  # the numbers of its tasks
        self._texts: dict[str, list[str]] = {}
        self._parts: dict[int, Batch] = {}  # first place of a piece -> it as a batch
        self._whole: tuple[Batch, np.ndarray] | None = None  # of what these are, and which of those

    def mostly(self, piece: Piece) -> bool:
        """Are most of these spans of the piece, so that who keeps it may keep all?"""
        return 2 * len(piece.places) > len(self)

    def of(self, piece: Piece) -> Batch:
        """One of its pieces, the same for all who ask; what is known of all is not read again."""
        if len(piece.places) == len(self):
            return self
        first = int(piece.places[0])
        if first not in self._parts:
            which = np.zeros(len(self), bool)
            which[piece.places] = True
            self._parts[first] = self.only(which)
            self._parts[first]._whole = None  # which holds it
        return self._parts[first]

    def only(self, which: np.ndarray) -> Batch:
        """Those of them; what is known of all is not read again."""
        if which.all():
            return self
        made = Batch(list(compress(self.rows, which.tolist())), self.names)
        made.__dict__.update({name: self.__dict__[name][which] for name in _NUMBERS & self.__dict__.keys()})
        made._whole = self, which
        return made

    def __len__(self) -> int:
        return len(self.rows)

    def _column(self, name: str) -> list[Any]:
        return list(map(itemgetter(_FIELD[name]), self.rows))

    def texts(self, name: str) -> list[str]:
        if name not in self._texts:
            self._texts[name] = self._column(name)
        return self._texts[name]

    def numbers(self, name: str, dtype: type) -> np.ndarray:
        return packed(self._column(name), dtype)

    @cached_property
    def operations(self) -> list[Span]:
        kinds = self.texts("kind")
        return spans_of([row for row, kind in zip(self.rows, kinds) if kind == "op"]) if "op" in kinds else []

    @cached_property
    def kind(self) -> np.ndarray:
        """Places in `KINDS`, beyond them what is none of them."""
        kinds = self.texts("kind")
        return found({**dict.fromkeys(set(kinds), len(KINDS)), **_KIND}, kinds)

    @cached_property
    def task(self) -> np.ndarray:
        """Of each span the number of its task in `names`."""
        if self._whole is not None:
            return self._whole[0].task[self._whole[1]]
        return self.names.column(self.texts("task"))

    @cached_property
    def thread(self) -> np.ndarray:
        return self.numbers("thread", np.int64)

    @cached_property
    def step(self) -> np.ndarray:
        return self.numbers("step", np.int64)

    @cached_property
    def start(self) -> np.ndarray:
        return self.numbers("start", np.float64)

    @cached_property
    def end(self) -> np.ndarray:
        return self.numbers("end", np.float64)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The steps in it: each as one piece, or as the pieces in which it came where these are few."""
        if not len(self):
            return []
        runs, codes = self._runs()
        keys, within = codes * _STEPS + self.step, np.arange(len(self))
        good = (self.step >= 0) & (self.end >= self.start)
        if not good.all():
            keys, within = keys[good], within[good]
        firsts = begins(keys)
        if len(firsts) > PIECES:
            order = np.argsort(keys, kind="stable")
            keys, within = keys[order], within[order]
            firsts = begins(keys)
        if not len(firsts):
            return []
        starts = np.minimum.reduceat(self.start[within], firsts).tolist()
        ends = np.maximum.reduceat(self.end[within], firsts).tolist()
        borders = [*firsts.tolist(), len(within)]
        executables = self.texts("executable")
        return [Piece(runs[key // _STEPS], executables[within[first]], key % _STEPS, start, end, within[first:last])
                for key, start, end, first, last in zip(keys[firsts].tolist(), starts, ends, borders, borders[1:])]

    def _runs(self) -> tuple[list[str], Any]:
        """The different ones, mostly one, and of each span the number of its own."""
        executables = self.texts("executable")
        if executables.count(executables[0]) == len(executables):
            return [run_of(executables[0])], 0
        of = {name: run_of(name) for name in dict.fromkeys(executables)}
        runs = {run: number for number, run in enumerate(dict.fromkeys(of.values()))}
        if len(runs) == 1:
            return list(runs), 0
        return list(runs), found({executable: runs[run] for executable, run in of.items()}, executables)

    @cached_property
    def left(self) -> dict[str, int]:
        """Message -> the place of its first send."""
        return _ends(self.texts("message"), self._ended("send"), self.start)

    @cached_property
    def came(self) -> dict[str, int]:
        """Message -> the place of its last receive: one that is posted and then delivered has two."""
        return _ends(self.texts("message"), self._ended("recv"), -self.end)

    @cached_property
    def senders(self) -> np.ndarray:
        """Of each span the place of the first send of its message where it is the last receive of it, else -1."""
        if self._whole is not None and {"left", "came"} <= (whole := self._whole[0]).__dict__.keys():
            which, moves = self._whole[1], (whole.kind == _KIND["send"]) | (whole.kind == _KIND["recv"])
            if not (moves & ~which).any():  # no message has lost an end
                there = whole.senders[which]
                return np.where(there >= 0, (np.cumsum(which) - 1)[there], -1)
        found, count = np.full(len(self), -1), len(self.came)
        found[np.fromiter(self.came.values(), np.int64, count)] = np.fromiter(map(self.left.get, self.came, repeat(-1)),
                                                                             np.int64, count)
        return found

    def _ended(self, kind: str) -> np.ndarray:
        return np.asarray(((self.kind == _KIND[kind]) & (self.end >= self.start)).nonzero()[0])

    def rows_of(self, piece: Piece) -> Sequence[Row]:
        """The spans of one of its pieces."""
        first, count = int(piece.places[0]), len(piece.places)
        if int(piece.places[-1]) - first + 1 == count:
            return self.rows[first:first + count]
        return [self.rows[place] for place in piece.places.tolist()]


def _ends(messages: Sequence[str], places: np.ndarray, order: np.ndarray) -> dict[str, int]:
    """Message -> its place, of several the one with the least `order`, of these the first."""
    texts = [messages[place] for place in places.tolist()]
    found = dict(zip(texts, places.tolist()))
    if len(found) < len(texts):
        last = np.argsort(order[places], kind="stable")[::-1]
        found = {texts[at]: place for at, place in zip(last.tolist(), places[last].tolist())}
    found.pop("", None)
    return found
