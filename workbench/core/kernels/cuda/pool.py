"""Pooling by largest element and by mean, and its derivatives: a thread for each element that is written."""
from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.core.graph.arrays import wide
from workbench.core.graph.shape import Shape
from workbench.core.kernels.cuda.values import FLOATS, INTS, cupy, kernel
from workbench.core.ops.conv_pool import _pooled_shape
from workbench.core.ops.conv_windows import channels_last, extents_of

__all__ = ["SOURCE", "geometry"]

# sums have one order, since no two threads write to one place
SOURCE = r"""
struct Geometry { long long h, w, c, oh, ow, sn, sh, sw, sc, tn, th, tw, tc, kh, kw, dh, dw, top, left; };
#define GIVEN long long h, long long w, long long c, long long oh, long long ow, long long sn, long long sh,               \
  long long sw, long long sc, long long tn, long long th, long long tw, long long tc, long long kh, long long kw,          \
  long long dh, long long dw, long long top, long long left
#define MADE const Geometry g = {h, w, c, oh, ow, sn, sh, sw, sc, tn, th, tw, tc, kh, kw, dh, dw, top, left};
// images have lengths h, w, c and steps s…, pooled ones oh, ow, c and t…; windows of kh by kw move by dh and dw

__device__ long long place(const Geometry& g, long long n, long long y, long long x, long long c) {
  return n * g.sn + y * g.sh + x * g.sw + c * g.sc;
}
__device__ long long pooled(const Geometry& g, long long n, long long y, long long x, long long c) {
  return n * g.tn + y * g.th + x * g.tw + c * g.tc;
}
__device__ long long low(long long a) { return a < 0 ? 0 : a; }
__device__ long long lower(long long a, long long b) { return a < b ? a : b; }

// where the first largest element of a window lies; NaN is the largest
__device__ long long winner(const Geometry& g, const T* images, long long n, long long oy, long long ox, long long c) {
  long long y0 = oy * g.dh - g.top, x0 = ox * g.dw - g.left, best = -1;
  for (long long y = low(y0); y < lower(y0 + g.kh, g.h); y++)
    for (long long x = low(x0); x < lower(x0 + g.kw, g.w); x++) {
      long long at = place(g, n, y, x, c);
      if (best < 0 || images[at] > images[best] || (images[at] != images[at] && images[best] == images[best])) best = at;
    }
  return best;
}

#define OUTPUTS(count) MADE                                                               \
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;                       \
  if (i >= count) return;                                                               \
  long long k = i % g.c, ox = i / g.c % g.ow, oy = i / g.c / g.ow % g.oh, n = i / g.c / g.ow / g.oh;

#define IMAGES(count) MADE                                                              \
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;                       \
  if (i >= count) return;                                                               \
  long long k = i % g.c, x = i / g.c % g.w, y = i / g.c / g.w % g.h, n = i / g.c / g.w / g.h;             \
  long long ya = low(y + g.top - g.kh + g.dh) / g.dh, yb = lower((y + g.top) / g.dh, g.oh - 1);           \
  long long xa = low(x + g.left - g.kw + g.dw) / g.dw, xb = lower((x + g.left) / g.dw, g.ow - 1);

extern "C" __global__ void max_pool(GIVEN, const T* images, T* out, long long count) {
  OUTPUTS(count)
  long long at = winner(g, images, n, oy, ox, k);
  out[pooled(g, n, oy, ox, k)] = at < 0 ? LOWEST : images[at];
}
extern "C" __global__ void max_pool_grad(GIVEN, const T* images, const T* dy, T* out, long long count) {
  IMAGES(count)
  long long me = place(g, n, y, x, k);
  ACC total = 0;
  for (long long oy = ya; oy <= yb; oy++)
    for (long long ox = xa; ox <= xb; ox++)
      if (winner(g, images, n, oy, ox, k) == me) total += (ACC)dy[pooled(g, n, oy, ox, k)];
  out[me] = total;
}
extern "C" __global__ void max_pool_grad_grad(GIVEN, const T* images, const T* ddx, T* out, long long count) {
  OUTPUTS(count)
  long long at = winner(g, images, n, oy, ox, k);
  out[pooled(g, n, oy, ox, k)] = at < 0 ? (T)0 : ddx[at];
}
// how many elements of a window lie in the image
__device__ long long inside(const Geometry& g, long long oy, long long ox) {
  long long y0 = oy * g.dh - g.top, x0 = ox * g.dw - g.left;
  return (lower(y0 + g.kh, g.h) - low(y0)) * (lower(x0 + g.kw, g.w) - low(x0));
}
extern "C" __global__ void avg_pool(GIVEN, const T* images, T* out, long long count) {
  OUTPUTS(count)
  long long y0 = oy * g.dh - g.top, x0 = ox * g.dw - g.left;
  ACC total = 0;
  for (long long y = low(y0); y < lower(y0 + g.kh, g.h); y++)
    for (long long x = low(x0); x < lower(x0 + g.kw, g.w); x++) total += (ACC)images[place(g, n, y, x, k)];
  out[pooled(g, n, oy, ox, k)] = total / (ACC)inside(g, oy, ox);
}
extern "C" __global__ void avg_pool_grad(GIVEN, const T* dy, T* out, long long count) {
  IMAGES(count)
  ACC total = 0;
  for (long long oy = ya; oy <= yb; oy++)
    for (long long ox = xa; ox <= xb; ox++) total += (ACC)dy[pooled(g, n, oy, ox, k)] / (ACC)inside(g, oy, ox);
  out[place(g, n, y, x, k)] = total;
}
"""
_TYPES = {"float32": ("float", "float"), "float64": ("double", "double"),
          "int8": ("signed char", "long long"), "int16": ("short", "long long"), "int32": ("int", "long long"),
          "int64": ("long long", "long long"), "uint8": ("unsigned char", "long long"),
          "uint16": ("unsigned short", "long long"), "uint32": ("unsigned int", "long long"),
          "uint64": ("unsigned long long", "unsigned long long")}
