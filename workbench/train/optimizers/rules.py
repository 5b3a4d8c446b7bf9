"""The optimizers: gradient descent, Momentum, Adam, Adagrad, RMSProp, Adadelta, FTRL."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.variables import Variable, group, near
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "FtrlOptimizer", "GradientDescentOptimizer",
           "MomentumOptimizer", "RMSPropOptimizer"]


class GradientDescentOptimizer(Optimizer):
    """variable -= learning_rate · gradient; `learning_rate` is a number, a scalar tensor or a function that returns one."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return ops.apply_gradient_descent(var.handle, self._number(self._learning_rate, var), grad)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Tensor:
        return ops.sparse_apply_gradient_descent(
            var.handle, self._number(self._learning_rate, var), grad.values, grad.indices)


class MomentumOptimizer(Optimizer):
    """accum = momentum · accum + gradient; variable -= learning_rate · accum (or Nesterov's form)."""

    def __init__(self, learning_rate: Any, momentum: Any, use_locking: bool = False, name: str = "Momentum",
                 use_nesterov: bool = False) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum, self._nesterov = learning_rate, momentum, use_nesterov

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        for var in variables:
            self._make_slot(var, "momentum")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return ops.apply_momentum(
            var.handle, self._slot(var, "momentum").handle, self._number(self._learning_rate, var), grad,
            self._number(self._momentum, var), use_nesterov=self._nesterov)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Tensor:
        return ops.sparse_apply_momentum(
            var.handle, self._slot(var, "momentum").handle, self._number(self._learning_rate, var), grad.values, grad.indices,
            self._number(self._momentum, var), use_nesterov=self._nesterov)


class AdamOptimizer(Optimizer):
    """Adaptive moments (Kingma & Ba 2015), in the form before section 2.1, where epsilon is "epsilon hat".

    State: slots "m" and "v" of each variable's shape, and two scalars. With IndexedSlices all rows move, because
    their moments decay.
    """

    def __init__(self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8,
                 use_locking: bool = False, name: str = "Adam") -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._powers: tuple[Variable, Variable] | None = None

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        if self._powers is None or self._powers[0].graph is not variables[0].graph:
            first = min(variables, key=lambda v: v.name)
            with near(first):
                self._powers = (Variable(self._number(self._beta1, first), trainable=False, name="beta1_power"),
                                Variable(self._number(self._beta2, first), trainable=False, name="beta2_power"))
            self._extra = list(self._powers)
            self._beta1_power, self._beta2_power = self._powers      # where programs look for them among the attributes
        for var in variables:
            self._make_slot(var, "m")
            self._make_slot(var, "v")

    def _get_beta_accumulators(self) -> tuple[Variable, Variable] | None:
        """The variables that hold the powers of both decays, None before apply_gradients."""
        return self._powers

    def _prepare(self) -> None:
        assert self._powers is not None
        self._read = [power.value() for power in self._powers]

    def _hyperparameters(self, var: Variable) -> list[Tensor]:
        values = (*self._read, self._lr, self._beta1, self._beta2, self._epsilon)
        return [self._number(value, var) for value in values]

    def _states(self, var: Variable) -> list[Tensor]:
        return [var.handle, self._slot(var, "m").handle, self._slot(var, "v").handle]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return ops.apply_adam(*self._states(var), *self._hyperparameters(var), grad)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Tensor:
        return ops.sparse_apply_adam(
            *self._states(var), *self._hyperparameters(var), grad.values, grad.indices)

    def _finish(self, update_ops: list[Any], name_scope: str) -> Operation:
        assert self._powers is not None
        made = []
        with get_default_graph().control_dependencies(update_ops):
            for power, read, beta in zip(self._powers, self._read, (self._beta1, self._beta2)):
                with near(power):
                    made.append(power.assign(ops.multiply(read, self._number(beta, power))))
        return group(*update_ops, *made, name=name_scope)


class AdagradOptimizer(Optimizer):
    """accum += gradient²; variable -= learning_rate · gradient / √accum (Duchi, Hazan & Singer 2011).

    Raises InvalidArgumentError unless `initial_accumulator_value` is positive.
    """

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1, use_locking: bool = False,
                 name: str = "Adagrad") -> None:
        if initial_accumulator_value <= 0:
            raise errors.InvalidArgumentError(f"Adagrad: initial_accumulator_value is {initial_accumulator_value}; use "
                                              "a positive number")
        super().__init__(use_locking, name)
        self._learning_rate, self._initial = learning_rate, initial_accumulator_value

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        for var in variables:
            self._make_slot(var, "accumulator", self._initial)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return ops.apply_adagrad(
            var.handle, self._slot(var, "accumulator").handle, self._number(self._learning_rate, var), grad)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Tensor:
        return ops.sparse_apply_adagrad(
            var.handle, self._slot(var, "accumulator").handle, self._number(self._learning_rate, var), grad.values,
            grad.indices)


