"""Optimizers for sparse models: proximal gradient descent, proximal Adagrad, Adagrad with dual averaging."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.variables import Variable
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["AdagradDAOptimizer", "ProximalAdagradOptimizer", "ProximalGradientDescentOptimizer"]


def _strengths(where: str, **given: float) -> None:
    for name, value in given.items():
        if value < 0:
            raise errors.InvalidArgumentError(f"{where}: {name} is {value}; use 0 or more")


def _shrunk(value: Tensor, by: Any) -> Tensor:
    """`value` moved towards zero by `by`, and no further."""
    return ops.sign(value) * ops.maximum(ops.abs(value) - by, ops.zeros_like(value))


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent, then the nearest point that the L1 and L2 terms prefer (Duchi & Singer 2009, FOBOS).

    prox = variable - rate · gradient; variable = sign(prox) · max(|prox| - rate · l1, 0) / (1 + rate · l2).
    """

    def __init__(self, learning_rate: Any, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, use_locking: bool = False,
                 name: str = "ProximalGradientDescent") -> None:
        super().__init__(use_locking, name)
        _strengths(name, l1_regularization_strength=l1_regularization_strength,
                   l2_regularization_strength=l2_regularization_strength)
        self._learning_rate, self._l1, self._l2 = learning_rate, l1_regularization_strength, l2_regularization_strength

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        rate = self._number(self._learning_rate, var)
        return [_shrunk(value - rate * grad, rate * self._l1) / (1 + rate * self._l2)]


class ProximalAdagradOptimizer(Optimizer):
    """Adagrad's step, then the nearest point that the L1 and L2 terms prefer (Duchi & Singer 2009).

    accum += gradient²; rate = learning_rate / √accum; then as ProximalGradientDescentOptimizer.
    """

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "ProximalAdagrad") -> None:
        super().__init__(use_locking, name)
        if initial_accumulator_value <= 0:
            raise errors.InvalidArgumentError(f"{name}: initial_accumulator_value is {initial_accumulator_value}; use more "
                                              "than 0")
        _strengths(name, l1_regularization_strength=l1_regularization_strength,
                   l2_regularization_strength=l2_regularization_strength)
        self._learning_rate, self._initial = learning_rate, initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _slots_of(self) -> dict[str, float]:
        return {"accumulator": self._initial}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        accum = slots[0] + ops.square(grad)
        rate = self._number(self._learning_rate, var) * ops.rsqrt(accum)
        return [_shrunk(value - rate * grad, rate * self._l1) / (1 + rate * self._l2), accum]


class AdagradDAOptimizer(Optimizer):
    """Adagrad with dual averaging (Duchi et al. 2011): the variable follows from the sums of gradients alone.

    With t = global_step + 1: sum += gradient; squares += gradient²;
    variable = -rate · sign(sum) · max(|sum| - l1 · t, 0) / (l2 · t · rate + √squares).
    """

    def __init__(self, learning_rate: Any, global_step: Any, initial_gradient_squared_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "AdagradDA") -> None:
        super().__init__(use_locking, name)
        if initial_gradient_squared_accumulator_value <= 0:
            raise errors.InvalidArgumentError(
                f"{name}: initial_gradient_squared_accumulator_value is {initial_gradient_squared_accumulator_value}; use "
                "more than 0")
        _strengths(name, l1_regularization_strength=l1_regularization_strength,
                   l2_regularization_strength=l2_regularization_strength)
        self._learning_rate, self._step, self._initial = learning_rate, global_step, initial_gradient_squared_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _slots_of(self) -> dict[str, float]:
        return {"gradient_accumulator": 0.0, "gradient_squared_accumulator": self._initial}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        total, squares = slots[0] + grad, slots[1] + ops.square(grad)
        rate, step = self._number(self._learning_rate, var), ops.cast(convert(self._step), var.dtype) + 1
        chosen = -rate * _shrunk(total, step * self._l1) / (step * self._l2 * rate + ops.sqrt(squares))
        return [chosen, total, squares]
