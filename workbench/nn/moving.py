"""A step of a moving average that is kept in a variable."""
from __future__ import annotations

import itertools
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.initializers import Zeros
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.variables import Variable, global_variables, near

__all__ = ["assign_moving_average"]


def assign_moving_average(variable: Variable, value: Any, decay: Any, zero_debias: bool = True,
                          name: str | None = None) -> Tensor:
    """variable = decay · variable + (1 - decay) · value; gives the new value. With `zero_debias` the average begins at zero,
    which is taken out again (Kingma & Ba 2015, section 3): it wants the variable to be zero at first. Each such average has
    sums of its own, shared where the scope is reused."""
    with root_graph().name_scope(name or "AssignMovingAvg") as scope, near(variable):
        rate = 1.0 - convert(decay, variable.dtype)
        if not zero_debias:
            return variable.assign_sub((variable.value() - convert(value)) * rate, name=scope)
        with variable_scope(variable.op.name) as sums:
            biased = get_variable(_free(sums, "biased"), variable.shape.as_list(), variable.dtype, Zeros(), trainable=False)
            count = get_variable(_free(sums, "local_step"), [], variable.dtype, Zeros(), trainable=False)
        total = biased.assign_sub((biased.value() - convert(value)) * rate)
        fresh = total / (1.0 - ops.pow(1.0 - rate, count.assign_add(1.0)))
        return variable.assign_sub(variable.value() - fresh, name=scope)


def _free(scope: Any, name: str) -> str:
    """The name, with a number behind it where a variable of the scope has it, unless the scope is reused."""
    taken = () if scope.reuse else {variable.op.name for variable in global_variables()}
    tries = (name if n == 0 else f"{name}_{n}" for n in itertools.count())
    return next(tried for tried in tries if f"{scope.name}/{tried}" not in taken)
