"""Values that wait on disk: one file without a name for each task, bounded, whose parts are used again."""
from __future__ import annotations

import os
import tempfile
import threading
from bisect import bisect_left, insort
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors

__all__ = ["SwapFile", "Swapped"]

_PAGE = 4096      # bytes; parts begin and end at multiples


class Swapped:
    """A value on disk; its part of the file is free when nobody holds this any more."""

    __slots__ = ("_file", "dtype", "nbytes", "shape", "start")

    def __init__(self, file: SwapFile, start: int, array: np.ndarray[Any, Any]) -> None:
        self._file, self.start = file, start
        self.dtype, self.shape, self.nbytes = array.dtype, array.shape, array.nbytes

    def read(self) -> np.ndarray[Any, Any]:
        """The value, the same bits, in an array of its own. DataLossError where the file is shorter."""
        array = np.empty(self.shape, self.dtype)
        self._file.read(self.start, array)
        return array

    def __del__(self) -> None:
        self._file.release(self.start, self.nbytes)


class SwapFile:
    """At most `limit` bytes in a file in `folder`, by default the system's for such files. It has no name: the system removes
    it when it is closed or when its process ends, however that ends."""

    def __init__(self, folder: Path | None, limit: int) -> None:
        self.limit, self.size = limit, 0
        self._lock = threading.Lock()
        self._gaps: list[tuple[int, int]] = []      # (start, bytes), sorted
        self._released: deque[tuple[int, int]] = deque()      # that are no gaps yet
        try:
            self._file = tempfile.TemporaryFile(prefix="workbench-swap-", dir=folder, buffering=0)      # noqa: SIM115
        except OSError as error:
            raise errors.FailedPreconditionError(f"swap: there can be no file in {folder or tempfile.gettempdir()} "
                                                 f"({error.strerror}); set WB_SWAP to a folder that can be written") from error

    def write(self, array: np.ndarray[Any, Any], name: str) -> Swapped:
        """Put `array`, C-contiguous, on disk. ResourceExhaustedError, naming the operation `name`, where `limit` or the disk
        has no room."""
        start = self._take(_paged(array.nbytes), name)
        found = Swapped(self, start, array)
        try:
            self._whole(os.pwrite, array, start)
        except OSError as error:
            raise errors.ResourceExhaustedError(f"swap: {array.nbytes} bytes of {name!r} cannot be written to a file of "
                                                f"{self.size} ({error.strerror}); free the disk, set WB_SWAP to a folder on "
                                                "another one, or swap less") from error
        return found

    def read(self, start: int, array: np.ndarray[Any, Any]) -> None:
        """Fill `array` with what was written from `start` on."""
        self._whole(lambda file, rest, at: os.preadv(file, [rest], at), array, start)

    def release(self, start: int, nbytes: int) -> None:
        """The part may be used again. No lock is taken: a value may be collected while this thread holds it."""
        self._released.append((start, _paged(nbytes)))

    def _gather(self) -> None:
        """Make gaps of what was released, each as long as can be."""
        while self._released:
            start, size = self._released.popleft()
            position = bisect_left(self._gaps, (start, 0))
            if position < len(self._gaps) and self._gaps[position][0] == start + size:
                size += self._gaps.pop(position)[1]
            if position and sum(self._gaps[position - 1]) == start:
                start, before = self._gaps.pop(position - 1)
                size += before
            insort(self._gaps, (start, size))

    def close(self, cancel_pending: bool = False) -> None:
        """Give the disk back; what is swapped out can be read no more."""
        self._file.close()

    def _take(self, size: int, name: str) -> int:
        with self._lock:
            self._gather()
            for position, (start, room) in enumerate(self._gaps):
                if room >= size:
                    self._gaps[position:position + 1] = [(start + size, room - size)] if room > size else []
                    return start
            if self.size + size > self.limit:
                raise errors.ResourceExhaustedError(f"swap: {size} bytes of {name!r} are needed but {self.size} of the "
                                                    f"{self.limit} bytes of the file are taken; raise WB_SWAP_BYTES, or swap "
                                                    "less")
            self.size, start = self.size + size, self.size
            return start

    def _whole(self, move: Any, array: np.ndarray[Any, Any], start: int) -> None:
        rest: Any = array.reshape(-1).view(np.uint8)
        while len(rest):
            done = move(self._file.fileno(), rest, start)
            if not done:
                raise errors.DataLossError(f"swap: the file ends {len(rest)} bytes before a value does; it was cut by "
                                           "another program")
            rest, start = rest[done:], start + done


def _paged(nbytes: int) -> int:
    return max(1, -(-nbytes // _PAGE)) * _PAGE
