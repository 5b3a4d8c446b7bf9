"""LARS (You et al. 2017): momentum whose rate is scaled for each variable by its own size over that of its gradient."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.variables import Variable
from workbench.train.optimizers.rules import MomentumOptimizer

__all__ = ["LARSOptimizer"]


class LARSOptimizer(MomentumOptimizer):
    """Momentum by the gradient g + weight_decay · v, at the rate learning_rate · factor.

    The factor is eeta · |v| / (|g| + weight_decay · |v| + epsilon). It is 1 where |v| or |g| is 0. Variables
    with a part of `skip_list` in their name, and sparse gradients, take plain momentum.
    """

    def __init__(self, learning_rate: Any, momentum: Any = 0.9, weight_decay: float = 0.0001, eeta: float = 0.001,
                 epsilon: float = 0.0, name: str = "LARSOptimizer", skip_list: Sequence[str] | None = None,
                 use_nesterov: bool = False) -> None:
        super().__init__(learning_rate, momentum, False, name, use_nesterov)
        self._weight_decay, self._eeta, self._epsilon, self._skip_list = weight_decay, eeta, epsilon, tuple(skip_list or ())

    def compute_lr(self, grad: Tensor, var: Variable) -> tuple[Tensor, Tensor]:
        """(The rate of this variable, its gradient with that of the decay of weights.)"""
        rate = self._number(self._learning_rate, var)
        if any(part in var.name for part in self._skip_list):
            return rate, grad
        value = var.value()
        size, slope = (ops.sqrt(ops.reduce_sum(ops.square(x))) for x in (value, grad))
        both = ops.logical_and(size > 0.0, slope > 0.0)
        below = slope + size * self._weight_decay + self._epsilon
        ratio = ops.where(both, size * self._eeta / ops.where(both, below, ops.ones_like(below)), ops.ones_like(size))
        return rate * ratio, grad + value * self._weight_decay

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        rate, grad = self.compute_lr(grad, var)
        return ops.apply_momentum(var.handle, self._slot(var, "momentum").handle, rate, grad,
                                  self._number(self._momentum, var), use_nesterov=self._nesterov)
