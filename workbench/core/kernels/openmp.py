"""The OpenMP runtime of the process: functions called in each thread of a team."""
from __future__ import annotations

import ctypes
import functools
import os

__all__ = ["Runtime", "runtime"]

_SOFT = 1      # OpenMP's word for "end the threads, keep the settings"


class Runtime:
    """The OpenMP runtime that oneDNN uses: our loops run on its threads, which are awake between its own."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libgomp.so.1")
        self.number = self.library.omp_get_thread_num
        self.parallel = self.library.GOMP_parallel
        functions = self.number, self.library.omp_get_num_threads, self.parallel
        *self.team, self.start = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
        self.parallel.restype = None
        self.parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        pause = getattr(self.library, "omp_pause_resource_all", None)
        if pause is not None and hasattr(os, "register_at_fork"):
            # NOTE: a forked child has the caller's team without its threads, and would wait for them for ever
            os.register_at_fork(before=functools.partial(pause, _SOFT))


@functools.cache
def runtime() -> Runtime | None:
    """None where there is no GNU OpenMP runtime."""
    try:
        return Runtime()
    except (OSError, AttributeError):
        return None
