"""Rows of the special functions: values by integrals, series and recurrences written out here."""
from __future__ import annotations

import math

import numpy as np

from tests.opcase import ROW, UNIT, A, Array, P, case, positive, reals

X = np.array([0.7, 1.3, 2.6, 4.2])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)


def integral(f, low: Array, high: Array) -> Array:
    """By Gauss's rule with 80 points."""
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    middle, half = (low + high) / 2, (high - low) / 2
    return sum(w * f(middle + half * n) for n, w in zip(NODES, WEIGHTS)) * half


def zeta(x: Array, q: Array) -> Array:
    """Sums of 2000 terms and Euler and Maclaurin's rest."""
    at = q + 2000.0
    head = sum((q + n) ** -x for n in range(2000))
    return head + at ** (1 - x) / (x - 1) + at ** -x / 2 + x * at ** (-x - 1) / 12


gamma = np.vectorize(math.gamma)
case("lgamma", X, value=np.vectorize(math.lgamma))
case("lgamma", -X, value=np.vectorize(math.lgamma), label="negative", small=False)
case("digamma", X, value=lambda x: np.log(x + 50) - 1 / (2 * (x + 50)) - 1 / (12 * (x + 50) ** 2)
     - sum(1 / (x + n) for n in range(50)))
case("polygamma", np.array([1.0, 2.0, 3.0, 1.0]), X, wrt=(1,), small=False, unknown=False,
     value=lambda a, x: (-1) ** (a + 1) * gamma(a + 1) * zeta(a + 1, x))
case("polygamma", np.array(1.0), X, wrt=(1,), value=lambda a, x: zeta(2.0, x), label="scalar", small=False)
case("zeta", np.array([2.0, 3.5, 2.5, 4.0]), X, wrt=(1,), value=zeta, small=False, unknown=False)
_gammas = lambda a, x: integral(lambda u: u ** (3 * a - 1) * 3 * np.exp(-u ** 3), 0 * x, np.cbrt(x)) / gamma(a)      # noqa: E731
case("igamma", np.array([1.5, 2.0, 3.5, 0.8]), X, value=_gammas, order=1, small=False, rtol=1e-4)
case("igamma", np.array([1.5, 2.0, 3.5, 0.8]), X, value=_gammas, wrt=(1,), small=False, rtol=1e-4, label="second order")
case("igammac", np.array([[1.5], [2.0]]), X, value=lambda a, x: 1 - _gammas(a, x), order=1, small=False, rtol=1e-4)
case("igamma_grad_a", np.array([1.5, 2.0, 3.5, 0.8]), X, order=0, small=False, rtol=1e-3,
     value=lambda a, x: (_gammas(a + 1e-5, x) - _gammas(a - 1e-5, x)) / 2e-5)
case("betainc", np.array([1.5, 2.0, 3.5]), np.array([2.0, 1.5, 0.9]), np.array([0.2, 0.5, 0.7]), wrt=(2,), small=False,
     value=lambda a, b, x: integral(lambda t: t ** (2 * a - 1) * 2 * (1 - t * t) ** (b - 1), 0 * x, np.sqrt(x)) * gamma(a + b)
     / gamma(a) / gamma(b), rtol=1e-4)
case("lbeta", positive(2, 3), value=lambda x: np.log(gamma(x).prod(-1) / gamma(x.sum(-1))))
_erf = np.vectorize(math.erf)


def bisected(f, x: Array) -> Array:
    """The y with f(y) = x for a rising f."""
    low, high = np.full(x.shape, -8.0), np.full(x.shape, 8.0)
    for _ in range(80):
        middle = (low + high) / 2
        below = f(middle) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


case("erfinv", UNIT, value=lambda x: bisected(_erf, x))
case("ndtri", (UNIT + 1) / 2, value=lambda x: bisected(lambda y: (1 + _erf(y / math.sqrt(2))) / 2, x))
for _k in (0, 1):
    _bessel = lambda x, k=_k: integral(lambda t: np.exp(x * np.cos(t)) * np.cos(k * t), 0 * x, math.pi + 0 * x) / math.pi      # noqa: E731
    case(f"bessel_i{_k}e", A, value=lambda x, f=_bessel: f(x) * np.exp(-abs(x)))
    case(f"bessel_i{_k}", A, value=_bessel)
case("asinh", A, value=lambda x: np.log(x + np.sqrt(x * x + 1)))
case("acosh", P + 1, value=lambda x: np.log(x + np.sqrt(x * x - 1)))
case("atanh", UNIT, value=lambda x: np.log((1 + x) / (1 - x)) / 2)
case("atan2", A, P, value=lambda y, x: np.arctan(y / x))
case("atan2", A, ROW, value=lambda y, x: np.angle(x + 1j * y), label="row")
case("log_sigmoid", reals(2, 3), value=lambda x: np.log(1 / (1 + np.exp(-x))))

# numbers between limits, as 2 bits tell them apart: 0 is one of four, of three with narrow_range
GRID = np.array([-9.0, -1.26, -1.24, -0.6, 0.2, 0.6, 1.4, 9.0])
case("quantization_limits", np.array(-1.2), np.array(1.8), attrs={"num_bits": 2}, order=0, small=False,
     value=lambda low, high: [np.array(-1.0), np.array(2.0)])
case("fake_quant", GRID, np.array(-1.2), np.array(1.8), attrs={"num_bits": 2}, order=1, wrt=(), small=False,
     value=lambda x, low, high: np.array([-1.0, -1, -1, -1, 0, 1, 1, 2]))
case("fake_quant", np.stack([GRID, GRID], 1), np.array([-1.0, 0.0]), np.array([1.0, 0.0]), order=1, wrt=(), small=False,
     attrs={"num_bits": 2, "narrow_range": True}, label="of channels, one without room",
     value=lambda x, low, high: np.stack([np.array([-1.0, -1, -1, -1, 0, 1, 1, 1]), np.zeros(8)], 1))
