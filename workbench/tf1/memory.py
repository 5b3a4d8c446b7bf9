"""tf.contrib.memory_stats: how much memory this process uses, as operations."""
from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np

import workbench as wb
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor

__all__ = ["BytesInUse", "BytesLimit", "MaxBytesInUse"]


def _read(read: Callable[[], int], name: str) -> Tensor:
    return ops.reshape(wb.py_func(lambda: np.int64(read()), [], "int64", name=name), [])


def BytesInUse(name: str | None = None) -> Tensor:
    """Bytes that this process holds in the machine's memory, an int64 scalar."""
    return _read(lambda: int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(), name or "BytesInUse")


def BytesLimit(name: str | None = None) -> Tensor:
    """Bytes of the machine's memory, an int64 scalar."""
    return _read(lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), name or "BytesLimit")


def MaxBytesInUse(name: str | None = None) -> Tensor:
    """The most bytes that this process has held, an int64 scalar."""
    return _read(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, name or "MaxBytesInUse")
