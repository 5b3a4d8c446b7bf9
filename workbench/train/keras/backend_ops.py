"""What Keras's backend calls operations: ours under its names where meaning agrees, and the rest made of ours."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import name_scope
from workbench.nn.moving import assign_moving_average
from workbench.nn.sparse import SparseTensor, sparse_tensor_to_dense
from workbench.nn.variables import Variable
from workbench.train.keras import activations, backend, losses

__all__ = [
    "arange", "clip", "constant", "dtype", "eye", "gradients", "int_shape", "is_keras_tensor", "is_placeholder", "is_sparse",
    "map_fn", "mean", "moving_average_update", "name_scope", "ndim", "one_hot", "ones", "print_tensor", "random_binomial",
    "random_normal", "random_normal_variable", "random_uniform", "random_uniform_variable", "sqrt", "std", "to_dense",
    "truncated_normal", "update", "update_add", "update_sub", "var", "zeros",
]


# what is asked of tensors

def int_shape(x: Any) -> tuple[int | None, ...] | None:
    """The static shape, with None for unknown dimensions; None where the rank is unknown."""
    shape = convert(x).shape
    return None if shape.rank is None else tuple(shape.as_list())


def ndim(x: Any) -> int | None:
    """The rank, None where it is unknown."""
    rank: int | None = convert(x).shape.rank
    return rank


def dtype(x: Any) -> str:
    """The name of the dtype."""
    return as_dtype(x.dtype).name


def is_keras_tensor(x: Any) -> bool:
    """Did a layer, or Input, make it? InvalidArgumentError for what is no tensor."""
    if not isinstance(x, (Tensor, Variable, SparseTensor)):
        raise errors.InvalidArgumentError(f"is_keras_tensor: Unexpectedly found an instance of type {type(x).__name__}; "
                                          "Expected a symbolic tensor instance")
    return hasattr(x, "_keras_history")


def is_placeholder(x: Any) -> bool:
    """Is it fed?"""
    return isinstance(x, Tensor) and x.op.kind == "placeholder"


def is_sparse(tensor: Any) -> bool:
    """Is it a SparseTensor?"""
    return isinstance(tensor, SparseTensor)


def to_dense(tensor: Any) -> Any:
    """A sparse tensor as a dense one; others as they are."""
    return sparse_tensor_to_dense(tensor) if is_sparse(tensor) else tensor


# tensors and variables of a value

def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    """A constant; its dtype is floatx() unless given."""
    made: Tensor = ops.constant(value, dtype or backend.floatx(), shape, name=name)
    return made


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of zeros."""
    return backend.variable(np.zeros(shape), dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of ones."""
    return backend.variable(np.ones(shape), dtype, name)


def eye(size: int, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable that is the identity matrix."""
    return backend.variable(np.eye(size), dtype, name)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Tensor:
    """start, start + step, … below `stop`; from 0 to `start` where `stop` is missing."""
    made: Tensor = ops.range(start, delta=step) if stop is None else ops.range(start, stop, step)
    return made if made.dtype == as_dtype(dtype) else ops.cast(made, dtype)


def _drawn(draw: Callable[..., Tensor], shape: Any, first: float, other: float, dtype: Any, seed: int | None) -> Tensor:
    """Random numbers of floatx(), with a seed from NumPy's generator, unless dtype and seed are given."""
    return draw(shape, first, other, dtype or backend.floatx(), np.random.randint(10 ** 7) if seed is None else seed)


def random_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None) -> Tensor:
    """Normal numbers; without a seed NumPy's generator gives one."""
    return _drawn(ops.random_normal, shape, mean, stddev, dtype, seed)


def random_uniform(shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: int | None = None) -> Tensor:
    """Numbers from `minval` to below `maxval`; without a seed NumPy's generator gives one."""
    return _drawn(ops.random_uniform, shape, minval, maxval, dtype, seed)


def truncated_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None) -> Tensor:
    """Normal numbers within two deviations; without a seed NumPy's generator gives one."""
    return _drawn(ops.truncated_normal, shape, mean, stddev, dtype, seed)


def random_binomial(shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None) -> Tensor:
    """1 with probability `p`, else 0; without a seed NumPy's generator gives one."""
    hits = ops.less_equal(_drawn(ops.random_uniform, shape, 0.0, 1.0, None, seed), p)
    made: Tensor = ops.cast(hits, dtype or backend.floatx())
    return made


def random_normal_variable(shape: Any, mean: float, scale: float, dtype: Any = None, name: str | None = None,
                           seed: int | None = None) -> Variable:
    """A variable that begins with normal numbers."""
    return backend.variable(_drawn(ops.random_normal, shape, mean, scale, dtype, seed), dtype, name)


