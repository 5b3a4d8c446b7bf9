"""Arithmetic of two or more arguments, element by element, with NumPy broadcasting."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, front, ops, raw
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape

BINARY = "x[...] y[...] -> [...]"
NUMBER, REAL, FLOAT = "T:number -> T", "T:real -> T", "T:differentiable -> T"


def _both(node, dx, dy):
    """Gradients of a broadcasting binary operation, summed back to the shape of each input."""
    x, y = node.inputs
    return ops.unbroadcast(dx, x, y), ops.unbroadcast(dy, y, x)


# arithmetic

@op(BINARY, types=NUMBER, elementwise="x + y", ufunc=np.add, commutative=True)
def add(x, y):
    """x + y."""
    return np.add(x, y)


@add.gradient
def _(node, dy):
    return _both(node, dy, dy)


@front("add")
def _(add, x, y, name=None):
    """x + y; two strings are joined."""
    if _is_text(x) or _is_text(y):
        return ops.string_add(x, y, name=name or "add")
    return add(x, y, name=name)


def _is_text(x):
    while isinstance(x, (list, tuple)) and x:
        x = x[0]
    return isinstance(x, (str, bytes)) or getattr(getattr(x, "dtype", None), "kind", None) in ("string", "U", "S")


@op(BINARY, types=NUMBER, elementwise="x - y", ufunc=np.subtract)
def subtract(x, y):
    """x - y."""
    return np.subtract(x, y)


@subtract.gradient
def _(node, dy):
    return _both(node, dy, ops.negative(dy))


@op(BINARY, types=NUMBER, elementwise="x * y", ufunc=np.multiply, commutative=True)
def multiply(x, y):
    """x · y."""
    return np.multiply(x, y)


@multiply.gradient
def _(node, dy):
    x, y = node.inputs
    return _both(node, ops.multiply(dy, y), ops.multiply(dy, x))


@op(BINARY, types="T:differentiable -> T", elementwise="x / y", ufunc=np.divide)
def divide(x, y):
    """x / y of floats; integers are converted first (see truediv)."""
    return np.divide(x, y)


@divide.gradient
def _(node, dy):
    y, z = node.inputs[1], node.outputs[0]
    dx = ops.realdiv(dy, y)
    return _both(node, dx, ops.negative(ops.multiply(dx, z)))


@composed
def realdiv(x, y, name=None):
    """x / y of two floats of one dtype, with broadcasting; DtypeError for integers."""
    return raw("divide")(x, y, name=name)


@front("divide")
def _(divide, x, y, name=None):
    """x / y as Python 3 divides: 8- and 16-bit integers become float32, wider ones float64."""
    x, y = _pair(x, y)
    if x.dtype.is_integer:
        wide = "float32" if x.dtype.size <= 2 else "float64"
        x, y = ops.cast(x, wide), ops.cast(y, wide)
    return divide(x, y, name=name)


@composed
def truediv(x, y, name=None):
    """As divide: x / y as Python 3 divides: 8- and 16-bit integers become float32, wider ones float64."""
    return ops.divide(x, y, name=name)


@composed
def div(x, y, name=None):
    """x / y as Python 2 divides: integers are rounded towards minus infinity."""
    x, y = _pair(x, y)
    return (ops.floordiv if x.dtype.is_integer else ops.divide)(x, y, name=name)


def _pair(x, y):
    """Both as tensors of one dtype; a Python number takes the dtype of the other side."""
    if hasattr(x, "dtype") and not isinstance(x, np.ndarray):
        x = convert(x)
        return x, convert(y, None if hasattr(y, "op") else x.dtype)
    y = convert(y)
    return convert(x, y.dtype), y


def _no_zero(where, x, y):
    if y.dtype.kind in "iu" and not np.all(y) and np.size(x):
        raise errors.InvalidArgumentError(f"{where}: integer division by zero in y of shape {list(y.shape)}; "
                                          "replace the zeros, or divide floats")


def _floordiv_into(x, y, out):
    if y.dtype.kind in "iu":
        _no_zero("floordiv", x, y)
        np.floor_divide(x, y, out=out)
    else:      # NumPy's floor_divide makes NaN of infinities, and 9 of 1 / 0.1
        np.floor(np.divide(x, y, out=out), out=out)


@op(BINARY, types=REAL, into=_floordiv_into, differentiable=False)
def floordiv(x, y):
    """x / y rounded towards minus infinity; InvalidArgumentError when an integer is divided by zero."""
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    _floordiv_into(x, y, out)
    return out


def _floormod_into(x, y, out):
    _no_zero("floormod", x, y)
    np.remainder(x, y, out=out)


@op(BINARY, types=REAL, into=_floormod_into)
def floormod(x, y):
    """The remainder of floordiv: it has the sign of y."""
    _no_zero("floormod", x, y)
    return np.remainder(x, y)


@floormod.gradient
def _(node, dy):
    return _both(node, dy, ops.negative(ops.multiply(dy, ops.floordiv(*node.inputs))))


@composed
def mod(x, y, name=None):
    """floormod by the name of Python's operator: the remainder with the sign of y, of numbers of one dtype that broadcast."""
    return ops.floormod(x, y, name=name)


