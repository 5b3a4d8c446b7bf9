"""Leader and followers: receiving is a role that one thread has at a time and may hand over before it blocks."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

from workbench import errors
from workbench.core.threads import start_thread

__all__ = ["Leadership", "Manner", "keep", "kept_for", "receiving", "release_receiver"]

_current = threading.local()
Manner = Callable[[], contextlib.AbstractContextManager[None]]


class Keeper(Protocol):
    """Who sends what was kept; it raises nothing when it cannot."""

    def let_go(self, target: str, frames: list[Any]) -> None: ...


def keep(owner: Keeper, target: str, frame: Any) -> bool:
    """Keep a frame until this thread has handled what it received, or hands over before, so that all for one peer goes out as
    one; False, and nothing is kept, on threads that do not receive."""
    kept: dict[tuple[Keeper, str], list[Any]] | None = getattr(_current, "kept", None)
    if kept is None:
        return False
    kept.setdefault((owner, target), []).append(frame)
    return True


def kept_for(owner: Keeper, target: str) -> list[Any]:
    """The frames that this thread keeps for a peer, in order, as long as it neither keeps more nor hands over."""
    kept: dict[tuple[Keeper, str], list[Any]] = getattr(_current, "kept", None) or {}
    return kept.get((owner, target), [])


def _let_go() -> None:
    kept: dict[tuple[Keeper, str], list[Any]] = getattr(_current, "kept", None) or {}
    while kept:
        owner, target = next(iter(kept))
        owner.let_go(target, kept.pop((owner, target)))


def _resign() -> None:
    """The calling thread receives no more."""
    _let_go()
    _current.leadership = _current.kept = None
    manner, _current.manner = getattr(_current, "manner", None), None
    if manner is not None:
        manner.__exit__(None, None, None)


def release_receiver(needed: bool = False) -> None:
    """Let another thread receive in place of the one that runs this, if that is a receiver thread.

    Call it in a frame handler before anything long (a large send does it by itself); elsewhere it does nothing. Where the
    process can have no other thread, this one stays the receiver: what comes waits until its handler returns. Where that
    may be never, say `needed`: then it is ResourceExhaustedError.
    """
    leadership = getattr(_current, "leadership", None)
    if leadership is None:
        return
    try:
        leadership.hand_over()
    except errors.ResourceExhaustedError:
        if needed:
            raise


def receiving() -> bool:
    """Is the calling thread a receiver, which must not block?"""
    return getattr(_current, "leadership", None) is not None


class Leadership:
    """Runs `turn()` again and again, on one thread at a time, until it returns False.

    A turn reads one frame and handles it. A handler that calls `release_receiver` keeps its thread, while a parked or
    new thread takes the next turn; the old one parks itself afterwards (D. Schmidt's leader/followers pattern).
    """

    def __init__(self, turn: Callable[[], bool], label: str, manner: Manner = contextlib.nullcontext) -> None:
        """The thread that has the role is in a `manner()` of its own as long as it has it."""
        self._turn, self._label, self._manner = turn, label, manner
        self._changed = threading.Condition()
        self._parked = 0                 # threads that nobody called yet
        self._calls = 0                  # hand-overs that a parked thread has not yet taken up
        self.term = 0                    # another one with each leader
        self._over = self._resting = False
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        thread = threading.Thread(target=self._run, daemon=True, name=f"workbench-receive-{self._label}")
        with self._changed:
            self._resting = False
            start_thread(thread)
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    @property
    def mine(self) -> bool:
        """Is the calling thread the one that receives?"""
        return getattr(_current, "leadership", None) is self

    def hand_over(self) -> None:
        """Of the leader; it stays that after ResourceExhaustedError, when there is no thread to follow it."""
        _let_go()
        if not self.mine:                # that took long, and has handed over by now: two would take one stream apart
            return
        kept = _current.kept
        _resign()
        with self._changed:
            self.term += 1
            if self._parked:
                self._parked -= 1
                self._calls += 1
                self._changed.notify()
                return
        try:
            self.start()
        except errors.ResourceExhaustedError:
            self.term -= 1
            self._lead(kept)
            raise

    def _run(self) -> None:
        kept = self._lead({})
        while self._turn():
            if kept:
                _let_go()
            if _current.leadership is not self:
                if not self._park():
                    return
                kept = self._lead({})
        _resign()

    def _lead(self, kept: dict[tuple[Keeper, str], list[Any]]) -> dict[tuple[Keeper, str], list[Any]]:
        """The calling thread is the leader; `kept` is what it will keep."""
        _current.leadership, _current.kept, _current.manner = self, kept, self._manner()
        _current.manner.__enter__()
        return kept

    def _park(self) -> bool:
        """Wait to become the leader again; False when this thread should end."""
        with self._changed:
            if self._parked or self._over or self._resting:
                return False
            self._parked = 1
            self._changed.wait_for(lambda: self._over or self._calls or self._resting)
            if self._calls and not self._over:
                self._calls -= 1
                return True
            self._parked -= 1
            return False

    def rest(self) -> None:
        """No turns for a while: parked threads end, until `start` is called again."""
        with self._changed:
            self._resting = True
            self._changed.notify_all()

    def end(self) -> None:
        """Nobody is needed any more: parked threads end, and who calls this on the receiving thread hands over no more."""
        if self.mine:
            _resign()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait for the threads, except the calling one."""
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(timeout)
