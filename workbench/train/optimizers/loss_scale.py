"""Loss scaling: gradients in 16 bits are made from a multiple of the loss, so that small ones do not vanish."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, on_values, ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.variables import Variable, group
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["LossScaleOptimizer"]

_FIRST = 2.0 ** 15      # where a dynamic scale starts; the first steps halve it if that is too much


class LossScaleOptimizer(Optimizer):
    """Another optimizer, with gradients made from `loss_scale` times the loss and divided by it again before they are applied;
    a step in which one of them is not finite changes nothing (Micikevicius et al. 2018, mixed precision training).

    `loss_scale` is a positive number, or "dynamic": it is then doubled after `growth_steps` finite steps on end, and halved,
    to no less than 1, after one that was not. Meant for Session(precision="float16"); bfloat16 has the range of float32.
    Raises InvalidArgumentError for another scale, fewer than 1 step, or what is no optimizer.
    """

    def __init__(self, opt: Optimizer, loss_scale: float | str = "dynamic", growth_steps: int = 2000,
                 name: str = "LossScale") -> None:
        if not isinstance(opt, Optimizer):
            raise errors.InvalidArgumentError(f"{name}: opt is {opt!r}; pass an optimizer")
        number = isinstance(loss_scale, (int, float)) and not isinstance(loss_scale, bool)
        if loss_scale != "dynamic" and not (number and 0 < float(loss_scale) < np.inf):
            raise errors.InvalidArgumentError(f"{name}: loss_scale is {loss_scale!r}; pass a positive number, or 'dynamic'")
        if growth_steps < 1:
            raise errors.InvalidArgumentError(f"{name}: growth_steps is {growth_steps}; pass 1 or more")
        super().__init__(False, name)
        self._inner, self._growth, self._fixed = opt, growth_steps, loss_scale
        if loss_scale == "dynamic":
            with get_default_graph().name_scope(name):
                self._extra = [Variable(np.float32(_FIRST), trainable=False, name="scale"),
                               Variable(0, trainable=False, name="good_steps")]

    @property
    def loss_scale(self) -> Tensor:
        """The scale of the next step, a float32 scalar."""
        return self._extra[0].value() if self._extra else convert(self._fixed, "float32")

    def compute_gradients(self, loss: Any, var_list: Iterable[Variable] | None = None, gate_gradients: int = Optimizer.GATE_OP,
                          aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                          grad_loss: Any = None) -> list[tuple[Any, Variable]]:
        """As the other optimizer's: of the loss itself."""
        scale, value = self.loss_scale, convert(loss)
        seed = ops.ones_like(value) if grad_loss is None else convert(grad_loss, value.dtype)
        pairs = self._inner.compute_gradients(value, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops,
                                              seed * ops.cast(scale, value.dtype))
        return [(None if g is None else on_values(lambda x: x / ops.cast(scale, x.dtype), g), v) for g, v in pairs]

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]], global_step: Variable | None = None,
                        name: str | None = None) -> Operation:
        """The step of the other optimizer, `global_step` included, if all gradients are finite; then the scale of the next."""
        pairs = list(grads_and_vars)
        values = [g.values if isinstance(g, IndexedSlices) else g for g, _ in pairs if g is not None]
        with get_default_graph().name_scope(name or self._name) as scope:
            finite = ops.reduce_all(ops.stack([ops.reduce_all(ops.is_finite(v)) for v in values]) if values else True)
            step = ops.cond(finite, lambda: self._inner.apply_gradients(pairs, global_step), lambda: group(name="skip"))
            return group(step, *self._next(finite), name=scope)

    def _next(self, finite: Tensor) -> list[Tensor]:
        """Updates of the scale and of the number of finite steps on end."""
        if not self._extra:
            return []
        scale, good = self._extra
        more, doubled = good.value() + 1, scale.value() * 2.0
        full = more >= self._growth
        grown = ops.where(ops.logical_and(full, ops.is_finite(doubled)), doubled, scale.value())
        return [scale.assign(ops.where(finite, grown, ops.maximum(scale.value() / 2.0, 1.0))),
                good.assign(ops.where(ops.logical_and(finite, ops.logical_not(full)), more, 0))]

    # slots
    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """The other optimizer's."""
        return self._inner.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """The other optimizer's."""
        return self._inner.get_slot_names()

    def variables(self) -> list[Variable]:
        """State of the other optimizer, the scale, and how many steps were finite since it changed."""
        return [*self._inner.variables(), *self._extra]
