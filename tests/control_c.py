"""Ctrl-C for tests: pressed once, for the main thread, in the middle of what a block does."""
from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.eventually import eventually


@contextlib.contextmanager
def control_c(seconds: float = 0.3, when: Callable[[], Any] = lambda: True) -> Iterator[None]:
    """Press in `seconds` from now, and not before `when()` is true of what the block does, which must go on until then. What
    it runs is compiled and imported before.

    Stands inside `pytest.raises`, so that a machine that stalls cannot press before somebody waits for it.
    """
    over = threading.Event()

    def press() -> None:
        eventually(lambda: over.is_set() or when())
        if not over.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)      # type: ignore[arg-type]
    timer = threading.Timer(seconds, press)
    timer.start()
    try:
        yield
    finally:
        over.set()
        timer.cancel()
        timer.join()
