"""How many threads the OpenMP of our kernels would use; other packages bring runtimes of their own into the process."""
from __future__ import annotations

from workbench.core.kernels.onednn_api import load

__all__ = ["openmp_threads"]


def openmp_threads() -> int:
    """The number for the calling thread; 0 where oneDNN, and so its OpenMP, is not there."""
    library = load()
    return 0 if library is None else int(library.library.omp_get_max_threads())
