"""One number of compute threads for oneDNN (OpenMP) and BLAS together, and the environment they need.

Small work runs on one thread: waking a second one costs tens of microseconds, milliseconds beside a busy process, and
while it waits for more it takes a core from everybody else. `threads_for` says which work is small.
"""
from __future__ import annotations

import functools
import os
import sys
import threading
from pathlib import Path
from typing import Final

from threadpoolctl import ThreadpoolController

from workbench.core.kernels.crowd import crowd, usable_cores
from workbench.core.kernels.onednn_api import limit_spinning, load
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.places import take_places
from workbench.errors import InvalidArgumentError
from workbench.settings import settings

__all__ = ["adopt_threads", "get_threads", "prepare_environment", "set_threads",
           "threads_for", "threads_now"]

_lock = threading.Lock()
_adopted = threading.local()
_current: list[int] = []
_asked: list[int] = []      # what a program set itself, if it did
_blas: list[int] = []
SERIAL: Final = 80e-6
"""Seconds on one thread, below which work is not shared: two threads gain at most half of it."""
BLAS_SPINS: Final = "18"
"""Two to this power is how many ticks of the processor a thread of OpenBLAS looks for more work: some 0.1 ms.

Its default is 26, some 30 ms on one core for each product, taken from everybody else. Below 18 products in a row wake it anew.
"""


@functools.cache
def _cores() -> int:
    """Cores this process may use: its affinity, or fewer if OMP_NUM_THREADS says so (Dask sets it for its workers)."""
    cores = usable_cores()
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
    before keep primitives that were laid out for the old number; make new sessions after a change.

    OPENBLAS_CORETYPE names the processor for which NumPy's OpenBLAS picks its kernels. It is read once, when NumPy
    loads: `prepare_environment` sets it to `SkylakeX` where the processor has AVX-512, because OpenBLAS takes some
    such processors for a Haswell and then runs at half speed. Raises InvalidArgumentError for a negative number.
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

    Every thread that runs kernels calls this before, because OpenMP keeps its number per thread; and it is the moment to
    look whether other processes want the cores. For a `little` work no thread is brought to a core of its own: it would be
    moved to and fro more often than it computes.
    """
    if settings.threads > 0 or _asked:
        crowd.taken = 0      # so many were asked for, and so many work
    else:
        crowd.look()
    chosen = get_threads()
    if not little:
        take_places(chosen if crowd.everywhere and chosen == crowd.cores > 1 else 0)
    blas = 1 if settings.deterministic else chosen      # its threads each add up a part of long sums
    if getattr(_adopted, "threads", None) == (chosen, blas):
        return
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


def prepare_environment(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Set OPENBLAS_CORETYPE=SkylakeX if that can still help; returns whether it was set.

    Also bounds how long waiting threads of OpenMP and OpenBLAS look for work, unless the environment says it. The core
    type stays as it is if NumPy is already imported, if the variable has a value, or if the processor has no AVX-512
    (or the system does not tell, as on macOS and Windows).
    """
    limit_spinning()
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", BLAS_SPINS)
    if settings.deterministic:      # also for a BLAS that loads later than others are limited, as SciPy's
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "numpy" in sys.modules or "OPENBLAS_CORETYPE" in os.environ or not _has_avx512(cpuinfo):
        return False
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX"
    return True


def _has_avx512(cpuinfo: Path) -> bool:
    """The five feature sets that OpenBLAS's SkylakeX kernels use, as Linux names them."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags)
