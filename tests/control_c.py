"""Ctrl-C for tests: pressed once, for the main thread, in the middle of what a block does."""
from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def control_c(seconds: float = 0.3) -> Iterator[None]:
    """Press in `seconds` from now; the block must go on until then. What it runs is compiled and imported before.

    Stands inside `pytest.raises`, so that a machine that stalls cannot press before somebody waits for it.
    """
    timer = threading.Timer(seconds, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
