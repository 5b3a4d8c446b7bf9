"""Waiting, in a thread, for what runs on an event loop: who is interrupted or stopped meanwhile leaves nothing there."""
from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from workbench import errors
from workbench.core.run.gate import gate

__all__ = ["awaited"]

R = TypeVar("R")
_LOOK_SECONDS = 0.1      # between two looks whether the user stopped it


def awaited(loop: Any, coroutine: Coroutine[Any, Any, R], timeout: float | None = None, stoppable: bool = False) -> R:
    """Run on the loop and wait; what interrupts the wait cancels it. TimeoutError after `timeout` seconds.

    Where it is `stoppable` StoppedError after `gate.stop()`, which is what Ctrl-C calls in programs with threads.
    """
    until = float("inf") if timeout is None else time.monotonic() + timeout
    running = asyncio.run_coroutine_threadsafe(coroutine, loop.asyncio_loop)
    try:
        while stoppable:
            if gate.stopped:
                raise gate.ended(errors.CancelledError("Cluster: stopped while tasks were opened; run again to go on"))
            left = until - time.monotonic()
            if left <= _LOOK_SECONDS or concurrent.futures.wait([running], _LOOK_SECONDS).done:
                break
        return running.result(None if timeout is None else max(0.0, until - time.monotonic()))
    except BaseException:
        running.cancel()
        raise
