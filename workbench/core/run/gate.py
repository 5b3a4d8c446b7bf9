"""The gate every step passes: pause, resume and stop, from any thread, answered at once."""
from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

from workbench import errors
from workbench.core.trace import Journal, journal

__all__ = ["Gate", "gate"]


PATIENCE = 0.5      # seconds


class Cancellable(Protocol):
    """What runs steps; `cancel` ends those that are inside, from any thread."""

    def cancel(self) -> None: ...


class Gate:
    """Sessions call `enter()` before a step; while paused it blocks there, once stopped it raises.

    The open case costs one attribute read, so it may stand on the hot path.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._changed = threading.Condition()
        self._before = "ready"
        self.closed = False          # read without the lock by enter()
        self.stopped = False
        self._inside: weakref.WeakSet[Cancellable] = weakref.WeakSet()
        self._thread = threading.local()

    def enter(self) -> None:
        """Return at once when open; block while paused; raise CancelledError once after `stop`."""
        if self.closed:
            self._wait()

    def say(self, **facts: Any) -> None:
        """The status of what runs; while the gate is shut that stays the news."""
        with self._changed:
            if not self.closed:
                self._journal.set_status(**facts)

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """This thread's steps only help others': they wait while what runs is stopped, and leave it to those to end it."""
        self._thread.beside = True
        try:
            yield
        finally:
            self._thread.beside = False

    def _wait(self) -> None:
        beside = getattr(self._thread, "beside", False)
        with self._changed:
            while self.closed and (beside or not self.stopped):
                self._journal.set_status(state="paused")      # also if another state was set meanwhile: no step runs
                self._changed.wait(0.5)      # wakes regularly so that Ctrl-C is seen on every platform
            if self.stopped:
                raise self._met()

    def _met(self) -> errors.StoppedError:
        self.stopped = self.closed = False
        self._journal.set_status(state="stopped", cause="stopped by the user", fix="run again to go on")
        return errors.StoppedError("Session.run: stopped by the user; run again to go on")

    def member(self, runner: Cancellable) -> None:
        """A stop cancels the steps of `runner`, which is referred to weakly."""
        self._inside.add(runner)

    def ended(self, error: BaseException) -> BaseException:
        """What to raise for a step that ended with `error`: that it was stopped, where a stop had cancelled it."""
        if not (self.stopped and isinstance(error, errors.CancelledError)) or getattr(self._thread, "beside", False):
            return error
        with self._changed:
            return self._met() if self.stopped else error

    def pause(self) -> None:
        """Hold every session of this process before its next step; returns at once."""
        with self._changed:
            if not self.closed:
                self._before = self._journal.status.state
                self.closed = True
            self._journal.set_status(state="paused")

    def resume(self) -> None:
        """Let the sessions continue. A stop that has not ended a step yet is withdrawn."""
        with self._changed:
            self.closed = self.stopped = False
            self._changed.notify_all()
            self._journal.set_status(state=self._before if self._before != "paused" else "ready")

    def stop(self) -> None:
        """Make the next (or the currently waiting) step raise CancelledError; a step that goes on for `PATIENCE` seconds,
        in an endless loop say, is cancelled."""
        with self._changed:
            self.stopped = self.closed = True
            self._changed.notify_all()
        later = threading.Timer(PATIENCE, self._cancel)
        later.daemon = True
        later.start()

    def _cancel(self) -> None:
        if self.stopped:
            for runner in list(self._inside):
                runner.cancel()


gate = Gate(journal)
"""The process's gate."""
