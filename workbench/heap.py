"""How much of what a step frees C's allocator keeps for the next one."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

__all__ = ["DASK_TRIMS", "keep_memory"]

MMAP_BYTES: Final = 1 << 25
TRIM_BYTES: Final = 1 << 26
"""From how many bytes on memory is asked of the system and given back for each array, and how many free ones may stay at the
end of the rest: what glibc comes to by itself where an array of 32 MiB was freed once (mallopt(3), dynamic thresholds)."""
DASK_TRIMS: Final = "65536"
"""MALLOC_TRIM_THRESHOLD_ as Dask's nannies set it for their workers."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_memory() -> bool:
    """Let glibc keep what a step frees for the next step; returns whether it was told.

    Where a step ends, the lists of its loops are freed. Of more than 128 KiB at the end of its memory glibc gives all back to
    the system, and each page of it then costs a fault in the next step, all in all up to a third of it. Nothing is changed
    where the environment says how memory is to be kept.
    """
    said = {name: os.environ.get(name) for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")}
    if said.pop("MALLOC_TRIM_THRESHOLD_") not in (None, DASK_TRIMS) or any(said.values()) or (
            "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")) or not sys.platform.startswith("linux"):
        return False
    tell = getattr(ctypes.CDLL(None), "mallopt", None)      # other C libraries have none, or one that does nothing
    return tell is not None and bool(tell(_M_MMAP_THRESHOLD, MMAP_BYTES) and tell(_M_TRIM_THRESHOLD, TRIM_BYTES))
