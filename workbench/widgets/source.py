"""One background thread per live view: polls a LiveModel, hands on what changed, and stops when told to."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from workbench.viz.live import LiveModel

__all__ = ["RATE", "Source"]

RATE = 10.0  # frames per second, at most
log = logging.getLogger(__name__)


class Source:
    """Calls `receive(frame)` on its own thread for every change, at most `RATE` times a second.

    Frames are made when there is time to send them, from the newest records, so a slow receiver sees fewer frames,
    never old ones. `receive` is held weakly: a source whose view was thrown away ends by itself.
    """

    def __init__(self, model: LiveModel, receive: Callable[[dict[str, Any]], None], rate: float = RATE) -> None:
        self.model = model
        self._receive = weakref.WeakMethod(receive)
        self._period = 1.0 / min(rate, RATE)
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(
            target=_run, args=(weakref.ref(self), self._wake), name="workbench-live", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def poke(self) -> None:
        """Make the next frame now."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread and wait for it, except when this is that thread. A second call changes nothing."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(5.0)

    def tick(self) -> bool:
        """Hand on one frame if there is one; False when the thread should end."""
        receive = self._receive()
        if self._stopping or receive is None:
            return False
        frame = self.model.frame()
        if frame is not None:
            receive(frame)
        return True


def _run(reference: weakref.ref[Source], wake: threading.Event) -> None:
    """The thread. It holds the source only while it makes a frame, or a forgotten view could never be collected."""
    while True:
        started = time.monotonic()
        source = reference()
        if source is None:
            return
        try:
            going = source.tick()
        except Exception:  # a fault in one view must end neither the thread nor the training; it is reported
            log.exception("workbench live view: a frame could not be made or sent")
            going = not source._stopping
        period = source._period
        del source
        if not going:
            return
        wake.wait(max(0.0, period - (time.monotonic() - started)))
        wake.clear()
