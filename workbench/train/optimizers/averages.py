"""Moving averages of variables, for evaluation with smoother weights."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.moving import assign_moving_average
from workbench.nn.variables import (
    GraphKeys,
    Variable,
    get_collection,
    global_variables,
    group,
    near,
    trainable_variables,
)
from workbench.train.optimizers.slots import create_slot, slot_name

__all__ = ["ExponentialMovingAverage", "assign_moving_average", "weighted_moving_average"]


class ExponentialMovingAverage:
    """shadow = decay · shadow + (1 - decay) · value, starting from a variable's initial value, or from zero for a tensor.

    `decay` is a number from 0 to 1, or a tensor: what only the step knows is not checked.
    With `num_updates` the decay is min(decay, (1 + num_updates) / (10 + num_updates)), so that it adapts faster at
    first. `zero_debias` divides averages of tensors by 1 - decay^updates, which takes their start at zero out (Kingma & Ba
    2015, section 3).
    """

    def __init__(self, decay: Any, num_updates: Any = None, zero_debias: bool = False,
                 name: str = "ExponentialMovingAverage") -> None:
        if not isinstance(decay, (Tensor, Variable)) and not 0 <= decay <= 1:
            raise errors.InvalidArgumentError(f"ExponentialMovingAverage: decay is {decay}; use a decay from 0 to 1")
        self._decay, self._num_updates, self._name, self._zero_debias = decay, num_updates, name, zero_debias
        self._averages: dict[Any, Variable] = {}

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """An operation that brings the averages of `var_list`, floating variables and tensors of known shape (default: the
        trainable variables), up to date. Each may be given once."""
        chosen = list(trainable_variables() if var_list is None else var_list)
        for var in chosen:
            if not isinstance(var, (Variable, Tensor)) or not var.dtype.is_floating:
                raise errors.InvalidArgumentError(f"ExponentialMovingAverage: {var!r} is a {type(var).__name__}; pass "
                                                  "floating variables or tensors")
            self._shadow(var)
        graph = root_graph()
        with graph.name_scope(self._name) as scope:
            return group(*[self._update(v) for v in chosen], name=scope)

    def _shadow(self, var: Any) -> None:
        if var in self._averages:
            raise errors.InvalidArgumentError(f"ExponentialMovingAverage: Moving average already computed for: {var.name}; "
                                              "give it once, or to another ExponentialMovingAverage")
        start = getattr(var, "initial_value", None)
        with root_graph().name_scope(None), near(var):
            if isinstance(var, Tensor):      # not fully known: ShapeError
                start = np.zeros(var.shape.static, var.dtype.numpy)
            else:
                root_graph().add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)      # what is averaged, not the average
            self._averages[var] = create_slot(var, start, self._name)

    def _update(self, var: Any) -> Any:
        average, value = self._averages[var], convert(var)
        with near(var):
            decay = convert(self._decay, var.dtype)
            if self._num_updates is not None:
                updates = ops.cast(convert(self._num_updates), var.dtype)
                decay = ops.minimum(decay, (1.0 + updates) / (10.0 + updates))
            return assign_moving_average(average, value, decay, self._zero_debias and isinstance(var, Tensor))

    def average(self, var: Any) -> Variable | None:
        """The variable that holds the average of `var`, None before apply()."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name of that variable, without ":0": before apply() the one that it would get in the variable scope in force."""
        found = self._averages.get(var)
        return found.op.name if found is not None else slot_name(var, self._name)

    def variables_to_restore(self, moving_avg_variables: Iterable[Variable] | None = None) -> dict[str, Variable]:
        """Names in a checkpoint -> variables, for a Saver that loads averages in the place of the variables."""
        averaged = list([*trainable_variables(), *get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES)]
                        if moving_avg_variables is None else moving_avg_variables)
        found = {self.average_name(v): v for v in averaged}
        return {**{v.op.name: v for v in global_variables() if v not in averaged}, **found}


def weighted_moving_average(value: Any, decay: Any, weight: Any, truediv: bool = True, collections: Any = None,
                            name: str | None = None) -> Tensor:
    """The moving average of value · weight divided by that of weight, each from zero."""
    with root_graph().name_scope(name or "WeightedMovingAvg"):
        x, w = convert(value), convert(weight)
        kept = [Variable(np.zeros(t.shape.static, t.dtype.numpy), trainable=False, name=title, collections=collections)
                for t, title in ((x, "value_x_weight"), (w, "weight"))]
        top, below = (assign_moving_average(v, t, decay, zero_debias=False) for v, t in zip(kept, (x * w, w)))
        return ops.truediv(top, below) if truediv else ops.divide(top, below)