@op(BINARY, types="T:int -> T", differentiable=False)
def truncatediv(x, y):
    """x / y of integers rounded towards zero, as C divides."""
    _no_zero("truncatediv", x, y)
    quotient = np.floor_divide(x, y)
    return np.where((np.remainder(x, y) != 0) & ((x < 0) != (y < 0)), quotient + 1, quotient).astype(quotient.dtype)


@op(BINARY, types=REAL, differentiable=False)
def truncatemod(x, y):
    """The remainder of truncatediv: it has the sign of x."""
    _no_zero("truncatemod", x, y)
    return np.fmod(x, y)


def _pow_into(x, y, out):
    if y.dtype.kind == "i" and (y < 0).any():
        raise errors.InvalidArgumentError(f"pow: {y.dtype} exponent {int(y.min())} is negative; cast x to floats")
    np.power(x, y, out=out)


@op(BINARY, types=NUMBER, elementwise="x ** y", into=_pow_into)
def pow_(x, y):
    """x to the power y; InvalidArgumentError for a negative integer exponent."""
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    _pow_into(x, y, out)
    return out


@pow_.gradient
def _(node, dy):
    x, y = node.inputs
    dx = ops.multiply(ops.multiply(dy, y), ops.pow(x, ops.subtract(y, 1)))
    # where x <= 0 the power is no function of y: its gradient is 0
    positive = ops.not_equal(x, 0) if x.dtype.is_complex else ops.greater(x, 0)
    log = ops.select(positive, ops.log(ops.select(positive, x, 1)), 0)
    return _both(node, dx, ops.multiply(ops.multiply(dy, node.outputs[0]), log))


@op(BINARY, types=REAL, elementwise="maximum(x, y)", ufunc=np.maximum, commutative=True)
def maximum(x, y):
    """The larger of x and y; NaN where one is NaN."""
    return np.maximum(x, y)


@maximum.gradient
def _(node, dy):
    return _choose(node, ops.greater_equal(*node.inputs), dy)


@op(BINARY, types=REAL, elementwise="minimum(x, y)", ufunc=np.minimum, commutative=True)
def minimum(x, y):
    """The smaller of x and y; NaN where one is NaN."""
    return np.minimum(x, y)


@minimum.gradient
def _(node, dy):
    return _choose(node, ops.less_equal(*node.inputs), dy)


def _choose(node, first, dy):
    """All of the gradient to x where `first`, else to y."""
    return _both(node, ops.select(first, dy, 0), ops.select(first, 0, dy))


@composed
def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """t limited to [min, max], which are numbers or tensors that broadcast to its shape, else ShapeError; gradients pass
    where t lies inside."""
    t = convert(t)
    found = ops.maximum(ops.minimum(t, clip_value_max), clip_value_min, name=name)
    t.shape.merge(found.shape, "clip_by_value: t and the limits")
    return found


def _squared_difference_into(x, y, out):
    np.subtract(x, y, out=out)
    np.square(out, out=out)


@op(BINARY, types=NUMBER, elementwise="(x - y) * (x - y)", into=_squared_difference_into, commutative=True)
def squared_difference(x, y):
    """(x - y)²."""
    return np.square(np.subtract(x, y))


@squared_difference.gradient
def _(node, dy):
    dx = ops.multiply(ops.multiply(dy, 2), ops.subtract(*node.inputs))
    return _both(node, dx, ops.negative(dx))


def _same_shape(inputs, attrs):
    result = Shape(None)
    for tensor in inputs:
        result = result.merge(tensor.shape, "add_n")
    return [result]


def _add_n_into(*values_and_out):
    *values, out = values_and_out
    if len(values) == 1:
        np.copyto(out, values[0])
        return
    np.add(values[0], values[1], out=out)
    for value in values[2:]:
        np.add(out, value, out=out)


@op("*values? -> ?", types=NUMBER, shape=_same_shape, into=_add_n_into)
def add_n(*values):
    """The sum of one or more tensors of one shape."""
    total = values[0].copy() if len(values) == 1 else np.add(values[0], values[1])
    for value in values[2:]:
        total = np.add(total, value)
    return total


@add_n.gradient
def _(node, dy):
    return [dy] * len(node.inputs)


@composed
def accumulate_n(values, name=None):
    """As add_n: the sum of a list of tensors of one shape and dtype."""
    return ops.add_n(values, name=name)
