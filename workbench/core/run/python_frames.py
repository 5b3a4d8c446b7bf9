"""Python's frames of all threads, looked at so that Python 3.11 does not stand still for ever."""
from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

__all__ = ["current_frames", "guard_profilers"]

_lock = threading.RLock()
_look = sys._current_frames


def _without_collecting() -> dict[int, FrameType]:
    """As `sys._current_frames`, which keeps the interpreter's list of threads locked while it makes objects, and so may collect
    garbage: a finalizer that lets another thread run, which then starts or ends a thread, leaves both waiting for each other,
    and all others with them (CPython's issue 106883, mended in Python 3.12)."""
    with _lock:                                          # or one thread's end would be the middle of another's
        collects = gc.isenabled()
        gc.disable()
        try:
            return _look()
        finally:
            if collects:
                gc.enable()


current_frames = _look if sys.version_info >= (3, 12) else _without_collecting
"""Thread -> its innermost frame."""


def guard_profilers() -> None:
    """Others in this process look in the same way: Dask's profiler does 100 times a second, at its loops and at what a
    worker computes."""
    sys._current_frames = current_frames
