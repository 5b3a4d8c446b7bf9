"""What the engine asks of a device: memory, copies to and from the host, kernels to run, and when they are done."""
from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from workbench import errors

__all__ = ["Device", "Event", "Memory", "Outgoing", "device_types", "make_device", "missing", "register_device", "type_of"]

HostArray = np.ndarray[Any, Any]
_NAMED = 5      # of those who hold memory, in errors


class Event:
    """The end of everything that was issued before it; may come at once, or later from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[BaseException | None], None]] = []

    @property
    def over(self) -> bool:
        """Has it come?"""
        return self._over.is_set()

    @property
    def well(self) -> bool:
        """Has it come, and did nothing go wrong?"""
        return self._over.is_set() and self._error is None

    def complete(self, error: BaseException | None = None) -> None:
        """Called once by the device, with what went wrong."""
        with self._lock:
            self._error = error
            self._over.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(error)

    def then(self, callback: Callable[[BaseException | None], None]) -> None:
        """Call `callback(error)` once: now if it is over, else from the thread that completes it."""
        if not self._over.is_set():                    # what is over stays over, with the error that was set before
            with self._lock:
                if not self._over.is_set():
                    self._callbacks.append(callback)
                    return
        callback(self._error)

    def wait(self) -> None:
        """Block until it is over; raises what went wrong."""
        self._over.wait()
        if self._error is not None:
            raise self._error


class Memory:
    """Bytes of one device that plans and variables hold, now (`used`) and at most so far (`peak`), and who holds them; `limit`
    None is no limit. Thread-safe."""

    def __init__(self, device: str, limit: int | None = None) -> None:
        self.device, self.limit, self.used, self.peak = device, limit, 0, 0
        self._held: Counter[str] = Counter()
        self._lock = threading.RLock()      # a finalizer may give back while this thread takes

    def take(self, nbytes: int, what: str, details: Callable[[], str] = str) -> None:
        """Count `nbytes` for `what`; ResourceExhaustedError, which says who holds most and has the `details` of `what`, when
        the limit does not allow them, and nothing is counted."""
        with self._lock:
            if self.limit is None or self.used + nbytes <= self.limit:
                self.used += nbytes
                self._held[what] += nbytes
                self.peak = max(self.peak, self.used)
                return
            held = f"{self.used} of the {self.limit} bytes of {self.device} are in use{self._holders()}"
        raise errors.ResourceExhaustedError(
            f"{what}{details()}: {nbytes} bytes are needed but {held}; make batches or variables smaller, close other "
            "sessions, or raise the device's memory limit")

    def give(self, nbytes: int, what: str) -> None:
        """The end of a `take`."""
        with self._lock:
            self.used -= nbytes
            self._held[what] -= nbytes
            if not self._held[what]:
                del self._held[what]

    def refused(self, nbytes: int, what: str, details: Callable[[], str] = str) -> errors.ResourceExhaustedError:
        """The error of one who asked for `nbytes` that the limit allows, but the system does not have."""
        with self._lock:
            beside = f" beside the {self.used} bytes in use{self._holders()}" if self.used else ""
        return errors.ResourceExhaustedError(
            f"{what}{details()}: {nbytes} bytes are needed but the system of {self.device} has no such memory{beside}; make "
            "batches or variables smaller, or give it more")

    def _holders(self) -> str:
        """Who holds most."""
        most = [f"{what} of {nbytes} bytes" for what, nbytes in self._held.most_common(_NAMED)]
        others = len(self._held) - len(most)
        return f" ({', '.join(most)}{f' and {others} others' if others else ''})" if most else ""

    def count(self, array: Any, what: str) -> None:
        """Count an array for `what` as long as somebody refers to it; errors as `take`."""
        self.take(array.nbytes, what)
        weakref.finalize(array, self.give, array.nbytes, what).atexit = False


class Outgoing(Protocol):
    """Where a task makes large arrays that it sends to other tasks."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        """A new array. Who sends it refers to it until the other task does not look at it any more."""

    def look_back(self) -> None:
        """Refer no more to what others do not look at any more."""


class Device(Protocol):
    """One device of a task. Arrays are the device's own; the host's are NumPy's.

    Arrays have `dtype`, `shape` and `nbytes`, known when a kernel was issued, before it has run.
    """

    name: str
    type: str                       # "CPU", "GPU" …: kernels are registered for it
    ordered: bool                   # it does what is issued in the order of issuing: nobody has to wait in between
    memory: Memory

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Any:
        """A new array, counted in `memory` under the name `what` until nothing refers to it."""

    def copy_in(self, array: Any) -> Any:
        """A host array as one of the device; what is there already stays as it is."""

    def copy_out(self, array: Any) -> Any:
        """An array of the device as one of the host; waits until it is computed."""

    def copy(self, target: Any, source: Any) -> None:
        """Fill an array of the device with another of the same dtype and shape."""

    def issue(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        """Start `kernel(*arguments)`, after what was issued before that it reads; its results may not be computed yet."""

    def event(self) -> Event:
        """The end of everything issued so far."""


Factory = Callable[[str, "int | None"], Device]

device_types: dict[str, Factory] = {}
"""Device type -> factory(full name, memory limit in bytes or None)."""


def register_device(type: str, factory: Factory) -> None:
    """Make a kind of device known to this process; `type` is what names like "/device:GPU:0" carry, in any case.

    A factory may have `missing()`: what this process lacks for such devices, as words for a user, "" when nothing.
    """
    device_types[type.upper()] = factory


def missing(type: str) -> str:
    """Why this process has no devices of that type, as words for a user; "" where it has them."""
    factory = device_types.get(type)
    if factory is None:
        return f"this process knows {', '.join(sorted(device_types))}; register the type before the session is made"
    ask: Callable[[], str] = getattr(factory, "missing", str)
    return ask()


def type_of(name: str) -> str:
    """The type in a device's full name."""
    return name.partition("/device:")[2].partition(":")[0].upper() or "CPU"


def make_device(name: str, limit: int | None = None) -> Device:
    """The device of that name; NotFoundError where this process has none of its type."""
    if lacking := missing(type_of(name)):
        raise errors.NotFoundError(f"device: {name!r} is of type {type_of(name)} but {lacking}")
    return device_types[type_of(name)](name, limit)
