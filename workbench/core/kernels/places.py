"""Where others use every core: the threads of a team stand each on a core of its own.

Left to itself the system lets two of them share a core for seconds, beside a neighbour that has another: each kernel then takes
the time of both, one after the other, and what one waits the other does not get. Threads that only compute are bound to a core.
The thread that called them is not, since what it starts would be bound with it: it moves to its core, and may leave.
"""
from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.openmp import Runtime, runtime
from workbench.core.threads import usable_cores

__all__ = ["take_places"]

_Member: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_mine = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_mine.__dict__.clear)      # the runtime ends the caller's team: the next one is bound anew


@functools.cache
def _core_now() -> Callable[[], int] | None:
    """What tells the core that the calling thread runs on; None where no system does."""
    try:
        found = ctypes.CDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    found.restype = ctypes.c_int
    return found


def take_places(threads: int) -> None:
    """Bind the calling thread's team of `threads` to cores, and bring the caller to the first; 0 lets them go anywhere."""
    bound = getattr(_mine, "bound", 0)
    if not (threads or bound):
        return
    found, core_now = runtime(), _core_now()
    if found is None or core_now is None:
        return
    cores = set(usable_cores())
    order = sorted(cores)
    if threads != bound:
        _tell(found, max(threads, bound), [{core} for core in order[:threads]] or [cores] * bound)
        _mine.bound = threads
    if threads and core_now() != order[0]:
        with suppress(OSError):      # a core that was there is taken from the process
            os.sched_setaffinity(0, order[:1])
            os.sched_setaffinity(0, cores)


def _tell(found: Runtime, threads: int, places: Sequence[set[int]]) -> None:
    """Each thread of the calling thread's team, but the caller, goes to its place."""
    def member(_: Any) -> None:
        number = found.number()
        if 0 < number < len(places):
            with suppress(OSError):
                os.sched_setaffinity(0, places[number])

    function = _Member(member)
    with Arithmetic():      # this may start them
        found.parallel(ctypes.cast(function, ctypes.c_void_p), None, threads, 0)