def random_uniform_variable(shape: Any, low: float, high: float, dtype: Any = None, name: str | None = None,
                            seed: int | None = None) -> Variable:
    """A variable that begins with numbers from `low` to below `high`."""
    return backend.variable(_drawn(ops.random_uniform, shape, low, high, dtype, seed), dtype, name)


def update(x: Variable, new_x: Any) -> Any:
    """The operation that gives a variable a value."""
    return x.assign(new_x)


def update_add(x: Variable, increment: Any) -> Any:
    """The operation that adds to a variable."""
    return x.assign_add(increment)


def update_sub(x: Variable, decrement: Any) -> Any:
    """The operation that subtracts from a variable."""
    return x.assign_sub(decrement)


def moving_average_update(x: Variable, value: Any, momentum: float) -> Any:
    """The operation x = momentum · x + (1 - momentum) · value."""
    return assign_moving_average(x, value, momentum, zero_debias=False)


# reductions

def _number(x: Any) -> Tensor:
    """A tensor; of a bool one 0 and 1."""
    x = convert(x)
    return ops.cast(x, backend.floatx()) if x.dtype == as_dtype("bool") else x


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean along `axis`, of all without; of a bool tensor the share of what is true."""
    made: Tensor = ops.reduce_mean(_number(x), axis, keepdims)
    return made


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the squared differences from the mean along `axis`."""
    x = _number(x)
    made: Tensor = ops.reduce_mean(ops.square(x - ops.reduce_mean(x, axis, True)), axis, keepdims)
    return made


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The root of the variance along `axis`."""
    return sqrt(var(x, axis, keepdims))


def _any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Is one not 0 along `axis`?"""
    made: Tensor = ops.reduce_any(ops.cast(x, "bool"), axis, keepdims)
    return made


def _all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Is none 0 along `axis`?"""
    made: Tensor = ops.reduce_all(ops.cast(x, "bool"), axis, keepdims)
    return made


def _argmax(x: Any, axis: int = -1) -> Tensor:
    """Where the largest stands along `axis`, int64."""
    made: Tensor = ops.argmax(x, axis)
    return made


def _argmin(x: Any, axis: int = -1) -> Tensor:
    """Where the smallest stands along `axis`, int64."""
    made: Tensor = ops.argmin(x, axis)
    return made


def _reverse(x: Any, axes: Any) -> Tensor:
    """Backwards along an axis or several."""
    made: Tensor = ops.reverse(x, [axes] if isinstance(axes, int) else axes)
    return made


# elements

def sqrt(x: Any) -> Tensor:
    """The root; 0 of what is negative."""
    made: Tensor = ops.sqrt(ops.maximum(x, 0.0))
    return made


def clip(x: Any, min_value: float | None, max_value: float | None) -> Tensor:
    """Between two numbers; a largest below the smallest counts as that, None as infinite."""
    least, most = -np.inf if min_value is None else min_value, np.inf if max_value is None else max_value
    made: Tensor = ops.minimum(ops.maximum(x, least), max(least, most))
    return made


def one_hot(indices: Any, num_classes: int) -> Tensor:
    """Rows with a 1 at the index."""
    made: Tensor = ops.one_hot(indices, num_classes)
    return made


def map_fn(fn: Callable[[Any], Any], elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    """`fn` of each row."""
    return ops.map_fn(fn, elems, dtype, name=name or "map")


def print_tensor(x: Any, message: str = "") -> Tensor:
    """`x`; each time it is computed its values are written to standard error."""
    made: Tensor = ops.Print(x, [x], message)
    return made


ALIASES: dict[str, Any] = {
    **{name: getattr(ops, name) for name in (
        "abs", "cast", "cos", "cumprod", "cumsum", "equal", "exp", "foldl", "foldr", "gather", "greater",
        "greater_equal", "identity", "in_top_k", "l2_normalize", "less", "less_equal", "log", "maximum", "minimum",
        "not_equal", "ones_like", "pow", "reshape", "round", "shape", "sign", "sin", "square", "stack",
        "stop_gradient", "transpose", "zeros_like")},
    **{name: getattr(ops, f"reduce_{name}") for name in ("logsumexp", "max", "min", "prod", "sum")},
    **{name: getattr(activations, name) for name in (
        "elu", "hard_sigmoid", "relu", "sigmoid", "softmax", "softplus", "softsign", "tanh")},
    "all": _all, "any": _any, "argmax": _argmax, "argmin": _argmin, "reverse": _reverse,
    "binary_crossentropy": losses.element_crossentropy, "categorical_crossentropy": losses.categorical_crossentropy,
    "sparse_categorical_crossentropy": losses.sparse_categorical_crossentropy, "eval": backend.get_value,
}
"""Names of the backend that another function of ours has, or that Python gives a meaning of its own."""
