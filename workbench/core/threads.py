"""Threads: starting one, which may fail for want of memory or of threads, and the cores that they run on."""
from __future__ import annotations

import os
import threading
from contextlib import suppress

from workbench import errors

__all__ = ["core_count", "free_core", "keep_core", "start_thread", "usable_cores"]

_mine = threading.local()


def usable_cores() -> frozenset[int]:
    """Cores that this process may use, whatever the calling thread keeps to."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(os.getpid()))
    return frozenset(range(os.cpu_count() or 1))


def core_count() -> int:
    """Their number."""
    return len(usable_cores())


def keep_core(core: int) -> None:
    """Have the calling thread run on this core alone until `free_core`; nothing where the system does not let it."""
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, (core,))
        _mine.core = core


def free_core() -> None:
    """Let the calling thread run on each core of the process again."""
    if getattr(_mine, "core", None) is not None:
        _mine.core = None
        with suppress(OSError):
            os.sched_setaffinity(0, usable_cores())


def start_thread(thread: threading.Thread) -> None:
    """Start it, free to run on each core of the process, which is not so for one that a thread starts that keeps to one.

    ResourceExhaustedError, with the thread's name, where the system gives this process none.
    """
    core = getattr(_mine, "core", None)
    free_core()
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        if thread.is_alive():
            raise
        raise errors.ResourceExhaustedError(
            f"{thread.name}: this process has no memory for the stack of another thread, or may have no more threads; give "
            "its machine more memory, or raise the limit (ulimit -u, or the pids limit of its container)") from error
    finally:
        if core is not None:
            keep_core(core)
