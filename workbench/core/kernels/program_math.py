"""Scalar functions in the kernel language, written so that loops over them vectorise: no calls, no branches."""
from __future__ import annotations

from workbench.core.kernels.words import bits, exp, fast, float32, floor, from_bits, fused, inf, int32, largest, nan, smallest

__all__ = ["bfloat16", "bottom", "erf32", "exp32", "expm132", "float16", "log1p32", "log32", "maximum", "minimum", "plus",
           "sigmoid", "tanh32", "top"]

# exp: Cody-Waite reduction by ln 2 and a degree-5 polynomial (Cephes expf), relative error 8e-8
@fused
def exp32(x0: float) -> float:
    x = x0 if x0 > -104.0 else -104.0      # for NaN too
    x = x if x < 90.0 else 90.0            # at these ends the product below is 0 and infinite by itself
    n = floor(x * 1.44269504 + 0.5)
    x = x - n * 0.693359375
    x = x - n * -2.12194440e-4
    y = ((((1.9875691500e-4 * x + 1.3981999507e-3) * x + 8.3334519073e-3) * x + 4.1665795894e-2) * x
         + 1.6666665459e-1) * x + 5.0000001201e-1
    y = y * (x * x) + x + 1.0
    m = int32(n)
    half = m >> 1      # two factors, so that neither leaves the exponent range
    y = y * from_bits((half + 127) << 23) * from_bits((m - half + 127) << 23)
    return y if x0 == x0 else x0


# log: mantissa in [sqrt(1/2), sqrt(2)) and a degree-8 polynomial (Cephes logf), relative error 8e-8
@fused
def log32(x0: float) -> float:
    tiny = x0 < 1.17549435e-38
    x = x0 * 8388608.0 if tiny else x0
    b = bits(x)
    e = float32(((b >> 23) & 255) - 126)
    e = e - 23.0 if tiny else e
    m = from_bits((b & 0x007FFFFF) | 0x3F000000)
    small = m < 0.70710678
    e = e - 1.0 if small else e
    m = m + m - 1.0 if small else m - 1.0
    z = m * m
    y = ((((((((7.0376836292e-2 * m + -1.1514610310e-1) * m + 1.1676998740e-1) * m + -1.2420140846e-1) * m
             + 1.4249322787e-1) * m + -1.6668057665e-1) * m + 2.0000714765e-1) * m + -2.4999993993e-1) * m
         + 3.3333331174e-1) * m * z
    y = y + -2.12194440e-4 * e
    y = y - 0.5 * z
    y = m + y + 0.693359375 * e
    y = y if x0 > 0.0 else (-inf if x0 == 0.0 else nan)
    return y if x0 < inf else x0


# what rounding lost of 1 + x comes back as a factor (W. Kahan): exact wherever `log` is
@fused
def log1p32(x: float) -> float:
    u = 1.0 + x
    d = u - 1.0
    y = log32(u) * (x / (d if d != 0.0 else 1.0))
    y = y if d != 0.0 else x
    y = y if u < inf else u
    return y if u > 0.0 else log32(u)


@fused
def expm132(x: float) -> float:
    u = exp32(x)
    d = u - 1.0
    near = log32(u)
    y = d * (x / (near if near != 0.0 else 1.0))
    y = y if u != 1.0 else x
    y = y if x > -17.5 else -1.0
    return y if u < inf else u


# tanh: odd rational approximation of degree 13/6 on [-7.9, 7.9], relative error 4e-7
@fused
def tanh32(x0: float) -> float:
    x = minimum(maximum(x0, -7.90531110763549805), 7.90531110763549805)
    z = x * x
    p = ((((((-2.76076847742355e-16 * z + 2.00018790482477e-13) * z + -8.60467152213735e-11) * z
            + 5.12229709037114e-08) * z + 1.48572235717979e-05) * z + 6.37261928875436e-04) * z
         + 4.89352455891786e-03) * x
    y = p / (((1.19825839466702e-06 * z + 1.18534705686654e-04) * z + 2.26843463243900e-03) * z
             + 4.89352518554385e-03)
    y = y if abs(x0) > 0.0004 else x0
    return y if x0 == x0 else x0


# erf: odd rational approximation of degree 13/8 on [-4, 4] (Eigen's), relative error 4e-7
@fused
def erf32(x0: float) -> float:
    x = minimum(maximum(x0, -4.0), 4.0)
    z = x * x
    p = ((((((-2.72614225801306e-10 * z + 2.77068142495902e-08) * z + -2.10102402082508e-06) * z
            + -5.69250639462346e-05) * z + -7.34990630326855e-04) * z + -2.95459980854025e-03) * z
         + -1.60960333262415e-02) * x
    y = p / ((((-1.45660718464996e-05 * z + -2.13374055278905e-04) * z + -1.68282697438203e-03) * z
              + -7.37332916720468e-03) * z + -1.42647390514189e-02)
    y = y if abs(x0) > 1e-30 else x0 * 1.12837917      # denormal numbers lose digits in the fraction above
    return y if x0 == x0 else x0


def sigmoid(x: float) -> float:
    e = exp(-abs(x))
    y = 1.0 / (1.0 + e)
    return y if x >= 0.0 else e * y      # not 1 - y, which keeps no digit of a small result


def maximum(x: float, y: float) -> float:
    """NumPy's maximum: a NaN on either side wins."""
    return x if x >= y or x != x else y


def minimum(x: float, y: float) -> float:
    return x if x <= y or x != x else y


@fast
def plus(x: float, y: float) -> float:
    """One term more of a sum whose terms may be added in any order."""
    return x + y


@fast
def top(x: float, y: float) -> float:
    """The larger one, of two zeros either; NaN if one is NaN."""
    return largest(x, y)


@fast
def bottom(x: float, y: float) -> float:
    return smallest(x, y)


# rounding: half of the last bit that stays is added, less the least where that bit is 0; halves thus go to even numbers
def bfloat16(x: float) -> float:
    b = bits(x)
    y = from_bits((b + 32767 + ((b >> 16) & 1)) & -65536)
    return y if x == x else from_bits((b & -2147483648) | 2143289344)      # the upper half of another NaN may be infinity


def float16(x: float) -> float:
    b = bits(x)
    a = abs(x)
    small = from_bits(bits((a + 0.5) - 0.5) | (b & -2147483648))      # of a sum from 0.5 the last bit is 2^-24, as of float16
    y = from_bits((b + 4095 + ((b >> 13) & 1)) & -8192) if a >= 6.103515625e-05 else small
    y = y if a < 65520.0 else (inf if x > 0.0 else -inf)
    return y if x == x else x
