"""Waiting for what another thread or process does: look again and again, leaving it the processor in between."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["eventually"]


def eventually(condition: Callable[[], Any], seconds: float = 90.0) -> Any:
    """The first true value of `condition()`; AssertionError with its last value after `seconds`."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds:g} s"
        pause.wait(0.005)
    return found
