"""Connections that carry nothing: they keep what is sent, and hand over what the test lets arrive."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.cluster.link.connection import Connection
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import HEADER, Frame, parse_header

__all__ = ["SESSION", "Told", "Wire", "full"]

SESSION = 7


def _frame(message: m.Message, step: int, epoch: int) -> Frame:
    raw = b"".join(bytes(part) for part in m.encode(message, SESSION, epoch, step))
    header = parse_header(raw)
    body = raw[HEADER.size:]
    return Frame(header, body[:header.meta], bytearray(body[header.meta:]) if header.data else None)


def full(nbytes: int) -> Any:
    """In place of `BufferPool.take`: there is no memory."""
    raise MemoryError(nbytes)


class Told:
    """What a `Member` tells the chief: what tasks say of steps goes to `on_step`, losses are kept."""

    def __init__(self, on_step: Callable[..., Any]) -> None:
        self.on_step = on_step
        self.lost: list[Any] = []

    def on_link_lost(self, *what: Any) -> None:
        self.lost.append(what)

    on_lost = on_link_lost


class Wire(Connection):
    """`sent` are (step, message) in order; `on_send` is called before one is kept, `on_kept` when it is."""

    def __init__(self, peer: str = "peer", on_send: Callable[[m.Message], None] = lambda message: None) -> None:
        super().__init__(peer, SESSION)
        self.sent: list[tuple[int, m.Message]] = []
        self.sessions: list[int] = []
        self.started = False
        self._on_send = on_send
        self.on_kept: Callable[[m.Message], None] = lambda message: None

    def start(self, on_frame: Any, on_close: Any, group: Any = None) -> None:
        self._on_frame, self._on_close, self.started = on_frame, on_close, True

    def arrive(self, message: m.Message, step: int = -1, epoch: int = 1) -> None:
        self._on_frame(self, _frame(message, step, epoch))

    def end(self, error: BaseException | None) -> None:
        """As a receiver does when the stream is over."""
        self.closed = True
        self._on_close(self, error)

    def send(self, buffers: Any, wait: bool = True) -> bool:
        if self.closed:
            raise errors.UnavailableError(f"{self.peer}: the connection is closed; start the cluster again")
        raw = b"".join(bytes(part) for part in buffers)
        header = parse_header(raw)
        body = raw[HEADER.size:]
        message = m.decode(Frame(header, body[:header.meta], bytearray(body[header.meta:]) if header.data else None))
        self._on_send(message)
        self.sent.append((header.step, message))
        self.sessions.append(header.session)
        self.on_kept(message)
        return True

    def close(self) -> None:
        self.closed = True

    def join(self, timeout: float) -> None:
        """No threads here."""
