"""A connection that stays on its Dask comm: for inproc, ws and other schemes without a socket to take over."""
from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.cluster.link.connection import CloseHandler, Connection, FrameHandler
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.link.leader import release_receiver
from workbench.cluster.link.outbox import LIMIT
from workbench.cluster.wire.frames import HEADER, Dropped, Frame, Header, parse_header

__all__ = ["CommConnection"]

logger = logging.getLogger("workbench")


class CommConnection(Connection):
    """Frames as bytes inside Dask messages. They are copied, since such comms pass references or write late."""

    def __init__(self, peer: str, session: int, comm: Any, loop: asyncio.AbstractEventLoop, label: str = "") -> None:
        super().__init__(peer, session)
        self._comm, self._loop, self._label = comm, loop, label
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._incoming: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._ended = asyncio.Event()
        self._room, self._unsent = threading.Condition(), 0      # bytes on their way to the comm
        self._read, self._unread = asyncio.Event(), 0            # bytes that came and nobody looked at

    async def ended(self) -> None:
        """Wait until the comm is done with; Dask would read from it otherwise. Call on the comm's loop."""
        await self._ended.wait()

    def start(self, on_frame: FrameHandler, on_close: CloseHandler, group: ReceiverGroup | None = None) -> None:
        self._on_frame, self._on_close = on_frame, on_close
        self._thread = threading.Thread(target=self._receive, daemon=True, name=f"workbench-receive-{self._label}")
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._pump(), self._loop)

    async def _pump(self) -> None:
        """Both directions, on the comm's loop; ends when either ends."""
        writing = asyncio.ensure_future(self._write())
        try:
            while True:
                message = await self._comm.read()
                self._unread += len(message["frame"])
                self._incoming.put(message["frame"])
                while self._unread > LIMIT:                  # the peer waits, rather than that memory grows
                    self._read.clear()
                    await self._read.wait()
        except (OSError, KeyError, TypeError) as error:
            self._error = error
        finally:
            writing.cancel()
            self._comm.abort()
            self._incoming.put(None)
            self._ended.set()

    async def _write(self) -> None:
        while True:
            frame = await self._outgoing.get()
            if frame is None:
                self._comm.abort()
                return
            await self._comm.write({"frame": frame})
            self.pieces += 1
            with self._room:
                self._unsent -= len(frame)
                self._room.notify_all()

    def _receive(self) -> None:
        error: BaseException | None = None
        while (raw := self._incoming.get()) is not None:
            try:
                header = parse_header(raw)
                self._check(header, len(raw))
                self.pieces += 1
                self._call(self._was_read, len(raw))
                self._on_frame(self, Frame(header, raw[HEADER.size:HEADER.size + header.meta], _payload(raw, header)))
            except errors.DataLossError as damage:
                logger.error("workbench: dropped the connection from %s: %s", self.peer, damage)
                error = damage
                break
            except Exception as failed:                  # the owner must hear of the end whatever caused it
                logger.error("workbench: the handler of the connection from %s failed", self.peer, exc_info=failed)
                error = failed
                break
        ours = self.closed
        self.close()
        self._call(self._was_read, self._unread)         # nobody will
        self._on_close(self, None if ours else error or self._error)

    def _check(self, header: Header, nbytes: int) -> None:
        if header.session != self.session:
            raise errors.DataLossError(f"frame: session is {header.session:x}, this connection belongs to "
                                       f"{self.session:x}; the stream is damaged")
        said = HEADER.size + header.meta + header.data
        if nbytes != said:
            raise errors.DataLossError(f"frame: {nbytes} bytes came, its header says {said}; the stream is damaged")

    def send(self, buffers: Sequence[Any], wait: bool = True) -> bool:
        if self.closed:
            raise errors.UnavailableError(f"{self.peer}: the connection is closed; start the cluster again")
        frame = b"".join(buffers)
        if self._unsent > LIMIT:
            if not wait:
                return False
            release_receiver()                           # NOTE: not under the lock, which the comm's loop takes
        with self._room:
            if self._unsent > LIMIT:
                self._room.wait_for(lambda: self._unsent <= LIMIT or self.closed)
            self._unsent += len(frame)
        self._call(self._outgoing.put_nowait, frame)
        return True

    def _was_read(self, nbytes: int) -> None:
        self._unread -= nbytes
        self._read.set()

    def _call(self, what: Callable[..., None], argument: Any) -> None:
        """On the comm's loop, which ends before its connections when a process does."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what, argument)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with self._room:
                self._room.notify_all()
            self._call(self._outgoing.put_nowait, None)

    def join(self, timeout: float) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)


def _payload(raw: bytes, header: Header) -> Any:
    if not header.data:
        return None
    try:
        return bytearray(memoryview(raw)[HEADER.size + header.meta:])
    except MemoryError:
        return Dropped(header.data)
