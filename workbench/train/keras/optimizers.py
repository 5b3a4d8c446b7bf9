"""Optimizers by name, in Keras's form: rates are variables, and decay with the number of updates."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.variables import Variable
from workbench.train.keras import backend
from workbench.train.keras.registry import Kind, config_of
from workbench.train.optimizers import optimizer
from workbench.train.optimizers.rules import AdadeltaOptimizer
from workbench.train.optimizers.schedules import clip_by_global_norm

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "Adamax", "Nadam", "Optimizer", "RMSprop", "TFOptimizer", "deserialize", "get",
           "serialize"]


class Optimizer(optimizer.Optimizer):
    """Base: numbers of the rule are variables of the graph, so that callbacks may change them between steps.

    `clipnorm` bounds the norm of all gradients together, `clipvalue` each element. `lr` falls as 1 / (1 + decay · updates).
    """

    def __init__(self, lr: float, decay: float = 0.0, clipnorm: float = 0.0, clipvalue: float = 0.0, **numbers: float) -> None:
        super().__init__(name=type(self).__name__)
        self.clipnorm, self.clipvalue, self.initial_decay = clipnorm, clipvalue, decay
        with get_default_graph().name_scope(type(self).__name__):
            self.iterations = Variable(np.int64(0), trainable=False, name="iterations")
            for name, value in {"lr": lr, "decay": decay, **numbers}.items():
                made = Variable(np.asarray(value, backend.floatx()), trainable=False, name=name)
                setattr(self, name, made)
        self._numbers = ("lr", "decay", *numbers)

    def get_gradients(self, loss: Any, params: Sequence[Variable]) -> list[Any]:
        """The gradients of `loss`, clipped. InvalidArgumentError naming the variables that do not lead to it."""
        found = optimizer.scaled_gradients(loss, list(params))
        apart = [var.name for var, grad in zip(params, found) if grad is None]
        if apart:
            raise errors.InvalidArgumentError(f"keras: no gradient reaches {', '.join(apart)}; the loss must depend on each "
                                              "weight that is trained, or set trainable = False on its layer")
        if self.clipnorm > 0:
            found = clip_by_global_norm(found, self.clipnorm)[0]
        if self.clipvalue > 0:
            found = [ops.clip_by_value(grad, -self.clipvalue, self.clipvalue) for grad in found]
        return list(found)

    def get_updates(self, loss: Any, params: Sequence[Variable]) -> list[Any]:
        """Operations that change `params` by one step against the gradient of `loss`."""
        return [self.apply_gradients(list(zip(self.get_gradients(loss, params), params)))] if params else []

    def _prepare(self) -> None:
        updates = ops.cast(self.iterations.value(), backend.floatx())
        self._rate = self.lr.value() / (1.0 + self.decay.value() * updates)      # type: ignore[attr-defined]
        self._step = updates + 1.0

    def _finish(self, update_ops: list[Any], name_scope: str) -> Operation:
        with get_default_graph().control_dependencies(update_ops):
            counted = self.iterations.assign_add(1).op
        return super()._finish([*update_ops, counted], name_scope)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Tensor:
        return optimizer.Optimizer._apply_sparse(self, grad, var)      # every row moves, as moments of all decay

    @property
    def weights(self) -> list[Variable]:
        """Its state: the number of updates and the slots of each variable."""
        return [self.iterations, *self.variables()]

    def get_weights(self) -> list[np.ndarray]:
        """The values of its state."""
        return backend.batch_get_value(self.weights)

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Give its state values, as get_weights gave them. InvalidArgumentError where shapes differ."""
        set_all(self.weights, weights, type(self).__name__)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make its like, rates as they are now."""
        values = dict(zip(self._numbers, map(float, backend.batch_get_value([getattr(self, name) for name in self._numbers]))))
        clips = {name: getattr(self, name) for name in ("clipnorm", "clipvalue") if getattr(self, name)}
        return {**config_of(self, self._numbers), **values, **clips}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        """The optimizer of these arguments."""
        return cls(**config)


def set_all(variables: Sequence[Variable], values: Sequence[Any], where: str) -> None:
    """Give variables values in their order. InvalidArgumentError where their number or a shape differs."""
    if len(variables) != len(values):
        raise errors.InvalidArgumentError(f"{where}: {len(values)} arrays are given for {len(variables)} weights; give one for "
                                          "each, as get_weights does")
    for var, value in zip(variables, values):
        if tuple(var.shape.as_list()) != np.shape(value):
            raise errors.InvalidArgumentError(f"{where}: {var.name} has shape {tuple(var.shape.as_list())} but the array for "
                                              f"it {np.shape(value)}; the shapes must agree")
    backend.batch_set_value(list(zip(variables, values)))


class SGD(Optimizer):
    """velocity = momentum · velocity - lr · gradient; weight += velocity, or with `nesterov` a step further on."""

    def __init__(self, lr: float = 0.01, momentum: float = 0.0, decay: float = 0.0, nesterov: bool = False,
                 **options: Any) -> None:
        super().__init__(lr, decay, momentum=momentum, **options)
        self.nesterov = nesterov

    def _slots_of(self) -> dict[str, float]:
        return {"moment": 0.0}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        rate, momentum = self._number(self._rate, var), self._number(self.momentum, var)      # type: ignore[attr-defined]
        velocity = momentum * slots[0] - rate * grad
        return [value + (momentum * velocity - rate * grad if self.nesterov else velocity), velocity]


class RMSprop(Optimizer):
    """mean = rho · mean + (1 - rho) · gradient²; weight -= lr · gradient / (√mean + epsilon)."""

    def __init__(self, lr: float = 0.001, rho: float = 0.9, epsilon: float = 1e-8, decay: float = 0.0, **options: Any) -> None:
        super().__init__(lr, decay, rho=rho, **options)
        self.epsilon = epsilon

    def _slots_of(self) -> dict[str, float]:
        return {"accumulator": 0.0}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        rho = self._number(self.rho, var)      # type: ignore[attr-defined]
        mean = rho * slots[0] + (1 - rho) * ops.square(grad)
        return [value - self._number(self._rate, var) * grad / (ops.sqrt(mean) + self.epsilon), mean]


class Adagrad(Optimizer):
    """total += gradient²; weight -= lr · gradient / (√total + epsilon)."""

    def __init__(self, lr: float = 0.01, epsilon: float = 1e-8, decay: float = 0.0, **options: Any) -> None:
        super().__init__(lr, decay, **options)
        self.epsilon = epsilon

    def _slots_of(self) -> dict[str, float]:
        return {"accumulator": 0.0}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        total = slots[0] + ops.square(grad)
        return [value - self._number(self._rate, var) * grad / (ops.sqrt(total) + self.epsilon), total]


class Adadelta(Optimizer):
    """The rule of train.AdadeltaOptimizer (Zeiler 2012), by default with the rate 1 of its paper."""

    def __init__(self, lr: float = 1.0, rho: float = 0.95, epsilon: float = 1e-8, decay: float = 0.0, **options: Any) -> None:
        super().__init__(lr, decay, **options)
        self.rho, self.epsilon = rho, epsilon
        self._rho, self._epsilon = rho, epsilon

    _slots_of = AdadeltaOptimizer._slots_of
    _rule = AdadeltaOptimizer._rule

    @property
    def _lr(self) -> Tensor:
        """The rate of this step, as the rule names it."""
        return self._rate


class Adam(Optimizer):
    """Adaptive moments (Kingma & Ba 2015), in the form of train.AdamOptimizer."""

    def __init__(self, lr: float = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8, decay: float = 0.0,
                 **options: Any) -> None:
        super().__init__(lr, decay, beta_1=beta_1, beta_2=beta_2, **options)
        self.epsilon = epsilon

    def _slots_of(self) -> dict[str, float]:
        return {"m": 0.0, "v": 0.0}

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        rate, first, second, step = (self._number(n, var) for n in (
            self._rate, self.beta_1, self.beta_2, self._step))      # type: ignore[attr-defined]
        made: Tensor = ops.apply_adam(
            *(state.handle for state in self._ruled(var)), ops.pow(first, step), ops.pow(second, step), rate, first, second,
            self._number(self.epsilon, var), grad)
        return made


class Adamax(Optimizer):
    """Adam with the largest gradient so far, decayed, in place of the second moment (Kingma & Ba 2015, section 7)."""

    def __init__(self, lr: float = 0.002, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8, decay: float = 0.0,
                 **options: Any) -> None:
        super().__init__(lr, decay, beta_1=beta_1, beta_2=beta_2, **options)
        self.epsilon = epsilon

    def _slots_of(self) -> dict[str, float]:
        return {"m": 0.0, "u": 0.0}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        rate, first, second, step = (self._number(n, var) for n in (
            self._rate, self.beta_1, self.beta_2, self._step))      # type: ignore[attr-defined]
        mean = first * slots[0] + (1 - first) * grad
        most = ops.maximum(second * slots[1], ops.abs(grad))
        return [value - rate / (1 - ops.pow(first, step)) * mean / (most + self.epsilon), mean, most]


class Nadam(Optimizer):
    """Adam with Nesterov's momentum, whose share follows a schedule (Dozat 2016)."""

    def __init__(self, lr: float = 0.002, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8,
                 schedule_decay: float = 0.004, **options: Any) -> None:
        super().__init__(lr, beta_1=beta_1, beta_2=beta_2, **options)
        self.epsilon, self.schedule_decay = epsilon, schedule_decay
        with get_default_graph().name_scope(type(self).__name__):
            self.m_schedule = Variable(np.asarray(1.0, backend.floatx()), trainable=False, name="m_schedule")
        self._extra = [self.m_schedule]

    def _slots_of(self) -> dict[str, float]:
        return {"m": 0.0, "v": 0.0}

    def _prepare(self) -> None:
        super()._prepare()
        beta = self.beta_1.value()      # type: ignore[attr-defined]
        self._shares = [beta * (1.0 - 0.5 * ops.pow(0.96, step * self.schedule_decay))
                        for step in (self._step, self._step + 1.0)]
        self._product = self.m_schedule.value() * self._shares[0]

    def _finish(self, update_ops: list[Any], name_scope: str) -> Operation:
        with get_default_graph().control_dependencies(update_ops):
            scheduled = self.m_schedule.assign(self._product).op
        return super()._finish([*update_ops, scheduled], name_scope)

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        rate, first, second, step, now, later, product = (self._number(n, var) for n in (
            self._rate, self.beta_1, self.beta_2, self._step, *self._shares, self._product))      # type: ignore[attr-defined]
        mean = first * slots[0] + (1 - first) * grad
        square = second * slots[1] + (1 - second) * ops.square(grad)
        ahead = (1 - now) * grad / (1 - product) + later * mean / (1 - product * later)
        return [value - rate * ahead / (ops.sqrt(square / (1 - ops.pow(second, step))) + self.epsilon), mean, square]


