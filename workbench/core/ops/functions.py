"""Elementary functions of one argument, element by element."""
from __future__ import annotations

import math

import numpy as np

from workbench.core.graph.build import convert, front, ops, raw
from workbench.core.graph.opdef import composed, op

UNARY = "x[...] -> [...]"
NUMBER, REAL, INEXACT, FLOAT = "T:number -> T", "T:real -> T", "T:differentiable -> T", "T:float -> T"

@op(UNARY, types=NUMBER, elementwise="-x", ufunc=np.negative)
def negative(x):
    """-x."""
    return np.negative(x)


@negative.gradient
def _(node, dy):
    return ops.negative(dy)


@op(UNARY, types=REAL, elementwise="abs(x)", ufunc=np.abs)
def abs_(x):
    """The absolute value; its gradient at 0 is 0."""
    return np.abs(x)


@abs_.gradient
def _(node, dy):
    return ops.multiply(dy, ops.sign(node.inputs[0]))


@op(UNARY, types=NUMBER, elementwise="1 if x > 0 else (-1 if x < 0 else x)", ufunc=np.sign)
def sign(x):
    """-1, 0 or 1, of complex numbers x / |x| or 0; its gradient is 0 everywhere."""
    return np.sign(x)


@sign.gradient
def _(node, dy):
    return ops.zeros_like(node.inputs[0])


@op(UNARY, types=NUMBER, elementwise="x * x", ufunc=np.square)
def square(x):
    """x²."""
    return np.square(x)


@square.gradient
def _(node, dy):
    return ops.multiply(dy, ops.multiply(node.inputs[0], 2))


@op(UNARY, types=INEXACT, elementwise="sqrt(x)", ufunc=np.sqrt)
def sqrt(x):
    """√x, NaN for negative x."""
    return np.sqrt(x)


@sqrt.gradient
def _(node, dy):
    return ops.realdiv(ops.multiply(dy, 0.5), node.outputs[0])


def _rsqrt_into(x, out):
    np.sqrt(x, out=out)
    np.divide(1, out, out=out)


@op(UNARY, types=INEXACT, elementwise="1 / sqrt(x)", into=_rsqrt_into)
def rsqrt(x):
    """1/√x."""
    return np.divide(1, np.sqrt(x))


@rsqrt.gradient
def _(node, dy):
    y = node.outputs[0]
    return ops.multiply(ops.multiply(dy, -0.5), ops.multiply(y, ops.square(y)))


def _reciprocal_into(x, out):
    np.divide(1, x, out=out)


@op(UNARY, types=INEXACT, elementwise="1 / x", into=_reciprocal_into)
def reciprocal(x):
    """1/x."""
    return np.divide(1, x)


@reciprocal.gradient
def _(node, dy):
    return ops.negative(ops.multiply(dy, ops.square(node.outputs[0])))


@op(UNARY, types=INEXACT, elementwise="exp(x)", ufunc=np.exp)
def exp(x):
    """e to the power x."""
    return np.exp(x)


@exp.gradient
def _(node, dy):
    return ops.multiply(dy, node.outputs[0])


@op(UNARY, types=INEXACT, elementwise="expm1(x)", ufunc=np.expm1)
def expm1(x):
    """exp(x) - 1 without cancellation."""
    return np.expm1(x)


@expm1.gradient
def _(node, dy):
    return ops.multiply(dy, ops.exp(node.inputs[0]))


@op(UNARY, types=INEXACT, elementwise="log(x)", ufunc=np.log)
def log(x):
    """The natural logarithm."""
    return np.log(x)


@log.gradient
def _(node, dy):
    return ops.realdiv(dy, node.inputs[0])


@op(UNARY, types=INEXACT, elementwise="log1p(x)", ufunc=np.log1p)
def log1p(x):
    """log(1 + x) without cancellation."""
    return np.log1p(x)


@log1p.gradient
def _(node, dy):
    return ops.realdiv(dy, ops.add(node.inputs[0], 1))


@op(UNARY, types=FLOAT, elementwise="floor(x)", ufunc=np.floor, differentiable=False)
def floor(x):
    """The largest integer not above x, in x's dtype."""
    return np.floor(x)


@op(UNARY, types=FLOAT, elementwise="ceil(x)", ufunc=np.ceil, differentiable=False)
def ceil(x):
    """The smallest integer not below x, in x's dtype."""
    return np.ceil(x)


@op(UNARY, types=FLOAT, ufunc=np.rint, differentiable=False)
def round_(x):
    """The nearest integer; halves go to the even one."""
    return np.rint(x)


@composed
def rint(x, name=None):
    """The nearest integer to each float, halves to the even one; DtypeError for integers."""
    return raw("round")(x, name=name)


@front("round")
def _(nearest, x, name=None):
    """The nearest integer, halves to the even one; integers stay as they are."""
    x = convert(x)
    return x if x.dtype.is_integer else nearest(x, name=name)


_ERF = np.frompyfunc(math.erf, 1, 1)
_ERFC = np.frompyfunc(math.erfc, 1, 1)


@op(UNARY, types=FLOAT, elementwise="erf(x)")
def erf(x):
    """The error function 2/√π ∫₀ˣ exp(-t²) dt."""
    return np.asarray(_ERF(x.astype(np.float64))).astype(x.dtype)


@erf.gradient
def _(node, dy):
    return ops.multiply(dy, ops.multiply(ops.exp(ops.negative(ops.square(node.inputs[0]))), 2 / math.sqrt(math.pi)))


@op(UNARY, types=FLOAT)
def erfc(x):
    """1 - erf(x) without cancellation."""
    return np.asarray(_ERFC(x.astype(np.float64))).astype(x.dtype)


