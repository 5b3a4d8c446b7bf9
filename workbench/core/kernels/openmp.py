"""The OpenMP runtime of the process: functions called in each thread of a team."""
from __future__ import annotations

import ctypes
import functools

__all__ = ["Runtime", "runtime"]


class Runtime:
    """The OpenMP runtime that oneDNN uses: our loops run on its threads, which are awake between its own."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libgomp.so.1")
        self.number = self.library.omp_get_thread_num
        functions = self.number, self.library.omp_get_num_threads
        self.team = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
        self.parallel = self.library.GOMP_parallel
        self.parallel.restype = None
        self.parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)


@functools.cache
def runtime() -> Runtime | None:
    """None where there is no GNU OpenMP runtime."""
    try:
        return Runtime()
    except (OSError, AttributeError):
        return None
