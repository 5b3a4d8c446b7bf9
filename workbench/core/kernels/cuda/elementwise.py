"""Operations element by element: CuPy's functions for what is one of NumPy's, and a kernel for each stated expression."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core.graph.opdef import OpDef, registry
from workbench.core.kernels.cuda.text import PREAMBLE, TYPES, translated
from workbench.core.kernels.cuda.values import ALL, BOOL, FLOATS, INTS, REALS, cupy, down, kernel

__all__ = ["EXPRESSIONS", "FUNCTIONS", "compiled"]

FUNCTIONS: dict[str, Sequence[str]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "negative", "abs", "square", "maximum", "minimum"), REALS),
    **dict.fromkeys(("sign",), INTS),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), ALL),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), BOOL),
    **dict.fromkeys(("is_nan", "is_inf", "is_finite"), (*FLOATS, *BOOL)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "invert"), INTS),
    **dict.fromkeys(("divide", "sqrt", "exp", "expm1", "log", "log1p", "floor", "ceil", "round", "sin", "cos", "tan", "asin",
                     "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2"), FLOATS)}
"""Operations that are one function of NumPy, and the dtypes for which CuPy's function of that name means the same."""

EXPRESSIONS: dict[str, Sequence[str]] = {
    **dict.fromkeys(("rsqrt", "reciprocal", "erf", "tanh_grad", "sigmoid", "sigmoid_grad", "softplus", "softsign", "elu",
                     "selu", "sigmoid_xent", "sign", "pow"), FLOATS),
    **dict.fromkeys(("squared_difference", "relu", "relu_grad", "relu6", "relu6_grad"), REALS), "select": ALL}
"""Operations whose stated expression is compiled, and for which dtypes."""

STATED = {"erfc": ("erfc(x)", FLOATS)}
"""Operations that state none, with an expression that means the same."""


def _function(name: str) -> Callable[..., Any]:
    ufunc = registry[name].ufunc
    assert ufunc is not None

    def run(*values: Any) -> Any:
        return getattr(cupy, ufunc.__name__)(*values)
    return run


def source(expression: str, inputs: Sequence[str], dtypes: Sequence[str], result: str) -> str:
    """The body of a kernel that sets `out0` from `in0`, `in1` …, elements of `dtypes`."""
    names = {name: f"({TYPES[dtype]})in{i}" for i, (name, dtype) in enumerate(zip(inputs, dtypes))}
    number = TYPES[next((d for d in (*dtypes, result) if d != "bool"), "float32")]
    return f"out0 = ({TYPES[result]}){translated(expression, names, number)}"


def compiled(definition: OpDef, expression: str) -> Callable[..., Any]:
    """One pass over memory that computes `expression`; a kernel is compiled for each combination of dtypes."""
    made: dict[tuple[np.dtype[Any], ...], Any] = {}

    def run(*values: Any) -> Any:
        dtypes = tuple([value.dtype for value in values])
        found = made.get(dtypes)
        if found is None:
            names, result = [d.name for d in dtypes], dtypes[-1].name
            parameters = ", ".join(f"{name} in{i}" for i, name in enumerate(names))
            found = made[dtypes] = cupy.ElementwiseKernel(parameters, f"{result} out0", source(
                expression, definition.inputs, names, result), f"wb_{definition.name}", preamble=PREAMBLE)
        return found(*values)
    return run


for _name, _dtypes in FUNCTIONS.items():
    kernel(_name, dtypes=_dtypes)(_function(_name))
for _name, _dtypes in EXPRESSIONS.items():
    _definition = registry[_name]
    assert _definition.elementwise is not None
    kernel(_name, dtypes=_dtypes)(compiled(_definition, _definition.elementwise))
for _name, (_expression, _dtypes) in STATED.items():
    kernel(_name, dtypes=_dtypes)(compiled(registry[_name], _expression))


@kernel("cast", dtypes=ALL)
def _cast(x: Any, *, dtype: Any) -> Any:
    return x.astype(dtype.numpy)


@kernel("floordiv", dtypes=FLOATS)
def _floordiv(x: Any, y: Any) -> Any:
    return cupy.floor(cupy.divide(x, y))


@kernel("floormod", dtypes=FLOATS)
def _floormod(x: Any, y: Any) -> Any:
    return cupy.remainder(x, y)


@kernel("truncatemod", dtypes=FLOATS)
def _truncatemod(x: Any, y: Any) -> Any:
    return cupy.fmod(x, y)


def _of_integers(name: str, function: str) -> None:
    """A division that refuses 0 in the words of the reference; looking for one waits for the device."""
    @kernel(name, dtypes=INTS)
    def run(x: Any, y: Any) -> Any:
        return getattr(cupy, function)(x, y) if bool(cupy.all(y)) else registry[name].reference(down(x), down(y))


_of_integers("floordiv", "floor_divide")
_of_integers("floormod", "remainder")
kernel("truncatediv", dtypes=INTS)(registry["truncatediv"].reference)      # CuPy's arrays answer it


@kernel("bias_add", dtypes=REALS)
def _bias_add(x: Any, bias: Any, *, data_format: str) -> Any:
    return cupy.add(x, bias.reshape(-1, *[1] * (x.ndim - 2)) if data_format == "NCHW" else bias)


@kernel("add_n", dtypes=REALS)
def _add_n(*values: Any) -> Any:
    total = values[0].copy() if len(values) == 1 else cupy.add(values[0], values[1])
    for value in values[2:]:
        cupy.add(total, value, out=total)
    return total
