"""Sums, means, extremes and positions over axes; small floats are added up in float32."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.graph.arrays import lengths, wide
from workbench.core.graph.opdef import registry
from workbench.core.kernels.cuda.products import multiplied
from workbench.core.kernels.cuda.values import ALL, BOOL, FLOATS, INTS, REALS, cupy, down, kernel
from workbench.core.ops.reduce import _axes, _highest, _lowest

__all__: list[str] = []

_TALL = 64
"""Rows for each column from which a sum over rows is a product: CuPy's own gives each column to one block of threads."""


@kernel("reduce_sum")
def _sum(x: Any, *, axis: Any, keepdims: bool) -> Any:
    return x.sum(axis, dtype=wide(x.dtype), keepdims=keepdims).astype(x.dtype, copy=False)


@kernel("reduce_prod")
def _prod(x: Any, *, axis: Any, keepdims: bool) -> Any:
    return x.prod(axis, dtype=wide(x.dtype), keepdims=keepdims).astype(x.dtype, copy=False)


@kernel("reduce_mean", dtypes=FLOATS)
def _mean(x: Any, *, axis: Any, keepdims: bool) -> Any:
    total = x.sum(axis, dtype=wide(x.dtype), keepdims=keepdims)
    count = math.prod(x.shape[a] for a in _axes(axis, x.ndim))
    return cupy.divide(total, total.dtype.type(count)).astype(x.dtype, copy=False)


@kernel("reduce_mean", dtypes=INTS)
def _mean_of_integers(x: Any, *, axis: Any, keepdims: bool) -> Any:
    total = x.sum(axis, dtype=x.dtype, keepdims=keepdims)
    count = max(math.prod(x.shape[a] for a in _axes(axis, x.ndim)), 1)
    return (cupy.sign(total) * (cupy.abs(total) // total.dtype.type(count))).astype(x.dtype, copy=False)


def _extreme(name: str, empty: Callable[[np.dtype[Any]], Any]) -> None:
    @kernel(name)
    def run(x: Any, *, axis: Any, keepdims: bool) -> Any:
        axes = _axes(axis, x.ndim)
        if all(x.shape[a] for a in axes):
            return getattr(x, name.removeprefix("reduce_"))(axes, keepdims=keepdims)
        dims = [1 if i in axes else d for i, d in enumerate(x.shape) if keepdims or i not in axes]
        return cupy.full(dims, empty(x.dtype), x.dtype)


_extreme("reduce_max", _lowest)
_extreme("reduce_min", _highest)


@kernel("reduce_any", dtypes=BOOL)
def _any(x: Any, *, axis: Any, keepdims: bool) -> Any:
    return x.any(axis, keepdims=keepdims)


@kernel("reduce_all", dtypes=BOOL)
def _all(x: Any, *, axis: Any, keepdims: bool) -> Any:
    return x.all(axis, keepdims=keepdims)


@kernel("reduce_logsumexp", dtypes=FLOATS)
def _logsumexp(x: Any, *, axis: Any, keepdims: bool) -> Any:
    axes = _axes(axis, x.ndim)
    if not all(x.shape[a] for a in axes):
        return cupy.asarray(registry["reduce_logsumexp"].reference(down(x), axis=axis, keepdims=keepdims))
    top = x.max(axes, keepdims=True)
    top = cupy.where(cupy.isfinite(top), top, x.dtype.type(0))
    total = cupy.exp(x - top).sum(axes, dtype=wide(x.dtype), keepdims=True)
    result = (cupy.log(total) + top).astype(x.dtype, copy=False)
    return result if keepdims else result.reshape([d for i, d in enumerate(x.shape) if i not in axes])


def _position(name: str) -> None:
    @kernel(name, dtypes=(*REALS,))
    def run(x: Any, *, axis: Any, dtype: Any) -> Any:
        if not x.shape[axis or 0]:
            return registry[name].reference(down(x), axis=axis, dtype=dtype)      # says so
        return getattr(x, name)(axis or 0).astype(getattr(dtype, "numpy", dtype), copy=False)


_position("argmax")
_position("argmin")


def _running(name: str, neutral: int) -> None:
    @kernel(name)
    def run(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
        x = cupy.flip(x, axis) if reverse else x
        lead = (slice(None),) * (axis % x.ndim)
        if exclusive and x.shape[axis]:
            first = cupy.full_like(x[(*lead, slice(0, 1))], neutral)
            x = cupy.concatenate([first, x[(*lead, slice(None, -1))]], axis)
        found = getattr(cupy, name)(x, axis, dtype=wide(x.dtype)).astype(x.dtype, copy=False)
        return cupy.flip(found, axis) if reverse else found


_running("cumsum", 0)
_running("cumprod", 1)


@kernel("reduce_to", host=("shape",))
def _reduce_to(x: Any, shape: Any) -> Any:
    wanted = lengths("reduce_to", shape)
    lead = x.ndim - len(wanted)
    if lead < 0 or any(w not in (1, d) for w, d in zip(wanted, x.shape[lead:])):
        return registry["reduce_to"].reference(down(x), shape)      # says so
    axes = tuple(i for i, d in enumerate(x.shape) if i < lead or (wanted[i - lead] == 1 and d != 1))
    return x.sum(axes, dtype=wide(x.dtype)).astype(x.dtype, copy=False).reshape(wanted) if axes else x.reshape(wanted)


@kernel("bias_add_grad")
def _bias_add_grad(dy: Any, *, data_format: str) -> Any:
    channels = 1 if data_format == "NCHW" else dy.ndim - 1
    if channels == dy.ndim - 1 and dy.dtype.kind == "f" and dy.size >= _TALL * dy.shape[-1] ** 2:
        rows = dy.reshape(-1, dy.shape[-1])
        return multiplied(cupy.ones((1, len(rows)), dy.dtype), rows).reshape(-1)
    axes = tuple(i for i in range(dy.ndim) if i != channels)
    return dy.sum(axes, dtype=wide(dy.dtype)).astype(dy.dtype, copy=False)


@kernel("l2_loss", dtypes=FLOATS)
def _l2_loss(x: Any) -> Any:
    flat = x.reshape(-1).astype(wide(x.dtype), copy=False)
    return (cupy.square(flat).sum() * flat.dtype.type(0.5)).astype(x.dtype, copy=False)


@kernel("where_indices", dtypes=(*ALL,))
def _where_indices(condition: Any) -> Any:
    return cupy.argwhere(condition).astype(np.int64, copy=False)