class RMSPropOptimizer(Optimizer):
    """Divide by a running root mean square of the gradient (Hinton 2012), with momentum.

    rms = decay · rms + (1 - decay) · gradient²; momentum slot = momentum · slot + learning_rate · gradient / √(rms +
    epsilon); variable -= slot. With `centered` the mean of the gradient, squared, is taken off rms: its variance remains.
    """

    def __init__(self, learning_rate: Any, decay: Any = 0.9, momentum: Any = 0.0, epsilon: Any = 1e-10,
                 use_locking: bool = False, centered: bool = False, name: str = "RMSProp") -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._decay, self._momentum, self._epsilon = learning_rate, decay, momentum, epsilon
        self._centered = centered

    def _slots_of(self) -> dict[str, float]:
        return {"rms": 1.0, **({"mg": 0.0} if self._centered else {}), "momentum": 0.0}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        rms, mean, step = slots
        rate, decay, momentum, epsilon = (
            self._number(n, var) for n in (self._learning_rate, self._decay, self._momentum, self._epsilon))
        rms = decay * rms + (1 - decay) * ops.square(grad)
        mean = decay * mean + (1 - decay) * grad
        step = momentum * step + rate * grad * ops.rsqrt(rms - ops.square(mean) + epsilon)
        return [value - step, rms, mean, step]

    def _inputs(self, var: Variable) -> list[Tensor]:
        states = [var.handle, self._slot(var, "rms").handle, self._slot(var, "momentum").handle]
        values = (self._learning_rate, self._decay, self._momentum, self._epsilon)
        return states + [self._number(value, var) for value in values]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        if self._centered:
            return super()._apply_dense(grad, var)
        return ops.apply_rms_prop(*self._inputs(var), grad)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Tensor:
        if self._centered:
            return super()._apply_sparse_duplicate_indices(grad, var)
        return ops.sparse_apply_rms_prop(*self._inputs(var), grad.values, grad.indices)


class AdadeltaOptimizer(Optimizer):
    """Steps in the ratio of past updates to past gradients (Zeiler 2012), times `learning_rate`; `rho` is the decay
    of both means."""

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float = 1e-8, use_locking: bool = False,
                 name: str = "Adadelta") -> None:
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _slots_of(self) -> dict[str, float]:
        return {"accum": 0.0, "accum_update": 0.0}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        accum, moved = slots
        rho, epsilon = self._number(self._rho, var), self._number(self._epsilon, var)
        mean = rho * accum + (1 - rho) * ops.square(grad)
        step = ops.sqrt(moved + epsilon) * ops.rsqrt(mean + epsilon) * grad
        return [value - self._number(self._lr, var) * step, mean, rho * moved + (1 - rho) * ops.square(step)]


class FtrlOptimizer(Optimizer):
    """Follow the regularised leader (McMahan et al. 2013): sparse models by an L1 term.

    `l2_shrinkage_regularization_strength` adds a penalty of its square to the loss, as the gradient that moves the variable
    has it; the accumulator counts the gradient without it. Slots are named after `accum_name` and `linear_name` where these
    are given. Raises InvalidArgumentError for a positive `learning_rate_power` or a negative strength.
    """

    def __init__(self, learning_rate: Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "Ftrl", accum_name: str | None = None, linear_name: str | None = None,
                 l2_shrinkage_regularization_strength: float = 0.0) -> None:
        strengths = l1_regularization_strength, l2_regularization_strength, l2_shrinkage_regularization_strength
        if learning_rate_power > 0 or min(strengths) < 0:
            raise errors.InvalidArgumentError(
                f"Ftrl: learning_rate_power is {learning_rate_power}, l1 {strengths[0]}, l2 {strengths[1]}, l2 shrinkage "
                f"{strengths[2]}; use a power of at most 0 and strengths of at least 0")
        super().__init__(use_locking, name)
        self._learning_rate, self._power, self._initial = learning_rate, -learning_rate_power, initial_accumulator_value
        self._l1, self._l2, self._shrinkage = strengths
        self._titles = {"accum": accum_name, "linear": linear_name}

    def _slots_of(self) -> dict[str, float]:
        return {"accum": self._initial, "linear": 0.0}

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        for var in variables:
            for slot, value in self._slots_of().items():
                self._make_slot(var, slot, value, self._titles[slot])

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        accum, linear = slots
        rate, power = self._number(self._learning_rate, var), self._number(self._power, var)
        total = accum + ops.square(grad)
        sigma = (ops.pow(total, power) - ops.pow(accum, power)) / rate
        shrinking = grad + 2 * self._shrinkage * value if self._shrinkage else grad
        line = linear + (shrinking - sigma * value)
        curve = ops.pow(total, power) / rate + 2 * self._l2
        chosen = ops.select(ops.abs(line) > self._l1, (ops.sign(line) * self._l1 - line) / curve, ops.zeros_like(line))
        return [chosen, total, line]
