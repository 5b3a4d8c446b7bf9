"""Ctrl-C during a step: the step is cancelled like any other, and only then the exception raised."""
from __future__ import annotations

import _thread
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from workbench import errors

__all__ = ["interruptible"]


@contextlib.contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C calls `stop()` from another thread and raises when the block ends; a second one raises at once.

    NOTE: Python raises between any two byte codes. In the callback of a weak reference or of the garbage collector the
    exception is printed and forgotten, and a loop that allocates spends several percent of its time there.

    Does nothing outside the main thread, where no KeyboardInterrupt arrives, and follows a handler that does not raise.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.get_ident() != threading.main_thread().ident or not callable(before):
        yield
        return
    raised: list[BaseException] = []

    def hear(number: int, frame: Any) -> None:
        try:
            before(number, frame)
        except BaseException as error:
            raised.append(error)
            if len(raised) > 1:
                raise
            _thread.start_new_thread(stop, ())      # a handler must take no lock: this thread may be holding it

    try:
        signal.signal(signal.SIGINT, hear)
        yield
    except errors.Error as ended:
        if not raised:
            raise                                   # else it only says that the step was stopped, and where
        for note in getattr(ended, "__notes__", ()):
            raised[0].add_note(note)
    finally:
        signal.signal(signal.SIGINT, before)
    if raised:
        raise raised[0]
