"""A connection that stays on its Dask comm: for inproc, ws and other schemes without a socket to take over."""
from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.cluster.link.connection import CloseHandler, Connection, FrameHandler
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire.frames import HEADER, Frame, parse_header

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
                self._incoming.put(message["frame"])
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

    def _receive(self) -> None:
        error: BaseException | None = None
        while (raw := self._incoming.get()) is not None:
            try:
                header = parse_header(raw)
                body = bytearray(raw[HEADER.size:])
                self._on_frame(self, Frame(header, bytes(body[:header.meta]), body[header.meta:]))
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
        self._on_close(self, None if ours else error or self._error)

    def send(self, buffers: Sequence[Any], wait: bool = True) -> bool:
        if self.closed:
            raise errors.UnavailableError(f"{self.peer}: the connection is closed; start the cluster again")
        frame = b"".join(bytes(part) for part in buffers)
        self._loop.call_soon_threadsafe(self._outgoing.put_nowait, frame)
        return True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._outgoing.put_nowait, None)

    def join(self, timeout: float) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
