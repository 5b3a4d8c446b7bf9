"""The CPU as a device: NumPy arrays, kernels that have run when they return."""
from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.device.interface import Event, HostArray, Memory, register_device

__all__ = ["HostDevice"]


class HostDevice:
    """Memory of this process. Its arrays are those of the host, so that nothing is copied on the way in or out."""

    type, ordered = "CPU", True

    def __init__(self, name: str, limit: int | None = None) -> None:
        self.name, self.memory = name, Memory(name, limit)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> HostArray:
        nbytes = math.prod(shape) * dtype.itemsize
        self.memory.take(nbytes, what)
        try:
            array: HostArray = np.empty(shape, dtype)
        except MemoryError as error:
            self.memory.give(nbytes, what)
            raise self.memory.refused(nbytes, what) from error
        weakref.finalize(array, self.memory.give, nbytes, what).atexit = False
        return array

    def copy_in(self, array: Any) -> Any:
        return array

    def copy_out(self, array: Any) -> Any:
        return array

    def copy(self, target: HostArray, source: HostArray) -> None:
        np.copyto(target, source, casting="no")

    def issue(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        return kernel(*arguments)

    def event(self) -> Event:
        return _NOW


_NOW = Event()
_NOW.complete()
register_device("CPU", HostDevice)
