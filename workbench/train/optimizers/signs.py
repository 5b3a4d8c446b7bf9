"""AddSign and PowerSign (Bello et al. 2017): steps that grow where gradient and momentum agree; how fast that fades."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.variables import Variable
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["AddSignOptimizer", "PowerSignOptimizer", "get_cosine_decay_fn", "get_linear_decay_fn", "get_restart_decay_fn"]

Decay = Callable[[Any], Tensor]


class _Sign(Optimizer):
    """m = beta · m + (1 - beta) · gradient; variable -= learning_rate · factor · gradient, where the factor depends on whether
    gradient and m have one sign. `sign_decay_fn` makes of the global step how much that counts, from 1 to 0."""

    def __init__(self, rate: Any, beta: Any, decay: Decay | None, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta, self._decay = rate, beta, decay
        self._counts: Any = 1.0

    def apply_gradients(self, grads_and_vars: Any, global_step: Variable | None = None, name: str | None = None) -> Operation:
        """As every optimizer's. ValueError (InvalidArgumentError) for a sign_decay_fn without a global step."""
        if self._decay is not None:
            if global_step is None:
                raise errors.InvalidArgumentError(f"{self._name}: global_step is required for sign_decay_fn, which is given; "
                                                  "pass it")
            self._counts = self._decay(global_step.value())
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _slots_of(self) -> dict[str, float]:
        return {"m": 0.0}

    def _factor(self, var: Variable, agreed: Tensor) -> Tensor:
        """Of 1 where gradient and momentum agree, -1 where they do not, 0 where one is 0; faded already."""
        raise NotImplementedError

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        beta = self._number(self._beta, var)
        m = slots[0] * beta + grad * (1 - beta)
        agreed = self._number(self._counts, var) * ops.sign(grad) * ops.sign(m)
        return [value - self._number(self._lr, var) * self._factor(var, agreed) * grad, m]


class AddSignOptimizer(_Sign):
    """AddSign: the factor is alpha + faded sign(gradient) · sign(m)."""

    def __init__(self, learning_rate: Any = 0.1, alpha: Any = 1.0, beta: Any = 0.9, sign_decay_fn: Decay | None = None,
                 use_locking: bool = False, name: str = "AddSignOptimizer") -> None:
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._alpha = alpha

    def _factor(self, var: Variable, agreed: Tensor) -> Tensor:
        return self._number(self._alpha, var) + agreed


class PowerSignOptimizer(_Sign):
    """PowerSign: the factor is `base` to the power of faded sign(gradient) · sign(m)."""

    def __init__(self, learning_rate: Any = 0.1, base: float = math.e, beta: Any = 0.9, sign_decay_fn: Decay | None = None,
                 use_locking: bool = False, name: str = "PowerSignOptimizer") -> None:
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._log = math.log(base)

    def _factor(self, var: Variable, agreed: Tensor) -> Tensor:
        return ops.exp(agreed * self._number(self._log, var))


# how the sign fades

def get_linear_decay_fn(decay_steps: int) -> Decay:
    """From 1 to 0 on a line, which ends after so many steps."""
    return lambda global_step: ops.maximum(0.0, 1.0 - ops.cast(global_step, "float32") / float(decay_steps))


def get_cosine_decay_fn(decay_steps: int, num_periods: float = 0.5, zero_after: float | None = None) -> Decay:
    """A cosine between 1 and 0 with so many periods in so many steps; 0 after `zero_after` periods."""
    def decay(global_step: Any) -> Tensor:
        periods = num_periods * ops.cast(global_step, "float32") / float(decay_steps)
        return _until(zero_after, periods, 0.5 * (1.0 + ops.cos(2.0 * math.pi * periods)))
    return decay


def get_restart_decay_fn(decay_steps: int, num_periods: int = 1, zero_after: float | None = None) -> Decay:
    """Half a cosine from 1 to 0, begun anew so many times in so many steps; 0 after `zero_after` of them."""
    def decay(global_step: Any) -> Tensor:
        periods = num_periods * ops.cast(global_step, "float32") / float(decay_steps)
        return _until(zero_after, periods, 0.5 * (1.0 + ops.cos(math.pi * (periods - ops.floor(periods)))))
    return decay


def _until(last: float | None, periods: Tensor, value: Tensor) -> Tensor:
    return value if last is None else ops.where(ops.greater_equal(periods, last), ops.zeros_like(value), value)
