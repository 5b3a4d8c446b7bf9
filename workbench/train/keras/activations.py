"""Activations by name: what layers do to their sums."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.train.keras.registry import Kind

__all__ = ["deserialize", "elu", "get", "hard_sigmoid", "linear", "relu", "selu", "serialize", "sigmoid", "softmax", "softplus",
           "softsign", "tanh"]

selu, sigmoid, softplus, softsign, tanh = ops.selu, ops.sigmoid, ops.softplus, ops.softsign, ops.tanh


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Shares of one along `axis`. ShapeError for a vector, which has no batch."""
    x = convert(x)
    if x.shape.rank is not None and x.shape.rank < 2:
        raise errors.ShapeError(f"softmax: Cannot apply softmax to a tensor that is 1D: {x.name} has shape {x.shape}; give it "
                                "a batch dimension")
    made: Tensor = ops.softmax(x, axis)
    return made


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha · (exp(x) - 1)."""
    made: Tensor = ops.elu(x)
    return made if alpha == 1 else ops.where(ops.greater(x, 0), made, alpha * made)


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None) -> Tensor:
    """x where positive, at most `max_value`; else alpha · x."""
    made: Tensor = ops.relu(x)
    if max_value is not None:
        made = ops.minimum(made, max_value)
    return made if alpha == 0 else made - alpha * ops.relu(ops.negative(x))


def hard_sigmoid(x: Any) -> Tensor:
    """0.2 · x + 0.5, kept between 0 and 1."""
    made: Tensor = ops.clip_by_value(0.2 * convert(x) + 0.5, 0.0, 1.0)
    return made


def linear(x: Any) -> Any:
    """x itself."""
    return x


ACTIVATIONS = Kind("activation function", softmax, elu, selu, softplus, softsign, relu, tanh, sigmoid, hard_sigmoid, linear,
                   default=linear)
get, serialize, deserialize = ACTIVATIONS.get, ACTIVATIONS.serialize, ACTIVATIONS.deserialize
