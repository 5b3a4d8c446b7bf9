"""Ctrl-C during a step: the step is cancelled like any other, and only then the exception raised; and what signals raise."""
from __future__ import annotations

import _thread
import contextlib
import functools
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from workbench import errors

__all__ = ["by_signal", "deferred_interrupt", "interruptible"]


def by_signal(error: BaseException) -> bool:
    """Did the handler of a signal raise `error` (Ctrl-C, an alarm, a request to exit), rather than what it interrupted?

    Handlers run in the main thread alone, so that in any other an exception is that of the code which raised it.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return isinstance(error, KeyboardInterrupt) or any(
        frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _code(handler: Any) -> Any:
    """The code that a handler runs; None for those of the system."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)


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


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends, so that a frame is never cut in the middle; a second one goes through.

    Modules are imported so too: there it may be lost in the callback of a weak reference, and with it the lock that every
    other import waits for. Does nothing outside the main thread, where no KeyboardInterrupt arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    held: list[tuple[int, Any]] = []

    def hold(number: int, frame: Any) -> None:
        held.append((number, frame))
        if len(held) > 1:
            held.clear()
            before(number, frame)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])
