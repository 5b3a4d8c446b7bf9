"""One number of compute threads for oneDNN (OpenMP) and BLAS together.

Small work runs on one thread: waking a second one costs tens of microseconds, milliseconds beside a busy process, and
while it waits for more it takes a core from everybody else. `threads_for` says which work is small.
"""
from __future__ import annotations

import functools
import os
import threading
from typing import Final

from threadpoolctl import ThreadpoolController

from workbench.core.kernels.crowd import crowd
from workbench.core.kernels.onednn_api import load
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.places import take_places
from workbench.core.kernels.signal_stack import take_signal_stack
from workbench.core.threads import core_count
from workbench.errors import InvalidArgumentError
from workbench.settings import settings

__all__ = ["adopt_threads", "get_threads", "set_threads", "threads_for", "threads_now"]

_lock = threading.Lock()
_adopted = threading.local()
_current: list[int] = []
_asked: list[int] = []      # what a program set itself, if it did
_blas: list[int] = []
SERIAL: Final = 80e-6
"""Seconds on one thread, below which work is not shared: two threads gain at most half of it."""


@functools.cache
def _cores() -> int:
    """Cores this process may use: its affinity, or fewer if OMP_NUM_THREADS says so (Dask sets it for its workers)."""
    cores = core_count()
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


def get_threads() -> int:
    """Compute threads in force: the last `set_threads`, else `settings.threads`, else all cores of the process."""
    if _current:
        return _current[0]
    return settings.threads if settings.threads > 0 else _cores()


def set_threads(threads: int = 0) -> int:
    """Let oneDNN and BLAS each use `threads` threads; 0 means `settings.threads`, or all cores. Returns it.

    Where nobody asks for a number, oneDNN's kernels keep off the cores that other processes use (`Crowd`).

    OpenMP keeps its number per calling thread: a thread that executes kernels calls `adopt_threads` once. Plans made
    before keep primitives that were laid out for the old number; make new sessions after a change. Raises
    InvalidArgumentError for a negative number.
    """
    if threads < 0:
        raise InvalidArgumentError(f"set_threads: threads is {threads}, expected 0 or more; "
                                   "0 means settings.threads, or all cores")
    with _lock:
        chosen = threads or (settings.threads if settings.threads > 0 else _cores())
        _current[:], _asked[:] = [chosen], [threads] if threads else []
    _adopted.threads = None      # kernels set OpenMP's number for themselves: it may be another by now
    adopt_threads()
    return chosen


def threads_now() -> int:
    """Threads for a kernel that may be split at each call anew: those that others leave."""
    return crowd.leaves(get_threads())


def threads_for(seconds: float) -> int:
    """Threads for a kernel that would take about `seconds` on one of them."""
    return 1 if seconds < SERIAL else get_threads()


def adopt_threads(little: bool = False) -> None:
    """Apply the number in force to the calling thread and the process; costs nothing when it is already applied.

    Every thread that runs kernels calls this before, because OpenMP keeps its number per thread, and each needs a stack for
    the handlers of signals; and it is the moment to look whether other processes want the cores. For a `little` work no
    thread is brought to a core of its own: it would be moved to and fro more often than it computes.
    """
    if settings.threads > 0 or _asked:
        crowd.taken = 0      # so many were asked for, and so many work
    else:
        crowd.look()
    chosen = _current[0] if _current else get_threads()
    if not little:
        take_places(chosen if crowd.everywhere and crowd.leaves(chosen) == crowd.cores > 1 else 0)
    blas = 1 if settings.deterministic else chosen      # its threads each add up a part of long sums
    if getattr(_adopted, "threads", None) == (chosen, blas):
        return
    take_signal_stack()
    library = load()
    _limit_blas(blas)
    if library is not None:
        library.openmp(chosen)
    runtime()      # sees to it that a forked child does not wait for the team
    _adopted.threads = chosen, blas


def _limit_blas(threads: int) -> None:
    """BLAS keeps one number for the process; finding its libraries takes milliseconds, so once per number."""
    with _lock:
        if _blas != [threads]:
            ThreadpoolController().select(user_api="blas").limit(limits=threads)
            _blas[:] = [threads]
