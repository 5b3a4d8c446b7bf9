"""Tokens of synchronous training: which step was released last, and who waits for a newer one (paper §4.4)."""
from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from workbench import errors

__all__ = ["Tokens"]

Call = Callable[[], None]


@dataclass(eq=False)
class _Take:
    newer_than: int
    done: Callable[[int], None]
    fail: Callable[[BaseException], None]


class Tokens:
    """The newest step that may be computed for. A released step is a token for everybody who has not had it.

    A queue of tokens would keep those that a dead worker leaves behind for the others, who would compute for steps that
    are over; and nobody can drop them there without taking some from workers that are only slow.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.newest: int | None = None
        self.closed = False
        self._waiting: list[_Take] = []
        self._lock = threading.Lock()

    def release(self, step: int) -> None:
        """Give everybody a token of `step`; an older step than the newest changes nothing."""
        with self._lock:
            newest = self.newest = step if self.newest is None else max(self.newest, step)
            served = [take for take in self._waiting if take.newer_than < newest]
            self._waiting = [take for take in self._waiting if take.newer_than >= newest]
        for take in served:
            take.done(newest)

    def begin(self, step: int) -> None:
        """Training begins at `step`, or begins anew: who waits since an earlier life of it gets AbortedError."""
        with self._lock:
            anew = self.newest is not None
            self.newest, self.closed = step, False
            waiting = self._waiting if anew else []
            self._waiting = [] if anew else self._waiting
        for take in waiting:
            take.fail(errors.AbortedError(f"tokens {self.name!r}: training began anew at step {step} while one newer than "
                                          f"{take.newer_than} was awaited; begin anew, too"))

    def take(self, newer_than: int, done: Callable[[int], None], fail: Callable[[BaseException], None]) -> Call:
        """Call `done(newest step)` once that is greater than `newer_than`; returns what takes the attempt back.

        OutOfRangeError once closed.
        """
        attempt = _Take(newer_than, done, fail)
        with self._lock:
            newest, closed = self.newest, self.closed
            served = newest is not None and newest > newer_than
            if not served and not closed:
                self._waiting.append(attempt)
        if served:
            done(newest)      # type: ignore[arg-type]
        elif closed:
            fail(self._over())
        return lambda: self._withdraw(attempt)

    def _withdraw(self, attempt: _Take) -> None:
        with self._lock:
            self._waiting = [take for take in self._waiting if take is not attempt]

    def close(self, cancel_pending: bool = True) -> None:
        """No newer token comes; closing twice is fine."""
        with self._lock:
            self.closed = True
            waiting, self._waiting = self._waiting, []
        for take in waiting:
            take.fail(self._over())

    def _over(self) -> errors.OutOfRangeError:
        return errors.OutOfRangeError(f"tokens {self.name!r}: they are closed and the newest is {self.newest}; training is "
                                      "over")
