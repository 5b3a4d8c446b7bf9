"""cuDNN's convolutions through ctypes: descriptors made once for each shape, float32 in float32 arithmetic, never TF32."""
from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.kernels.cuda.values import cupy

__all__ = ["Problem", "available", "backward_data", "backward_filter", "forward"]

# constants of cudnn.h
_FLOAT, _DOUBLE = 0, 1
_NCHW, _NHWC = 0, 1
_CROSS_CORRELATION, _FMA_MATH, _DETERMINISTIC = 1, 3, 1
WORKSPACE = 256 << 20
"""Bytes that one convolution may use beside its arrays; algorithms that want more are not chosen."""


class Problem(NamedTuple):
    """One convolution: lengths of all axes, and how the filter moves. Images are [n, h, w, c] or [n, c, h, w] in memory,
    filters [o, kh, kw, c] or [o, c, kh, kw]; padding is the same before and after."""

    dtype: str
    channels_last: bool
    images: tuple[int, int, int, int]        # n, c, h, w, whatever lies in memory
    filter: tuple[int, int, int, int]        # o, c, kh, kw
    outputs: tuple[int, int, int, int]       # n, o, h, w
    padding: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]


class _Found(ctypes.Structure):
    """cudnnConvolution…AlgoPerf_t"""

    _fields_ = (("algorithm", ctypes.c_int), ("status", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t),
                ("determinism", ctypes.c_int), ("math", ctypes.c_int), ("reserved", ctypes.c_int * 3))


@functools.cache
def _library() -> Any:
    """The library; OSError where it cannot be loaded."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
        found = ctypes.CDLL(load_nvidia_dynamic_lib("cudnn").abs_path)
    except (ImportError, RuntimeError):
        found = ctypes.CDLL("libcudnn.so.9")
    found.cudnnGetErrorString.restype = ctypes.c_char_p
    return found


@functools.cache
def available() -> bool:
    """Can cuDNN be loaded here? Where not, convolutions are products of patches."""
    try:
        _library()
    except OSError:
        return False
    return True


def _check(where: str, status: int) -> None:
    if status:
        text = (_library().cudnnGetErrorString(status) or b"").decode()
        raise errors.InternalError(f"cuDNN: {where} answers {status} ({text}); please report, with the convolution's shapes")


def _call(name: str, *arguments: Any) -> None:
    _check(name, getattr(_library(), name)(*arguments))


def _described(create: str, fill: str, *numbers: int) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    _call(create, ctypes.byref(made))
    _call(fill, made, *map(ctypes.c_int, numbers))
    return made


class Descriptors:
    """cuDNN's names for the arrays and the movement of a problem; they live as long as the process."""

    def __init__(self, problem: Problem) -> None:
        kind = _DOUBLE if problem.dtype == "float64" else _FLOAT
        layout = _NHWC if problem.channels_last else _NCHW
        self.images = _described("cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor", layout, kind, *problem.images)
        self.outputs = _described("cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor", layout, kind, *problem.outputs)
        self.filter = _described("cudnnCreateFilterDescriptor", "cudnnSetFilter4dDescriptor", kind, layout, *problem.filter)
        self.convolution = _described("cudnnCreateConvolutionDescriptor", "cudnnSetConvolution2dDescriptor", *problem.padding,
                                      *problem.strides, *problem.dilations, _CROSS_CORRELATION, kind)
        _call("cudnnSetConvolutionMathType", self.convolution, ctypes.c_int(_FMA_MATH))
        scalar = ctypes.c_double if kind == _DOUBLE else ctypes.c_float
        self.one, self.zero = scalar(1), scalar(0)


class _Way(NamedTuple):
    """One of the three computations: cuDNN's name, and which descriptors it reads and writes."""

    name: str
    reads: tuple[str, str]
    writes: str


_FORWARD = _Way("Forward", ("images", "filter"), "outputs")
_DATA = _Way("BackwardData", ("filter", "outputs"), "images")
_FILTER = _Way("BackwardFilter", ("images", "outputs"), "filter")
_handles: dict[int, ctypes.c_void_p] = {}
_lock = threading.Lock()      # a handle belongs to one thread at a time


def _handle() -> ctypes.c_void_p:
    """The library's state for the current device, set to the current stream."""
    device = cupy.cuda.runtime.getDevice()
    if device not in _handles:
        made = ctypes.c_void_p()
        _call("cudnnCreate", ctypes.byref(made))
        _handles[device] = made
    _call("cudnnSetStream", _handles[device], ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
    return _handles[device]


@functools.lru_cache(maxsize=4096)
def _prepared(way: _Way, problem: Problem, device: int) -> tuple[Descriptors, int, int]:
    """(descriptors, an algorithm, its bytes): of those that serve within WORKSPACE the first of cuDNN's heuristic,
    but before all those that may add up in another order in each run."""
    made, handle = Descriptors(problem), _handle()
    given = [getattr(made, name) for name in way.reads]
    found, count = (_Found * 8)(), ctypes.c_int()
    _call(f"cudnnGetConvolution{way.name}Algorithm_v7", handle, *given, made.convolution, getattr(made, way.writes),
          ctypes.c_int(8), ctypes.byref(count), found)
    for each in sorted(found[:count.value], key=lambda way: way.determinism != _DETERMINISTIC):
        if each.status == 0 and each.memory <= WORKSPACE and each.math in (0, _FMA_MATH):
            return made, each.algorithm, each.memory
    raise errors.UnimplementedError(f"cuDNN: it has no way to compute {way.name} of {problem}")


def _run(way: _Way, problem: Problem, first: Any, second: Any, out: Any) -> None:
    with _lock:
        made, algorithm, nbytes = _prepared(way, problem, cupy.cuda.runtime.getDevice())
        space = cupy.empty(nbytes, "uint8")
        point = [ctypes.c_void_p(array.data.ptr) for array in (first, second, out)]
        one, two = (getattr(made, name) for name in way.reads)
        _call(f"cudnnConvolution{way.name}", _handle(), ctypes.byref(made.one), one, point[0], two, point[1], made.convolution,
              ctypes.c_int(algorithm), ctypes.c_void_p(space.data.ptr), ctypes.c_size_t(nbytes), ctypes.byref(made.zero),
              getattr(made, way.writes), point[2])


def forward(problem: Problem, images: Any, filter: Any, out: Any) -> None:
    """Fill `out` with the convolution."""
    _run(_FORWARD, problem, images, filter, out)


def backward_data(problem: Problem, filter: Any, dy: Any, out: Any) -> None:
    """Fill `out` with the derivative by the images."""
    _run(_DATA, problem, filter, dy, out)


def backward_filter(problem: Problem, images: Any, dy: Any, out: Any) -> None:
    """Fill `out` with the derivative by the filter."""
    _run(_FILTER, problem, images, dy, out)
