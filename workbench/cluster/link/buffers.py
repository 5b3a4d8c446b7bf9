"""Memory for large payloads, reused as soon as nobody looks at it any more: of this process, or such as others can map too."""
from __future__ import annotations

import contextlib
import math
import mmap
import os
import sys
import threading
import weakref
from typing import Any, Protocol

import numpy as np

__all__ = ["FROM", "BufferPool", "Descriptor", "Lendable", "Segment", "class_of"]

FROM = 1 << 20         # bytes of a payload from which memory that both ends see is cheaper than the way through a socket
_MAPPED = 1 << 20      # bytes from which a buffer is memory of its own
_UNUSED = 2      # references seen by `_is_free`: the pool's list slot and getrefcount's own argument


class _Pool:
    """Byte arrays by classes of size. The first touch of fresh memory costs ten times a copy, so buffers are kept.

    A tensor that was received is a view whose base is its buffer, so the buffer's reference count says whether the
    engine still holds it: nothing has to be given back. About `idle_limit` bytes are kept for nobody at most.
    """

    def __init__(self, idle_limit: int) -> None:
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
                fresh = self._made(size)
            except MemoryError:
                self._trim(self._idle_limit)          # what nobody uses makes room
                fresh = self._made(size)
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

    def _made(self, size: int) -> np.ndarray[Any, Any]:
        """A new buffer; MemoryError when there is no room."""
        raise NotImplementedError


class BufferPool(_Pool):
    """Buffers of this process, and `lendable` ones."""

    def __init__(self, idle_limit: int = 1 << 30) -> None:
        super().__init__(idle_limit)
        self.lendable = Lendable(idle_limit)

    def clear(self) -> None:
        super().clear()
        self.lendable.clear()

    def _made(self, size: int) -> np.ndarray[Any, Any]:
        return _made(size)


class Descriptor:
    """Of an open file, which is closed when nobody refers to this."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class Segment:
    """A file of memory. Whoever maps it keeps it, whatever becomes of the others."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.file = Descriptor(os.memfd_create("workbench", os.MFD_CLOEXEC))
        os.ftruncate(self.file.number, size)
        self.bytes: weakref.ref[np.ndarray[Any, Any]]      # all of it, which keep it mapped

    def mapped(self) -> np.ndarray[Any, Any]:
        """The memory, where whoever maps the file sees it too."""
        whole = np.frombuffer(mmap.mmap(self.file.number, self.size), np.uint8)
        self.bytes = weakref.ref(whole)
        return whole


class Lends(Protocol):
    """Who has lent what a pool gave."""

    def look_back(self) -> None:
        """Let go of what was given back."""


class Lendable(_Pool):
    """Buffers that lie in files of memory, which others on this host map: what is made in one is sent without a copy."""

    def __init__(self, idle_limit: int) -> None:
        super().__init__(idle_limit)
        self._segments: dict[int, Segment] = {}            # by the address of their first byte
        self._lenders: weakref.WeakSet[Lends] = weakref.WeakSet()

    def tell(self, lender: Lends) -> None:
        """Ask it for what was given back before anything is taken."""
        with self._lock:
            self._lenders.add(lender)

    def look_back(self) -> None:
        with self._lock:
            lenders = list(self._lenders)
        for lender in lenders:
            lender.look_back()

    def take(self, nbytes: int) -> np.ndarray[Any, Any]:
        self.look_back()
        return super().take(nbytes)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """As `numpy.empty`, for what may be sent: what is large lies in memory that can be lent, where there is such."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes >= FROM:
            with contextlib.suppress(MemoryError):
                return self.take(nbytes).view(dtype).reshape(shape)
        return np.empty(shape, dtype)

    def place(self, payload: Any) -> tuple[Segment, int] | None:
        """The segment in which the bytes of `payload` lie, and where they begin in it; None where they lie in none."""
        array = np.frombuffer(payload, np.uint8)
        whole = array
        while isinstance(base := whole.base.obj if isinstance(whole.base, memoryview) else whole.base, np.ndarray):
            whole = base
        begin: int = whole.__array_interface__["data"][0]
        segment = self._segments.get(begin)
        if segment is None or segment.bytes() is not whole:
            return None
        return segment, array.__array_interface__["data"][0] - begin

    def retire(self, segment: Segment) -> None:
        """Give this one to nobody any more: somebody may look at it who will not say when no more."""
        whole = segment.bytes()
        with self._lock:
            for same in self._buffers.values():
                same[:] = [one for one in same if one is not whole]

    def _made(self, size: int) -> np.ndarray[Any, Any]:
        _made(size)                                        # is there room? Files of memory are made where there is none
        try:
            segment = Segment(size)
            whole = segment.mapped()
        except (OSError, AttributeError) as problem:      # such files are Linux's
            raise MemoryError(f"{size} bytes that can be lent: {problem}") from problem
        begin: int = whole.__array_interface__["data"][0]
        self._segments[begin] = segment
        weakref.finalize(whole, self._segments.pop, begin, None).atexit = False
        return whole


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
