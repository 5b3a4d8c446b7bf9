"""The scalar functions of generated kernels against float64 NumPy, over every exponent, infinities and NaN."""
from __future__ import annotations

import numba
import numpy as np
import pytest

from workbench.core.kernels import numba_math


@numba.njit(error_model="numpy")
def _each(function, x, y):
    for i in range(x.size):
        y[i] = function(x[i])


@numba.njit(error_model="numpy")
def _pairs(function, x, y, z):
    for i in range(x.size):
        z[i] = function(x[i], y[i])


def applied(function, x):
    y = np.empty_like(x)
    _each(function, x, y)
    return y


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.17549435e-38, 1.1754942e-38,
                    3.4028235e38, -3.4028235e38, 88.72283, 88.72284, 88.7229, -87.4, -103.9, -104.0, -104.1, 7.9, -7.9,
                    7.91, -7.91, 20.0, -20.0, 0.0004, 0.00041, 0.99999994, 1.0000001], np.float32)
TINY = 1.5e-45      # the smallest float32


def every_exponent() -> np.ndarray:
    """Random bit patterns (all exponents, both signs, denormals) and a dense stretch around zero."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([SPECIAL, bits, rng.uniform(-110, 110, 200_000).astype(np.float32),
                           rng.uniform(-1, 1, 50_000).astype(np.float32)])


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


@pytest.mark.parametrize("function,exact,relative", [
    (numba_math.exp32, np.exp, 3e-7), (numba_math.log32, np.log, 3e-7), (numba_math.tanh32, np.tanh, 1e-6),
    (numba_math.sigmoid32, sigmoid, 4e-7)], ids=["exp", "log", "tanh", "sigmoid"])
def test_float32_function(function, exact, relative):
    x = every_exponent()
    with np.errstate(all="ignore"):
        found = applied(function, x).astype(np.float64)
        wanted = exact(x.astype(np.float64))
        rounded = wanted.astype(np.float32).astype(np.float64)
        finite = np.isfinite(rounded)
        error = np.abs(found - wanted)[finite]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    np.testing.assert_array_equal(found[~finite], rounded[~finite])
    allowed = relative * np.abs(wanted[finite]) + 2 * TINY
    worst = np.argmax(error - allowed)
    assert (error <= allowed).all(), (x[finite][worst], found[finite][worst], wanted[finite][worst])


def test_sigmoid64_at_the_ends():
    x = np.array([-np.inf, -800.0, -1.0, 0.0, 1.0, 800.0, np.inf, np.nan])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(applied(numba_math.sigmoid64, x), 1 / (1 + np.exp(-x)), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_are_numpys(name, dtype):
    values = SPECIAL if dtype.startswith("float") else np.array([0, 1, -1, 5, -(2**31), 2**31 - 1])
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(values, values))
    z = np.empty_like(x)
    _pairs(getattr(numba_math, name), x, y, z)
    np.testing.assert_array_equal(z, getattr(np, name)(x, y))
