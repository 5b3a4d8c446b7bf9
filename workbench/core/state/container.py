"""What a task keeps between steps, by name: variables, queues, devices; and the context that kernels see."""
from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import workbench.core.device.cuda  # noqa: F401  (a kind of device)
from workbench import errors
from workbench.core.device.interface import Device, Outgoing, make_device, type_of
from workbench.core.state.variables import VariableState

__all__ = ["Container", "Context"]

R = TypeVar("R")


class Container:
    """Named state of one task: variables, queues, accumulators, generators; shared by all its steps. It also has the
    task's devices, on which `limits` (device type -> bytes) of memory may be used. `retried`: steps that are tried again
    count once in it, see core/state/retries.py."""

    def __init__(self, name: str = "", limits: Mapping[str, int] | None = None, retried: bool = False) -> None:
        self.name, self.retried = name, retried
        self.outgoing: Outgoing | None = None      # where large arrays for other tasks are made; None: as all others
        self._limits = dict(limits or {})                 # device type -> bytes
        self._devices: dict[str, Device] = {}
        self._items: dict[str, Any] = {}
        self._parts: dict[str, set[str]] = {}      # name of a part -> its keys
        self.cleared = 0                           # how often something here was forgotten
        self._closed = False
        self._lock = threading.RLock()      # what makes a resource may ask for its device

    def get(self, name: str, kind: type[R], make: Callable[[], R], part: str = "") -> R:
        """The resource `name` of a part of this container (`container=` of the operation), made on first use.

        AlreadyExistsError when it is of another kind.

        FailedPreconditionError after `close`: a step that comes late must not wait on a queue that nobody else has.
        """
        key = f"{part}/{name}" if part else name
        found = self._items.get(key)
        if found is None:
            with self._lock:
                if self._closed:
                    raise errors.FailedPreconditionError(f"container {self.name!r}: it is closed, {name!r} is gone; make a "
                                                         "new session")
                found = self._items.get(key)
                if found is None:
                    found = self._items[key] = make()
                    self._parts.setdefault(part, set()).add(key)
        if not isinstance(found, kind):
            raise errors.AlreadyExistsError(f"container {self.name!r}: {name!r} is a {type(found).__name__}, not a "
                                            f"{kind.__name__}; choose another name")
        return found

    def device(self, name: str) -> Device:
        """The task's device of that full name, made on first use; NotFoundError where its type is unknown."""
        found = self._devices.get(name)
        if found is None:
            with self._lock:
                found = self._devices.get(name)
                if found is None:
                    found = self._devices[name] = make_device(name, self._limits.get(type_of(name)))
        return found

    def of(self, kind: type[R]) -> dict[str, R]:
        """The resources of one kind, by name."""
        return {k: v for k, v in self._items.copy().items() if isinstance(v, kind)}

    def variables(self) -> dict[str, VariableState]:
        return self.of(VariableState)

    def names(self) -> list[str]:
        return sorted(self._items)

    def clear(self, parts: Sequence[str] | None) -> None:
        """Forget what is in these parts ("": what is in none; None: everything); who waits there gets CancelledError."""
        with self._lock:
            gone = list(self._parts) if parts is None else parts
            items = [self._items.pop(key) for part in gone for key in self._parts.pop(part, ())]
            self.cleared += 1
        _close(items)

    def drop(self, name: str, kind: type[Any]) -> bool:
        """Forget one resource; was it there?"""
        with self._lock:
            found = isinstance(self._items.get(name), kind)
            if found:
                del self._items[name]
                self._parts[""].discard(name)
        return found

    def close(self) -> None:
        """Forget everything for good; blocked queues are closed so that nobody waits for ever."""
        with self._lock:
            self._closed = True
            items, self._items = list(self._items.values()), {}
        _close(items)
        for item in items:
            if isinstance(item, VariableState):
                item.release()


def _close(items: Sequence[Any]) -> None:
    for item in items:
        if abandon := getattr(item, "abandon", None):
            abandon()
        elif close := getattr(item, "close", None):
            close(cancel_pending=True)


@dataclass
class Context:
    """What a kernel with `context=True` may use.

    A blocking kernel returns at once and later calls `done(*outputs)` or `fail(error)` exactly once, from any thread.
    """

    container: Container
    device: str = "/job:localhost/task:0/device:CPU:0"
    step: int = 0
    whose: tuple[str, int] | None = None            # whose step it is, and its number with them: that of its first try
    node: str = ""                                  # the operation's name: key of per-operation state
    cancelled: threading.Event = field(default_factory=threading.Event)
    done: Callable[..., None] = lambda *outputs: None
    fail: Callable[[BaseException], None] = lambda error: None
    on_cancel: Callable[[Callable[[], None]], None] = lambda undo: None
    """Registers what takes a pending blocking attempt back when the step is aborted."""
    send: Callable[..., None] | None = None         # (key, value, dead) -> None; set when the plan has sends
    on_end: Callable[[Callable[[], None]], None] = lambda call: None
    """Registers what is called when this device's part of the step is over, however it ends."""
    function: Callable[[Any], Callable[..., Any]] = lambda body: body
    """Makes of a body of the graph what computes its results from arrays for its arguments, with this task's state."""
