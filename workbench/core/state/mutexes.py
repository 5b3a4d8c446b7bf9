"""Mutexes: one step at a time holds one, for as long as it asks or until it ends, however it ends."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from workbench import errors
from workbench.core.state.calls import Call, make_calls

__all__ = ["Mutex"]


@dataclass(eq=False)
class _Hold:
    who: Hashable
    done: Callable[[], None]
    fail: Callable[[BaseException], None]


class Mutex:
    """Whoever locks it first holds it; the others wait, and get it in the order in which they came."""

    def __init__(self, name: str) -> None:
        self.name, self._over = name, False
        self._queue: deque[_Hold] = deque()      # the first holds it
        self._lock = threading.Lock()

    def lock(self, who: Hashable, done: Callable[[], None], fail: Callable[[BaseException], None],
             on_end: Callable[[Call], None]) -> Call:
        """Call `done()` once `who` holds it; returns what takes the attempt back. `on_end` gets what the end of the step calls.

        CancelledError once the session is closed.
        """
        hold = _Hold(who, done, fail)
        on_end(lambda: self._leave(hold))
        with self._lock:
            over = self._over
            if not over:
                self._queue.append(hold)
            first = not over and self._queue[0] is hold
        if over:
            fail(self._ended())
        elif first:
            done()
        return lambda: self._leave(hold)

    def unlock(self, who: Hashable) -> None:
        """`who` holds it no more; FailedPreconditionError where it does not hold it."""
        with self._lock:
            hold = self._queue[0] if self._queue else None
        if hold is None or hold.who != who:
            raise errors.FailedPreconditionError(f"mutex {self.name!r}: who unlocks it does not hold it; unlock it once, "
                                                 "behind the lock of the same step")
        self._leave(hold)

    def _leave(self, hold: _Hold) -> None:
        with self._lock:
            if hold not in self._queue:
                return
            held = self._queue[0] is hold
            self._queue.remove(hold)
            after = self._queue[0].done if held and self._queue else None
        if after is not None:
            after()

    def abandon(self) -> None:
        """The session is over: whoever waits, or comes, gets CancelledError."""
        with self._lock:
            self._over = True
            waiting = list(self._queue)[1:]
            self._queue.clear()
        make_calls([lambda hold=hold: hold.fail(self._ended()) for hold in waiting])      # type: ignore[misc]

    def _ended(self) -> errors.CancelledError:
        return errors.CancelledError(f"mutex {self.name!r}: the session was closed; open another one")
