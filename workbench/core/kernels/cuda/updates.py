"""The update rules of optimizers: one kernel each over a variable and its slots; their settings stay on the device."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench.core.graph.arrays import check_rows
from workbench.core.kernels.cuda.rows import by_segment
from workbench.core.kernels.cuda.state import hosted, stateful
from workbench.core.kernels.cuda.values import cupy, on_device, up
from workbench.core.ops.updates import _same_shape
from workbench.core.state.together import update_together

__all__ = ["RULES", "Rule"]


class Rule(NamedTuple):
    """One rule: names of its `states` (the variable first), of its `settings` (scalars) in the order of the operation, where
    "grad" stands among them, and the C++ that makes the new states (`new_…`) from the old ones."""

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    code: str
    options: tuple[str, ...] = ()      # attributes, as numbers

    @property
    def parameters(self) -> str:
        """Those of an ElementwiseKernel: settings are arrays of one element, read where the device is."""
        given = [f"T {s}" for s in self.states] + [f"T {i}" if i == "grad" else f"raw T {i}" for i in self.inputs]
        return ", ".join(given + [f"bool {o}" for o in self.options])


RULES: dict[str, Rule] = {
    "apply_gradient_descent": Rule(("w",), ("lr", "grad"), "new_w = w - grad * lr[0]"),
    "apply_momentum": Rule(("w", "accum"), ("lr", "grad", "momentum"), """
        T a = accum * momentum[0] + grad;
        new_w = w - (use_nesterov ? (a * momentum[0] + grad) * lr[0] : a * lr[0]);
        new_accum = a""", ("use_nesterov",)),
    "apply_adagrad": Rule(("w", "accum"), ("lr", "grad"), """
        T a = accum + grad * grad;
        new_w = w - grad / sqrt(a) * lr[0];
        new_accum = a"""),
    "apply_rms_prop": Rule(("w", "ms", "mom"), ("lr", "rho", "momentum", "epsilon", "grad"), """
        T s = ms + (grad * grad - ms) * (T(1) - rho[0]);
        T m = mom * momentum[0] + grad / sqrt(s + epsilon[0]) * lr[0];
        new_w = w - m; new_ms = s; new_mom = m"""),
    "apply_adam": Rule(("w", "m", "v"), ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"), """
        double rate = (double)lr[0] * sqrt(1.0 - (double)beta2_power[0]) / (1.0 - (double)beta1_power[0]);
        T a = m + (grad - m) * (T)(1.0 - (double)beta1[0]);
        T b = v + (grad * grad - v) * (T)(1.0 - (double)beta2[0]);
        new_w = w - a / (sqrt(b) + epsilon[0]) * (T)rate; new_m = a; new_v = b"""),
}
"""Operation on whole variables -> its rule. The formulas are those of core/ops/updates.py."""

_DTYPES = ("float32", "float64")


def _kernel(name: str, rule: Rule) -> Callable[..., None]:
    """kernel(*olds, *inputs, *options, *news), made at the first call."""
    made: list[Any] = []

    def run(*arguments: Any) -> None:
        if not made:
            outs = ", ".join(f"T new_{s}" for s in rule.states)
            made.append(cupy.ElementwiseKernel(rule.parameters, outs, rule.code, f"wb_{name}"))
        made[0](*arguments)
    return run


def _dense(name: str, rule: Rule, run: Callable[..., None]) -> None:
    count, grad = len(rule.states), len(rule.states) + rule.inputs.index("grad")

    @stateful(name, _DTYPES)
    def apply(*inputs: Any, **attrs: Any) -> Any:
        _same_shape(name, inputs[0], inputs[grad])
        return update_together(inputs[:count], run, *map(up, inputs[count:]), *[attrs[o] for o in rule.options])


def _summed(rows: Any, grad: Any) -> tuple[Any, Any]:
    """(the different rows, the sum of the gradients of each)"""
    library = cupy if on_device(rows) else np
    found, inverse = library.unique(rows, return_inverse=True)
    total = cupy.zeros((found.size, *grad.shape[1:]), grad.dtype)
    by_segment("sum", total, inverse, grad)
    return up(found), total


def _sparse(name: str, rule: Rule, run: Callable[..., None]) -> None:
    """The same rule on some rows; those of a row that is named again add up."""
    count = len(rule.states)
    at = rule.inputs.index("grad")

    def write(*arguments: Any) -> None:
        olds, rows, given, outs = arguments[:count], arguments[count], [*arguments[count + 1:-count]], arguments[-count:]
        found, given[at] = _summed(rows, given[at])
        parts = [old[found] for old in olds]
        run(*parts, *given, *parts)
        for old, out, part in zip(olds, outs, parts):
            if out is not old:
                cupy.copyto(out, old)
            out[found] = part

    @stateful(name, (*_DTYPES, "int32", "int64"))
    def apply(*inputs: Any, **attrs: Any) -> Any:
        states, given = inputs[:count], [*inputs[count:]]
        indices = given.pop(at + 1)      # they stand behind the gradient
        check_rows(name, indices, states[0].dims()[0], f"variable {states[0].name!r} has {{}} rows")
        return update_together(states, write, indices, *map(up, given), *[attrs[o] for o in rule.options], rows=hosted(indices))


def _adam_of_rows(run: Callable[..., None]) -> None:
    """All rows move, since their moments decay: the gradient is zero outside the rows."""
    @stateful("sparse_apply_adam", (*_DTYPES, "int32", "int64"))
    def apply(handle: Any, m: Any, v: Any, *inputs: Any) -> Any:
        *settings, grad, indices = inputs
        check_rows("sparse_apply_adam", indices, handle.dims()[0], f"variable {handle.name!r} has {{}} rows")
        whole = cupy.zeros(handle.dims(), grad.dtype)
        by_segment("sum", whole, indices, up(grad))
        return update_together((handle, m, v), run, *map(up, settings), whole)


for _name, _rule in RULES.items():
    _run = _kernel(_name, _rule)
    _dense(_name, _rule, _run)
    if _name == "apply_adam":
        _adam_of_rows(_run)
    else:
        _sparse(f"sparse_{_name}", _rule, _run)
