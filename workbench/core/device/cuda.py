"""A CUDA device: CuPy's arrays, one stream, and memory that is counted by us; CuPy loads with the first one."""
from __future__ import annotations

import ctypes
import functools
import importlib.util
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.device.interface import Event, Memory, register_device

__all__ = ["NUMBERS", "STAYING", "CudaDevice", "cards", "missing", "stays"]

STAYING = 64 << 10
"""Bytes up to which integers and truth values stay with the host until a kernel wants them: shapes, axes, labels and indices
are mostly read by the host's part of a kernel. (TensorFlow keeps int32 there, whatever its size.)"""
NUMBERS = frozenset("?bhilqBHILQefd")
"""Characters of the dtypes that the device has arrays of. Anything else, text too, stays with the host."""


def missing() -> str:
    """What this process lacks for CUDA devices, as words for a user; "" when nothing. Cheap: CuPy is not loaded."""
    count, why = _driver()
    if not count:
        return f"there is no CUDA device: {why}"
    if not _has_cupy():
        return "CuPy is not installed; pip install 'workbench[gpu]'"
    return ""


def _has_cupy() -> bool:
    return importlib.util.find_spec("cupy") is not None


def stays(array: np.ndarray[Any, Any]) -> bool:
    """Does a host array stay one where it is given to the device? Then kernels take it as it is, or bring it there."""
    return array.dtype.char not in NUMBERS or (array.dtype.kind in "biu" and array.nbytes <= STAYING)


def cards() -> list[str]:
    """The names of this machine's devices, as its driver gives them."""
    library, names = _library(), []
    for number in range(_driver()[0]):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(200)
        library.cuDeviceGet(ctypes.byref(device), number)
        library.cuDeviceGetName(name, len(name), device)
        names.append(name.value.decode())
    return names


@functools.lru_cache(maxsize=1)
def _driver() -> tuple[int, str]:
    """(how many devices the driver has, why none)."""
    library, count = _library(), ctypes.c_int()
    if library is None:
        return 0, "there is no driver of NVIDIA"
    status = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    return (0, f"the driver answers {status}") if status else (count.value, "the driver has none")


@functools.lru_cache(maxsize=1)
def _library() -> Any:
    for name in ("libcuda.so.1", "nvcuda.dll"):
        with suppress(OSError):
            return ctypes.CDLL(name)
    return None


