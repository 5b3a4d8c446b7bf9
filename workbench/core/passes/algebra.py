"""Drop what changes nothing: identities, additions of zero, products with one, double negation, turns that turn nothing."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape, broadcast
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["Constants", "algebra"]

_PASS_THROUGH = frozenset({"identity", "stop_gradient", "placeholder_with_default"})
_IN_ORDER = frozenset({"broadcast_to", "cast", "pad", "reshape", "slice", "tile"})
"""Where constants ask for the shape and dtype that the first input has, the result is that input."""
_NEUTRAL = {"add": (0, (0, 1)), "subtract": (0, (1,)), "multiply": (1, (0, 1)), "divide": (1, (1,)),
            "truediv": (1, (1,)), "realdiv": (1, (1,)), "pow": (1, (1,))}


def algebra(program: Program) -> Program:
    """Replace `x + 0`, `x * 1`, `x / 1`, `--x`, `identity(x)`, one-term sums, and what cuts, repeats, pads or turns
    nothing, by x (same shape and dtype only)."""
    roots = {t.op for t in program.fetches} | set(program.targets)
    constants = Constants()

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.controls or len(op.outputs) != 1:
            return None
        narrow = _without_broadcasts(op, inputs, state, constants)
        kept = None if op in roots and not program.inside else _simplified(op, narrow or inputs, constants)
        if kept is not None and _replaces(kept, op) and not (op in roots and kept.op.kind == "argument"):
            return [kept]
        return None if narrow is None else state.copy(op, narrow)
    return rewrite(program, visit)


class Constants:
    """Which constants have one value in all their elements; each is looked at once, however many read it."""

    def __init__(self) -> None:
        self._values: dict[Tensor, Any] = {}

    def value(self, tensor: Tensor) -> Any:
        """The value of every element of `tensor`, None where they differ or it is not a constant."""
        if tensor.op.kind != "constant":
            return None
        if tensor not in self._values:
            self._values[tensor] = _only_value(tensor.op.attrs["value"])
        return self._values[tensor]

    def repeats(self, tensor: Tensor) -> bool:
        """Is `tensor` a constant of several equal elements?"""
        return tensor.op.kind == "constant" and bool(tensor.shape.rank) and not tensor.op.controls and (
            self.value(tensor) is not None)


def _only_value(value: np.ndarray[Any, Any]) -> Any:
    if not value.size or value.dtype == object:
        return None
    first = value.flat[0]
    return first if value.size == 1 or (value == first).all() else None


def _replaces(kept: Tensor, op: Operation) -> bool:
    """Has `kept` the dtype and shape of the result of `op`?"""
    made = op.outputs[0]
    if kept.op.kind == "switch":
        return False      # others may wait for `op` to learn which side lives; the switch itself lives on both
    if kept.dtype is not made.dtype or not kept.shape.compatible(made.shape):
        return False
    return kept.shape == made.shape or (kept.shape.known and op.kind in _PASS_THROUGH)


def _without_broadcasts(op: Operation, inputs: list[Tensor], state: Rewrite,
                        constants: Constants) -> list[Tensor] | None:
    """Elementwise operations broadcast by themselves, unless they have a rule of their own: read the narrow tensor when the
    result keeps its shape."""
    if op.definition.elementwise is None or op.definition.shape is not None or not op.outputs[0].shape.known:
        return None
    repeats = [constants.repeats(t) for t in inputs]
    if not any(repeats) and not any(t.op.kind == "broadcast_to" for t in inputs):
        return None
    shapes = [Shape(()) if repeated else _narrow(t).shape for t, repeated in zip(inputs, repeats)]
    if shapes == [t.shape for t in inputs] or broadcast(shapes) != op.outputs[0].shape:
        return None
    return [_scalar(t, op, state) if repeated else _narrow(t) for t, repeated in zip(inputs, repeats)]


def _narrow(tensor: Tensor) -> Tensor:
    return tensor.op.inputs[0] if tensor.op.kind == "broadcast_to" and not tensor.op.controls else tensor


def _scalar(tensor: Tensor, op: Operation, state: Rewrite) -> Tensor:
    attrs = {"value": tensor.op.attrs["value"].flat[:1].reshape(()), "dtype": tensor.dtype}
    return state.create("constant", (), attrs, f"{tensor.op.name}_scalar", op).outputs[0]


def _simplified(op: Operation, inputs: list[Tensor], constants: Constants) -> Tensor | None:
    if op.kind in _PASS_THROUGH or (op.kind == "add_n" and len(inputs) == 1):
        return inputs[0]
    if op.kind == "reduce_to" and inputs[0].shape.known and inputs[0].shape == op.outputs[0].shape:
        return inputs[0]
    if op.kind in _IN_ORDER and inputs[0].shape.known and all([t.op.kind == "constant" for t in inputs[1:]]):
        return inputs[0]      # if it has the shape of the result
    if op.kind == "transpose":
        return _turned(op, inputs[0])
    if op.kind == "negative" and inputs[0].op.kind == "negative":
        return inputs[0].op.inputs[0]
    if op.kind in _NEUTRAL:
        neutral, positions = _NEUTRAL[op.kind]
        for position in positions:
            constant, other = inputs[position], inputs[1 - position]
            value = constants.value(constant)
            # NOTE: what has an unknown rank may be a scalar, which a constant with axes makes larger
            if value is not None and value == neutral and (other.shape.rank is not None or constant.shape.rank == 0):
                return other
    return None


def _turned(op: Operation, x: Tensor) -> Tensor | None:
    """What a transpose gives that moves no axis, or moves them back to where another had them."""
    rank = op.outputs[0].shape.rank
    if rank is None:
        return None
    axes = _axes(op, rank)
    if axes == [*range(rank)]:
        return x
    if x.op.kind == "transpose" and not x.op.controls and [_axes(x.op, rank)[axis] for axis in axes] == [*range(rank)]:
        return x.op.inputs[0]
    return None


def _axes(op: Operation, rank: int) -> list[int]:
    perm = op.attrs["perm"]
    return [*range(rank)][::-1] if perm is None else list(perm)
