"""Scalar functions for generated kernels, written so that the compiler can vectorise them (no calls, no branches)."""
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["exp32", "log32", "maximum", "minimum", "sigmoid32", "sigmoid64", "tanh32"]

f32, i32 = np.float32, np.int32


def _as_bits(typing_context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))
    return types.int32(types.float32), generate


def _as_float(typing_context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())
    return types.float32(types.int32), generate


# Numba hides the first parameter from the caller
_float_bits: Any = intrinsic(_as_bits)
_bits_float: Any = intrinsic(_as_float)
_scalar = njit(error_model="numpy", inline="always")

# exp: Cody-Waite reduction by ln 2 and a degree-5 polynomial (Cephes expf), relative error 8e-8
_LOG2E, _LN2_HIGH, _LN2_LOW = f32(1.44269504), f32(0.693359375), f32(-2.12194440e-4)
_E0, _E1, _E2 = f32(1.9875691500e-4), f32(1.3981999507e-3), f32(8.3334519073e-3)
_E3, _E4, _E5 = f32(4.1665795894e-2), f32(1.6666665459e-1), f32(5.0000001201e-1)


@_scalar
def exp32(x0):      # type: ignore[no-untyped-def]
    x = min(max(x0, f32(-104.0)), f32(88.72284))
    n = np.floor(x * _LOG2E + f32(0.5))
    x = x - n * _LN2_HIGH
    x = x - n * _LN2_LOW
    y = ((((_E0 * x + _E1) * x + _E2) * x + _E3) * x + _E4) * x + _E5
    y = y * (x * x) + x + f32(1.0)
    m = i32(n)
    half = m >> i32(1)      # two factors, so that neither leaves the exponent range
    y = y * _bits_float(i32((half + i32(127)) << i32(23))) * _bits_float(i32((m - half + i32(127)) << i32(23)))
    y = y if x0 <= f32(88.72284) else f32(np.inf)
    y = y if x0 >= f32(-104.0) else f32(0.0)
    return y if x0 == x0 else x0


# log: mantissa in [sqrt(1/2), sqrt(2)) and a degree-8 polynomial (Cephes logf), relative error 8e-8
_L0, _L1, _L2 = f32(7.0376836292e-2), f32(-1.1514610310e-1), f32(1.1676998740e-1)
_L3, _L4, _L5 = f32(-1.2420140846e-1), f32(1.4249322787e-1), f32(-1.6668057665e-1)
_L6, _L7, _L8 = f32(2.0000714765e-1), f32(-2.4999993993e-1), f32(3.3333331174e-1)


@_scalar
def log32(x0):      # type: ignore[no-untyped-def]
    tiny = x0 < f32(1.17549435e-38)
    x = x0 * f32(8388608.0) if tiny else x0
    bits = _float_bits(x)
    e = f32(((bits >> i32(23)) & i32(255)) - i32(126))
    e = e - f32(23.0) if tiny else e
    m = _bits_float(i32((bits & i32(0x007FFFFF)) | i32(0x3F000000)))
    small = m < f32(0.70710678)
    e = e - f32(1.0) if small else e
    m = m + m - f32(1.0) if small else m - f32(1.0)
    z = m * m
    y = ((((((((_L0 * m + _L1) * m + _L2) * m + _L3) * m + _L4) * m + _L5) * m + _L6) * m + _L7) * m + _L8) * m * z
    y = y + _LN2_LOW * e
    y = y - f32(0.5) * z
    y = m + y + _LN2_HIGH * e
    y = y if x0 > f32(0.0) else (f32(-np.inf) if x0 == f32(0.0) else f32(np.nan))
    return y if x0 < f32(np.inf) else x0


# tanh: odd rational approximation of degree 13/6 on [-7.9, 7.9], relative error 4e-7
_T1, _T3, _T5 = f32(4.89352455891786e-03), f32(6.37261928875436e-04), f32(1.48572235717979e-05)
_T7, _T9, _T11 = f32(5.12229709037114e-08), f32(-8.60467152213735e-11), f32(2.00018790482477e-13)
_T13 = f32(-2.76076847742355e-16)
_B0, _B2, _B4 = f32(4.89352518554385e-03), f32(2.26843463243900e-03), f32(1.18534705686654e-04)
_B6 = f32(1.19825839466702e-06)


@_scalar
def tanh32(x0):      # type: ignore[no-untyped-def]
    x = min(max(x0, f32(-7.90531110763549805)), f32(7.90531110763549805))
    z = x * x
    p = ((((((_T13 * z + _T11) * z + _T9) * z + _T7) * z + _T5) * z + _T3) * z + _T1) * x
    y = p / (((_B6 * z + _B4) * z + _B2) * z + _B0)
    y = y if abs(x0) > f32(0.0004) else x0
    return y if x0 == x0 else x0


@_scalar
def sigmoid32(x):      # type: ignore[no-untyped-def]
    e = exp32(-abs(x))
    y = f32(1.0) / (f32(1.0) + e)
    return y if x >= f32(0.0) else e * y      # not 1 - y, which keeps no digit of a small result


@_scalar
def sigmoid64(x):      # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + np.exp(-x))


@_scalar
def maximum(x, y):      # type: ignore[no-untyped-def]
    """NumPy's maximum: a NaN on either side wins."""
    return x if (x >= y or x != x) else y


@_scalar
def minimum(x, y):      # type: ignore[no-untyped-def]
    return x if (x <= y or x != x) else y