class CudaDevice:
    """A GPU of this machine. All that is issued runs in one order, that of its stream.

    Arrays are CuPy's, but for what stays with the host as NumPy's: small integers (`STAYING`) and what CuPy has no type for.
    Every array, also one that a kernel makes for itself, is counted in `memory`.
    """

    type, ordered = "GPU", True
    missing = staticmethod(missing)

    def __init__(self, name: str, limit: int | None = None) -> None:
        """NotFoundError where the machine has no device of that number."""
        if lacking := missing():
            raise errors.NotFoundError(f"device: {name!r}: {lacking}")
        import cupy
        self.name, self.memory, self.number = name, Memory(name, limit), int(name.rpartition(":")[2])
        if self.number >= _driver()[0]:
            raise errors.NotFoundError(f"device: {name!r} is asked for but the driver has {_driver()[0]} devices; use GPU:0 … "
                                       f"GPU:{_driver()[0] - 1}")
        self.cupy, self._array = cupy, cupy.ndarray
        self._pool = cupy.cuda.MemoryPool()
        with cupy.cuda.Device(self.number):
            self.stream = cupy.cuda.Stream(non_blocking=True)
        self._waiting: queue.SimpleQueue[_Marked | None] = queue.SimpleQueue()
        self._waits = False
        weakref.finalize(self, self._waiting.put, None).atexit = False
        self._lock = threading.Lock()

    # arrays
    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Any:
        with self._here(what):
            return self.cupy.empty(shape, dtype)

    def copy_in(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray | np.generic):
            return array
        array = np.asarray(array)
        return array if stays(array) else self.upload(array)

    def upload(self, array: np.ndarray[Any, Any]) -> Any:
        """A host array as one on the device, whatever its size."""
        with self._here("an array of the host"):
            return self.cupy.asarray(array, order="C")

    def copy_out(self, array: Any) -> Any:
        if not isinstance(array, self._array):
            return array.copy() if isinstance(array, np.ndarray) else array
        with self._here("a copy for the host"):
            return array.get(stream=self.stream)

    def copy(self, target: Any, source: Any) -> None:
        with self._here("a copy"):
            if isinstance(source, self._array):
                self.cupy.copyto(target, source, casting="no")
            else:
                target.set(np.asarray(source, order="C"), stream=self.stream)

    # kernels
    def issue(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        if _inside.device is self:
            _inside.what = kernel
            return kernel(*arguments)
        with self._here(kernel):
            return kernel(*arguments)

    def event(self) -> Event:
        with self._here("an event"):
            mark = self.stream.record(self.cupy.cuda.Event(block=True, disable_timing=True))
        marked = _Marked(mark, self._await)
        if mark.done:
            marked.complete()
        return marked

    def _await(self, event: _Marked) -> None:
        """Have a thread wait for it: what follows must not run where CUDA calls back, and may take long."""
        with self._lock:
            if not self._waits:
                self._waits = True
                threading.Thread(target=_serve, args=(self._waiting,), name=f"waits for {self.name}", daemon=True).start()
        self._waiting.put(event)

    @contextmanager
    def _here(self, what: Any) -> Iterator[None]:
        """CuPy works on this device, in its stream and with its memory, and its errors are ours."""
        if _inside.device is self:
            outer, _inside.what = _inside.what, what
            try:
                yield
            finally:
                _inside.what = outer
            return
        cuda = self.cupy.cuda
        try:
            with cuda.Device(self.number), cuda.using_allocator(self._allocate), self.stream:
                _inside.device, _inside.what = self, what
                yield
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
            raise _failed(self.name, error) from error
        finally:
            _inside.device = None

    def _allocate(self, nbytes: int) -> Any:
        """CuPy's allocator: memory of the pool of this device, counted until nothing refers to it."""
        cuda, what = self.cupy.cuda, _named(_inside.what)
        self.memory.take(nbytes, what)
        try:
            found = self._pool.malloc(nbytes)
        except cuda.memory.OutOfMemoryError as error:
            self.memory.give(nbytes, what)
            raise errors.ResourceExhaustedError(
                f"{what}: {nbytes} bytes are needed but {self.name} has no such memory beside the {self.memory.used} "
                "bytes that this session uses there; make batches or variables smaller, or close what else uses it") from error
        owner = _Lent(found, self.memory, nbytes, what)
        return cuda.MemoryPointer(cuda.UnownedMemory(found.ptr, nbytes, owner, self.number), 0)


class _Inside(threading.local):
    """The device in which this thread works, and for what."""

    device: CudaDevice | None = None
    what: Any = ""


_inside = _Inside()


def _named(what: Any) -> str:
    """The words for what memory is for: given, or of the kernel that runs."""
    kernel = getattr(what, "func", what)
    return what if isinstance(what, str) else str(getattr(kernel, "__name__", "a kernel"))


def _failed(device: str, error: BaseException) -> errors.InternalError:
    return errors.InternalError(f"{device}: CUDA says {error}; a kernel that was started earlier may have failed. After that "
                                "the process cannot use the device any more: start it again, with CUDA_LAUNCH_BLOCKING=1 to "
                                "learn which one it was")


class _Lent:
    """Memory of a pool, given back to the count when it goes."""

    __slots__ = ("memory", "nbytes", "pointer", "what")

    def __init__(self, pointer: Any, memory: Memory, nbytes: int, what: str) -> None:
        self.pointer, self.memory, self.nbytes, self.what = pointer, memory, nbytes, what

    def __del__(self) -> None:
        self.memory.give(self.nbytes, self.what)


class _Marked(Event):
    """The end of what a stream had been given; a thread waits for it only when somebody asks."""

    def __init__(self, mark: Any, wait: Callable[[_Marked], None]) -> None:
        super().__init__()
        self._mark, self._ask, self._asked = mark, wait, False

    def then(self, callback: Callable[[BaseException | None], None]) -> None:
        super().then(callback)
        if not self.over and not self._asked:
            self._asked = True
            self._ask(self)

    def wait(self) -> None:
        if not self.over and not self._asked:
            self.settle()
        super().wait()

    def settle(self) -> None:
        """Block until the device is there; then it is over."""
        try:
            self._mark.synchronize()
        except Exception as error:
            self.complete(_failed("a CUDA device", error))
        else:
            self.complete()


def _serve(waiting: queue.SimpleQueue[_Marked | None]) -> None:
    """Complete events in the order of the stream; the thread ends with its device."""
    while (event := waiting.get()) is not None:
        event.settle()
        del event


register_device("GPU", CudaDevice)