@erfc.gradient
def _(node, dy):
    return ops.multiply(dy, ops.multiply(ops.exp(ops.negative(ops.square(node.inputs[0]))), -2 / math.sqrt(math.pi)))


# trigonometric and hyperbolic

@op(UNARY, types=INEXACT, elementwise="sin(x)", ufunc=np.sin)
def sin(x):
    """The sine of x radians."""
    return np.sin(x)


@sin.gradient
def _(node, dy):
    return ops.multiply(dy, ops.cos(node.inputs[0]))


@op(UNARY, types=INEXACT, elementwise="cos(x)", ufunc=np.cos)
def cos(x):
    """The cosine of x radians."""
    return np.cos(x)


@cos.gradient
def _(node, dy):
    return ops.negative(ops.multiply(dy, ops.sin(node.inputs[0])))


@op(UNARY, types=INEXACT, ufunc=np.tan)
def tan(x):
    """The tangent of x radians."""
    return np.tan(x)


@tan.gradient
def _(node, dy):
    return ops.multiply(dy, ops.add(ops.square(node.outputs[0]), 1))


@op(UNARY, types=INEXACT, ufunc=np.arcsin)
def asin(x):
    """The angle in radians, -π/2 … π/2, whose sine is x."""
    return np.arcsin(x)


@asin.gradient
def _(node, dy):
    return ops.multiply(dy, ops.rsqrt(ops.subtract(1, ops.square(node.inputs[0]))))


@op(UNARY, types=INEXACT, ufunc=np.arccos)
def acos(x):
    """The angle in radians, 0 … π, whose cosine is x."""
    return np.arccos(x)


@acos.gradient
def _(node, dy):
    return ops.negative(ops.multiply(dy, ops.rsqrt(ops.subtract(1, ops.square(node.inputs[0])))))


@op(UNARY, types=INEXACT, ufunc=np.arctan)
def atan(x):
    """The angle in radians, -π/2 … π/2, whose tangent is x."""
    return np.arctan(x)


@atan.gradient
def _(node, dy):
    return ops.realdiv(dy, ops.add(ops.square(node.inputs[0]), 1))


@op(UNARY, types=INEXACT, ufunc=np.sinh)
def sinh(x):
    """The hyperbolic sine."""
    return np.sinh(x)


@sinh.gradient
def _(node, dy):
    return ops.multiply(dy, ops.cosh(node.inputs[0]))


@op(UNARY, types=INEXACT, ufunc=np.cosh)
def cosh(x):
    """The hyperbolic cosine."""
    return np.cosh(x)


@cosh.gradient
def _(node, dy):
    return ops.multiply(dy, ops.sinh(node.inputs[0]))


@op(UNARY, types=INEXACT, elementwise="tanh(x)", ufunc=np.tanh)
def tanh(x):
    """The hyperbolic tangent."""
    return np.tanh(x)


@tanh.gradient
def _(node, dy):
    return ops.tanh_grad(node.outputs[0], dy)


def _tanh_grad_into(y, dy, out):
    np.multiply(y, y, out=out)
    np.subtract(1, out, out=out)
    np.multiply(out, dy, out=out)


@op("y[...] dy[...] -> [...]", types=INEXACT, elementwise="dy * (1 - y * y)", into=_tanh_grad_into)
def tanh_grad(y, dy):
    """dy · (1 - y²) for y = tanh(x)."""
    return np.multiply(dy, np.subtract(1, np.square(y)))


@tanh_grad.gradient
def _(node, ddx):
    y, dy = node.inputs
    return ops.multiply(ops.multiply(ops.multiply(ddx, dy), y), -2), ops.tanh_grad(y, ddx)


def _sigmoid_into(x, out):
    below = np.asarray(np.abs(x))                         # of an array of rank 0, NumPy makes a number
    np.exp(np.negative(below, out=below), out=below)      # at most 1: it neither overflows nor cancels
    np.divide(np.where(x < 0, below, x.dtype.type(1)), below + 1, out=out)


@op(UNARY, types=FLOAT, elementwise="sigmoid(x)", into=_sigmoid_into)
def sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    out = np.empty_like(x, order="C")
    _sigmoid_into(x, out)
    return out


@sigmoid.gradient
def _(node, dy):
    return ops.sigmoid_grad(node.outputs[0], dy)


def _sigmoid_grad_into(y, dy, out):
    np.subtract(1, y, out=out)
    np.multiply(out, y, out=out)
    np.multiply(out, dy, out=out)


@op("y[...] dy[...] -> [...]", types=FLOAT, elementwise="dy * y * (1 - y)", into=_sigmoid_grad_into)
def sigmoid_grad(y, dy):
    """dy · y · (1 - y) for y = sigmoid(x)."""
    return dy * y * (1 - y)


@sigmoid_grad.gradient
def _(node, ddx):
    y, dy = node.inputs
    return ops.multiply(ops.multiply(ddx, dy), ops.subtract(1, ops.multiply(y, 2))), ops.sigmoid_grad(y, ddx)


@op(UNARY, types=FLOAT, elementwise="maximum(x, 0) + log1p(exp(-abs(x)))")
def softplus(x):
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@softplus.gradient
def _(node, dy):
    return ops.multiply(dy, ops.sigmoid(node.inputs[0]))


@op(UNARY, types=FLOAT, elementwise="x / (1 + abs(x))")
def softsign(x):
    """x / (1 + |x|)."""
    return x / (1 + np.abs(x))


@softsign.gradient
def _(node, dy):
    return ops.realdiv(dy, ops.square(ops.add(ops.abs(node.inputs[0]), 1)))
