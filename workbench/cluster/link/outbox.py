"""What a socket did not take at once: frames in order, bounded in bytes, sent by a thread that lives while there are some."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.cluster.link.leader import release_receiver
from workbench.core.threads import start_thread

__all__ = ["LIMIT", "Outbox"]

LIMIT = 1 << 26      # bytes that wait for one peer until whoever has more for it waits too
_IDLE_SECONDS = 1.0  # a thread that had nothing to send for so long ends


class Outbox:
    """Thread-safe. `transmit(frame)` may block and raises when the connection is broken, which `broken` is told."""

    def __init__(self, transmit: Callable[[Sequence[Any]], None], broken: Callable[[Exception], None], label: str) -> None:
        self._transmit, self._broken, self._label = transmit, broken, label
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._frames: deque[tuple[Sequence[Any], Any]] = deque()      # (buffers, whose memory they are)
        self._thread: threading.Thread | None = None
        self._over = False
        self.nbytes = 0                                        # that wait

    def wait_for_room(self) -> None:
        """Return when fewer than LIMIT bytes wait, or nothing is sent any more."""
        if self.nbytes >= LIMIT:
            release_receiver()                                 # the peer may be blocked on us
            with self._changed:
                self._changed.wait_for(lambda: self._over or self.nbytes < LIMIT)

    def post(self, at_once: Callable[[Sequence[Any]], Sequence[Any]], frame: Sequence[Any], keep: Callable[[Any], Any],
             owner: Any = None) -> None:
        """Send what `at_once(frame)` sends now and leave the buffers that it returns, as `keep` makes them, to the thread.

        While others wait the whole `frame` does, too. `owner` is referred to until all is sent. Where there is no memory for
        what `keep` makes, this returns when all is sent; where none for the thread, when nothing waits any more.
        """
        with self._lock:                                       # itself, not through the condition, which takes longer
            left = frame if self._frames else at_once(frame)
            if not left or self._over:
                return
            try:
                kept: Sequence[Any] = [keep(buffer) for buffer in left]
            except MemoryError:
                kept = left
            self._frames.append((kept, owner))
            self.nbytes += sum(map(len, kept))
            if self._thread is None:
                self._start()
            else:
                self._changed.notify_all()
        if self._thread is threading.current_thread():
            release_receiver()                                 # the peer may be blocked on us
            self._run()
            return
        if kept is left:
            release_receiver()                                 # the peer may be blocked on us
            with self._changed:
                self._changed.wait_for(lambda: all(one is not kept for one, _ in self._frames))

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"workbench-send-{self._label}")
        try:
            start_thread(self._thread)
        except errors.ResourceExhaustedError:
            self._thread = threading.current_thread()          # which has to do it

    def _run(self) -> None:
        try:
            while (frame := self._next()) is not None:
                self._transmit(frame)
                with self._changed:
                    if self._over:
                        return
                    self._frames.popleft()                     # only now: until then later frames must not overtake it
                    self.nbytes -= sum(map(len, frame))
                    self._changed.notify_all()
                del frame                                      # the memory is somebody else's from here on
        except Exception as error:                             # whatever it is: others wait for this thread
            self.end()
            self._broken(error)

    def _next(self) -> Sequence[Any] | None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._frames or self._over, _IDLE_SECONDS) or self._over:
                self._thread = None
                return None
            return self._frames[0][0]

    def end(self) -> None:
        """Nothing is sent any more; what waits is dropped. A thread that is sending ends when its socket is shut down."""
        with self._changed:
            self._over = True
            self._frames.clear()
            self.nbytes = 0
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait for the thread, if there is one and it is not the calling one."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
