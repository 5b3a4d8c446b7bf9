"""What numeric libraries read once, when they load: set before, and told to OpenBLAS where NumPy was there first.

Imported before anything that imports NumPy, so it imports nothing that does.
"""
from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import Any, Final

from workbench.heap import keep_memory
from workbench.settings import settings

__all__ = ["SPINS", "limit_spinning", "prepare_environment", "spins_long"]

SPINS: Final = "60000"
"""How often a waiting OpenMP thread looks for work before it sleeps: some 0.6 to 2 ms, longer than what lies between two
kernels of a step; beside busy processes fewer threads work."""
BLAS_SPINS: Final = "18"
"""Two to this power is how many ticks of the processor a thread of OpenBLAS looks for more work: some 0.1 ms.

Its default is 26, some 30 ms on one core for each product, taken from everybody else: from oneDNN's threads as well, so that
steps in which both work took up to five times as long. Below 18 products in a row wake it anew.
"""


def prepare_environment(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Set OPENBLAS_CORETYPE=SkylakeX if that can still help; returns whether it was set.

    It names the processor for which NumPy's OpenBLAS picks its kernels, which takes some processors with AVX-512 for a
    Haswell and then runs at half speed. It stays as it is if NumPy is already imported, if the variable has a value, or if
    the processor has no AVX-512 (or the system does not tell, as on macOS and Windows). Also bounds how long waiting threads
    of OpenMP and OpenBLAS look for work, and keeps memory, unless the environment says it.
    """
    limit_spinning()
    keep_memory()
    late = "numpy" in sys.modules
    if "OPENBLAS_THREAD_TIMEOUT" not in os.environ:
        os.environ["OPENBLAS_THREAD_TIMEOUT"] = BLAS_SPINS
        if late:
            _read_again()
    if settings.deterministic:      # also for a BLAS that loads later than others are limited, as SciPy's
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if late or "OPENBLAS_CORETYPE" in os.environ or not _has_avx512(cpuinfo):
        return False
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX"
    return True


def limit_spinning() -> bool:
    """Let waiting OpenMP threads sleep after about a millisecond; returns whether the environment was changed.

    By default GNU OpenMP spins for many, which takes the cores from everybody else: with two busy processes on
    two cores a training step took ten times as long. Much less is no better: a thread that sleeps at each gap between
    two kernels has to be woken for the next, which can cost more than it helps. Works only before the runtime is loaded
    (`spins_long`), and only if neither GOMP_SPINCOUNT nor OMP_WAIT_POLICY is set.
    """
    spins_long()      # remembers what was there before
    if _spinning_is_said():
        return False
    os.environ["GOMP_SPINCOUNT"] = SPINS
    return True


@functools.cache
def spins_long() -> bool:
    """Whether another package, torch for one, loaded the OpenMP runtime before anyone bounded how long its threads look for
    work: they do for several milliseconds, as long as the process lives."""
    return not _spinning_is_said() and _is_loaded("libgomp.so.1")


def _spinning_is_said() -> bool:
    return "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ


def _is_loaded(library: str) -> bool:
    """Without loading it; False where no system tells."""
    try:
        ctypes.CDLL(library, mode=os.RTLD_NOLOAD)
    except (AttributeError, OSError):
        return False
    return True


def _read_again() -> None:
    """Let each OpenBLAS that is loaded read its environment, and begin its threads anew when they are next wanted, as it does
    in a process that forks. One that has no such functions stays as it is."""
    from threadpoolctl import ThreadpoolController
    for controller in ThreadpoolController().select(internal_api="openblas").lib_controllers:
        library: Any = controller.dynlib
        if all(hasattr(library, name) for name in ("openblas_read_env", "blas_thread_shutdown_")):
            library.openblas_read_env()
            library.blas_thread_shutdown_()


def _has_avx512(cpuinfo: Path) -> bool:
    """The five feature sets that OpenBLAS's SkylakeX kernels use, as Linux names them."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags)
