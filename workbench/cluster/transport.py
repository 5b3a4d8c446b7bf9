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
from workbench.cluster.buffers import BufferPool
from workbench.cluster.frames import HEADER, Frame, parse_header

__all__ = ["Connection", "SocketConnection", "release_receiver"]

logger = logging.getLogger("workbench")

FrameHandler = Callable[["Connection", Frame], None]
CloseHandler = Callable[["Connection", "BaseException | None"], None]

_SCRATCH = 1 << 16
_SAFE_SEND = 4096      # bytes that fit into any socket that select() calls writable
_current = threading.local()


def release_receiver() -> None:
    """Let another thread receive on the connection whose receiver thread is running this.

    Call it in a frame handler before anything long (a large send does it by itself); elsewhere it does nothing.
    """
    connection = getattr(_current, "connection", None)
    if connection is not None:
        connection.hand_over()


class Connection:
    """What the layers above see of a connection, whatever carries it."""

    def __init__(self, peer: str, session: int) -> None:
        self.peer = peer
        self.session = session
        self.closed = False

    def start(self, on_frame: FrameHandler, on_close: CloseHandler) -> None:
        """Begin to receive. `on_close(connection, error)` comes once; `error` is None after our own close()."""
        raise NotImplementedError

    def send(self, buffers: Sequence[Any], wait: bool = True) -> bool:
        """Send a frame made by `messages.encode`; when it returns the memory may be changed.

        With `wait=False` a small frame is sent only if that takes no time; returns whether it was. UnavailableError when the connection is or breaks.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Drop the connection now; returns at once, threads end by themselves. May be called again."""
        raise NotImplementedError

    def join(self, timeout: float) -> None:
        """Wait until the receiver threads ended."""
        raise NotImplementedError


