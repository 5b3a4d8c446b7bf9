"""Evaluate now what depends on constants alone."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core.graph.build import constant_value
from workbench.core.graph.dtype import int32
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["fold"]

_MOST_BYTES = 1 << 20     # larger results are computed at run time: a plan should not carry them
_LIKE = {"zeros_like": 0, "ones_like": 1}
_BY_SHAPE = frozenset({"shape", "size", "rank", *_LIKE})


def fold(program: Program) -> Program:
    """Replace every tensor that follows from constants (also `shape` of a known shape) by a constant.

    What hangs on a control edge or on switch and frames is left alone: a constant would run, and live, without them.
    """
    conditional: set[Operation] = set()

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.controls or op.kind in ("switch", "enter") or (conditional and any([t.op in conditional for t in op.inputs])):
            conditional.add(op)
            return None
        if op.kind == "constant" or op.definition.stateful or not op.inputs:
            return None
        if op.kind not in _BY_SHAPE and any([t.op.kind != "constant" for t in inputs]):
            return None      # what follows from constants is one by now
        if op.kind in _LIKE and _known(inputs[0]) and _nbytes(inputs[0]) > _MOST_BYTES:
            return _repeated(op, inputs[0], state)
        outputs = state.copy(op, inputs)      # a trial, so that shapes are those of the new graph
        values = [_value(t) for t in outputs]
        if not outputs or any(v is None or v.nbytes > _MOST_BYTES for v in values):
            return outputs
        state.graph.drop_last(1)
        return [state.create("constant", (), {"value": _frozen(v), "dtype": t.dtype},
                             op.name if t.index == 0 else f"{op.name}/output_{t.index}", op).outputs[0]
                for v, t in zip(values, op.outputs)]
    return rewrite(program, visit)


def _value(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The value that follows from constants, or from a known shape alone (`ones_like`, `zeros_like`)."""
    if tensor.op.kind in _LIKE and _known(tensor):
        return np.full(tensor.shape.static, _LIKE[tensor.op.kind], tensor.dtype.numpy)
    return constant_value(tensor)


def _known(tensor: Tensor) -> bool:
    return tensor.shape.known and tensor.dtype.is_number


def _nbytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape.static) * tensor.dtype.numpy.itemsize


def _repeated(op: Operation, like: Tensor, state: Rewrite) -> list[Tensor]:
    """One number, repeated to the shape of `like`: elementwise operations that read it take the number itself."""
    given = [state.create("constant", (), {"value": _frozen(np.array(value, dtype.numpy)), "dtype": dtype},
                          f"{op.name}/{name}", op).outputs[0]
             for name, value, dtype in (("value", _LIKE[op.kind], like.dtype), ("shape", like.shape.static, int32))]
    return list(state.create("broadcast_to", given, {}, op.name, op).outputs)


def _frozen(value: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    array = np.array(value, order="C", copy=True)
    array.flags.writeable = False
    return array
