"""One receiver thread for the small frames of several connections: fewer wake-ups, no quarrel over the GIL."""
from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Container
from typing import Protocol

from workbench.cluster.link.leader import Leadership, Manner

__all__ = ["Grouped", "ReceiverGroup"]


class Grouped(Protocol):
    """What a group asks of a connection."""

    closed: bool

    @property
    def watched(self) -> socket.socket: ...

    def take_turn(self, group: ReceiverGroup, fresh: bool) -> bool: ...
    def take_whole(self, kinds: Container[int]) -> bool: ...
    def finish(self, error: BaseException | None) -> None: ...


class ReceiverGroup:
    """Waits on all its connections at once (Linux epoll; elsewhere `add` refuses and each keeps its own thread)."""

    def __init__(self, label: str, manner: Manner = contextlib.nullcontext) -> None:
        """The thread is in a `manner()` as long as it receives, see `Leadership`."""
        self.leadership = Leadership(self._turn, label, manner)
        self._lock = threading.Lock()
        self._connections: dict[int, Grouped] = {}
        self._ready: deque[tuple[Grouped, bool]] = deque()     # (connection, its socket was not read yet)
        self._closing = False
        self._started = False
        self._epoll = select.epoll() if hasattr(select, "epoll") and hasattr(os, "eventfd") else None
        self._sockets = self._epoll          # where sockets are waited for
        if self._epoll is not None:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._epoll.register(self._wake, select.EPOLLIN)

    def add(self, connection: Grouped, sock: socket.socket, reads: bool = True) -> bool:
        """Wait on `sock` too, for frames or (without `reads`) for its end alone."""
        with self._lock:
            if self._sockets is None or self._closing:
                return False
            self._connections[sock.fileno()] = connection
            self._sockets.register(sock, select.EPOLLIN * reads | select.EPOLLRDHUP)
            if not self._started:
                self._started = True
                self.leadership.start()
        return True

    def remove(self, sock: socket.socket) -> None:
        """Called by the receiving thread, while the socket is still open."""
        with self._lock:
            self._connections.pop(sock.fileno(), None)
            if self._sockets is not None:
                self._sockets.unregister(sock)

    def finish_others(self, keep: object) -> None:
        """On the receiving thread: end every connection but `keep` now."""
        for connection in list(self._connections.values()):
            if connection is not keep:
                connection.closed = True
                self.remove(connection.watched)
                connection.finish(None)

    def close(self) -> None:
        """End once all connections are gone; close those first."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            if self._epoll is not None and not self._started:
                self._release()
            elif self._epoll is not None:
                os.eventfd_write(self._wake, 1)

    def join(self, timeout: float) -> None:
        self.leadership.join(timeout)

    def _turn(self) -> bool:
        """Handle what came on all connections; False when the group is closed and empty."""
        ready, leadership = self._ready, self.leadership
        if not ready and not self._await_some():
            return False
        term = leadership.term
        while ready:
            connection, fresh = ready[0]
            ready[0] = connection, False
            connection.take_turn(self, fresh)
            if leadership.term != term:      # NOTE: the queue belongs to the new leader, who begins with what this one left
                return True
            ready.popleft()
        return True

    def _await_some(self) -> bool:
        assert self._epoll is not None
        if self._closing:
            with self._lock:
                if not self._connections:
                    self.leadership.end()
                    self._release()
                    return False
        for number, _ in self._epoll.poll():
            connection = self._connections.get(number)
            if connection is not None:
                self._ready.append((connection, True))
            elif number == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
        return True

    def _release(self) -> None:
        assert self._epoll is not None
        self._epoll.close()
        os.close(self._wake)
        self._epoll = self._sockets = None