class SocketConnection(Connection):
    """A connection over a socket: `reader` and `writer` are one socket for both directions, or None for a missing one.

    An SSL socket must not be read and written by two threads at once, so TLS has a socket per direction. Receiving leads, handlers follow on the same thread; a handler that
    may block hands the receiving over first, so two tasks that send to each other at once never wait for each other.
    """

    def __init__(self, peer: str, session: int, reader: socket.socket | None, writer: socket.socket | None,
                 pool: BufferPool, leftover: bytes = b"", label: str = "") -> None:
        super().__init__(peer, session)
        self.label = label
        self._reader, self._writer = reader, writer
        self._duplex = reader is writer
        self._plain = not isinstance(reader or writer, ssl.SSLSocket)
        self._poll: select.poll | None = None
        if self._duplex and reader is not None and reader.family == socket.AF_UNIX:
            self._poll = select.poll()       # a Unix socket wakes its blocked reader for each frame it sent, poll does not
            self._poll.register(reader, select.POLLIN)
        self._pool = pool
        self._scratch = bytearray(max(_SCRATCH, len(leftover)))
        self._scratch[:len(leftover)] = leftover
        self._view = memoryview(self._scratch)
        self._begin, self._end = 0, len(leftover)
        self._send_lock = threading.Lock()
        self._turn = threading.Condition()
        self._spare = 0                      # threads parked in _turn that nobody called yet
        self._calls = 0                      # hand-overs that a parked thread has not yet taken up
        self._threads: list[threading.Thread] = []
        self._finished = False
        self._error: BaseException | None = None

    # life
    def start(self, on_frame: FrameHandler, on_close: CloseHandler) -> None:
        self._on_frame, self._on_close = on_frame, on_close
        self._spawn(self._receive if self._reader is not None else self._watch)

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True, name=f"workbench-receive-{self.label}")
        with self._turn:
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def close(self) -> None:
        self.closed = True
        if getattr(_current, "connection", None) is not self:      # our receiver ends by itself after its handler
            self._shut_down()
        with self._turn:
            self._turn.notify_all()

    def _shut_down(self) -> None:
        for sock in {self._reader, self._writer} - {None}:
            with contextlib.suppress(OSError):           # it may be gone already
                sock.shutdown(socket.SHUT_RDWR)          # type: ignore[union-attr]

    def join(self, timeout: float) -> None:
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(timeout)

    def _finish(self, error: BaseException | None) -> None:
        with self._turn:
            if self._finished:
                return
            self._finished = True
            ours, self.closed = self.closed, True
            self._turn.notify_all()
        if not self._send_lock.acquire(blocking=False):
            self._shut_down()                            # wakes whoever is blocked in a send
            self._send_lock.acquire()
        for sock in {self._reader, self._writer} - {None}:
            sock.close()                                 # type: ignore[union-attr]
        self._send_lock.release()
        self._on_close(self, None if ours else error or EOFError("the other end closed the connection"))

    # receiving
    def hand_over(self) -> None:
        """Called on the receiver thread: another thread goes on receiving."""
        _current.connection = None
        with self._turn:
            if self._spare:
                self._spare -= 1
                self._calls += 1
                self._turn.notify()
                return
        self._spawn(self._receive)

    def _receive(self) -> None:
        error: BaseException | None = None
        try:
            while not self.closed:
                _current.connection = self
                frame = self._read_frame()
                if frame is None:
                    break
                self._on_frame(self, frame)
                del frame                                # its buffer may be reused while we wait
                if _current.connection is not self and not self._park():
                    return
        except errors.DataLossError as damage:
            logger.error("workbench: dropped the connection from %s: %s", self.peer, damage)
            error = damage
        except OSError as broken:
            error = broken
        except Exception as bug:
            logger.exception("workbench: the handler of the connection from %s failed", self.peer)
            error = bug
        finally:
            _current.connection = None
        self._finish(error)

    def _park(self) -> bool:
        """After a hand-over: wait to become the receiver again; False when this thread should end."""
        with self._turn:
            if self._spare or self.closed:
                return False
            self._spare = 1
            self._turn.wait_for(lambda: self.closed or self._calls)
            self._calls -= 1
            return not self.closed

    def _read_frame(self) -> Frame | None:
        if not self._fill(HEADER.size):
            return None
        header = parse_header(self._scratch, self._begin)
        if header.session != self.session:
            raise errors.DataLossError(f"frame: session is {header.session:x}, this connection belongs to "
                                       f"{self.session:x}; the stream is damaged")
        self._begin += HEADER.size
        meta = self._take(header.meta)
        data = self._take(header.data) if header.data else None
        return Frame(header, meta, data)

    def _fill(self, wanted: int) -> bool:
        """Have at least `wanted` (≤ scratch) bytes in the scratch; False at a clean end of the stream."""
        if self._begin == self._end:
            self._begin = self._end = 0
        if self._begin + wanted > len(self._scratch):
            have = self._end - self._begin
            self._scratch[:have] = self._scratch[self._begin:self._end]
            self._begin, self._end = 0, have
        while self._end - self._begin < wanted:
            if self._poll is not None:
                self._poll.poll()
            got = self._reader.recv_into(self._view[self._end:])       # type: ignore[union-attr]
            if got == 0:
                if self._begin == self._end:
                    return False
                raise errors.DataLossError(f"frame: ended after {self._end - self._begin} of {wanted} bytes; "
                                           "the sender stopped in the middle")
            self._end += got
        return True

    def _take(self, nbytes: int) -> Any:
        """The next `nbytes` in memory of their own: a bytearray when small, a pooled array when large."""
        if nbytes <= _SCRATCH // 2:
            if not self._fill(nbytes):
                raise errors.DataLossError(f"frame: ended after 0 of {nbytes} bytes; the sender stopped in the middle")
            self._begin += nbytes
            return self._scratch[self._begin - nbytes:self._begin]
        try:
            buffer = self._pool.take(nbytes)
        except MemoryError:
            raise errors.DataLossError(f"frame: {nbytes} bytes do not fit into memory; "
                                       "the stream is damaged or the tensor too large") from None
        view = memoryview(buffer)
        have = min(self._end - self._begin, nbytes)
        view[:have] = self._view[self._begin:self._begin + have]
        self._begin += have
        while have < nbytes:
            got = self._recv_all(view[have:])
            if got == 0:
                raise errors.DataLossError(f"frame: ended after {have} of {nbytes} bytes; the sender stopped in the middle")
            have += got
        return buffer

    def _recv_all(self, view: memoryview) -> int:
        if self._plain:                                  # one system call for the whole tensor
            return self._reader.recv_into(view, len(view), socket.MSG_WAITALL)     # type: ignore[union-attr]
        return self._reader.recv_into(view[:1 << 20])                               # type: ignore[union-attr]

    def _watch(self) -> None:
        """For a connection that only sends: notice that the peer is gone."""
        poll = select.poll()
        poll.register(self._writer, getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR)  # type: ignore[arg-type]
        poll.poll()
        self._finish(None)

    # sending
    def send(self, buffers: Sequence[Any], wait: bool = True) -> bool:
        if not self._send_lock.acquire(blocking=False):
            if not wait:
                return False
            release_receiver()                           # another thread's large tensor may take a while
            self._send_lock.acquire()
        try:
            if self.closed:
                raise errors.UnavailableError(f"{self.peer}: the connection is closed; start the cluster again")
            if not wait and not select.select((), (self._writer,), (), 0)[1]:
                return False
            for buffer in buffers:
                self._transmit(buffer)
            return True
        except OSError as broken:
            self.close()
            if isinstance(broken, errors.Error):
                raise
            raise errors.UnavailableError(f"{self.peer}: the connection broke while sending ({broken}); "
                                          "the task's process may have died") from broken
        except BaseException:
            if len(buffers) > 1:                         # an interrupt may have cut the frame in the middle
                self.close()
            raise
        finally:
            self._send_lock.release()

    def _transmit(self, buffer: Any) -> None:
        writer = self._writer
        assert writer is not None
        if getattr(_current, "connection", None) is None:
            writer.sendall(buffer)
            return
        if not self._plain:
            if len(buffer) > _SAFE_SEND or not select.select((), (writer,), (), 0)[1]:
                release_receiver()
            writer.sendall(buffer)
            return
        try:
            sent = writer.send(buffer, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        if sent < len(buffer):
            release_receiver()                           # never block while the peer may be blocked on us
            writer.sendall(memoryview(buffer)[sent:])
