"""Receive buffers for large payloads, reused as soon as nobody looks at their memory any more."""
from __future__ import annotations

import contextlib
import mmap
import sys
import threading
from typing import Any

import numpy as np

__all__ = ["BufferPool", "class_of"]

_MAPPED = 1 << 20      # bytes from which a buffer is memory of its own
_UNUSED = 2      # references seen by `_is_free`: the pool's list slot and getrefcount's own argument


class BufferPool:
    """Byte arrays by classes of size. The first touch of fresh memory costs ten times a copy, so buffers are kept.

    A tensor that was received is a view whose base is its buffer, so the buffer's reference count says whether the
    engine still holds it: nothing has to be given back. About `idle_limit` bytes are kept for nobody at most.
    """

    def __init__(self, idle_limit: int = 1 << 30) -> None:
        self._lock = threading.Lock()
        self._buffers: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._idle_limit = idle_limit
        self._nbytes = 0                     # of all buffers, in use or not
        self._look_at = idle_limit           # from so many bytes on, idle buffers are looked for

    def take(self, nbytes: int) -> np.ndarray[Any, Any]:
        """A writable uint8 array of exactly `nbytes`, its content undefined. MemoryError when there is no room."""
        size = class_of(nbytes)
        with self._lock:
            same = self._buffers.setdefault(size, [])
            for index in range(len(same)):
                if _is_free(same, index):
                    same.append(same.pop(index))      # oldest first, so that a hot edge alternates between two
                    return same[-1][:nbytes]
            if self._nbytes + size > self._look_at:
                self._trim(size)
            try:
                fresh = _made(size)
            except MemoryError:
                self._trim(self._idle_limit)          # what nobody uses makes room
                fresh = _made(size)
            self._buffers[size].append(fresh)
            self._nbytes += size
            return fresh[:nbytes]

    def _trim(self, coming: int) -> None:
        """Let idle buffers go; the next look is due when as much has come as may be idle."""
        self._let_go(coming)
        self._nbytes = sum(size * len(same) for size, same in self._buffers.items())
        self._look_at = max(self._idle_limit, self._nbytes + self._idle_limit // 4)

    def _let_go(self, coming: int) -> None:
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
            self._nbytes, self._look_at = 0, self._idle_limit


def _made(size: int) -> np.ndarray[Any, Any]:
    """A new buffer; MemoryError when there is no room.

    NOTE: a large one is mapped, not allocated: the C library would take the memory of those that were let go for others, and
    keep it, in pieces, because of what lies between them.
    """
    if size < _MAPPED:
        return np.empty(size, np.uint8)
    private = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    try:
        memory = mmap.mmap(-1, size, **private)
    except OSError as problem:
        raise MemoryError(f"{size} bytes for a receive buffer: {problem}") from problem
    if hasattr(mmap, "MADV_HUGEPAGE"):      # as NumPy asks for its arrays; not every kernel has them
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def class_of(nbytes: int) -> int:
    """The size of the buffers that serve `nbytes`: four classes from each power of two to the next."""
    step = 1 << max((nbytes - 1).bit_length() - 3, 0)
    return -(-nbytes // step) * step


def _is_free(same: list[np.ndarray[Any, Any]], index: int) -> bool:
    return sys.getrefcount(same[index]) <= _UNUSED
