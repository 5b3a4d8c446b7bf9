"""Special functions: gamma, beta and zeta functions and their relatives, inverses of the error function, Bessel functions.

The numbers are SciPy's; it is loaded when the first of them is computed, not when workbench is imported.
"""
from __future__ import annotations

import math

import numpy as np

from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import composed, op

UNARY, BINARY, FLOAT = "x[...] -> [...]", "a[...] x[...] -> [...]", "T:float -> T"


def _scipy(name, *arrays):
    """SciPy's function `name` in float64, given in the dtype of the arguments."""
    from scipy import special
    exact = getattr(special, name)(*(np.asarray(a, np.float64) for a in arrays))
    return np.asarray(exact).astype(arrays[0].dtype)


# the gamma function

@op(UNARY, types=FLOAT)
def lgamma(x):
    """log |Γ(x)|, infinite at 0, -1, -2 …"""
    return np.where(np.isinf(x), np.inf, _scipy("gammaln", x)).astype(x.dtype)


@lgamma.gradient
def _(node, dy):
    return ops.multiply(dy, ops.digamma(node.inputs[0]))


@op(UNARY, types=FLOAT)
def digamma(x):
    """The derivative of log Γ(x), NaN at 0, -1, -2 …"""
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, _scipy("psi", x)).astype(x.dtype)


@digamma.gradient
def _(node, dy):
    x = node.inputs[0]
    return ops.multiply(dy, ops.polygamma(ops.ones_like(x), x))


@op(BINARY, types=FLOAT)
def polygamma(a, x):
    """The derivative of order `a` (0, 1, 2 …) of digamma at x, NaN for another `a`. It has no gradient by `a`."""
    order, at = (v.astype(np.float64) for v in (a, x))
    sign = np.where(order % 2 == 1, 1.0, -1.0)
    found = sign * _scipy("gamma", order + 1) * _scipy("zeta", order + 1, at)
    found = np.where(order == 0, digamma.reference(at), found)
    return np.where((order >= 0) & (order == np.floor(order)), found, np.nan).astype(x.dtype)


@polygamma.gradient
def _(node, dy):
    a, x = node.inputs
    return None, ops.unbroadcast(ops.multiply(dy, ops.polygamma(ops.add(a, 1), x)), x, a)


@op("x[...] q[...] -> [...]", types=FLOAT)
def zeta(x, q):
    """The Hurwitz zeta function Σ (q + n)^(-x) over n = 0, 1, 2 …, for x > 1. It has no gradient by x."""
    return _scipy("zeta", x, q)


@zeta.gradient
def _(node, dy):
    x, q = node.inputs
    slope = ops.multiply(ops.negative(x), ops.zeta(ops.add(x, 1), q))
    return None, ops.unbroadcast(ops.multiply(dy, slope), q, x)


# incomplete gamma and beta functions

def _above_zero(a, values):
    return np.where(a > 0, values, values.dtype.type(np.nan))


@op(BINARY, types=FLOAT)
def igamma(a, x):
    """The lower regularised incomplete gamma function P(a, x), for a > 0 and x ≥ 0."""
    return _above_zero(a, _scipy("gammainc", a, x))


