"""Elements that are read ahead: by a thread of their own, in their order, no more than there is room for."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from workbench import errors
from workbench.core.state.passing import Found, Program, Run
from workbench.core.threads import start_thread

__all__ = ["KINDS"]


class Ahead:
    """What `elements` gives, from a thread that reads on until `room` elements wait, or `close` ends it.

    An error of the source is raised where the element that it stopped would have been taken.
    """

    def __init__(self, elements: Iterator[Found], room: int) -> None:
        self._elements, self._room = elements, room
        self._waiting: deque[Found] = deque()
        self._changed = threading.Condition()
        self._broken: BaseException | None = None
        self._ended = self._closed = False
        start_thread(threading.Thread(target=self._read, name="wb-prefetch", daemon=True))

    def _read(self) -> None:
        try:
            while self._has_room():
                element = next(self._elements, None)
                with self._changed:
                    if element is None:
                        break
                    self._waiting.append(element)
                    self._changed.notify_all()
        except BaseException as error:      # it belongs to whoever takes the elements
            self._broken = error
        finally:
            del self._elements      # what it holds open is closed by the thread that read it
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _has_room(self) -> bool:
        """Waits for room; False once nobody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < self._room)
            return not self._closed

    def __iter__(self) -> Iterator[Found]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended or self._closed)
                if self._closed:
                    raise errors.CancelledError("dataset: its iterator was closed while an element was waited for; make a new "
                                                "session")
                if not self._waiting:
                    break
                element = self._waiting.popleft()
                self._changed.notify_all()
            yield element
        if self._broken is not None:
            raise self._broken

    def close(self) -> None:
        """Read no more: the thread ends behind the element that it is at; who waits gets CancelledError."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()


def _prefetched(run: Run, program: Program, size: Program | int) -> Iterator[Found]:
    room = run.number(size)
    if room < 1:
        raise errors.InvalidArgumentError(f"prefetch: buffer_size is {room}; buffer_size must be > 0")
    ahead = Ahead(run.elements(program), room)
    run.ahead.add(ahead)
    try:
        yield from ahead
    finally:
        ahead.close()


KINDS = {"prefetch": _prefetched}
