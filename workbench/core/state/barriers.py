"""Barriers: values by key that come component by component, and are given out once all components of a key are there."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType
from workbench.core.graph.shape import Shape
from workbench.core.state.calls import Call, make_calls
from workbench.core.state.kept import Kept

__all__ = ["Barrier"]

Array = np.ndarray[Any, Any]
_FIRST = -(2**63)      # the number of the first insertion


@dataclass(eq=False)
class _Element:
    """A key: the number of the insertion that brought it, and those of its components that are there."""

    number: int
    key: bytes
    values: dict[int, Array] = field(default_factory=dict)


@dataclass(eq=False)
class _Take:
    wanted: int
    small: bool                         # what is left will do once closed
    late: bool                          # it came after the closing
    done: Callable[..., None]
    fail: Callable[[BaseException], None]
    who: str


class Barrier:
    """A map from keys to tuples of arrays, without a bound.

    `insert_many` never waits; `take_many` waits for so many complete elements, those first whose first component came first,
    and gives them at one moment. Takes are served in order, and told outside of the lock. Semantics: TensorFlow's Barrier.
    """

    def __init__(self, name: str, dtypes: Sequence[DType], shapes: Sequence[Shape]) -> None:
        self.name, self.dtypes, self.shapes = name, tuple(dtypes), tuple(shapes)
        self.closed = self._cancelled = self._abandoned = False
        self._next = _FIRST
        self._incomplete: dict[bytes, _Element] = {}
        self._ready: list[_Element] = []
        self._takes: deque[_Take] = deque()
        self._lock = threading.Lock()

    def check_same(self, other: Barrier) -> None:
        """InvalidArgumentError unless `other` describes the barrier that this one is: by types and shapes."""
        for what, mine, theirs in (("component types", [t.name for t in self.dtypes], [t.name for t in other.dtypes]),
                                   ("component shapes", [f"{s}" for s in self.shapes], [f"{s}" for s in other.shapes])):
            if mine != theirs:
                raise errors.InvalidArgumentError(f"Shared barrier {self.name!r} has {what} {mine} but requested {what} were "
                                                  f"{theirs}; ask for the same, or give another shared_name")

    def sizes(self) -> tuple[int, int]:
        """(complete elements, incomplete ones)."""
        with self._lock:
            return len(self._ready), len(self._incomplete)

    # inserting
    def insert_many(self, component: int, keys: Array, values: Array) -> None:
        """Row i of `values` becomes the component of keys[i]; all of them or, with an error, none.

        InvalidArgumentError for rows that do not fit and for a key that has this component; CancelledError for a new key
        once closed, and for anything once closed with cancelling.
        """
        self._check(component, keys, values)
        with self._lock:
            names = [key if isinstance(key, bytes) else str(key).encode() for key in keys]
            self._check_keys(component, names)
            grown = False
            for key, value in zip(names, values):
                if key not in self._incomplete:
                    self._incomplete[key], grown = _Element(self._next, key), True
                element = self._incomplete[key]
                # a copy, since the caller may reuse its buffers; a row of a string vector is plain bytes, not an array
                element.values[component] = np.array(value, object if isinstance(value, bytes) else None, copy=True)
                if len(element.values) == len(self.dtypes):
                    self._ready.append(self._incomplete.pop(key))
            self._next += grown
            self._ready.sort(key=lambda element: element.number)
            calls = self._flush()
        make_calls(calls)

    def _check(self, component: int, keys: Array, values: Array) -> None:
        if not 0 <= component < len(self.dtypes):
            raise errors.InvalidArgumentError(f"Barrier {self.name!r}: component_index {component} is out of range, there are "
                                              f"{len(self.dtypes)} components; use 0 to {len(self.dtypes) - 1}")
        if keys.ndim != 1 or not values.ndim or len(keys) != len(values):
            raise errors.InvalidArgumentError(f"Barrier {self.name!r}: keys have shape {list(keys.shape)} and values "
                                              f"{list(values.shape)}; give a row of values for each key")
        if 0 in values.shape[1:]:
            raise errors.InvalidArgumentError(f"Barrier {self.name!r}: Tensors with no elements are not supported: values have "
                                              f"shape {list(values.shape)}; leave the component out")
        if values.dtype != self.dtypes[component].numpy:
            raise errors.InvalidArgumentError(f"Barrier {self.name!r}: values are {values.dtype} but component {component} is "
                                              f"{self.dtypes[component].name}; cast them")
        if not self.shapes[component].compatible(Shape(values.shape[1:])):
            raise errors.InvalidArgumentError(f"Barrier {self.name!r}: Shape mismatch in component {component}: values have "
                                              f"rows {list(values.shape[1:])} but {self.shapes[component]} is asked; reshape "
                                              "them")

    def _check_keys(self, component: int, keys: Sequence[bytes]) -> None:
        new = next((key for key in keys if key not in self._incomplete), None)
        if self._cancelled or self._abandoned or (self.closed and new is not None):
            raise errors.CancelledError(f"Barrier {self.name!r} is closed, so nothing new can be inserted (new key: {new!r}, "
                                        f"incomplete keys: {len(self._incomplete)}); make a new barrier")
        twice = next((key for place, key in enumerate(keys) if key in keys[:place] or (
            key in self._incomplete and component in self._incomplete[key].values)), None)
        if twice is not None:
            raise errors.InvalidArgumentError(f"Barrier {self.name!r}: key {twice!r} already has a value for component "
                                              f"{component}; insert each once")

    # taking
    def take_many(self, count: int, small: bool, done: Callable[..., None], fail: Callable[[BaseException], None],
                  who: str = "") -> Call:
        """Call `done(numbers, keys, *components)` with `count` complete elements once they are there; returns what takes the
        attempt back. OutOfRangeError once closed with too few, unless `small` lets what is left do."""
        if count < 1:
            raise errors.InvalidArgumentError(f"Barrier {self.name!r}: {count} elements were asked; ask for 1 or more")
        with self._lock:
            attempt = _Take(count, small, self.closed, done, fail, who)
            self._takes.append(attempt)
            calls = self._flush()
        make_calls(calls)
        return lambda: self._withdraw(attempt)

    def _withdraw(self, attempt: _Take) -> None:
        with self._lock:
            if attempt in self._takes:
                self._takes.remove(attempt)
            calls = self._flush()
        make_calls(calls)

    def _flush(self) -> list[Call]:
        """Serve the takes until one has to wait; returns the callbacks to make outside the lock."""
        calls: list[Call] = []
        while self._takes:
            take, there = self._takes[0], len(self._ready)
            total = there if take.small else there + len(self._incomplete)
            if there >= take.wanted or (self.closed and take.small and there):
                calls.append(self._giving(take, self._ready[:take.wanted]))
                del self._ready[:take.wanted]
            elif self.closed and (take.late or not self._incomplete if take.small else total < take.wanted):
                calls.append(self._failing(take, total))
            else:
                break
            self._takes.popleft()
        return calls

    def _giving(self, take: _Take, elements: Sequence[_Element]) -> Call:
        def give() -> None:
            shapes = [{element.values[i].shape for element in elements} for i in range(len(self.dtypes))]
            if any(len(different) > 1 for different in shapes):
                take.fail(errors.InvalidArgumentError(f"Barrier {self.name!r}: elements with components of shapes "
                                                      f"{[sorted(different) for different in shapes]} make no batch; give "
                                                      "the barrier shapes"))
                return
            take.done(np.array([element.number for element in elements], np.int64),
                      np.array([*(element.key for element in elements), None], object)[:-1],
                      *(np.stack([element.values[i] for element in elements]) for i in range(len(self.dtypes))))
        return give

    def _failing(self, take: _Take, total: int) -> Call:
        if self._abandoned:
            ended = errors.CancelledError(f"Barrier {self.name!r}: take_many was cancelled: the session was closed; open "
                                          "another one")
            return lambda: take.fail(ended)
        few = errors.OutOfRangeError(f"Barrier {self.name!r} is closed and has insufficient elements (requested {take.wanted}, "
                                     f"total size {total}); stop, or use allow_small_batch for the rest")
        return lambda: take.fail(few)

    # the end
    def close(self, cancel_pending: bool = False) -> None:
        """No new keys come; with `cancel_pending` what is incomplete is dropped, too. CancelledError for closing again, but
        for the first time with cancelling."""
        with self._lock:
            if self.closed and (self._cancelled or not cancel_pending):
                raise errors.CancelledError(f"Barrier {self.name!r} is already closed; close it once")
            self.closed, self._cancelled = True, cancel_pending
            if cancel_pending:
                self._incomplete.clear()
            calls = self._flush()
        make_calls(calls)

    def abandon(self) -> None:
        """The session is over: whoever waits gets CancelledError, as does whoever comes later."""
        with self._lock:
            self.closed = self._abandoned = True
            self._incomplete.clear()
            self._ready.clear()
            calls = self._flush()
        make_calls(calls)

    # checkpoints
    def state(self) -> Kept:
        """What is inside, in order; a take that waits has taken nothing."""
        with self._lock:
            elements = [*self._ready, *self._incomplete.values()]
            note = {"next": self._next, "closed": self.closed, "cancelled": self._cancelled,
                    "elements": [[element.number, sorted(element.values)] for element in elements]}
            columns = [[np.asarray(element.key, object) for element in elements],
                       *([element.values[i] for element in elements if i in element.values] for i in range(len(self.dtypes)))]
            waiting = {take.who: 1 for take in self._takes}
        return Kept(note, columns, [np.dtype(object), *(t.numpy for t in self.dtypes)], waiting)

    def set_state(self, found: Kept, reopen: bool = False) -> None:
        """Go on with what was inside where `state` was asked, instead of what is inside now; with `reopen` more may be inserted
        although it was closed."""
        keys, *columns = map(iter, found.columns)
        elements = [_Element(number, next(keys).item(), {i: next(columns[i]) for i in there})
                    for number, there in found.note["elements"]]
        with self._lock:
            self._next = found.note["next"]
            self.closed, self._cancelled = (not reopen and found.note[what] for what in ("closed", "cancelled"))
            whole = len(self.dtypes)
            self._ready = [element for element in elements if len(element.values) == whole]
            self._incomplete = {element.key: element for element in elements if len(element.values) < whole}
            calls = self._flush()
        make_calls(calls)