@op(BINARY, types=FLOAT)
def igammac(a, x):
    """The upper regularised incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return _above_zero(a, _scipy("gammaincc", a, x))


@op(BINARY, types=FLOAT, differentiable=False)
def igamma_grad_a(a, x):
    """The derivative of igamma by a: of the power series x^(a+n) e^(-x) / Γ(a+n+1), term by term."""
    a, t = np.broadcast_arrays(a, x)
    dtype, (a, t) = t.dtype, (v.astype(np.float64) for v in (a, t))
    known = (a > 0) & (t > 0) & np.isfinite(a) & np.isfinite(t)
    a, t = np.where(known, a, 1.0), np.where(known, t, 1.0)
    total, n = np.zeros_like(t), 0
    most = float(t.max(initial=0.0)) + 12 * math.sqrt(float(t.max(initial=0.0))) + 60
    logarithm = np.log(t)
    while n < most:      # the terms grow up to n = x, then fall faster than a geometric series
        power = np.exp((a + n) * logarithm - t - _scipy("gammaln", a + n + 1))
        total, n = total + power * (logarithm - _scipy("psi", a + n + 1)), n + 1
    return np.where(known, total, np.nan).astype(dtype)


def _gamma_gradient(node, dy, sign):
    a, x = node.inputs
    density = ops.exp(ops.subtract(ops.subtract(ops.multiply(ops.subtract(a, 1), ops.log(x)), x), ops.lgamma(a)))
    by_a, by_x = (ops.multiply(dy, ops.multiply(slope, sign)) for slope in (ops.igamma_grad_a(a, x), density))
    return ops.unbroadcast(by_a, a, x), ops.unbroadcast(by_x, x, a)


@igamma.gradient
def _(node, dy):
    return _gamma_gradient(node, dy, 1)


@igammac.gradient
def _(node, dy):
    return _gamma_gradient(node, dy, -1)


@op("a[...] b[...] x[...] -> [...]", types=FLOAT)
def betainc(a, b, x):
    """The regularised incomplete beta function, for a, b > 0 and x in 0 … 1. It has no gradients by a and b."""
    return _scipy("betainc", a, b, x)


@betainc.gradient
def _(node, dy):
    a, b, x = node.inputs
    beta = ops.subtract(ops.add(ops.lgamma(a), ops.lgamma(b)), ops.lgamma(ops.add(a, b)))
    powers = ops.add(ops.multiply(ops.subtract(b, 1), ops.log1p(ops.negative(x))),
                     ops.multiply(ops.subtract(a, 1), ops.log(x)))
    return None, None, ops.unbroadcast(ops.multiply(dy, ops.exp(ops.subtract(powers, beta))), x, a, b)


@composed
def lbeta(x, name=None):
    """log of the beta function of the vectors of the last axis: Σ log Γ(xᵢ) - log Γ(Σ xᵢ)."""
    x = convert(x)
    return ops.subtract(ops.reduce_sum(ops.lgamma(x), -1), ops.lgamma(ops.reduce_sum(x, -1)), name=name)


# inverses of the error function

@op(UNARY, types=FLOAT)
def erfinv(x):
    """The y with erf(y) = x."""
    return _scipy("erfinv", x)


@erfinv.gradient
def _(node, dy):
    return ops.multiply(dy, ops.multiply(ops.exp(ops.square(node.outputs[0])), math.sqrt(math.pi) / 2))


@op(UNARY, types=FLOAT)
def ndtri(x):
    """The y below which a standard normal variable lies with probability x."""
    return _scipy("ndtri", x)


@ndtri.gradient
def _(node, dy):
    return ops.multiply(dy, ops.multiply(ops.exp(ops.multiply(ops.square(node.outputs[0]), 0.5)), math.sqrt(2 * math.pi)))


# modified Bessel functions of the first kind, times exp(-|x|)

@op(UNARY, types=FLOAT)
def bessel_i0e(x):
    """I₀(x) exp(-|x|)."""
    return _scipy("i0e", x)


@bessel_i0e.gradient
def _(node, dy):
    x, y = node.inputs[0], node.outputs[0]
    return ops.multiply(dy, ops.subtract(ops.bessel_i1e(x), ops.multiply(ops.sign(x), y)))


@op(UNARY, types=FLOAT)
def bessel_i1e(x):
    """I₁(x) exp(-|x|)."""
    return _scipy("i1e", x)


@bessel_i1e.gradient
def _(node, dy):
    """By I₁' = I₀ - I₁ / x, whose limit at 0 is 1/2."""
    x, y = node.inputs[0], node.outputs[0]
    zero = ops.equal(x, 0)
    quotient = ops.where(zero, ops.multiply(ops.ones_like(x), 0.5), ops.realdiv(y, ops.where(zero, ops.ones_like(x), x)))
    return ops.multiply(dy, ops.subtract(ops.bessel_i0e(x), ops.add(ops.multiply(ops.sign(x), y), quotient)))


@composed
def bessel_i0(x, name=None):
    """I₀(x)."""
    x = convert(x)
    return ops.multiply(ops.exp(ops.abs(x)), ops.bessel_i0e(x), name=name)


@composed
def bessel_i1(x, name=None):
    """I₁(x)."""
    x = convert(x)
    return ops.multiply(ops.exp(ops.abs(x)), ops.bessel_i1e(x), name=name)


# hyperbolic inverses and angles

@op(UNARY, types="T:differentiable -> T", ufunc=np.arcsinh)
def asinh(x):
    """The y whose hyperbolic sine is x."""
    return np.arcsinh(x)


@asinh.gradient
def _(node, dy):
    return ops.realdiv(dy, ops.cosh(node.outputs[0]))


@op(UNARY, types="T:differentiable -> T", ufunc=np.arccosh)
def acosh(x):
    """The y ≥ 0 whose hyperbolic cosine is x."""
    return np.arccosh(x)


@acosh.gradient
def _(node, dy):
    return ops.realdiv(dy, ops.sinh(node.outputs[0]))


@op(UNARY, types="T:differentiable -> T", ufunc=np.arctanh)
def atanh(x):
    """The y whose hyperbolic tangent is x."""
    return np.arctanh(x)


@atanh.gradient
def _(node, dy):
    return ops.realdiv(dy, ops.subtract(1, ops.square(node.inputs[0])))


@op("y[...] x[...] -> [...]", types=FLOAT, ufunc=np.arctan2)
def atan2(y, x):
    """The angle of the point (x, y) in radians, -π … π."""
    return np.arctan2(y, x)


@atan2.gradient
def _(node, dz):
    y, x = node.inputs
    share = ops.realdiv(dz, ops.add(ops.square(x), ops.square(y)))
    return ops.unbroadcast(ops.multiply(x, share), y, x), ops.unbroadcast(ops.negative(ops.multiply(y, share)), x, y)


@composed
def log_sigmoid(x, name=None):
    """log(1 / (1 + exp(-x))), without overflow."""
    return ops.negative(ops.softplus(ops.negative(convert(x))), name=name)
