"""Accumulators: gradients of many workers summed until enough arrived, stale ones dropped (paper §4.4)."""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import add_rows, inside, wide
from workbench.core.graph.dtype import DType
from workbench.core.graph.shape import Shape
from workbench.core.state.calls import Call, make_calls
from workbench.core.state.kept import Kept

__all__ = ["Accumulator", "SparseAccumulator"]

Array = np.ndarray[Any, Any]

_ARRIVALS, _STEPS = 1 << 12, 64      # how many gradients' times are kept, and of how many steps their beginning


@dataclass(eq=False)
class _Take:
    wanted: int
    done: Callable[..., None]
    fail: Callable[[BaseException], None]


class Accumulator:
    """Sums dense gradients of one variable.

    `apply` never waits and silently drops a gradient whose local step is older than the accumulator's global step;
    `take` waits for `wanted` gradients, then gives their mean over the number that really came (or their sum), starts
    from zero and advances the global step by 1. Takes are served in order, callbacks run outside the lock.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape, mean: bool = True) -> None:
        self.name, self.dtype, self.shape, self.mean = name, dtype, shape, mean
        self.global_step = 0
        self.dropped = 0                          # gradients that came too late, for the views
        self.repeated = 0                         # gradients that a worker sent twice for one step
        self._sent: dict[str, int] = {}           # worker -> newest local step that it sent a gradient for
        self._released: dict[int, float] = {}     # newest steps -> when their gradients could be begun
        self._arrived: dict[str, float] = {}      # worker -> when its newest gradient came
        self.arrivals: deque[tuple[str, float]] = deque(maxlen=_ARRIVALS)      # (worker, seconds that a gradient took)
        self._members: int | None = None          # workers that are left, when somebody said how many
        self._count = 0
        self._sum: Any = None
        self._takes: deque[_Take] = deque()
        self._begun = self._closed = False
        self._lock = threading.Lock()

    def count(self) -> int:
        """Gradients gathered since the last take."""
        with self._lock:
            return self._count

    def apply(self, local_step: int, *gradient: Array, worker: str = "") -> None:
        """Add a gradient that was computed from the variables of step `local_step`.

        Of a named `worker` one gradient counts per local step: the second one is that of a step which was aborted
        between two accumulators and tried again.
        """
        self._check(*gradient)
        with self._lock:
            if worker:
                self._note_arrival(worker, local_step, time.perf_counter())
            if self._closed or local_step < self.global_step:
                self.dropped += 1
                return
            if worker:
                if self._begun and local_step > self.global_step:
                    raise errors.AbortedError(f"accumulator {self.name!r}: {worker} sends a gradient of step {local_step} but "
                                              f"training began anew and is at step {self.global_step}; begin anew, too")
                if local_step <= self._sent.get(worker, -1):
                    self.repeated += 1
                    return
                self._sent[worker] = local_step
            self._add(*gradient)
            self._count += 1
            calls = self._flush()
        make_calls(calls)

    def _note_arrival(self, worker: str, local_step: int, now: float) -> None:
        """A gradient took from when its step was there, and the worker through with the one before, until now."""
        if local_step in self._released:
            self.arrivals.append((worker, now - max(self._released[local_step], self._arrived.get(worker, 0.0))))
        self._arrived[worker] = now

    def take(self, wanted: int, done: Callable[..., None], fail: Callable[[BaseException], None]) -> Call:
        """Call `done(*mean)` once `wanted` gradients are here; returns what takes the attempt back."""
        if wanted < 1:
            raise errors.InvalidArgumentError(f"accumulator {self.name!r}: {wanted} gradients were asked; ask for 1 or "
                                              "more")
        attempt = _Take(wanted, done, fail)
        with self._lock:
            closed = self._closed
            if not closed:
                self._takes.append(attempt)
            calls = self._flush()
        make_calls(calls)
        if closed:
            self._fail([attempt])
        return lambda: self._withdraw(attempt)

    def set_members(self, members: int) -> None:
        """Only so many workers are left: takes that wait, and later ones, ask for no more gradients than that."""
        if members < 1:
            raise errors.InvalidArgumentError(f"accumulator {self.name!r}: {members} workers are left; one is needed")
        with self._lock:
            self._members = members
            calls = self._flush()
        make_calls(calls)

    def set_global_step(self, step: int) -> None:
        """Drop gradients older than `step` from now on; an older step changes nothing."""
        with self._lock:
            self.global_step = max(self.global_step, step)

    def begin(self, step: int) -> None:
        """Training begins at `step`, or begins anew: then what an earlier life of it left here is forgotten, and named
        workers that are still ahead get AbortedError. One that was closed is open again, also where it begins first."""
        with self._lock:
            waiting: list[_Take] = []
            if self._begun:
                waiting, self._takes = list(self._takes), deque()
                self._sum, self._count, self._members = None, 0, None
                self._sent.clear()
                self._released.clear()
            self.global_step = step if self._begun else max(self.global_step, step)
            self._begun, self._closed = True, False
        self._fail(waiting)

    # checkpoints
    def state(self) -> Kept:
        """What was gathered since the last take, of whom, and for which step."""
        with self._lock:
            note = {"global_step": self.global_step, "count": self._count, "dropped": self.dropped, "repeated": self.repeated,
                    "sent": dict(self._sent)}
            return Kept(note, self._gathered(), self._dtypes())

    def set_state(self, found: Kept, reopen: bool = False) -> None:
        """Go on with that, instead of what is gathered now."""
        with self._lock:
            note = found.note
            self.global_step, self._count, self._sent = note["global_step"], note["count"], dict(note["sent"])
            self.dropped, self.repeated = note["dropped"], note["repeated"]
            self._sum = self._gathered_from(found.columns)
            calls = self._flush()
        make_calls(calls)

    def close(self, cancel_pending: bool = True) -> None:
        """Fail whoever waits, now and later, and drop all gradients, until training begins anew."""
        with self._lock:
            self._closed = True
            self._sum, self._count = None, 0
            waiting = list(self._takes)
            self._takes.clear()
        self._fail(waiting)

    def _fail(self, waiting: Sequence[_Take]) -> None:
        for attempt in waiting:
            attempt.fail(errors.CancelledError(f"accumulator {self.name!r}: TakeGrad operation was cancelled: it was closed "
                                               f"while {attempt.wanted} gradients were awaited; start the session again"))

    def _withdraw(self, attempt: _Take) -> None:
        with self._lock:
            if attempt not in self._takes:
                return
            self._takes.remove(attempt)
            calls = self._flush()
        make_calls(calls)

    def _flush(self) -> list[Call]:
        calls: list[Call] = []
        while self._takes and self._count >= min(self._takes[0].wanted, self._members or self._takes[0].wanted):
            attempt = self._takes.popleft()
            calls.append(_giving(attempt, self._result(self._count if self.mean else 1)))
            self._sum, self._count = None, 0
            self.global_step += 1
            self._released[self.global_step] = time.perf_counter()
            if len(self._released) > _STEPS:
                del self._released[min(self._released)]
        return calls

    # the kind of gradient
    def _check(self, *gradient: Array) -> None:
        value = gradient[0]
        if value.dtype != self.dtype.numpy or not self.shape.compatible(Shape(value.shape)):
            raise errors.InvalidArgumentError(f"accumulator {self.name!r}: the gradient is {value.dtype} of shape "
                                              f"{list(value.shape)} but {self.dtype.name}{self.shape} is summed; "
                                              "reshape or cast it")

    def _add(self, *gradient: Array) -> None:
        if self._sum is None:
            self._sum = np.array(gradient[0], wide(gradient[0].dtype), copy=True)
        elif self._sum.shape != gradient[0].shape:
            raise errors.ShapeError(f"accumulator {self.name!r}: the sum has shape {list(self._sum.shape)} but the "
                                    f"gradient has {list(gradient[0].shape)}; give all one shape")
        else:
            np.add(self._sum, gradient[0], out=self._sum)

    def _result(self, count: int) -> Sequence[Array]:
        mean = self._sum / self._sum.dtype.type(count) if count > 1 else self._sum
        return (mean.astype(self.dtype.numpy, copy=False),)

    def _dtypes(self) -> list[Any]:
        return [self.dtype.numpy]

    def _gathered(self) -> list[list[Array]]:
        """The sum; a copy, since more is added in place."""
        return [[] if self._sum is None else [self._sum.copy()]]

    def _gathered_from(self, columns: Sequence[Sequence[Array]]) -> Any:
        return columns[0][0] if columns[0] else None


class SparseAccumulator(Accumulator):
    """Sums gradients that are (indices [n], values [n, ...]); gives sorted distinct indices and their mean rows.

    The mean is over the number of gradients, so that it equals the dense mean, or with `by_row` over those that have the
    row, as TensorFlow divides. A `shape` of one length, or of unknown ones, is the beginning of the dense gradient's: values
    may have more axes.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape, mean: bool = True, by_row: bool = False) -> None:
        super().__init__(name, dtype, shape, mean)
        self.by_row = by_row

    def _check(self, *gradient: Array) -> None:
        indices, values = gradient
        if fault := self._fault(indices, values):
            raise errors.InvalidArgumentError(f"accumulator {self.name!r}: {fault}; {self.dtype.name}{self.shape} is summed, "
                                              "so reshape or cast the gradient")

    def _fault(self, indices: Array, values: Array) -> str:
        """What is wrong with a gradient, "" where nothing is."""
        wanted: tuple[Any, ...] = self.shape.sizes or ()
        if values.dtype != self.dtype.numpy:
            return f"values are {values.dtype}"
        if indices.ndim != 1:
            return f"Input indices should be vector but received shape: {Shape(indices.shape)}"
        if not values.ndim:
            return "Values cannot be 0-dimensional."
        if len(indices) != len(values):
            return f"Expected {len(indices)} non-empty input values, got {len(values)}"
        if values.ndim < len(wanted):
            return f"Shape mismatch: expected values rank at least {len(wanted)}, got {values.ndim}"
        if values.ndim > len(wanted) > 1 and None not in wanted[1:]:
            return f"Shape mismatch: expected values rank {len(wanted)}, got {values.ndim}"
        differ = [axis for axis, size in enumerate(wanted) if axis and size not in (None, values.shape[axis])]
        if differ:
            return (f"Shape mismatch: expected values dim {differ[0]} to be {wanted[differ[0]]}, got "
                    f"{values.shape[differ[0]]}")
        if wanted and wanted[0] is not None and not inside(indices, wanted[0]):
            at = int(np.argmax((indices < 0) | (indices >= wanted[0])))
            return (f"Shape mismatch: index of slice {at} exceeded limits of shape; index is {indices[at]} exceeded "
                    f"{wanted[0]}")
        return ""

    def _check_rows(self, rows: tuple[int, ...], first: tuple[int, ...]) -> None:
        if len(rows) != len(first):
            raise errors.InvalidArgumentError(f"accumulator {self.name!r}: Shape mismatch: expected values rank "
                                              f"{len(first) + 1}, got {len(rows) + 1}; give all gradients one shape")
        for axis, (size, wanted) in enumerate(zip(rows, first), 1):
            if size != wanted:
                raise errors.InvalidArgumentError(f"accumulator {self.name!r}: Shape mismatch: expected values dim {axis} to "
                                                  f"be {wanted}, got {size}; give all gradients one shape")

    def _add(self, *gradient: Array) -> None:
        parts = self._sum or []
        if parts:
            self._check_rows(gradient[1].shape[1:], parts[0][1].shape[1:])
        self._sum = [*parts, tuple(np.array(part, copy=True) for part in gradient)]

    def _result(self, count: int) -> Sequence[Array]:
        indices = np.concatenate([i for i, _ in self._sum])
        values = np.concatenate([v for _, v in self._sum])
        found, inverse = np.unique(indices, return_inverse=True)
        total = np.zeros((len(found), *values.shape[1:]), wide(values.dtype))
        add_rows(total, inverse.reshape(-1), values)
        if self.by_row and self.mean:
            touched = np.concatenate([np.unique(i) for i, _ in self._sum])
            counts = np.bincount(np.searchsorted(found, touched), minlength=len(found))
            total /= counts.astype(total.dtype).reshape(-1, *[1] * (total.ndim - 1))
            count = 1
        mean = total / total.dtype.type(count) if count > 1 else total
        return found, mean.astype(values.dtype, copy=False)

    def _dtypes(self) -> list[Any]:
        return [np.int64, self.dtype.numpy]

    def _gathered(self) -> list[list[Array]]:
        parts = self._sum or []
        return [[indices.astype(np.int64) for indices, _ in parts], [values for _, values in parts]]

    def _gathered_from(self, columns: Sequence[Sequence[Array]]) -> Any:
        return list(zip(*columns)) or None


def _giving(attempt: _Take, result: Sequence[Array]) -> Call:
    return lambda: attempt.done(*result)
