"""Queues: blocking producers and consumers as continuations over a pure store; no thread is ever held (paper §3.1)."""
from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType
from workbench.core.graph.shape import Shape
from workbench.core.state.calls import Call, make_calls
from workbench.core.state.kept import Kept
from workbench.core.state.stores import Array, Element, Fifo, Store

__all__ = ["PaddingQueue", "Queue"]

Done = Callable[..., None]
Fail = Callable[[BaseException], None]

_BACK = "checkpoint"      # who waits to add what enqueues waited to add when a checkpoint was made


# attempts

@dataclass(eq=False)
class _Attempt:
    """A waiting enqueue, dequeue or close; attempts of one side are served strictly in order."""

    done: Done
    fail: Fail
    put: deque[Element] = field(default_factory=deque)      # elements still to enqueue
    wanted: int = 0                                         # elements to dequeue in all
    taken: list[Element] = field(default_factory=list)
    partial: bool = False                                   # dequeue_up_to: what is left will do once closed
    single: bool = False                                    # dequeue: components without a batch dimension
    closes: bool = False
    who: str = ""                                           # the operation that waits


class Queue:
    """A bounded queue of tuples of arrays.

    Operations return at once; `done(*components)` or `fail(error)` is called exactly once, when the attempt is served,
    by whichever thread makes that possible, never under the lock. What they return takes a pending attempt back:
    elements that it has taken go back to the front. Semantics: paper §3.1 and TensorFlow's queue kernels.
    """

    kind = "queue"

    def __init__(self, name: str, capacity: int, dtypes: Sequence[DType], shapes: Sequence[Shape] | None = None,
                 store: Store | None = None) -> None:
        self.name, self.dtypes, self.shapes = name, tuple(dtypes), None if shapes is None else tuple(shapes)
        self.capacity = capacity if capacity > 0 else 2**62
        self.closed = self._abandoned = False
        self._store = store if store is not None else Fifo()
        self._lock = threading.Lock()
        self._producers: deque[_Attempt] = deque()
        self._consumers: deque[_Attempt] = deque()

    def check_same(self, other: Queue) -> None:
        """InvalidArgumentError unless `other` describes the queue that this one is: by kind, capacity, types and shapes."""
        for what, mine, theirs in (
                ("type", f"{type(self).__name__} of {type(self._store).__name__}",
                 f"{type(other).__name__} of {type(other._store).__name__}"), ("capacity", self.capacity, other.capacity),
                ("component types", [t.name for t in self.dtypes], [t.name for t in other.dtypes]),
                ("component shapes", *([f"{s}" for s in queue.shapes or ()] for queue in (self, other)))):
            if str(mine) != str(theirs):
                raise errors.InvalidArgumentError(f"Shared queue {self.name!r} has {what} {mine} but requested {what} was "
                                                  f"{theirs}; ask for the same, or give another shared_name")

    # operations
    def size(self) -> int:
        """Elements inside now."""
        with self._lock:
            return len(self._store)

    def enqueue(self, element: Sequence[Array], done: Done, fail: Fail, who: str = "") -> Call:
        """Add one element; waits while the queue is full. CancelledError once closed. `who` names the operation."""
        return self._produce(_Attempt(done, fail, put=deque([self._element(element)]), who=who))

    def enqueue_many(self, columns: Sequence[Array], done: Done, fail: Fail, who: str = "") -> Call:
        """Add the rows of `columns` as elements, one by one as room allows."""
        counts = {len(c) for c in columns}
        if len(counts) != 1:
            raise errors.ShapeError(f"queue {self.name!r}: enqueue_many got components of {sorted(counts)} elements; "
                                    "give each the same first dimension")
        for number, column in enumerate(columns[:len(self.dtypes)]):
            self._check(number, column, (len(column),))
        return self._produce(_Attempt(done, fail, put=deque([self._element(row) for row in zip(*columns)]), who=who))

    def dequeue(self, done: Done, fail: Fail, who: str = "") -> Call:
        """Take one element; waits while there is none. OutOfRangeError once closed and empty."""
        return self._consume(_Attempt(done, fail, wanted=1, single=True, who=who))

    def dequeue_many(self, count: int, done: Done, fail: Fail, partial: bool = False, who: str = "") -> Call:
        """Take `count` elements as stacked components; with `partial` fewer, but at least one, once closed."""
        self._static(count)
        if count == 0:
            done(*self._stack([]))
            return lambda: None
        return self._consume(_Attempt(done, fail, wanted=count, partial=partial, who=who))

    def close(self, cancel_pending: bool = False, done: Done = lambda: None) -> None:
        """No more elements come: takes effect after the enqueues already waiting, or cancels those.

        Dequeues go on until there are too few elements. Closing twice is fine.
        """
        def never(error: BaseException) -> None:
            raise errors.InternalError(f"queue {self.name!r}: close failed: {error}")
        with self._lock:
            calls: list[Call] = []
            if cancel_pending:
                self.closed = True
                calls += [self._failing(a, self._cancelled("was closed")) for a in self._producers if not a.closes]
                calls += [a.done for a in self._producers if a.closes]
                self._producers.clear()
                calls.append(done)
            else:
                self._producers.append(_Attempt(done, never, closes=True))
            calls += self._flush()
        make_calls(calls)

    def abandon(self) -> None:
        """The session is over: whoever waits gets CancelledError, as does whoever comes later and finds too little."""
        with self._lock:
            self.closed = self._abandoned = True
            calls = [self._failing(a, self._ended("Enqueue" if a.put else "Dequeue"))
                     for a in (*self._producers, *self._consumers) if not a.closes]
            calls += [a.done for a in self._producers if a.closes]
            self._producers.clear()
            self._consumers.clear()
        make_calls(calls)

    # checkpoints
    def state(self) -> Kept:
        """What is inside and what enqueues wait to add, in order; a dequeue that waits has taken nothing."""
        with self._lock:
            for attempt in self._consumers:
                self._store.restore(attempt.taken)
                attempt.taken = []
            elements, order = self._store.state()
            inside = len(elements)
            elements += [element for attempt in self._producers for element in attempt.put]
            closed = self.closed or any(attempt.closes for attempt in self._producers)
            waiting = Counter(attempt.who for attempt in (*self._producers, *self._consumers))
            calls = self._flush()
        make_calls(calls)
        columns = [[element[number] for element in elements] for number in range(len(self.dtypes))]
        note = {"inside": inside, "order": order, "closed": closed}
        return Kept(note, columns, [t.numpy for t in self.dtypes], dict(waiting))

    def set_state(self, found: Kept, reopen: bool = False) -> None:
        """Go on with what was inside where `state` was asked, instead of what is inside now; with `reopen` more may be added
        although it was closed. InvalidArgumentError for elements that this queue does not hold."""
        elements = [self._element(values) for values in zip(*found.columns)]
        inside = found.note["inside"]
        with self._lock:
            self._store.set_state(elements[:inside], found.note["order"])
            self.closed = found.note["closed"] and not reopen
            coming = [_Attempt(lambda: None, lambda error: None, deque([element]), who=_BACK) for element in elements[inside:]]
            self._producers = deque([*coming, *(attempt for attempt in self._producers if attempt.who != _BACK)])
            calls = self._flush()
        make_calls(calls)

    # attempts
    def _produce(self, attempt: _Attempt) -> Call:
        with self._lock:
            self._producers.append(attempt)
            calls = self._flush()
        make_calls(calls)
        return lambda: self._withdraw(self._producers, attempt)

    def _consume(self, attempt: _Attempt) -> Call:
        with self._lock:
            self._consumers.append(attempt)
            calls = self._flush()
        make_calls(calls)
        return lambda: self._withdraw(self._consumers, attempt)

    def _withdraw(self, side: deque[_Attempt], attempt: _Attempt) -> None:
        """The step was cancelled: forget the attempt; nothing is called back."""
        with self._lock:
            if attempt not in side:
                return
            side.remove(attempt)
            self._store.restore(attempt.taken)
            calls = self._flush()
        make_calls(calls)

    def _flush(self) -> list[Call]:
        """Serve both sides until nothing moves; returns the callbacks to make outside the lock."""
        calls: list[Call] = []
        moved = True
        while moved:
            moved = self._serve(self._producers, self._serve_producer, calls)
            moved |= self._serve(self._consumers, self._serve_consumer, calls)
        return calls

    def _serve(self, side: deque[_Attempt], serve: Callable[[_Attempt], tuple[bool, Call | None]],
               calls: list[Call]) -> bool:
        moved = False
        while side:
            progress, call = serve(side[0])
            moved |= progress
            if call is None:
                break
            calls.append(call)
            side.popleft()
            moved = True
        return moved

    def _serve_producer(self, attempt: _Attempt) -> tuple[bool, Call | None]:
        if attempt.closes:
            self.closed = True
            return True, attempt.done
        if self.closed:
            return False, self._failing(attempt, self._cancelled("is closed"))
        moved = False
        while attempt.put and len(self._store) < self.capacity:
            self._store.put(attempt.put.popleft())
            moved = True
        return moved, None if attempt.put else attempt.done

    def _serve_consumer(self, attempt: _Attempt) -> tuple[bool, Call | None]:
        moved = False
        missing = min(attempt.wanted - len(attempt.taken), self.capacity)
        if self._store.together and not self.closed and len(self._store) < missing:
            return False, None
        while len(attempt.taken) < attempt.wanted and self._store.available(self.closed) > 0:
            attempt.taken.append(self._store.take())
            moved = True
        if len(attempt.taken) == attempt.wanted:
            return moved, self._giving(attempt)
        if not self.closed:
            return moved, None
        if attempt.partial and attempt.taken:
            return moved, self._giving(attempt)
        found = len(attempt.taken)
        self._store.restore(attempt.taken)
        attempt.taken = []
        if self._abandoned:
            return moved, self._failing(attempt, self._ended("Dequeue"))
        return moved, self._failing(attempt, errors.OutOfRangeError(
            f"queue {self.name!r}: it is closed and has insufficient elements (requested {attempt.wanted}, current size "
            f"{found}); stop, or use dequeue_up_to for the rest"))

    def _giving(self, attempt: _Attempt) -> Call:
        taken = attempt.taken
        if attempt.single:
            return lambda: attempt.done(*taken[0])

        def give() -> None:
            try:
                columns = self._stack(taken)
            except Exception as error:      # whoever waits must hear of it
                attempt.fail(error)
                return
            attempt.done(*columns)
        return give

    def _failing(self, attempt: _Attempt, error: BaseException) -> Call:
        return lambda: attempt.fail(error)

    def _cancelled(self, what: str) -> errors.CancelledError:
        return errors.CancelledError(f"queue {self.name!r}: it {what}, so nothing can be added; stop the producer, or "
                                     "make a new queue")

    def _ended(self, what: str) -> errors.CancelledError:
        return errors.CancelledError(f"queue {self.name!r}: {what} operation was cancelled: the session was closed; open "
                                     "another one")

    # elements
    def _element(self, values: Sequence[Array]) -> Element:
        if len(values) != len(self.dtypes):
            raise errors.InvalidArgumentError(f"queue {self.name!r}: {len(values)} components were given but an "
                                              f"element has {len(self.dtypes)}; give each")
        # a copy, since the caller may reuse its buffers; a row of a string vector is plain bytes, not an array
        element = tuple(np.array(value, object if isinstance(value, bytes) else None, copy=True) for value in values)
        for number, value in enumerate(element):
            self._check(number, value)
        return element

    def _check(self, number: int, value: Array, rows: tuple[int, ...] = ()) -> None:
        if value.dtype != self.dtypes[number].numpy:
            raise errors.DtypeError(f"queue {self.name!r}: component {number} is {value.dtype} but the queue holds "
                                    f"{self.dtypes[number].name}; cast it")
        if self.shapes is not None and not self.shapes[number].compatible(Shape(value.shape[len(rows):])):
            raise errors.ShapeError(f"queue {self.name!r}: Shape mismatch in tuple component {number}. Expected "
                                    f"{Shape(rows) + self.shapes[number]}, got {Shape(value.shape)}; reshape it")

    def _static(self, count: int) -> None:
        if count < 0:
            raise errors.InvalidArgumentError(f"queue {self.name!r}: {count} elements were asked; ask for 0 or more")
        if self.shapes is None or not all(s.known for s in self.shapes):
            raise errors.InvalidArgumentError(f"queue {self.name!r}: dequeue_many needs the shapes of its components; "
                                              "make the queue with shapes=")

    def _stack(self, elements: Sequence[Element]) -> list[Array]:
        if not elements:
            assert self.shapes is not None
            return [np.empty((0, *(d or 0 for d in s.as_list())), t.numpy) for s, t in zip(self.shapes, self.dtypes)]
        return [np.stack(column) for column in zip(*elements)]


class PaddingQueue(Queue):
    """A FIFO queue whose dequeue_many pads components to the largest of the batch in the unknown dimensions."""

    def _static(self, count: int) -> None:
        if count < 0:
            raise errors.InvalidArgumentError(f"queue {self.name!r}: {count} elements were asked; ask for 0 or more")

    def _stack(self, elements: Sequence[Element]) -> list[Array]:
        if not elements:
            return super()._stack(elements)
        return [_padded(column) for column in zip(*elements)]


def _padded(column: Sequence[Array]) -> Array:
    largest = tuple(max(a.shape[axis] for a in column) for axis in range(column[0].ndim))
    empty: Any = b"" if column[0].dtype == object else 0
    result = np.full((len(column), *largest), empty, column[0].dtype)
    for row, value in enumerate(column):
        place: tuple[Any, ...] = (row, *(slice(n) for n in value.shape))
        result[place] = value
    return result
