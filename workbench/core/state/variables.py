"""State that outlives a step: variables with versions, containers that name it, and the context kernels see."""
from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType, float32
from workbench.core.graph.shape import Shape

__all__ = ["Container", "Context", "VariableState", "update_together", "updates"]

Array = np.ndarray[Any, Any]
R = TypeVar("R")



class VariableState:
    """A buffer with a version: readers share it, a writer replaces it unless nobody else holds it.

    `read()` hands out the buffer itself. A writer asks `sys.getrefcount`: when no reader, snapshot or sender holds the
    buffer it is overwritten in place, otherwise a spare buffer is written and swapped in, so a read never tears and a
    snapshot is one reference. `version` counts completed updates.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        self.version = 0
        self.lock = threading.RLock()
        self._buffer: Array | None = None
        self._spare: Array | None = None

    @property
    def initialized(self) -> bool:
        return self._buffer is not None

    def read(self) -> Array:
        """The current value; treat it as read-only. FailedPreconditionError before initialisation."""
        with self.lock:      # NOTE: without it a reader could see a buffer that is just being overwritten in place
            buffer = self._buffer
        if buffer is None:
            raise errors.FailedPreconditionError(
                f"variable {self.name!r}: it is read but was never initialised; run global_variables_initializer() "
                "or restore a checkpoint first")
        return buffer

    def snapshot(self) -> tuple[int, Array]:
        """(version, value) that belong together; later updates leave the value alone."""
        with self.lock:
            return self.version, self.read()

    def assign(self, value: Array) -> Array:
        """Replace the value by a copy of `value`; returns the new value."""
        self._check(value)
        with self.lock:
            target = self._target(value.shape, value.dtype)
            np.copyto(target, value, casting="no")
            return self._publish(target)

    def update(self, kernel: Callable[..., None], *arguments: Any) -> Array:
        """`kernel(old, *arguments, out)` under the lock; `out` may be `old` itself. Returns the new value."""
        with self.lock:
            old = self.read()
            target = self._target(old.shape, old.dtype, held=1)
            kernel(old, *arguments, target)
            return self._publish(target)

    def _target(self, shape: tuple[int, ...], dtype: np.dtype[Any], held: int = 0) -> Array:
        """A buffer to write: the current one when nobody but us (and `held` of our own names) holds it."""
        buffer = self._buffer
        if buffer is not None and buffer.shape == shape and buffer.dtype == dtype:
            if self._references("_buffer") <= held and buffer.flags.writeable:
                return buffer
            if self._spare is not None and self._spare.shape == shape and self._references("_spare") < 0:
                return self._spare
        return np.empty(shape, dtype)

    def _references(self, attribute: str) -> int:
        """Holders of a buffer besides this variable and `_target`; how many names count is measured, not assumed."""
        buffer = getattr(self, attribute)
        return sys.getrefcount(buffer) - _OWN_REFERENCES

    def _publish(self, target: Array) -> Array:
        if target is not self._buffer:
            self._spare, self._buffer = self._buffer, target
        self.version += 1
        return target

    def _check(self, value: Array) -> None:
        if value.dtype != self.dtype.numpy:
            raise errors.DtypeError(f"variable {self.name!r}: it holds {self.dtype.name} but {value.dtype} was "
                                    "assigned; cast the value")
        if not self.shape.compatible(Shape(value.shape)):
            raise errors.ShapeError(f"variable {self.name!r}: its shape is {self.shape} but a value of shape "
                                    f"{list(value.shape)} was assigned; reshape the value")


def update_together(states: Sequence[VariableState], kernel: Callable[..., None], *arguments: Any) -> Array:
    """`kernel(*olds, *arguments, *outs)` with all of `states` locked, in their order; returns the first new value."""
    return _locked(states, 0, lambda: _update(states, kernel, arguments))


def _locked(states: Sequence[VariableState], held: int, action: Callable[[], Array]) -> Array:
    """`action()` with the locks from number `held` on; each by a `with`, which Ctrl-C cannot separate from its lock."""
    if held == len(states):
        return action()
    with states[held].lock:
        return _locked(states, held + 1, action)


def _update(states: Sequence[VariableState], kernel: Callable[..., None], arguments: Sequence[Any]) -> Array:
    olds = [state.read() for state in states]
    outs = [state._target(state.read().shape, state.dtype.numpy, held=1) for state in states]
    kernel(*olds, *arguments, *outs)
    published = [state._publish(out) for state, out in zip(states, outs)]
    return published[0]


updates: dict[str, Callable[..., None]] = {}
"""Operation type -> kernel(*old values, *other inputs, *attributes, *new values); a library may replace an entry.

Old and new values may be the same arrays. The other inputs must not be changed.
"""

_OWN_REFERENCES = 0


def _calibrate() -> int:
    """References that `_target` itself sees on a buffer nobody else holds; differs between interpreter versions."""
    probe = VariableState("probe", float32, Shape(()))
    probe._buffer = np.zeros(())

    def as_target() -> int:
        buffer = probe._buffer
        return probe._references("_buffer") if buffer is not None else 0
    return as_target()


_OWN_REFERENCES = _calibrate()


class Container:
    """Named state of one task: variables, queues, accumulators, generators; shared by all its steps."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._items: dict[str, Any] = {}
        self._closed = False
        self._lock = threading.Lock()

    def get(self, name: str, kind: type[R], make: Callable[[], R]) -> R:
        """The resource `name`, made on first use; AlreadyExistsError when it is of another kind.

        FailedPreconditionError after `close`: a step that comes late must not wait on a queue that nobody else has.
        """
        found = self._items.get(name)
        if found is None:
            with self._lock:
                if self._closed:
                    raise errors.FailedPreconditionError(f"container {self.name!r}: it is closed, {name!r} is gone; make a "
                                                         "new session")
                found = self._items.setdefault(name, None) or make()
                self._items[name] = found
        if not isinstance(found, kind):
            raise errors.AlreadyExistsError(f"container {self.name!r}: {name!r} is a {type(found).__name__}, not a "
                                            f"{kind.__name__}; choose another name")
        return found

    def variables(self) -> dict[str, VariableState]:
        return {k: v for k, v in list(self._items.items()) if isinstance(v, VariableState)}

    def names(self) -> list[str]:
        return sorted(self._items)

    def close(self) -> None:
        """Forget everything for good; blocked queues are closed so that nobody waits for ever."""
        with self._lock:
            self._closed = True
            items, self._items = list(self._items.values()), {}
        for item in items:
            close = getattr(item, "close", None)
            if close is not None:
                close(cancel_pending=True)


@dataclass
class Context:
    """What a kernel with `context=True` may use.

    A blocking kernel returns at once and later calls `done(*outputs)` or `fail(error)` exactly once, from any thread.
    """

    container: Container
    device: str = "/job:localhost/task:0/device:CPU:0"
    step: int = 0
    node: str = ""                                  # the operation's name: key of per-operation state
    cancelled: threading.Event = field(default_factory=threading.Event)
    done: Callable[..., None] = lambda *outputs: None
    fail: Callable[[BaseException], None] = lambda error: None
    on_cancel: Callable[[Callable[[], None]], None] = lambda undo: None
    """Registers what takes a pending blocking attempt back when the step is aborted."""
    send: Callable[..., None] | None = None         # (key, value, dead) -> None; set when the plan has sends