_THREADS = 256


def source(dtype: str) -> str:
    """The kernels for elements of a dtype."""
    name, exact = _TYPES[dtype]
    kind = np.dtype(dtype)
    lowest = "-__int_as_float(0x7f800000)" if kind.kind == "f" else (
        f"(({name})1 << {8 * kind.itemsize - 1})" if kind.kind == "i" else "0")
    return f"typedef {name} T;\ntypedef {exact} ACC;\n#define LOWEST ((T)({lowest}))\n{SOURCE}"


@functools.cache
def _kernels(dtype: str, name: str) -> Any:
    return cupy.RawModule(code=source(dtype), options=("-std=c++17",)).get_function(name)


def geometry(images: tuple[int, ...], ksize: tuple[int, int],
             options: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """(the numbers of `Geometry`, the shape of the pooled images, how many elements the images and the pooled ones have)."""
    n, h, w, c = channels_last(images, options)
    (oh, top, _), (ow, left, _) = extents_of((h, w), ksize, options)
    first = options["data_format"] == "NCHW"
    (sn, sh, sw, sc), (tn, th, tw, tc) = (
        (c * y * x, x, 1, y * x) if first else (y * x * c, x * c, c, 1) for y, x in ((h, w), (oh, ow)))
    made = h, w, c, oh, ow, sn, sh, sw, sc, tn, th, tw, tc, *ksize, *options["strides"], top, left
    return made, (n, c, oh, ow) if first else (n, oh, ow, c), n * h * w * c, n * oh * ow * c


def _run(name: str, images: tuple[int, ...], given: tuple[Any, ...], ksize: Any, options: Mapping[str, Any],
         to_images: bool) -> Any:
    """One kernel over images of that shape, into images or into pooled ones; halves are computed in float32."""
    made, shape, before, after = geometry(images, tuple(ksize), options)
    dtype = given[0].dtype
    given = tuple([each.astype(wide(dtype), copy=False) for each in given])
    out = cupy.empty(images if to_images else shape, wide(dtype))
    count = before if to_images else after
    if count:
        start = _kernels(out.dtype.name, name)
        start((-(-count // _THREADS),), (_THREADS,), (*map(np.int64, made), *given, out, np.int64(count)))
    return out.astype(dtype, copy=False)


@kernel("max_pool", dtypes=(*FLOATS, *INTS))
def _max_pool(x: Any, *, ksize: Any, **options: Any) -> Any:
    return _run("max_pool", x.shape, (x,), ksize, options, False)


@kernel("max_pool_grad", dtypes=FLOATS)
def _max_pool_grad(x: Any, y: Any, dy: Any, *, ksize: Any, **options: Any) -> Any:
    return _run("max_pool_grad", x.shape, (x, dy), ksize, options, True)


@kernel("max_pool_grad_grad", dtypes=FLOATS)
def _max_pool_grad_grad(x: Any, y: Any, ddx: Any, *, ksize: Any, **options: Any) -> Any:
    return _run("max_pool_grad_grad", x.shape, (x, ddx), ksize, options, False)


@kernel("avg_pool", dtypes=FLOATS)
def _avg_pool(x: Any, *, ksize: Any, **options: Any) -> Any:
    return _run("avg_pool", x.shape, (x,), ksize, options, False)


@kernel("avg_pool_grad", dtypes=FLOATS)
def _avg_pool_grad(dy: Any, *, input_shape: Any, ksize: Any, **options: Any) -> Any:
    batch, *rest = tuple(input_shape)
    return _run("avg_pool_grad", (dy.shape[0] if batch is None else batch, *rest), (dy,), ksize, options, True)


@kernel("avg_pool_images", dtypes=(*FLOATS, "int32", "int64"), host=("input_shape",))
def _avg_pool_images(dy: Any, input_shape: Any, *, ksize: Any, **options: Any) -> Any:
    wanted = tuple(int(d) for d in input_shape)
    pooled = _pooled_shape(Shape(wanted), {"ksize": ksize, **options})
    pooled.merge(Shape(dy.shape), "avg_pool_grad: the pooled shape of the images and dy")
    return _run("avg_pool_grad", wanted, (dy,), ksize, options, True)
