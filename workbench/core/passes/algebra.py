"""Drop what changes nothing: identities, additions of zero, products with one, double negation."""
from __future__ import annotations

import numpy as np

from workbench.core.build import constant_value
from workbench.core.graph import Operation, Tensor
from workbench.core.passes.rewrite import Program, Rewrite, rewrite

__all__ = ["algebra"]

_PASS_THROUGH = frozenset({"identity", "stop_gradient", "placeholder_with_default"})
_NEUTRAL = {"add": (0, (0, 1)), "subtract": (0, (1,)), "multiply": (1, (0, 1)), "divide": (1, (1,)),
            "truediv": (1, (1,)), "realdiv": (1, (1,)), "pow": (1, (1,))}


def algebra(program: Program) -> Program:
    """Replace `x + 0`, `x * 1`, `x / 1`, `--x`, `identity(x)` and one-term sums by x (same shape and dtype only)."""
    roots = {t.op for t in program.fetches} | set(program.targets)

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.control_inputs or op in roots or len(op.outputs) != 1:
            return None
        kept = _simplified(op, inputs)
        if kept is None or kept.dtype is not op.outputs[0].dtype or not kept.shape.compatible(op.outputs[0].shape):
            return None
        if kept.shape != op.outputs[0].shape and not (kept.shape.known and op.type in _PASS_THROUGH):
            return None
        return [kept]
    return rewrite(program, visit)


def _simplified(op: Operation, inputs: list[Tensor]) -> Tensor | None:
    if op.type in _PASS_THROUGH or (op.type == "add_n" and len(inputs) == 1):
        return inputs[0]
    if op.type == "negative" and inputs[0].op.type == "negative":
        return inputs[0].op.inputs[0]
    if op.type in _NEUTRAL:
        neutral, positions = _NEUTRAL[op.type]
        for position in positions:
            value = constant_value(inputs[position]) if inputs[position].op.type == "constant" else None
            if value is not None and value.size and np.all(value == neutral):
                return inputs[1 - position]
    return None
