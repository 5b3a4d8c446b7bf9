"""Connections between tasks: raw blocking sockets, one receiver thread each, frames in and out."""
from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable, Container, Sequence
from typing import Any

from workbench import errors
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.link.inbox import Inbox
from workbench.cluster.link.leader import Leadership, receiving, release_receiver
from workbench.cluster.link.sender import Sender
from workbench.cluster.link.shared import Lender, Tenant, lends
from workbench.cluster.wire.frames import Frame
from workbench.core.run.interrupts import by_signal

__all__ = ["Connection", "SocketConnection", "release_receiver"]

logger = logging.getLogger("workbench")

FrameHandler = Callable[["Connection", Frame], None]
CloseHandler = Callable[["Connection", "BaseException | None"], None]

_CALM_MILLISECONDS = 1000
_SEND_BUFFER = 1 << 20 # of a Unix socket: a batch of examples fits, a long tensor goes in fewer turns


class Connection:
    """What the layers above see of a connection, whatever carries it."""

    def __init__(self, peer: str, session: int) -> None:
        self.peer = peer
        self.session = session
        self.closed = False
        self.pieces = 0                      # of long transfers so far, in both directions: a sign of life

    def start(self, on_frame: FrameHandler, on_close: CloseHandler, group: ReceiverGroup | None = None) -> None:
        """Begin to receive, on the group's thread where that works.

        `on_close(connection, error)` comes once; `error` is None after our own close().
        """
        raise NotImplementedError

    def send(self, buffers: Sequence[Any], wait: bool = True) -> bool:
        """Send a frame made by `messages.encode`; when it returns the memory may be changed.

        With `wait=False` a small frame is sent only if that takes no time; returns whether it was. UnavailableError
        when the connection is or breaks.
        """
        raise NotImplementedError

    def send_small(self, frame: bytes) -> object:
        """As `send`, of a frame of a few hundred bytes, on a thread that receives nothing."""
        return self.send((frame,))

    def post(self, buffers: Sequence[Any], owner: Any = None) -> None:
        """As `send`, but without waiting for the peer unless it is many bytes behind: they wait here and go out later.

        An `owner` whose memory nobody writes while somebody refers to it is referred to, else what waits is copied. What
        was posted may be lost with the connection, whose end is then reported as not ours.
        """
        self.send(buffers)

    def close(self) -> None:
        """Drop the connection now; returns at once, threads end by themselves. May be called again."""
        raise NotImplementedError

    def join(self, timeout: float) -> None:
        """Wait until the receiver threads ended."""
        raise NotImplementedError