class TFOptimizer:
    """An optimizer of workbench.train in the place of one of these; it has no configuration."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def get_gradients(self, loss: Any, params: Iterable[Variable]) -> list[Any]:
        """The gradients of `loss`."""
        return [grad for grad, _ in self.optimizer.compute_gradients(loss, list(params))]

    def get_updates(self, loss: Any, params: Sequence[Variable]) -> list[Any]:
        """Operations that change `params` by one step."""
        return [self.optimizer.minimize(loss, var_list=list(params))] if params else []

    @property
    def weights(self) -> list[Variable]:
        """The slots of the optimizer."""
        found: list[Variable] = self.optimizer.variables()
        return found

    def get_config(self) -> dict[str, Any]:
        """UnimplementedError: an optimizer of workbench.train does not tell its arguments."""
        raise errors.UnimplementedError(f"TFOptimizer: {type(self.optimizer).__name__} has no configuration; use an optimizer "
                                        "of keras.optimizers where the model is saved")


OPTIMIZERS = Kind("optimizer", SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam, makers=True, aliases={
    kind.__name__.lower(): kind for kind in (SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam)})
serialize, deserialize = OPTIMIZERS.serialize, OPTIMIZERS.deserialize


def get(identifier: Any) -> Any:
    """The optimizer for a name, a configuration or an object; one of workbench.train becomes a TFOptimizer."""
    if isinstance(identifier, (Optimizer, TFOptimizer)):
        return identifier
    if isinstance(identifier, optimizer.Optimizer):
        return TFOptimizer(identifier)
    return OPTIMIZERS.get(identifier)
