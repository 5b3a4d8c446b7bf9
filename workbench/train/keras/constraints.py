"""Constraints by name: what weights are brought back to after each update."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.train.keras import backend
from workbench.train.keras.registry import Kind, config_of

__all__ = ["Constraint", "MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm", "deserialize", "get", "max_norm", "min_max_norm",
           "non_neg", "serialize", "unit_norm"]


class Constraint:
    """Base: called with the new value of a weight, it gives what is kept, of the same shape."""

    def __call__(self, w: Any) -> Any:
        return w

    def get_config(self) -> dict[str, Any]:
        """The arguments that make its like."""
        return config_of(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Constraint:
        """The constraint of these arguments."""
        return cls(**config)


class MinMaxNorm(Constraint):
    """Norms along `axis` between `min_value` and `max_value`, approached by the share `rate` of the way."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Tensor:
        norms = _norms(w, self.axis)
        wanted = self.rate * ops.clip_by_value(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        made: Tensor = w * (wanted / (backend.epsilon() + norms))
        return made


class MaxNorm(MinMaxNorm):
    """Norms along `axis` of at most `max_value`."""

    def __init__(self, max_value: float = 2, axis: Any = 0) -> None:
        super().__init__(0.0, max_value, 1.0, axis)


class UnitNorm(Constraint):
    """Norms along `axis` of 1."""

    def __init__(self, axis: Any = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Tensor:
        made: Tensor = w / (backend.epsilon() + _norms(w, self.axis))
        return made


def _norms(w: Any, axis: Any) -> Tensor:
    made: Tensor = ops.sqrt(ops.reduce_sum(ops.square(w), axis, keepdims=True))
    return made


class NonNeg(Constraint):
    """No negative weights."""

    def __call__(self, w: Any) -> Tensor:
        made: Tensor = ops.maximum(w, 0.0)
        return made


max_norm, min_max_norm, non_neg, unit_norm = MaxNorm, MinMaxNorm, NonNeg, UnitNorm

CONSTRAINTS = Kind("constraint", MaxNorm, MinMaxNorm, NonNeg, UnitNorm, makers=True, aliases={
    "max_norm": MaxNorm, "min_max_norm": MinMaxNorm, "non_neg": NonNeg, "unit_norm": UnitNorm})
get, serialize, deserialize = CONSTRAINTS.get, CONSTRAINTS.serialize, CONSTRAINTS.deserialize
