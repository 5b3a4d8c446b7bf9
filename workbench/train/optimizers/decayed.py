"""Weight decay apart from the gradient: optimizers of tf.contrib.opt that shrink weights beside the rule's step."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.scatters import scatter_sub
from workbench.nn.variables import Variable
from workbench.train.optimizers.optimizer import Optimizer, distinct
from workbench.train.optimizers.rules import AdamOptimizer, MomentumOptimizer

__all__ = ["AdamWOptimizer", "DecoupledWeightDecayExtension", "MomentumWOptimizer", "extend_with_decoupled_weight_decay"]


class DecoupledWeightDecayExtension:
    """Beside an optimizer's class: before its step a variable loses `weight_decay` of itself, of a sparse gradient the rows
    alone. Source: Loshchilov & Hutter 2019.

    `decay_var_list` of `minimize` and `apply_gradients` names the variables that shrink, all by default.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._weight_decay, self._shrinking = weight_decay, None
        super().__init__(**kwargs)

    _shrinking: list[Variable] | None

    def minimize(self, loss: Any, global_step: Variable | None = None, var_list: Iterable[Variable] | None = None,
                 gate_gradients: int = Optimizer.GATE_OP, aggregation_method: Any = None,
                 colocate_gradients_with_ops: bool = False, name: str | None = None, grad_loss: Any = None,
                 decay_var_list: Iterable[Variable] | None = None) -> Operation:
        """As the optimizer's; `decay_var_list` are the variables that shrink."""
        self._shrinking = None if decay_var_list is None else list(decay_var_list)
        return super().minimize(      # type: ignore[misc]
            loss, global_step=global_step, var_list=var_list, gate_gradients=gate_gradients,
            aggregation_method=aggregation_method, colocate_gradients_with_ops=colocate_gradients_with_ops, name=name,
            grad_loss=grad_loss)

    def apply_gradients(self, grads_and_vars: Any, global_step: Variable | None = None, name: str | None = None,
                        decay_var_list: Iterable[Variable] | None = None) -> Operation:
        """As the optimizer's; `decay_var_list` are the variables that shrink."""
        self._shrinking = list(decay_var_list) if decay_var_list else self._shrinking
        return super().apply_gradients(grads_and_vars, global_step, name)      # type: ignore[misc]

    def _update(self, grad: Any, variable: Variable) -> Tensor:
        if self._shrinking is not None and not any(one is variable for one in self._shrinking):
            return super()._update(grad, variable)      # type: ignore[misc]
        with get_default_graph().control_dependencies([self._shrunk(grad, variable)]):
            return super()._update(grad, variable)      # type: ignore[misc]

    def _shrunk(self, grad: Any, variable: Variable) -> Any:
        decay = self._number(self._weight_decay, variable)      # type: ignore[attr-defined]
        if isinstance(grad, IndexedSlices):
            rows, _ = distinct(grad)
            return scatter_sub(variable, rows, ops.gather(variable.value(), rows) * decay)
        return variable.assign_sub(variable.value() * decay)


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """The class of an optimizer that shrinks weights too: its first argument is the `weight_decay`, the others by name."""
    return type("OptimizerWithDecoupledWeightDecay", (DecoupledWeightDecayExtension, base_optimizer), {
        "__doc__": f"{base_optimizer.__name__} with weight decay apart from the gradient."})


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum, with weight decay apart from the gradient."""

    def __init__(self, weight_decay: Any, learning_rate: Any, momentum: Any, use_locking: bool = False,
                 name: str = "MomentumW", use_nesterov: bool = False) -> None:
        super().__init__(weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking, name=name,
                         use_nesterov=use_nesterov)


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam, with weight decay apart from the gradient."""

    def __init__(self, weight_decay: Any, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999,
                 epsilon: Any = 1e-8, use_locking: bool = False, name: str = "AdamW") -> None:
        super().__init__(weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
                         use_locking=use_locking, name=name)
