"""Moving averages of variables, for evaluation with smoother weights."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation
from workbench.nn.variables import GraphKeys, Variable, global_variables, group, near, root_graph, trainable_variables

__all__ = ["ExponentialMovingAverage"]


class ExponentialMovingAverage:
    """shadow = decay · shadow + (1 - decay) · value, starting from the variable's initial value.

    With `num_updates` the decay is min(decay, (1 + num_updates) / (10 + num_updates)), so that it adapts faster at
    first.
    """

    def __init__(self, decay: float, num_updates: Any = None, zero_debias: bool = False,
                 name: str = "ExponentialMovingAverage") -> None:
        if not 0 <= decay <= 1 or zero_debias:
            raise errors.InvalidArgumentError(f"ExponentialMovingAverage: decay is {decay}, zero_debias {zero_debias}; "
                                              "use a decay from 0 to 1 and zero_debias=False")
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[Variable, Variable] = {}

    def apply(self, var_list: Iterable[Variable] | None = None) -> Operation:
        """An operation that brings the averages of `var_list` (default: trainable variables) up to date."""
        chosen = list(trainable_variables() if var_list is None else var_list)
        for var in chosen:
            if not isinstance(var, Variable):
                raise errors.InvalidArgumentError(f"ExponentialMovingAverage: {var!r} is a {type(var).__name__}; pass "
                                                  "variables")
            self._shadow(var)
        graph = root_graph()
        with graph.name_scope(self._name) as scope:
            return group(*[self._update(v) for v in chosen], name=scope)

    def _shadow(self, var: Variable) -> None:
        if var in self._averages:
            return
        with root_graph().name_scope(None), near(var):
            self._averages[var] = Variable(
                var.initial_value, trainable=False, name=f"{var.op.name}/{self._name}",
                collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.MOVING_AVERAGE_VARIABLES])

    def _update(self, var: Variable) -> Any:
        average = self._averages[var]
        with near(var):
            decay = convert(self._decay, var.dtype)
            if self._num_updates is not None:
                updates = ops.cast(convert(self._num_updates), var.dtype)
                decay = ops.minimum(decay, (1.0 + updates) / (10.0 + updates))
            return average.assign_sub((1.0 - decay) * (average.value() - var.value()))

    def average(self, var: Variable) -> Variable | None:
        """The variable that holds the average of `var`, None before apply()."""
        return self._averages.get(var)

    def average_name(self, var: Variable) -> str:
        """The name of that variable, without ":0"."""
        found = self._averages.get(var)
        return found.op.name if found is not None else f"{var.op.name}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Iterable[Variable] | None = None) -> dict[str, Variable]:
        """Names in a checkpoint -> variables, for a Saver that loads averages in the place of the variables."""
        averaged = list(trainable_variables() if moving_avg_variables is None else moving_avg_variables)
        rest = [v for v in global_variables() if v not in averaged and v not in self._averages.values()]
        return {**{self.average_name(v): v for v in averaged}, **{v.op.name: v for v in rest}}
