"""The scalar functions of generated kernels against float64 NumPy, over every exponent, infinities and NaN."""
from __future__ import annotations

import math

import numpy as np
import pytest

from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import Program, bind

pytestmark = pytest.mark.once

EACH = """
def each(x: {memory}, y: {memory}, n: int64):
    for i in independent(n):
        y[i] = {call}(x[i])

def pairs(x: {memory}, y: {memory}, z: {memory}, n: int64):
    for i in independent(n):
        z[i] = {call}(x[i], y[i])
"""
MEMORY = {"float32": "floats32", "float64": "floats64", "int32": "ints32", "int64": "ints64"}


def compiled(name, call, *arrays):
    source = EACH.format(memory=MEMORY[arrays[0].dtype.name], call=call)
    start = source.index("def pairs")
    source = source[:start] if name == "each" else source[start:]
    bind(Program((library_source("program_math.py"), source), name), (arrays[0].size,), False)(*arrays)


def applied(call, x):
    y = np.empty_like(x)
    compiled("each", call, x, y)
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


erf = np.vectorize(math.erf, otypes=[np.float64])


@pytest.mark.parametrize("function,exact,relative", [
    ("exp", np.exp, 3e-7), ("log", np.log, 3e-7), ("tanh", np.tanh, 1e-6), ("sigmoid", sigmoid, 4e-7),
    ("log1p", np.log1p, 4e-7), ("expm1", np.expm1, 6e-7), ("erf", erf, 6e-7)])
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


@pytest.mark.parametrize("function,exact", [
    ("exp", np.exp), ("log", np.log), ("tanh", np.tanh), ("sigmoid", sigmoid), ("log1p", np.log1p), ("expm1", np.expm1),
    ("erf", erf), ("sqrt", np.sqrt), ("floor", np.floor), ("ceil", np.ceil)])
def test_float64_function(function, exact):
    with np.errstate(all="ignore"):
        x = every_exponent()[:20_000].astype(np.float64)
        np.testing.assert_allclose(applied(function, x), exact(x), rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", MEMORY)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_are_numpys(name, dtype):
    values = SPECIAL if dtype.startswith("float") else np.array([0, 1, -1, 5, -(2**31), 2**31 - 1])
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(values, values))
    z = np.empty_like(x)
    compiled("pairs", name, x, y, z)
    np.testing.assert_array_equal(z, getattr(np, name)(x, y))
