"""Regularizers by name: losses of weights and of what layers give."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.train.keras.registry import Kind, config_of

__all__ = ["L1L2", "Regularizer", "deserialize", "get", "l1", "l1_l2", "l2", "serialize"]


class Regularizer:
    """Base: called with a tensor, it gives a scalar that is added to the loss."""

    def get_config(self) -> dict[str, Any]:
        """The arguments that make its like."""
        return config_of(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Regularizer:
        """The regularizer of these arguments."""
        return cls(**config)


class L1L2(Regularizer):
    """l1 · Σ|x| + l2 · Σx²."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, x: Any) -> Tensor:
        x = convert(x)
        loss: Tensor = ops.zeros([], x.dtype)
        if self.l1:
            loss += self.l1 * ops.reduce_sum(ops.abs(x))
        if self.l2:
            loss += 2 * self.l2 * ops.l2_loss(x)
        return loss


def l1(l: float = 0.01) -> L1L2:  # noqa: E741
    """l · Σ|x|."""
    return L1L2(l1=l)


def l2(l: float = 0.01) -> L1L2:  # noqa: E741
    """l · Σx²."""
    return L1L2(l2=l)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """l1 · Σ|x| + l2 · Σx²."""
    return L1L2(l1, l2)


REGULARIZERS = Kind("regularizer", L1L2, l1, l2, l1_l2, makers=True)
get, serialize, deserialize = REGULARIZERS.get, REGULARIZERS.serialize, REGULARIZERS.deserialize
