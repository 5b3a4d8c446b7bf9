"""Integers that stand for numbers of a range: from one to the other, and the ranges that results need."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.core.graph.dtype import as_dtype

__all__ = ["RANGE", "Quantized", "Ranged", "away", "integers", "limits", "numbers", "places", "product_range", "step",
           "steps", "wrapped"]

RANGE = "float32"      # the type of the two numbers that the least and the greatest integer stand for
Array = np.ndarray[Any, Any]


class Quantized(NamedTuple):
    """Integers, and the numbers that the least and the greatest integer of their type stand for."""

    output: Any
    output_min: Any
    output_max: Any


class Ranged(NamedTuple):
    """Quantized, by other names."""

    output: Any
    min_output: Any
    max_output: Any


def away(x: Any) -> Any:
    """`x` rounded to the nearest whole number, halves away from 0."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def steps(dtype: Any) -> tuple[int, float]:
    """(the least integer, the number of integers less one) of a NumPy type."""
    info = np.iinfo(dtype)
    return info.min, float(info.max) - info.min


def places(x: Any, low: Any, high: Any, dtype: Any) -> Array:
    """The whole numbers that stand for `x` in the range low … high, some perhaps beyond those of the type."""
    least, count = steps(dtype)
    span = _span(low, high)
    if span == 0:
        return np.full(np.shape(x), float(least))
    found: Array = away(np.asarray(x, np.float64) * (count / span)) - away(float(low) * (count / span)) + least
    return found


def integers(x: Any, low: Any, high: Any, dtype: Any) -> Array:
    """`places`, as integers of the type."""
    info = np.iinfo(dtype)
    return np.clip(places(x, low, high, dtype), info.min, info.max).astype(dtype)


def numbers(x: Array, low: Any, high: Any) -> Array:
    """What the integers `x` stand for, where 0 is one of them: float32."""
    least, count = steps(x.dtype)
    span = _span(low, high)
    if span == 0:
        return np.full(x.shape, low, np.float32)
    exact = np.float64(np.float32(span / count))
    found: Array = away(float(low) / exact) * exact + (x.astype(np.float64) - least) * (span / count)
    return found.astype(np.float32)


def product_range(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any], out: Any) -> tuple[Array, Array]:
    """The range of sums of products of integers of two ranges (low, high, type), as `limits`."""
    apart, info = step(*a) * step(*b), np.iinfo(as_dtype(out).numpy)
    return limits(apart * np.float32(info.min), apart * np.float32(info.max))


def wrapped(sums: Array, out: Any) -> Array:
    """`sums` as integers of the type `out`, those beyond it as the processor would have them."""
    return sums.astype(np.int64).astype(as_dtype(out).numpy)


def limits(low: Any, high: Any) -> tuple[Array, Array]:
    """A range as two float32 scalars."""
    return np.array(low, np.float32), np.array(high, np.float32)


def _span(low: Any, high: Any) -> float:
    return float(np.float32(high) - np.float32(low))


def step(low: Any, high: Any, dtype: Any) -> Any:
    """How far apart the numbers are that neighbouring integers of a NumPy type stand for."""
    return np.float32(_span(low, high)) / np.float32(steps(dtype)[1])
