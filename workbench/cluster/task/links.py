"""Connections that a task sends to others on: made when they are needed, once each, and made anew when one broke."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from workbench import errors
from workbench.cluster.link.connection import Connection, release_receiver
from workbench.cluster.link.leader import keep, kept_for
from workbench.cluster.wire.frames import as_last

__all__ = ["Links"]

_DIALS = 32            # connections that are made at the same time
_SMALL = 1 << 14       # bytes of a frame that may wait until what was received is handled


class Links:
    """Thread-safe. `connect(target)` makes a connection and starts it; `lost(target, error)` hears of one that a frame did not
    get through; when `closed()` there are no new ones."""

    def __init__(self, connect: Callable[[str], Connection], lost: Callable[[str, BaseException], None],
                 closed: Callable[[], bool]) -> None:
        self._connect, self._lost, self._closed = connect, lost, closed
        self._lock = threading.Lock()
        self._dialling: dict[str, threading.Lock] = {}     # target -> held while a connection to it is made
        self._links: dict[str, Connection] = {}

    def values(self) -> list[Connection]:
        return list(self._links.values())

    def post(self, target: str, buffers: list[Any], kept: Any = None) -> None:
        """Send, never waiting for the peer unless it is far behind; see `Connection.post`. What a receiver posts while it
        handles a frame goes out when it has, in as few pieces as there are peers."""
        link = self._links.get(target) or self.make(target)
        if len(buffers) == 1 and len(buffers[0]) <= _SMALL and keep(self, target, buffers[0]):
            return
        try:
            link.post(buffers, kept)
        except errors.UnavailableError as error:
            self.drop(link)
            self._lost(target, error)
            raise

    def mark_last(self, target: str, step: int) -> bool:
        """Have the tensor of the step that was posted last, if it has not gone out yet, say that this task is through too."""
        frames = kept_for(self, target)
        last = as_last(frames[-1], step) if frames else None
        if last is None:
            return False
        frames[-1] = last
        return True

    def let_go(self, target: str, frames: list[bytes]) -> None:
        """Post what was kept."""
        link = None
        try:
            link = self._links.get(target) or self.make(target)
            link.post([b"".join(frames)])
        except Exception as error:                             # whatever it is: this thread receives for all
            if link is not None:
                self.drop(link)
            self._lost(target, error)

    def make_all(self, targets: Iterable[str]) -> None:
        """Connect to all at once: of many peers that do not answer each would take its time."""
        missing = [target for target in targets if target not in self._links]
        with ThreadPoolExecutor(min(len(missing), _DIALS) or 1, "workbench-dial") as dials:
            for dialled in [dials.submit(self.make, target) for target in missing]:
                dialled.result()

    def make(self, target: str) -> Connection:
        """The connection to `target`, made if there is none."""
        release_receiver()
        with self._lock:
            dialling = self._dialling.setdefault(target, threading.Lock())
        with dialling:
            link = self._links.get(target)
            if link is None:
                link = self._links[target] = self._connect(target)
                if self._closed():                             # meanwhile; whoever closes may have looked before
                    link.close()
        return link

    def drop(self, link: Connection) -> None:
        """Forget a connection that ended, so that the next frame makes a new one."""
        with self._lock:
            if self._links.get(link.peer) is link:
                del self._links[link.peer]
