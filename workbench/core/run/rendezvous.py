"""Where sends meet receives: the interface, and the one that lives inside a process."""
from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Operation
from workbench.core.names import OUTSIDE, join_edge

__all__ = ["LocalRendezvous", "Receiver", "Rendezvous", "edge_of"]

Receiver = Callable[[Any, bool], None]
"""Called once with (value, dead); `value` is an `errors.Error` when the step was aborted instead, or that was sent."""


class Rendezvous(ABC):
    """One step's table of tensors in flight; every edge is sent once and received once. Thread-safe."""

    @abstractmethod
    def send(self, edge: str, value: Any, dead: bool = False) -> None:
        """Hand `value` over; never waits for the receiver. InternalError when `edge` was sent before."""

    @abstractmethod
    def receive(self, edge: str, callback: Receiver) -> None:
        """Call `callback(value, dead)` exactly once: now if the value is here, else later from the sender's thread.

        After `abort` the callback gets the error as its value; it never gets nothing.
        """

    @abstractmethod
    def abort(self, error: errors.Error) -> None:
        """End the step: every present and future receiver gets `error`. Only the first call has an effect."""

    @abstractmethod
    def close(self) -> None:
        """Forget all values; later receives get CancelledError, later sends vanish."""

    def receive_wait(self, edge: str, timeout: float | None = None) -> tuple[Any, bool]:
        """Block until `edge` arrives; raise the abort error, or DeadlineExceededError after `timeout` seconds."""
        arrived = threading.Event()
        found: list[tuple[Any, bool]] = []

        def callback(value: Any, dead: bool) -> None:
            found.append((value, dead))
            arrived.set()

        self.receive(edge, callback)
        if not arrived.wait(timeout):
            raise errors.DeadlineExceededError(f"rendezvous: {edge} did not arrive within {timeout} s; "
                                               "look at the task that should send it")
        value, dead = found[0]
        if isinstance(value, errors.Error):
            raise value
        return value, dead


class LocalRendezvous(Rendezvous):
    """Sender and receiver in one process; values are kept by reference and never copied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, tuple[Any, bool]] = {}
        self._waiting: dict[str, Receiver] = {}
        self._why: Callable[[], errors.Error] | None = None      # makes what is said of the end, when there is one

    def send(self, edge: str, value: Any, dead: bool = False) -> None:
        with self._lock:
            if self._why is not None:
                return
            callback = self._waiting.pop(edge, None)
            if callback is None:
                if edge in self._values:
                    raise errors.InternalError(f"rendezvous: {edge} was sent twice; an edge carries one value per step")
                self._values[edge] = (value, dead)
                return
        callback(value, dead)

    def receive(self, edge: str, callback: Receiver) -> None:
        with self._lock:
            found: tuple[Any, bool] | None = self._values.pop(edge, None)
            if self._why is not None:
                found = (self._why(), False)
            elif found is None:
                if edge in self._waiting:
                    raise errors.InternalError(f"rendezvous: {edge} is awaited twice; an edge has one receiver")
                self._waiting[edge] = callback
                return
        callback(*found)

    def abort(self, error: errors.Error) -> None:
        self._end(lambda: error)

    def close(self) -> None:
        with self._lock:
            if not (self._waiting or self._values or self._why):      # nearly always: all was received
                self._why = _over
                return
        self._end(_over)

    def _end(self, why: Callable[[], errors.Error]) -> None:
        with self._lock:
            if self._why is not None:
                return
            self._why = why
            waiting, self._waiting = self._waiting, {}
            self._values.clear()
        for callback in waiting.values():
            callback(why(), False)

    @property
    def pending(self) -> tuple[str, ...]:
        """The keys that receivers wait for, which tell why a step hangs. No lock is taken: copying a dictionary's keys is one
        operation of the interpreter."""
        return tuple(self._waiting)


def _over() -> errors.Error:
    return errors.CancelledError("rendezvous: the step is over; its tensors are gone")


def edge_of(op: Operation, path: str = OUTSIDE) -> str:
    """The name of one transfer of a step, the same at both ends: tensor|source|target|frames and iterations."""
    a = op.attrs
    return join_edge(a["tensor"], a["source"], a["target"], path)
