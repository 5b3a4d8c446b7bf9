"""Connections between tasks: raw blocking sockets, one receiver thread each, frames in and out."""
from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.link.leader import Leadership, receiving, release_receiver
from workbench.cluster.link.sender import PIECE, Sender
from workbench.cluster.link.shared import Lender, Tenant, lends
from workbench.cluster.wire.frames import HEADER, SHARED, Dropped, Frame, Header, frame_of, parse_header

__all__ = ["Connection", "SocketConnection", "release_receiver"]

logger = logging.getLogger("workbench")

FrameHandler = Callable[["Connection", Frame], None]
CloseHandler = Callable[["Connection", "BaseException | None"], None]

_SCRATCH = 1 << 16
_SHARED = 1 << 18      # bytes of a frame that a group receives beside others; what is larger has a thread of its own
_CALM_MILLISECONDS = 1000
_WITHOUT_WAITING = int(getattr(socket, "MSG_DONTWAIT", 0))      # a plain number: unions of flags make new objects
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
        self._reader = reader
        self._sockets = [sock for sock in dict.fromkeys((reader, writer)) if sock is not None]
        self._plain = not isinstance(self._sockets[0], ssl.SSLSocket)
        self._poll: select.poll | None = None
        self._unix = reader is writer and self._sockets[0].family == socket.AF_UNIX
        if reader is not None and self._plain:
            self._poll = select.poll()       # a Unix socket wakes its blocked reader for each frame sent, poll does not
            self._poll.register(reader, select.POLLIN)
        if writer is not None and writer.family == socket.AF_UNIX:
            writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._pool = pool
        self._scratch = bytearray(max(_SCRATCH, len(leftover)))
        self._scratch[:len(leftover)] = leftover
        self._view = memoryview(self._scratch)
        self._begin, self._end = 0, len(leftover)
        lent = shares and lends(self._sockets[0])
        self._tenant = Tenant(reader) if lent and reader is not None else None
        self._receive = self._tenant.receive if self._tenant is not None else self._receive_plainly
        lender = Lender() if lent else None
        self._sender = Sender(self, writer, self._plain, pool, label, lender) if writer is not None else None
        self._leadership = Leadership(self._turn if reader is not None else self._watch, label)
        self._handler = 0                    # thread that handles a frame of ours right now
        self._group: ReceiverGroup | None = None
        self._started = self._large = False
        self._wanted = _SCRATCH // 2         # room for what comes next
        self._dropping = 0                   # bytes to come that nobody keeps
        self._over = threading.Event()

    # life
    def start(self, on_frame: FrameHandler, on_close: CloseHandler, group: ReceiverGroup | None = None) -> None:
        self._on_frame, self._on_close = on_frame, on_close
        self._started = True
        if self._plain or self._reader is None:          # TLS reads ahead, which a group would not see
            self._group = group
        if not self._joins():
            self._leadership.start()

    def _joins(self) -> bool:
        """Leave receiving to the group, if there is one and nothing was read ahead, which it would never look at."""
        return (self._group is not None and self._begin == self._end
                and self._group.add(self, self.watched, self._reader is not None))

    def close(self) -> None:
        self.closed = True
        if not self._started:
            for sock in self._sockets:
                sock.close()
        elif self._handler != threading.get_ident() or not receiving():
            self._shut_down()                            # else the receiver, which is us, ends it after this handler

    def send_no_more(self) -> None:
        """A send failed. What the peer sent before it went is read to its end, perhaps a goodbye; then this ends too."""
        if self._reader is None:
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
        if self._tenant is not None:
            self._tenant.close()
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
            frame = None if self.closed else self._read_frame()
            if frame is not None and self._handle(frame):
                return True
        except Exception as raised:
            error = raised
        return self._end_turn(error, self._leadership)

    def take_turn(self, group: ReceiverGroup, fresh: bool) -> bool:
        """For a group: handle all frames that need no waiting; False: this connection left the group. `fresh`: its socket was
        just reported readable. After a hand-over in a handler what is left is the new leader's business."""
        error, leadership, me = None, group.leadership, threading.get_ident()
        term = leadership.term
        try:
            if self._over.is_set():
                return False
            if self._reader is None or (fresh and not self._receive_available()):
                raise EOFError("the other end closed the connection")
            self._handler = me
            while not self.closed:
                frame = self._frame_at_hand()
                if frame is None:
                    if not self._large:
                        return True
                    if self._leave_group(group):
                        return False
                    frame = self._read_frame()           # there is no thread for it: the others wait
                    if frame is None:
                        break
                self._on_frame(self, self._whole(frame))
                if leadership.term != term:
                    return True
        except BlockingIOError:
            return True
        except Exception as raised:
            error = raised
        finally:
            if self._handler == me:
                self._handler = 0
        if leadership.mine:
            group.remove(self._sockets[0])
        return self._end_turn(error, leadership)

    def _handle(self, frame: Frame) -> bool:
        """On a thread of our own: True when the receiver may go on; False when this connection is to end on this thread."""
        me = self._handler = threading.get_ident()
        try:
            self._on_frame(self, self._whole(frame))
        finally:
            if self._handler == me:
                self._handler = 0
        return not self.closed or not self._leadership.mine      # after a hand-over the rest is the new leader's business

    def _whole(self, frame: Frame) -> Frame:
        """The frame itself, or what it stands for."""
        return frame if frame.header.kind != SHARED or self._tenant is None else self._tenant.frame(frame)

    def _end_turn(self, error: BaseException | None, leadership: Leadership) -> bool:
        if leadership.mine:
            self.finish(error)
            return False
        self._log(error)                                 # a handler failed after it handed over: its successor will
        self._shut_down()                                # find the connection closed
        return True

    def _frame_at_hand(self) -> Frame | None:
        """The next frame if all of it was received already; `_large` says that it never will be in the scratch."""
        start = self._begin + HEADER.size
        if start > self._end:
            return None
        header = parse_header(self._scratch, self._begin)
        if header.session != self.session:
            self._check(header)
        middle = start + header.meta
        end = middle + header.data
        if end > self._end:
            self._large = end - self._begin > _SHARED
            self._wanted = max(_SCRATCH // 2, min(end - self._begin, _SHARED))
            return None
        self._begin = end
        scratch = self._scratch
        return frame_of((header, scratch[start:middle], scratch[middle:end] if header.data else None))

    def _check(self, header: Header) -> None:
        if header.session != self.session:
            raise errors.DataLossError(f"frame: session is {header.session:x}, this connection belongs to "
                                       f"{self.session:x}; the stream is damaged")

    def _leave_group(self, group: ReceiverGroup) -> bool:
        """A large frame comes: it must not keep the others waiting. False where the process can have no other thread."""
        self._large = False
        group.remove(self._sockets[0])
        try:
            self._leadership.start()
        except errors.ResourceExhaustedError:
            group.add(self, self._sockets[0])
            return False
        return True

    def _calm(self) -> bool:
        """Did nothing come for so long that a thread of our own is a waste?"""
        if self._group is None or self._poll is None or self.closed or self._begin != self._end or self._dropping:
            return False
        return not self._poll.poll(_CALM_MILLISECONDS)

    def _receive_available(self) -> int:
        if self._begin == self._end:
            self._begin = self._end = 0
        if self._begin + self._wanted > len(self._scratch):
            self._make_room(self._wanted)
        got = self._receive(self._view[self._end:], _WITHOUT_WAITING)
        self._end += got
        return got

    def _receive_plainly(self, view: memoryview, flags: int = 0) -> int:
        return self._reader.recv_into(view, 0, flags)                   # type: ignore[union-attr]

    def _read_frame(self) -> Frame | None:
        self._drop()
        if not self._fill(HEADER.size):
            return None
        header = parse_header(self._scratch, self._begin)
        self._check(header)
        self._begin += HEADER.size
        meta = self._take(header.meta)
        if type(meta) is Dropped:
            raise errors.DataLossError(f"frame: a body of {header.meta} bytes does not fit into memory; give the machine more")
        data = self._take(header.data) if header.data else None
        return Frame(header, meta, data)

    def _drop(self) -> None:
        """Read to its end what there was no memory for."""
        while self._dropping:
            if not self._fill(1):
                raise errors.DataLossError(f"frame: ended {self._dropping} bytes too early; the sender stopped in the middle")
            part = min(self._dropping, self._end - self._begin)
            self._begin += part
            self._dropping -= part
            self.pieces += 1

    def _make_room(self, wanted: int) -> None:
        if self._begin == self._end:
            self._begin = self._end = 0
        if self._begin + wanted > len(self._scratch):
            have = self._end - self._begin
            rest = self._scratch[self._begin:self._end]
            if wanted > len(self._scratch):
                self._scratch = bytearray(wanted)
                self._view = memoryview(self._scratch)
            self._scratch[:have] = rest
            self._begin, self._end = 0, have

    def _fill(self, wanted: int) -> bool:
        """Have at least `wanted` (≤ scratch) bytes in the scratch; False at a clean end of the stream."""
        self._make_room(wanted)
        while self._end - self._begin < wanted:
            if self._poll is not None and self._unix:
                self._poll.poll()
            got = self._receive(self._view[self._end:])
            if got == 0:
                if self._begin == self._end:
                    return False
                raise errors.DataLossError(f"frame: ended after {self._end - self._begin} of {wanted} bytes; "
                                           "the sender stopped in the middle")
            self._end += got
        return True

    def _take(self, nbytes: int) -> Any:
        """The next `nbytes` in memory of their own: a bytearray when small, a pooled array when large, `Dropped` when there
        is no such memory. Then they are read before the next frame: whoever gets this one may refuse what it announced."""
        if nbytes <= _SCRATCH // 2:
            if not self._fill(nbytes):
                raise errors.DataLossError(f"frame: ended after 0 of {nbytes} bytes; the sender stopped in the "
                                           "middle")
            self._begin += nbytes
            return self._scratch[self._begin - nbytes:self._begin]
        try:
            buffer = self._pool.take(nbytes)
        except MemoryError:
            self._dropping = nbytes
            return Dropped(nbytes)
        view = memoryview(buffer)                        # type: ignore[arg-type]
        have = min(self._end - self._begin, nbytes)
        view[:have] = self._view[self._begin:self._begin + have]
        self._begin += have
        while have < nbytes:
            got = self._recv_all(view[have:have + PIECE])
            if got == 0:
                raise errors.DataLossError(f"frame: ended after {have} of {nbytes} bytes; the sender stopped in the "
                                           "middle")
            have += got
            self.pieces += 1
        return buffer

    def _recv_all(self, view: memoryview) -> int:
        if self._plain:                                  # one system call for the whole tensor
            return self._reader.recv_into(view, len(view), socket.MSG_WAITALL)     # type: ignore[union-attr]
        return self._reader.recv_into(view[:1 << 20])                               # type: ignore[union-attr]

    def _watch(self) -> bool:
        """For a connection that only sends: notice that the peer is gone."""
        poll = select.poll()
        poll.register(self._sockets[0], getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR)
        poll.poll()
        self.finish(None)
        return False

    # sending
    def send(self, buffers: Sequence[Any], wait: bool = True) -> bool:
        assert self._sender is not None
        return self._sender.send(buffers, wait)

    def post(self, buffers: Sequence[Any], owner: Any = None) -> None:
        assert self._sender is not None
        self._sender.post(buffers, owner)
