"""What the measurements of a CUDA device share: turns, checks, versions, captured steps, and cuBLASLt through ctypes."""
from __future__ import annotations

import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["Product", "Rows", "Step", "apart", "captured", "compare", "found", "same"]

Step = Callable[[], Any]
PACKAGES = ("torch", "jax", "cupy-cuda13x", "numpy", "triton", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cuda-nvrtc",
            "nvidia-cudnn-frontend")
WORKSPACE = 32 << 20
"""Bytes that cuBLASLt may use; what PyTorch gives it on this architecture."""


class Rows:
    """Results as they come: printed, and appended to a file of JSON lines if one is given."""

    def __init__(self, file: str = "") -> None:
        self.file = Path(file) if file else None

    def add(self, what: str, **values: Any) -> None:
        print(f"{what}: " + ", ".join(f"{key} {value}" for key, value in values.items()), flush=True)
        if self.file:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"what": what, **values}) + "\n")


def found() -> dict[str, str]:
    """The card, its driver's version of CUDA, and the packages that are timed; {} without a CUDA device."""
    try:
        import cupy
        if not cupy.cuda.is_available():
            return {}
    except ImportError:
        return {}
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "-"
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return {"card": properties["name"].decode(), "driver": str(cupy.cuda.runtime.driverGetVersion()), **versions}


def compare(contestants: Mapping[str, Step], synchronize: Step, rounds: int = 5, seconds: float = 0.03) -> dict[str, Any]:
    """Microseconds of a call when many follow each other, in turns: name -> [median, lowest, highest] of the rounds."""
    counts, times = {}, {name: [] for name in contestants}  # type: ignore[var-annotated]
    for name, step in contestants.items():
        for _ in range(3):
            step()
        counts[name] = max(2, int(seconds / max(1e-7, _spent(step, 3, synchronize))))
    names = list(contestants)
    for turn in range(rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            times[name].append(1e6 * _spent(contestants[name], counts[name], synchronize))
    return {name: [round(value, 2) for value in (statistics.median(each), min(each), max(each))]
            for name, each in times.items()}


def _spent(step: Step, count: int, synchronize: Step) -> float:
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        step()
    synchronize()
    return (time.perf_counter() - start) / count


def apart(module: str, arguments: Iterable[str], limit: float) -> Any:
    """The exit status of a benchmark in a process of its own; "over 150 s" where it took longer than `limit` seconds."""
    try:
        return subprocess.run([sys.executable, "-m", module, *arguments], timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return f"over {limit:.0f} s"


def same(what: str, ours: Any, theirs: Any, tolerance: float) -> None:
    """Stop when two results differ by more than `tolerance` of the reference's norm; NaN differs."""
    import numpy as np
    a, b = (np.asarray(value, np.float64) for value in (ours, theirs))
    error = float(np.linalg.norm(a - b) / max(1e-30, float(np.linalg.norm(b))))
    if not error <= tolerance:
        raise SystemExit(f"{what}: results differ by {error:.1e} of their norm (allowed {tolerance:g})")


def captured(calls: Step, stream: Any) -> Any:
    """A CUDA graph of what `calls` starts on CuPy's current stream, which is `stream`."""
    with stream:
        calls()                                  # modules load and plans are made before, never inside
        stream.synchronize()
        stream.begin_capture()
        calls()
        return stream.end_capture()


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


class Product:
    """out[m, n] = a[m, k] · b[k, n], rows contiguous, by cuBLASLt; types and arithmetic as the constants of its header say."""

    FLOAT, BFLOAT = 0, 14
    EXACT, TF32 = 68, 77
    library: Any = None
    handle = ctypes.c_void_p()
    workspace: Any = None

    def __init__(self, arrays: Iterable[tuple[int, Any]], kind: int, arithmetic: int) -> None:
        """`arrays`: a, b and out, each as (pointer, (rows, columns))."""
        a, b, out = arrays
        self._start()
        lt, make = self.library, ctypes.c_void_p
        self.descriptor, self.preference = make(), make()
        self.check(lt.cublasLtMatmulDescCreate(ctypes.byref(self.descriptor), arithmetic, self.FLOAT))
        self.layouts = []
        for _, (rows, columns) in (b, a, out):      # columns first: the product of the transposed
            layout = make()
            self.check(lt.cublasLtMatrixLayoutCreate(ctypes.byref(layout), kind, ctypes.c_uint64(columns),
                                                     ctypes.c_uint64(rows), ctypes.c_int64(columns)))
            self.layouts.append(layout)
        self.check(lt.cublasLtMatmulPreferenceCreate(ctypes.byref(self.preference)))
        limit = ctypes.c_uint64(WORKSPACE)
        self.check(lt.cublasLtMatmulPreferenceSetAttribute(self.preference, 1, ctypes.byref(limit), ctypes.c_size_t(8)))
        self.found, count = (_Found * 8)(), ctypes.c_int()
        left, right, into = self.layouts
        self.check(lt.cublasLtMatmulAlgoGetHeuristic(self.handle, self.descriptor, left, right, into, into, self.preference, 8,
                                                     self.found, ctypes.byref(count)))
        self.count = count.value
        self.pointers = [make(pointer) for pointer, _ in (b, a, out)]
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)

    def _start(self) -> None:
        if Product.library is None:
            import cupy
            from cuda.pathfinder import load_nvidia_dynamic_lib
            Product.library = ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
            self.check(Product.library.cublasLtCreate(ctypes.byref(Product.handle)))
            Product.workspace = cupy.empty(WORKSPACE, cupy.uint8)

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"cuBLASLt: status {status}; see cublasStatus_t")

    def __call__(self, stream: int, which: int = 0) -> None:
        """Start the product on a stream, with the heuristic's first algorithm or another."""
        b, a, out = self.pointers
        left, right, into = self.layouts
        self.check(self.library.cublasLtMatmul(
            self.handle, self.descriptor, ctypes.byref(self.one), b, left, a, right, ctypes.byref(self.zero), out, into,
            out, into, ctypes.byref(self.found[which]), ctypes.c_void_p(self.workspace.data.ptr), ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(stream)))
