"""Receive buffers for large payloads, reused as soon as nobody looks at their memory any more."""
from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

__all__ = ["BufferPool"]

_UNUSED = 2      # references seen by `_is_free`: the pool's list slot and getrefcount's own argument


class BufferPool:
    """Byte arrays by size. The first touch of fresh memory costs ten times a copy, so buffers are kept.

    A tensor that was received is a view whose base is its buffer, so the buffer's reference count says whether the
    engine still holds it: nothing has to be given back. `idle_limit` bounds the bytes kept for nobody.
    """

    def __init__(self, idle_limit: int = 1 << 30) -> None:
        self._lock = threading.Lock()
        self._buffers: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._idle_limit = idle_limit

    def take(self, nbytes: int) -> np.ndarray[Any, Any]:
        """A writable uint8 array of exactly `nbytes`, its content undefined."""
        with self._lock:
            same = self._buffers.setdefault(nbytes, [])
            for index in range(len(same)):
                if _is_free(same, index):
                    same.append(same.pop(index))      # oldest first, so that a hot edge alternates between two
                    return same[-1]
            self._trim(nbytes)
            fresh = np.empty(nbytes, np.uint8)
            same.append(fresh)
            return fresh

    def _trim(self, coming: int) -> None:
        idle = sum(size for size, same in self._buffers.items() for i in range(len(same)) if _is_free(same, i))
        for size in list(self._buffers):
            if idle + coming <= self._idle_limit:
                return
            before = self._buffers[size]
            kept = [before[i] for i in range(len(before)) if not _is_free(before, i)]
            idle -= size * (len(before) - len(kept))
            self._buffers[size] = kept

    def clear(self) -> None:
        with self._lock:
            self._buffers.clear()


def _is_free(same: list[np.ndarray[Any, Any]], index: int) -> bool:
    return sys.getrefcount(same[index]) <= _UNUSED
