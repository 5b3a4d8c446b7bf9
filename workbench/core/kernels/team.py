"""Compiled loops whose rows the threads of the OpenMP runtime share, by calling one function in each of them."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from workbench.core.kernels.choice import Kernel
from workbench.core.kernels.llvm import Program, bind
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.threads import SERIAL, threads_now

__all__ = ["SHARED", "shared_rows", "worth_sharing"]

SHARED = SERIAL          # seconds on one thread from which on threads share a loop, be they awake or not
_BYTES = 2e10            # measured on one core: what a second moves


def worth_sharing(moved: int, seconds: float = 0.0) -> bool:
    """Is a loop that moves so many bytes, and computes for so long on one thread besides, worth waking others?"""
    return moved / _BYTES + seconds > SHARED and runtime() is not None


def shared_rows(program: Program, rows: int, numbers: Sequence[int]) -> Kernel:
    """A kernel of C-contiguous arrays: each thread takes an equal part of `rows`, without the interpreter's lock.

    The program is one for a "team": its numbers are the first row of a part, that behind the last, and `numbers`. A row's
    bits may not depend on the part that it is in. There must be a `runtime`. Several threads may call it at the same time.
    """
    found = runtime()
    assert found is not None  # the selectors ask first
    threads = ctypes.c_int()
    call = bind(program, (*found.team, rows, found.start, ctypes.addressof(threads), *numbers), True)

    def kernel(*given: Any) -> None:
        threads.value = threads_now()
        call(*given)
    return kernel
