"""The gate every step passes: pause, resume and stop, from any thread, answered at once."""
from __future__ import annotations

import threading

from workbench import errors
from workbench.core.trace import Journal, journal

__all__ = ["Gate", "gate"]


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

    def enter(self) -> None:
        """Return at once when open; block while paused; raise CancelledError once after `stop`."""
        if self.closed:
            self._wait()

    def _wait(self) -> None:
        with self._changed:
            while self.closed and not self.stopped:
                self._changed.wait(0.5)      # wakes regularly so that Ctrl-C is seen on every platform
            if self.stopped:
                self.stopped = self.closed = False
                self._journal.set_status(state="stopped", cause="stopped by the user", fix="run again to go on")
                raise errors.CancelledError("Session.run: stopped by the user; run again to go on")

    def pause(self) -> None:
        """Hold every session of this process before its next step; returns at once."""
        with self._changed:
            if not self.closed:
                self._before = self._journal.status.state
                self.closed = True
        self._journal.set_status(state="paused")

    def resume(self) -> None:
        """Let the sessions go on; takes a stop back that no step has met yet."""
        with self._changed:
            self.closed = self.stopped = False
            self._changed.notify_all()
        self._journal.set_status(state=self._before if self._before != "paused" else "ready")

    def stop(self) -> None:
        """Make the next (or the currently waiting) step raise CancelledError."""
        with self._changed:
            self.stopped = self.closed = True
            self._changed.notify_all()


gate = Gate(journal)
"""The process's gate."""
