"""Waiting for what another process does: it is asked again and again, up to a time limit, and whoever waits can be stopped."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable

from workbench.core.trace import journal

__all__ = ["wait_until"]


def wait_until(ready: Callable[[], object], seconds: float, pause: float,
               stopped: Callable[[float], bool] | None = None, what: str = "for another process") -> bool:
    """Ask `ready` until it says yes, `pause` seconds apart; False when it does not within `seconds`.

    `stopped(timeout)` waits so long for somebody to stop the program, and says whether that is so: then it is False at once.
    Views show `what` it waits for.
    """
    until, rest, teller = time.monotonic() + seconds, stopped or threading.Event().wait, object()
    try:
        journal.tellers[teller] = time.perf_counter(), lambda: ("waiting", what)
        while not ready():
            left = until - time.monotonic()
            if left <= 0 or rest(min(pause, left)):
                return False
        return True
    finally:
        journal.tellers.pop(teller, None)
