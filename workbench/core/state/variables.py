"""Variables: state that outlives a step, with versions."""
from __future__ import annotations

import collections
import itertools
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from workbench import errors
from workbench.core.device.host import HostDevice
from workbench.core.device.interface import Device, Outgoing
from workbench.core.graph.dtype import DType, float32
from workbench.core.graph.shape import Shape
from workbench.core.state.changes import Changes

__all__ = ["VariableState", "at_once", "updates"]

Array = np.ndarray[Any, Any]

_KEPT_SPARE = 64 << 20      # bytes; a larger spare buffer would double what a server holds, so it is freed after use


class Saving(Protocol):
    """Who refers to a buffer, once, rows of which may be overwritten when they were saved there: core/state/pins.py."""

    def is_of(self, buffer: Array | None) -> bool: ...
    def save(self, rows: Any) -> None: ...


class VariableState:
    """A buffer with a version: readers share it, a writer replaces it unless nobody else holds it.

    `read()` hands out the buffer itself. A writer asks `sys.getrefcount`: when no reader, snapshot or sender holds the
    buffer it is overwritten in place, otherwise a spare buffer is written and swapped in, so a read never tears and a
    snapshot is one reference. Two locks: `lock` is the writers', one at a time; `_pointer` is held for a moment to
    take or swap the buffer, and as long as one is overwritten in place. A reader that had to wait for that makes the
    next whole update write the spare, while others go on with the old value. `version` grows with every update.
    A variable without elements needs no first value.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape, device: Device | None = None) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        self.device: Device = device or HostDevice("/device:CPU:0")      # its buffers are arrays of that device
        self.version = 0
        self.changes = Changes()
        self.lock = threading.RLock()
        self._pointer = threading.RLock()
        self._buffer: Array | None = self.device.empty(shape.static, dtype.numpy, f"variable {name!r}") if (
            shape.known and shape.num_elements() == 0) else None
        self._spare: Array | None = None
        self._outgoing: Outgoing | None = None      # where its buffers are made, else on its device
        self._overwritten = self._awaited = False
        self._pins: list[weakref.ref[Saving]] = []
        self._packed: dict[Any, tuple[int, Array]] = {}      # layout -> (version, the value in it)

    @property
    def initialized(self) -> bool:
        return self._buffer is not None

    def read(self) -> Array:
        """The current value; treat it as read-only. FailedPreconditionError before initialisation."""
        if self._overwritten:
            self._awaited = True
        with self._pointer:      # NOTE: without it a reader could see a buffer that is just being overwritten in place
            return self._held()

    def _held(self) -> Array:
        if self._buffer is None:
            raise errors.FailedPreconditionError(
                f"variable {self.name!r}: Attempting to use uninitialized value {self.name}: it was never initialised; run "
                "global_variables_initializer() or restore a checkpoint first")
        return self._buffer

    def sent(self, outgoing: Outgoing) -> Array:
        """As `read`, for one who sends the whole value, which lies where such are made from then on."""
        if self._outgoing is not outgoing:
            with self.lock, self._pointer:
                old, self._outgoing = self._held(), outgoing
                moved = self._made(old.shape, old.dtype)
                self.device.copy(moved, old)
                at_once((setattr, self, "_spare", None), (setattr, self, "_buffer", moved))
        return self.read()

    def release(self) -> None:
        """Hold no value any more: plans that are bound to the variable may stay until the collector finds them."""
        with self._pointer:
            self._buffer = self._spare = None
            self._packed.clear()

    def dims(self) -> tuple[int, ...]:
        """The shape of the current value, without holding it: a writer that runs now need not copy."""
        with self._pointer:
            dims: tuple[int, ...] = self._held().shape
            return dims

    def gather(self, places: Array) -> Array:
        """Copies of the rows at `places`, which lie inside; a writer of rows waits meanwhile and need not copy."""
        with self._pointer:
            return np.take(self._held(), places, axis=0)

    def snapshot(self) -> tuple[int, Array]:
        """(version, value) that belong together; later updates leave the value alone."""
        with self._pointer:
            return self.version, self._held()

    def pinned_by(self, pin: Saving) -> None:
        """Until nobody refers to `pin`, which has the buffer, rows of that are saved there before they are overwritten."""
        with self._pointer:
            self._pins = [known for known in self._pins if known() is not None] + [weakref.ref(pin)]

    def saving(self, rows: Array | None) -> list[Saving]:
        """Whom who overwrites these `rows` of the buffer (None: all of it) may ask to save them first."""
        if rows is None or not self._pins:
            return []
        return [pin for known in self._pins if (pin := known()) is not None and pin.is_of(self._buffer)]

    def in_layout(self, layout: Any, pack: Callable[[Array], Array], value: Array) -> Array:
        """`pack(value)` of a `value` that `read` gave and that is still held; made anew when the variable was written since."""
        version, now = self.snapshot()
        if now is not value:      # written since it was read: it has no version by which to find it again
            return pack(value)
        found = self._packed.get(layout)
        if found is None or found[0] != version:
            found = self._packed[layout] = version, pack(value)
        return found[1]

    def assign(self, value: Array, copied: bool = True, any_shape: bool = False) -> Array:
        """Replace the value by a copy of `value`, or by itself where the caller leaves it and its memory to the variable;
        returns the new value. One of `any_shape` gives the variable its shape from then on."""
        if any_shape:
            self.shape = Shape(value.shape)
        self._check(value)
        with self.lock, self._pointer:
            self.changes.note(self.version + 1, None)
            if not copied and value.flags.c_contiguous and value.flags.writeable:
                self.device.memory.count(value, f"variable {self.name!r}")
                at_once(*self._publishing(value))
                return value
            target = self._target(value.shape, value.dtype)
            if target is self._buffer:
                return self._overwrite(lambda old, new, out: self.device.copy(out, new), (value,), target)
            self.device.copy(target, value)
            at_once(*self._publishing(target))
            return target

    def update(self, kernel: Callable[..., None], *arguments: Any, rows: Array | None = None) -> Array:
        """`kernel(old, *arguments, out)` while no other writer is here; `out` may be `old`. Returns the new value.

        `rows` are those that the kernel touches, so few that readers may wait for it; None is all of them.
        """
        with self.lock:
            with self._pointer:
                old = self._held()
                self.changes.note(self.version + 1, old, rows)
                pins = self.saving(rows) if self._pins else ()
                out = self._target(old.shape, old.dtype, self._awaited and rows is None, held=1 + len(pins))
                if out is old:
                    for pin in pins:
                        pin.save(rows)
                    return self._overwrite(kernel, arguments, old)
                self._awaited = False
            kernel(old, *arguments, out)      # readers do not wait: they go on with the old value
            with self._pointer:
                at_once(*self._publishing(out))
            return out

    def _overwrite(self, kernel: Callable[..., None], arguments: Sequence[Any], buffer: Array) -> Array:
        self.version += 1      # first, because an interrupted kernel may have written
        try:
            self._overwritten = True
            kernel(buffer, *arguments, buffer)
        except Exception:      # a kernel that fails has not
            self.version -= 1
            raise
        finally:
            self._overwritten = False
        return buffer

    def _target(self, shape: tuple[int, ...], dtype: np.dtype[Any], fresh: bool = False, held: int = 0) -> Array:
        """A buffer to write: the current one when nobody but us (and `held` of our own names) holds it, unless it must
        be a `fresh` one."""
        buffer = self._buffer
        if self._outgoing is not None:
            self._outgoing.look_back()
        if buffer is not None and buffer.shape == shape and buffer.dtype == dtype:
            if not fresh and self._references("_buffer") <= held and getattr(buffer.flags, "writeable", True):
                return buffer
            if self._spare is not None and self._spare.shape == shape and self._references("_spare") < 0:
                return self._spare
        return self._made(shape, dtype)

    def _made(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if self._outgoing is None:
            return cast(Array, self.device.empty(shape, dtype, f"variable {self.name!r}"))
        made = self._outgoing.empty(shape, dtype)
        self.device.memory.count(made, f"variable {self.name!r}")
        return made

    def _references(self, attribute: str) -> int:
        """Holders of a buffer besides this variable and `_target`; how many names count is measured, not assumed."""
        buffer = getattr(self, attribute)
        return sys.getrefcount(buffer) - _OWN_REFERENCES

    def _publishing(self, target: Array) -> list[Call]:
        """The calls after which `target` is the value."""
        calls: list[Call] = [(setattr, self, "version", self.version + 1)]
        if target is not self._buffer:
            keep = self._buffer is not None and self._buffer.nbytes <= _KEPT_SPARE
            calls += [(setattr, self, "_spare", self._buffer if keep else None), (setattr, self, "_buffer", target)]
        return calls

    def _check(self, value: Array) -> None:
        if value.dtype != self.dtype.numpy:
            raise errors.DtypeError(f"variable {self.name!r}: it holds {self.dtype.name} but {value.dtype} was "
                                    "assigned; cast the value")
        if not self.shape.compatible(Shape(value.shape)):
            raise errors.ShapeError(f"variable {self.name!r}: its shape is {self.shape} but a value of shape "
                                    f"{list(value.shape)} was assigned; reshape the value")


Call = tuple[Any, ...]      # a function of C and its arguments by position


def at_once(*calls: Call) -> None:
    """Make the calls, of functions written in C, without returning to the interpreter in between.

    Ctrl-C is heard by the interpreter alone: it comes before all of them or after.
    """
    collections.deque(itertools.starmap(operator.call, calls), maxlen=0)


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
