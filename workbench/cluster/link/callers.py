"""A receiver thread in whose place another thread receives what it waits for, so that neither has to wake the other."""
from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Container

from workbench.cluster.link.group import ReceiverGroup

__all__ = ["CallerGroup"]

_AT_ONCE = 16      # sockets that are looked at after one wait


class CallerGroup(ReceiverGroup):
    """Its sockets are in an epoll of their own, in which whoever has the role waits: a caller as long as it waits for an
    answer, else the receiver thread, which waits for that epoll in another one, but not while a caller has the role."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._role = threading.Lock()      # whoever reads the sockets holds it
        self._caller = 0                   # thread of the caller that has the role
        if self._epoll is not None:
            self._sockets = select.epoll()
            self._nudged = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._sockets.register(self._nudged, select.EPOLLIN)
            self._epoll.register(self._sockets, select.EPOLLIN)

    def receive(self, decided: Callable[[], bool], kinds: Container[int]) -> None:
        """Handle frames of these kinds on the calling thread until `decided()`, or something else came: that is the receiver
        thread's, and so is what comes later. Whoever decides on another thread calls `nudge`.

        The handler of a signal may raise in here, at any line: then a frame may be handled twice, and none is lost.
        """
        with self._role:
            if self._epoll is None or self._sockets is None:
                return
            try:
                self._caller = threading.get_ident()
                self._epoll.modify(self._sockets, 0)
                while not decided():
                    for number, _ in self._sockets.poll(-1, _AT_ONCE):
                        connection = self._connections.get(number)
                        if connection is not None and not connection.take_whole(kinds):
                            return
                        if connection is None:
                            self._calm()
            finally:
                self._caller = 0
                self._epoll.modify(self._sockets, select.EPOLLIN)

    def nudge(self) -> None:
        """Have a caller on another thread look whether it is decided."""
        if self._caller not in (0, threading.get_ident()):
            with self._lock:
                if self._epoll is not None:
                    os.eventfd_write(self._nudged, 1)

    def look_after(self) -> None:
        """Now and then: give the sockets back to the receiver thread if a caller that was interrupted twice did not."""
        if self._role.acquire(blocking=False):
            try:
                if self._epoll is not None and self._sockets is not None:
                    self._epoll.modify(self._sockets, select.EPOLLIN)
            finally:
                self._role.release()

    def _calm(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._nudged)

    # of the receiver thread
    def _turn(self) -> bool:
        if not self._ready and not self._await_some():
            return False
        if self._ready:                      # and the role is ours
            term = self.leadership.term
            super()._turn()
            if self.leadership.term == term:      # else it went to the new leader with the queue
                self._role.release()
        return True

    def _await_some(self) -> bool:
        if not super()._await_some():
            return False
        if self._role.acquire(blocking=False):      # else a caller receives, and in a moment nothing of it is seen here
            assert self._sockets is not None
            for number, _ in self._sockets.poll(0):
                connection = self._connections.get(number)
                if connection is not None:
                    self._ready.append((connection, True))
                else:
                    self._calm()
            if not self._ready:
                self._role.release()
        return True

    def _release(self) -> None:
        with self._role:
            if self._sockets is not None:
                self._sockets.close()
                os.close(self._nudged)
            super()._release()
