"""Evaluate now what depends on constants alone."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.build import constant_value
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["fold"]

_MOST_BYTES = 1 << 20     # larger results are computed at run time: a plan should not carry them
_BY_SHAPE = frozenset({"shape", "size", "rank", "ones_like", "zeros_like"})


def fold(program: Program) -> Program:
    """Replace every tensor that follows from constants (also `shape` of a known shape) by a constant.

    What hangs on a control edge or on switch and frames is left alone: a constant would run, and live, without them.
    """
    conditional: set[Operation] = set()

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.control_inputs or op.kind in ("switch", "enter") or any(t.op in conditional for t in op.inputs):
            conditional.add(op)
            return None
        if op.kind == "constant" or op.definition.stateful or not op.inputs:
            return None
        if op.kind not in _BY_SHAPE and any(t.op.kind != "constant" for t in inputs):
            return None      # what follows from constants is one by now
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
    if tensor.op.kind in ("ones_like", "zeros_like") and tensor.shape.known and tensor.dtype.is_number:
        return np.full(tensor.shape.static, int(tensor.op.kind == "ones_like"), tensor.dtype.numpy)
    return constant_value(tensor)


def _frozen(value: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    array = np.array(value, order="C", copy=True)
    array.flags.writeable = False
    return array
