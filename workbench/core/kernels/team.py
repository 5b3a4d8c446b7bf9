"""Compiled loops whose rows the threads of the OpenMP runtime share, by calling one function in each of them."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from workbench.core.kernels.choice import Kernel
from workbench.core.kernels.llvm import Program, load
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.threads import threads_now

__all__ = ["shared_rows"]


def shared_rows(program: Program, arrays: int, rows: int, numbers: Sequence[int]) -> Kernel:
    """A kernel of C-contiguous arrays: each thread takes an equal part of `rows`, without the interpreter's lock.

    The program is one for a "team": its numbers are the first row of a part, that behind the last, and `numbers`. A row's
    bits may not depend on the part that it is in. There must be a `runtime`.
    """
    found = runtime()
    assert found is not None  # the selectors ask first
    block = (ctypes.c_int64 * (3 + arrays + len(numbers)))(*found.team, rows, *[0] * arrays, *numbers)
    parallel, address = found.parallel, ctypes.c_void_p(load(program))

    def kernel(*given: Any) -> None:
        for place, array in enumerate(given, 3):
            block[place] = array.ctypes.data
        parallel(address, block, threads_now(), 0)
    return kernel
