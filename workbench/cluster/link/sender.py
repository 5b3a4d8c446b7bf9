"""The sending half of a connection: whole frames by any thread, waiting for the peer or leaving them to a queue."""
from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from workbench import errors
from workbench.cluster.link.buffers import FROM, BufferPool
from workbench.cluster.link.leader import receiving, release_receiver
from workbench.cluster.link.outbox import Outbox
from workbench.cluster.link.shared import Carrying, Lender
from workbench.core.run.interrupts import by_signal

__all__ = ["PIECE", "Sender"]

PIECE = 1 << 27        # bytes after which a long transfer shows that it goes on
_SAFE_SEND = 4096      # bytes that fit into any socket that is called writable
_WITHOUT_WAITING = int(getattr(socket, "MSG_DONTWAIT", 0))      # a plain number: to make one of a flag takes time
_AT_ONCE = 512         # buffers that one system call takes


class Owner(Protocol):
    """What is asked of the connection."""

    peer: str
    closed: bool
    pieces: int

    def close(self) -> None: ...
    def send_no_more(self) -> None: ...


class Sender:
    """Thread-safe. See `Connection.send` and `Connection.post`; what fails ends the connection."""

    def __init__(self, owner: Owner, writer: socket.socket, plain: bool, pool: BufferPool, label: str,
                 lender: Lender | None = None) -> None:
        self._lender = lender
        self._owner, self._writer, self._plain, self._pool = owner, writer, plain, pool
        self._lock = threading.RLock()           # knows its owner, see send()
        self._outbox = Outbox(self._transmit_later, self._broke, label)
        self.failure: Exception | None = None      # why a frame that was posted did not get through

    def end(self, shut_down: Callable[[], None]) -> None:
        """Return when nobody sends any more, so that the socket may be closed; `shut_down()` wakes who is blocked."""
        self._outbox.end()
        if self._lender is not None:
            self._lender.close()
        if not self._lock.acquire(blocking=False):
            shut_down()
            self._lock.acquire()
        self._lock.release()

    def join(self, timeout: float) -> None:
        self._outbox.join(timeout)

    def send(self, buffers: Sequence[Any], wait: bool = True) -> bool:
        if wait:
            if len(buffers) > 1:
                buffers = self._lent(buffers) or buffers
        elif self._lock._is_owned():      # type: ignore[attr-defined]      # as conditions ask their locks
            return False                                 # the collector calls, in the middle of a frame of this thread
        try:
            if not self._lock.acquire(blocking=False):
                if not wait:
                    return False
                release_receiver()                       # another thread's large tensor may take a while
                self._lock.acquire()
            if self._owner.closed:
                raise errors.UnavailableError(f"{self._owner.peer}: the connection is closed; start the cluster again")
            if not wait and not _writable(self._writer):
                return False
            for buffer in buffers:
                self._transmit(buffer)
            return True
        except OSError as broken:
            self._give_up(broken)
        except BaseException:
            if len(buffers) > 1 or len(buffers[0]) > _SAFE_SEND:      # an interrupt may have cut the frame in the middle
                self._owner.close()
            raise
        finally:
            # NOTE: Ctrl-C may have come right after acquire, so only the lock knows whether we hold it; and suppress(), a
            # call before release, would let another one in
            try:                                         # noqa: SIM105
                self._lock.release()
            except RuntimeError:
                pass

    def send_small(self, frame: bytes) -> None:
        try:
            with self._lock:
                if self._owner.closed:
                    raise errors.UnavailableError(f"{self._owner.peer}: the connection is closed; start the cluster again")
                self._writer.sendall(frame)
        except BaseException as broken:
            if isinstance(broken, OSError) and not by_signal(broken):
                self._give_up(broken)
            if len(frame) > _SAFE_SEND:      # an interrupt may have cut the frame in the middle
                self._owner.close()
            raise

    def _give_up(self, broken: OSError) -> NoReturn:
        self._owner.send_no_more()
        if isinstance(broken, errors.Error):
            raise broken
        raise errors.UnavailableError(f"{self._owner.peer}: the connection broke while sending ({broken}); "
                                      "the task's process may have died") from broken

    def post(self, buffers: Sequence[Any], owner: Any = None) -> None:
        if self._outbox.nbytes:
            self._outbox.wait_for_room()
        if self._owner.closed:
            raise errors.UnavailableError(f"{self._owner.peer}: the connection is closed; start the cluster again")
        if len(buffers) > 1 and (lent := self._lent(buffers, owner)) is not None:
            buffers = owner = lent
        try:
            self._outbox.post(self._send_at_once, buffers, self._copied if owner is None else _same, owner)
        except BaseException as broken:                        # the frame may be cut in the middle
            self._owner.close()
            if not isinstance(broken, OSError) or isinstance(broken, errors.Error):
                raise
            raise errors.UnavailableError(f"{self._owner.peer}: the connection broke while sending ({broken}); "
                                          "the task's process may have died") from broken

    def _lent(self, buffers: Sequence[Any], owner: Any = None) -> Sequence[Any] | None:
        """The frame that says where the large payload of `buffers` lies in memory that both ends see; None: as it is."""
        if self._lender is None or sum(map(len, buffers[1:])) < FROM:
            return None
        return self._lender.lend(buffers[0], buffers[1:], owner)

    def _send_at_once(self, buffers: Sequence[Any]) -> Sequence[Any]:
        """Send what the socket takes without waiting; the buffers that are left."""
        if not self._lock.acquire(blocking=False):
            return buffers
        try:
            if not self._plain:
                if sum(map(len, buffers)) > _SAFE_SEND or not _writable(self._writer):
                    return buffers
                for buffer in buffers:
                    self._writer.sendall(buffer)
                return ()
            if len(buffers) == 1 and type(buffers[0]) is bytes:      # nearly all
                sent = self._writer.send(buffers[0], _WITHOUT_WAITING)
                return () if sent == len(buffers[0]) else _after(buffers, sent)
            sent = self._writer.sendmsg(buffers[:_AT_ONCE], _carried(buffers[0]), _WITHOUT_WAITING)
        except BlockingIOError:
            return buffers
        finally:
            self._lock.release()
        return _after(buffers, sent)

    def _transmit_later(self, frame: Sequence[Any]) -> None:
        with self._lock:
            for buffer in frame:
                if self._owner.closed:
                    raise OSError("it was closed")
                self._send_all(self._writer, buffer)

    def _broke(self, error: Exception) -> None:
        if not self._owner.closed:
            self.failure = error
            self._owner.close()

    def _copied(self, buffer: Any) -> Any:
        kept = self._pool.take(len(buffer))
        kept[:] = np.frombuffer(buffer, np.uint8)
        return memoryview(kept)      # type: ignore[arg-type]

    def _transmit(self, buffer: Any) -> None:
        writer = self._writer
        if not receiving():
            if type(buffer) is bytes and len(buffer) <= PIECE:      # nearly all
                writer.sendall(buffer)
            else:
                self._send_all(writer, buffer)
            return
        if not self._plain:
            if len(buffer) > _SAFE_SEND or not _writable(writer):
                release_receiver()
            self._send_all(writer, buffer)
            return
        try:
            sent = (writer.send(buffer, _WITHOUT_WAITING) if type(buffer) is bytes else      # nearly all
                    writer.sendmsg([buffer], _carried(buffer), _WITHOUT_WAITING))
        except BlockingIOError:
            sent = 0
        if sent < len(buffer):
            release_receiver()                           # never block while the peer may be blocked on us
            self._send_all(writer, memoryview(buffer)[sent:] if sent else buffer)

    def _send_all(self, writer: socket.socket, buffer: Any) -> None:
        if isinstance(buffer, Carrying):
            buffer = memoryview(buffer)[writer.sendmsg([buffer], _carried(buffer)):]
        if len(buffer) <= PIECE:
            writer.sendall(buffer)
            return
        for start in range(0, len(buffer), PIECE):
            writer.sendall(buffer[start:start + PIECE])
            self._owner.pieces += 1


def _carried(buffer: Any) -> list[tuple[int, int, bytes]]:
    """What travels with a buffer besides its bytes."""
    return buffer.ancillary if isinstance(buffer, Carrying) else []


def _same(buffer: Any) -> Any:
    return buffer


def _after(buffers: Sequence[Any], sent: int) -> list[Any]:
    """What follows the first `sent` bytes of `buffers`."""
    left = []
    for buffer in buffers:
        if sent < len(buffer):
            left.append(memoryview(buffer)[sent:] if sent else buffer)
        sent = max(0, sent - len(buffer))
    return left


def _writable(sock: socket.socket) -> bool:
    """Does a little fit into its buffer right now? Not select(), which refuses descriptors from 1024 on."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(0))