class SocketConnection(Connection):
    """A connection over a socket: `reader` and `writer` are one socket for both directions, or None for a missing one.

    An SSL socket must not be read and written by two threads at once, so TLS has a socket per direction. Small frames
    may share a `ReceiverGroup`'s thread; without a group, and from a large frame on until nothing comes for a second, a
    connection has its own. One that only sends needs none: the group notices its end.
    """

    def __init__(self, peer: str, session: int, reader: socket.socket | None, writer: socket.socket | None,
                 pool: BufferPool, leftover: bytes = b"", label: str = "", shares: bool = False) -> None:
        """`shares`: large payloads travel in memory that both ends see, where the socket is one of this host."""
        super().__init__(peer, session)
        self._sockets = [sock for sock in dict.fromkeys((reader, writer)) if sock is not None]
        self._plain = not isinstance(self._sockets[0], ssl.SSLSocket)
        if writer is not None and writer.family == socket.AF_UNIX:
            writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        lent = shares and lends(self._sockets[0])
        self._inbox: Inbox | None = None
        if reader is not None:
            wakes = reader is writer and reader.family == socket.AF_UNIX
            self._inbox = Inbox(self, reader, self._plain, wakes, pool, Tenant(reader) if lent else None, leftover)
        lender = Lender(pool.lendable) if lent else None
        self._sender = Sender(self, writer, self._plain, pool, label, lender) if writer is not None else None
        if self._sender is not None:
            self.send_small = self._sender.send_small      # type: ignore[method-assign]      # once a step: without a call between
            self.send, self.post = self._sender.send, self._sender.post      # type: ignore[method-assign]
        self._leadership = Leadership(self._turn if self._inbox is not None else self._watch, label)
        self._handler = 0                    # thread that handles a frame of ours right now
        self._group: ReceiverGroup | None = None
        self._started = False
        self._over = threading.Event()

    # life
    def start(self, on_frame: FrameHandler, on_close: CloseHandler, group: ReceiverGroup | None = None) -> None:
        self._on_frame, self._on_close = on_frame, on_close
        self._started = True
        if self._plain or self._inbox is None:           # TLS reads ahead, which a group would not see
            self._group = group
        if not self._joins():
            self._leadership.start()

    def _joins(self) -> bool:
        """Leave receiving to the group, if there is one and nothing was read ahead, which it would never look at."""
        return (self._group is not None and (self._inbox is None or self._inbox.empty)
                and self._group.add(self, self.watched, self._inbox is not None))

    def close(self) -> None:
        self.closed = True
        if not self._started:
            for sock in self._sockets:
                sock.close()
        elif self._handler != threading.get_ident() or not receiving():
            self._shut_down()                            # else the receiver, which is us, ends it after this handler

    def send_no_more(self) -> None:
        """A send failed. What the peer sent before it went is read to its end, perhaps a goodbye; then this ends too."""
        if self._inbox is None:
            self.close()
            return
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sockets[-1], socket.SHUT_WR)

    @property
    def watched(self) -> socket.socket:
        """The socket a group waits on."""
        return self._sockets[0]

    def _shut_down(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):           # it may be gone already
                # NOTE: not SSLSocket's own shutdown, which forgets its encryption first: what another thread is sending
                # at that moment would go out in the clear
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def join(self, timeout: float) -> None:
        if self._handler != threading.get_ident():
            self._over.wait(timeout)
        self._leadership.join(timeout)
        if self._sender is not None:
            self._sender.join(timeout)

    def finish(self, error: BaseException | None) -> None:
        """Called once by the receiver: release the sockets and tell the owner."""
        failure = self._sender.failure if self._sender is not None else None
        ours, self.closed = self.closed and failure is None, True
        self._leadership.end()
        if self._sender is not None:
            self._sender.end(self._shut_down)
        for sock in self._sockets:
            sock.close()
        if self._inbox is not None:
            self._inbox.close()
        self._over.set()
        self._log(error)
        try:
            self._on_close(self, None if ours else error or failure or EOFError("the other end closed the connection"))
        except Exception:                                # the thread that runs this may receive for others too
            logger.exception("workbench: the end of the connection from %s was not handled", self.peer)

    def _log(self, error: BaseException | None) -> None:
        if isinstance(error, errors.DataLossError):
            logger.error("workbench: dropped the connection from %s: %s", self.peer, error)
        elif error is not None and not isinstance(error, OSError | EOFError):
            logger.error("workbench: the handler of the connection from %s failed", self.peer, exc_info=error)

    # receiving
    def _turn(self) -> bool:
        """Read and handle one frame on a thread of our own; False at the end."""
        error: BaseException | None = None
        try:
            if self._calm():
                self._leadership.rest()
                if self._joins():
                    return False
            assert self._inbox is not None
            frame = None if self.closed else self._inbox.read()
            if frame is not None and self._handle(frame):
                return True
        except Exception as raised:
            error = raised
        return self._end_turn(error, self._leadership)

    def take_turn(self, group: ReceiverGroup, fresh: bool) -> bool:
        """For a group: handle all frames that need no waiting; False: this connection left the group. `fresh`: its socket was
        just reported readable. After a hand-over in a handler what is left is the new leader's business."""
        error, leadership, inbox = None, group.leadership, self._inbox
        term = leadership.term
        try:
            if self.closed and self._over.is_set():
                return False
            if inbox is None or (fresh and not inbox.receive()):
                raise EOFError("the other end closed the connection")
            me = self._handler = threading.get_ident()
            try:
                while not self.closed:
                    frame = inbox.at_hand()
                    if frame is None:
                        if not inbox.large:
                            return True
                        if self._leave_group(group, inbox):
                            return False
                        frame = inbox.read()             # there is no thread for it: the others wait
                        if frame is None:
                            break
                    self._on_frame(self, frame)
                    if leadership.term != term or (inbox.begin == inbox.end and not self.closed):
                        return True
            finally:
                if self._handler == me:
                    self._handler = 0
        except BlockingIOError:
            return True
        except Exception as raised:
            error = raised
        if leadership.mine:
            group.remove(self._sockets[0])
        return self._end_turn(error, leadership)

    def take_whole(self, kinds: Container[int]) -> bool:
        """For a thread that receives in place of the group's: handle the frames that came, which are taken off the socket when
        that is done. False when something came that is not of these kinds, or not all of it is here, or it is the end."""
        inbox = self._inbox
        if inbox is None or self.closed:
            return False
        try:
            frames, nbytes, complete = inbox.look(kinds)
            for frame in frames:
                self._on_frame(self, frame)
            if nbytes:
                inbox.take_off(nbytes)
            return complete
        except (OSError, errors.DataLossError) as error:
            if by_signal(error):
                raise
            return False                                 # the group's thread will meet it again

    def _handle(self, frame: Frame) -> bool:
        """On a thread of our own: True when the receiver may go on; False when this connection is to end on this thread."""
        me = self._handler = threading.get_ident()
        try:
            self._on_frame(self, frame)
        finally:
            if self._handler == me:
                self._handler = 0
        return not self.closed or not self._leadership.mine      # after a hand-over the rest is the new leader's business

    def _end_turn(self, error: BaseException | None, leadership: Leadership) -> bool:
        if leadership.mine:
            self.finish(error)
            return False
        self._log(error)                                 # a handler failed after it handed over: its successor will
        self._shut_down()                                # find the connection closed
        return True

    def _leave_group(self, group: ReceiverGroup, inbox: Inbox) -> bool:
        """A large frame comes: it must not keep the others waiting. False where the process can have no other thread."""
        inbox.large = False
        group.remove(self._sockets[0])
        try:
            self._leadership.start()
        except errors.ResourceExhaustedError:
            group.add(self, self._sockets[0])
            return False
        return True

    def _calm(self) -> bool:
        """Did nothing come for so long that a thread of our own is a waste?"""
        return (self._group is not None and self._inbox is not None and not self.closed
                and self._inbox.calm(_CALM_MILLISECONDS))

    def _watch(self) -> bool:
        """For a connection that only sends: notice that the peer is gone."""
        poll = select.poll()
        poll.register(self._sockets[0], getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR)
        poll.poll()
        self.finish(None)
        return False
