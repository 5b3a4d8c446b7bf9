"""Softmax and the cross entropies: for float32 and float64 along the last axis one kernel, a block of threads for each row."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from workbench.core.graph.arrays import check_labels, wide
from workbench.core.kernels.cuda.values import FLOATS, INTS, cupy, kernel, up

__all__ = ["SOURCE"]

SOURCE = r"""
template <bool MAX> __device__ T whole(T v, T* shared) {      // of a block; all threads get it
  for (int d = 16; d; d >>= 1) {
    T w = __shfl_xor_sync(~0u, v, d);
    v = MAX ? (v >= w || v != v ? v : w) : v + w;
  }
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  T r = shared[0];
  for (int i = 1; i < blockDim.x / 32; i++) r = MAX ? (r >= shared[i] || r != r ? r : shared[i]) : r + shared[i];
  return r;
}

// y = x - log sum exp x (KIND 0), exp of it (KIND 1) along rows of n; both may be the same memory
template <int KIND> __device__ T row(const T* x, T* y, long long n, T* shared, T* shift) {
  T top = -INFINITY_OF_T;
  for (long long i = threadIdx.x; i < n; i += blockDim.x) { T v = x[i]; top = v >= top || v != v ? v : top; }
  top = whole<true>(top, shared);
  T sum = 0;
  for (long long i = threadIdx.x; i < n; i += blockDim.x) sum += exp(x[i] - top);
  sum = whole<false>(sum, shared);
  T logarithm = log(sum);
  for (long long i = threadIdx.x; i < n; i += blockDim.x)
    y[i] = KIND ? exp(x[i] - top) / sum : (x[i] - top) - logarithm;
  *shift = logarithm;
  return top;
}

extern "C" __global__ void softmax(const T* x, T* y, long long n) {
  __shared__ T shared[32];
  T shift;
  row<1>(x + blockIdx.x * n, y + blockIdx.x * n, n, shared, &shift);
}

extern "C" __global__ void log_softmax(const T* x, T* y, long long n) {
  __shared__ T shared[32];
  T shift;
  row<0>(x + blockIdx.x * n, y + blockIdx.x * n, n, shared, &shift);
}

extern "C" __global__ void softmax_xent(const T* logits, const T* labels, T* loss, T* slope, long long n) {
  __shared__ T shared[32];
  const T* x = logits + blockIdx.x * n;
  const T* t = labels + blockIdx.x * n;
  T* y = slope + blockIdx.x * n;
  T shift, total = 0;
  T top = row<1>(x, y, n, shared, &shift);
  for (long long i = threadIdx.x; i < n; i += blockDim.x) {
    total += t[i] * ((x[i] - top) - shift);
    y[i] -= t[i];
  }
  total = whole<false>(total, shared);
  if (threadIdx.x == 0) loss[blockIdx.x] = -total;
}

extern "C" __global__ void sparse_softmax_xent(const T* logits, const long long* labels, T* loss, T* slope, long long n) {
  __shared__ T shared[32];
  const T* x = logits + blockIdx.x * n;
  T* y = slope + blockIdx.x * n;
  T shift;
  T top = row<1>(x, y, n, shared, &shift);
  __syncthreads();
  if (threadIdx.x == 0) {
    long long label = labels[blockIdx.x];
    loss[blockIdx.x] = -((x[label] - top) - shift);
    y[label] -= T(1);
  }
}
"""
_TYPES = {"f": ("float", "__int_as_float(0x7f800000)"), "d": ("double", "__longlong_as_double(0x7ff0000000000000LL)")}


def source(char: str) -> str:
    """The kernels for elements of a dtype, "f" or "d"."""
    name, infinity = _TYPES[char]
    return f"typedef {name} T;\n#define INFINITY_OF_T {infinity}\n{SOURCE}"


@functools.cache
def _kernels(char: str, name: str) -> Any:
    return cupy.RawModule(code=source(char), options=("-std=c++17",)).get_function(name)


def _run(name: str, rows: int, columns: int, *arrays: Any) -> None:
    threads = min(256, max(32, 1 << (columns - 1).bit_length()))
    _kernels(arrays[0].dtype.char, name)((rows,), (threads,), (*arrays, np.int64(columns)))


def _served(x: Any, axis: int) -> bool:
    return x.dtype.char in _TYPES and x.size > 0 and axis % x.ndim == x.ndim - 1


def _normal(name: str, x: Any, axis: int) -> Any:
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        _run(name, x.size // x.shape[-1], x.shape[-1], x, out)
    return out


@kernel("softmax", dtypes=FLOATS)
def _softmax(x: Any, *, axis: int) -> Any:
    if not x.size or _served(x, axis):
        return _normal("softmax", x, axis)
    wider = x.astype(wide(x.dtype), copy=False)
    powers = cupy.exp(wider - wider.max(axis, keepdims=True))
    return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype, copy=False)


@kernel("log_softmax", dtypes=FLOATS)
def _log_softmax(x: Any, *, axis: int) -> Any:
    if not x.size or _served(x, axis):
        return _normal("log_softmax", x, axis)
    wider = x.astype(wide(x.dtype), copy=False)
    below = wider - wider.max(axis, keepdims=True)
    return (below - cupy.log(cupy.exp(below).sum(axis, keepdims=True))).astype(x.dtype, copy=False)


def _entropy(name: str, logits: Any, labels: Any) -> tuple[Any, Any]:
    exact = np.dtype(np.float64 if logits.dtype.char == "d" else np.float32)
    x = logits.astype(exact, copy=False)
    loss, slope = cupy.empty(x.shape[:1], exact), cupy.empty(x.shape, exact)
    if x.size:
        _run(name, x.shape[0], x.shape[1], x, labels, loss, slope)
    else:
        loss.fill(0)
    return loss.astype(logits.dtype, copy=False), slope.astype(logits.dtype, copy=False)


@kernel("softmax_xent", dtypes=FLOATS)
def _softmax_xent(logits: Any, labels: Any) -> Any:
    return _entropy("softmax_xent", logits, labels.astype(wide(labels.dtype), copy=False))


@kernel("sparse_softmax_xent", dtypes=(*FLOATS, *INTS), either=("labels",))
def _sparse_softmax_xent(logits: Any, labels: Any) -> Any:
    check_labels("sparse_softmax_xent", labels, logits.shape[1])      # labels of the device are waited for
    return _entropy("sparse_softmax_xent", logits, up(labels).astype(np.int64, copy=False))
