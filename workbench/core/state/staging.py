"""Staging areas: tuples of arrays that wait between steps, by key, up to a number of them and of bytes."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType
from workbench.core.state.calls import Call, make_calls

__all__ = ["Staged"]

Array = np.ndarray[Any, Any]
Values = dict[int, Array]      # component -> value
Fail = Callable[[BaseException], None]


@dataclass(eq=False)
class _Put:
    key: int | None                     # None: after all that are there
    values: Values
    done: Callable[[], None]
    fail: Fail


@dataclass(eq=False)
class _Take:
    key: int | None                     # None: the first there is
    indices: tuple[int, ...]
    keep: bool
    place: int                          # without a key: the first, the second …
    done: Callable[..., None]
    fail: Fail


class Staged:
    """A map from int64 keys to tuples: in the order of keys where it is `ordered`, else in the order of their coming.

    At most `capacity` complete tuples and `memory_limit` bytes (0: any number); what came in parts counts for bytes alone
    until it is complete. Puts wait for room and takes for their key; each in the order in which it came, and told outside of
    the lock. Semantics: TensorFlow's StagingArea and MapStagingArea.
    """

    def __init__(self, name: str, dtypes: Sequence[DType], capacity: int = 0, memory_limit: int = 0,
                 ordered: bool = False) -> None:
        self.name, self.dtypes, self.ordered = name, tuple(dtypes), ordered
        self.capacity, self.memory_limit = capacity or 2**62, memory_limit or 2**62
        self._complete: dict[int, Values] = {}
        self._parts: dict[int, Values] = {}
        self._bytes, self._next, self._over = 0, 0, False
        self._puts: list[_Put] = []
        self._takes: list[_Take] = []
        self._lock = threading.Lock()

    def sizes(self) -> tuple[int, int]:
        """(complete tuples, incomplete ones)."""
        with self._lock:
            return len(self._complete), len(self._parts)

    def put(self, key: int | None, indices: Sequence[int], values: Sequence[Array], done: Callable[[], None],
            fail: Fail) -> Call:
        """Values of these components for a key, None for one of its own behind all others; waits for room.

        ResourceExhaustedError for more bytes than it may ever hold, InvalidArgumentError for what is there already.
        """
        self._check(key, indices, values)
        attempt = _Put(key, {i: np.array(value, copy=True) for i, value in zip(indices, values)}, done, fail)
        if (size := _size(attempt.values)) > self.memory_limit:
            raise errors.ResourceExhaustedError(f"Attempted to insert tensors with combined size of '{size}' bytes into "
                                                f"staging area {self.name!r} with a memory limit of '{self.memory_limit}'; "
                                                "put less, or give memory_limit more")
        return self._wait(self._puts, attempt)

    def take(self, key: int | None, indices: Sequence[int], keep: bool, done: Callable[..., None], fail: Fail,
             place: int = 0) -> Call:
        """Call `done(key, values)` with these components once the key is there (None: any, with `place` others before it);
        unless `keep`, they are gone then, and the key with its last component."""
        self._check(key, indices, None)
        return self._wait(self._takes, _Take(key, tuple(indices), keep, place, done, fail))

    def clear(self) -> None:
        """Forget what is inside; puts that wait go on."""
        with self._lock:
            self._complete, self._parts, self._bytes = {}, {}, 0
            calls = self._flush()
        make_calls(calls)

    def abandon(self) -> None:
        """The session is over: whoever waits, or comes, gets CancelledError."""
        with self._lock:
            self._over = True
            calls = self._flush()
        make_calls(calls)

    def _check(self, key: int | None, indices: Sequence[int], values: Sequence[Array] | None) -> None:
        where, count = f"staging area {self.name!r}", len(self.dtypes)
        if any(not 0 <= i < count for i in indices):
            raise errors.InvalidArgumentError(f"{where}: Index '{max(indices)}' for key '{key}' was out of bounds '{count}'; "
                                              f"use 0 to {count - 1}")
        if any(a >= b for a, b in itertools.pairwise(indices)) or not indices:
            raise errors.InvalidArgumentError(f"{where}: Indices are not strictly ordered: {list(indices)}; name each once, "
                                              "the smaller first")
        if values is not None and len(values) != len(indices):
            raise errors.InvalidArgumentError(f"{where}: {len(values)} values but {len(indices)} indices; give one of each")

    def _wait(self, side: list[Any], attempt: Any) -> Call:
        with self._lock:
            side.append(attempt)
            calls = self._flush()
        make_calls(calls)
        return lambda: self._withdraw(side, attempt)

    def _withdraw(self, side: list[Any], attempt: Any) -> None:
        with self._lock:
            if attempt in side:
                side.remove(attempt)
            calls = self._flush()
        make_calls(calls)

    def _flush(self) -> list[Call]:
        """Serve whoever can be served; returns the callbacks to make outside of the lock."""
        calls: list[Call] = []
        moved = True
        while moved:
            moved = False
            attempts: list[_Put | _Take] = [*self._puts, *self._takes]
            for attempt in attempts:
                call = self._served(attempt)
                if call is None:
                    continue
                calls.append(call)
                side: list[Any] = self._puts if isinstance(attempt, _Put) else self._takes
                side.remove(attempt)
                moved = True
        return calls

    def _served(self, attempt: _Put | _Take) -> Call | None:
        if self._over:
            ended = errors.CancelledError(f"staging area {self.name!r}: the session was closed; open another one")
            return lambda: attempt.fail(ended)
        try:
            return self._put(attempt) if isinstance(attempt, _Put) else self._take(attempt)
        except errors.InvalidArgumentError as error:
            wrong = error
            return lambda: attempt.fail(wrong)

    # puts
    def _put(self, put: _Put) -> Call | None:
        whole = len(put.values) == len(self.dtypes)
        there = self._parts.get(put.key, {}) if put.key is not None else {}
        twice = min(there.keys() & put.values.keys(), default=0 if put.key in self._complete else None)
        if twice is not None:
            raise errors.InvalidArgumentError(f"staging area {self.name!r}: The tensor for index '{twice}' for key "
                                              f"'{put.key}' was already initialized; take it first, or use another key")
        if self._bytes + _size(put.values) > self.memory_limit or (whole and len(self._complete) >= self.capacity):
            return None
        self._bytes += _size(put.values)
        key = self._own_key() if put.key is None else put.key
        values = {**there, **put.values}
        if len(values) < len(self.dtypes):
            self._parts[key] = values
        else:
            self._parts.pop(key, None)
            self._complete[key] = values
        return put.done

    def _own_key(self) -> int:
        self._next += 1
        return self._next

    # takes
    def _take(self, take: _Take) -> Call | None:
        key = self._found(take)
        if key is None:
            return None
        values = self._complete[key]
        gone = next((i for i in take.indices if i not in values), None)
        if gone is not None:
            raise errors.InvalidArgumentError(f"staging area {self.name!r}: Tensor at index '{gone}' for key '{key}' has "
                                              "already been removed; take each once")
        found = [values[i] for i in take.indices]
        if not take.keep:
            for i in take.indices:
                self._bytes -= values.pop(i).nbytes
            if not values:
                del self._complete[key]
        return lambda: take.done(key, found)

    def _found(self, take: _Take) -> int | None:
        if take.key is not None:
            return take.key if take.key in self._complete else None
        keys = sorted(self._complete) if self.ordered else list(self._complete)
        return keys[take.place] if len(keys) > take.place else None


def _size(values: Values) -> int:
    return sum(value.nbytes for value in values.values())
