"""Drop what changes nothing: identities, additions of zero, products with one, double negation."""
from __future__ import annotations

import numpy as np

from workbench.core.graph.build import constant_value
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape, broadcast
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["algebra"]

_PASS_THROUGH = frozenset({"identity", "stop_gradient", "placeholder_with_default"})
_NEUTRAL = {"add": (0, (0, 1)), "subtract": (0, (1,)), "multiply": (1, (0, 1)), "divide": (1, (1,)),
            "truediv": (1, (1,)), "realdiv": (1, (1,)), "pow": (1, (1,))}


def algebra(program: Program) -> Program:
    """Replace `x + 0`, `x * 1`, `x / 1`, `--x`, `identity(x)` and one-term sums by x (same shape and dtype only)."""
    roots = {t.op for t in program.fetches} | set(program.targets)

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.control_inputs or len(op.outputs) != 1:
            return None
        narrow = _without_broadcasts(op, inputs, state)
        kept = None if op in roots else _simplified(op, narrow or inputs)
        if kept is not None and _replaces(kept, op):
            return [kept]
        return None if narrow is None else state.copy(op, narrow)
    return rewrite(program, visit)


def _replaces(kept: Tensor, op: Operation) -> bool:
    """Has `kept` the dtype and shape of the result of `op`?"""
    made = op.outputs[0]
    if kept.op.type == "switch":
        return False      # others may wait for `op` to learn which side lives; the switch itself lives on both
    if kept.dtype is not made.dtype or not kept.shape.compatible(made.shape):
        return False
    return kept.shape == made.shape or (kept.shape.known and op.type in _PASS_THROUGH)


def _without_broadcasts(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
    """Elementwise operations broadcast by themselves: read the narrow tensor when the result keeps its shape."""
    if op.definition.elementwise is None or not op.outputs[0].shape.known:
        return None
    shapes = [Shape(()) if _uniform(t) else _narrow(t).shape for t in inputs]
    if shapes == [t.shape for t in inputs] or broadcast(shapes) != op.outputs[0].shape:
        return None
    return [_scalar(t, op, state) if _uniform(t) else _narrow(t) for t in inputs]


def _narrow(tensor: Tensor) -> Tensor:
    return tensor.op.inputs[0] if tensor.op.type == "broadcast_to" and not tensor.op.control_inputs else tensor


def _uniform(tensor: Tensor) -> bool:
    """A constant of several equal elements."""
    if tensor.op.type != "constant" or tensor.op.control_inputs or not tensor.shape.rank:
        return False
    value = tensor.op.attrs["value"]
    return bool(value.size and value.dtype != object and (value == value.flat[0]).all())


def _scalar(tensor: Tensor, op: Operation, state: Rewrite) -> Tensor:
    attrs = {"value": tensor.op.attrs["value"].flat[:1].reshape(()), "dtype": tensor.dtype}
    return state.create("constant", (), attrs, f"{tensor.op.name}_scalar", op).outputs[0]


def _simplified(op: Operation, inputs: list[Tensor]) -> Tensor | None:
    if op.type in _PASS_THROUGH or (op.type == "add_n" and len(inputs) == 1):
        return inputs[0]
    if op.type == "reduce_to" and inputs[0].shape.known and inputs[0].shape == op.outputs[0].shape:
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
