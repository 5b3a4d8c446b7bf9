"""Reductions of all of a computed value: of its rows in the kernel that computes it, then of what the rows gave."""
from __future__ import annotations

import math

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.kernels.fused_rows import REDUCTIONS
from workbench.core.passes.fuse import fusible
from workbench.core.passes.over_rows import FEWEST, over_rows
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["whole"]

_LEAST = 1 << 14      # elements, from which a pass over memory costs more than another call


def whole(program: Program) -> Program:
    """Sums, means and extremes over all axes of what elementwise operations compute become those over rows, which `fuse` then
    joins with the operations, and one over the numbers of the rows.

    A row is added up by one thread, and the rows' numbers in their order, so the result does not depend on how many threads
    there are. Values of rows of fewer than 64 elements, or of few elements in all, are left as they are.
    """
    return rewrite(program, _visit)


def _visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
    if not _serves(op):
        return None
    rows = state.create(op.kind, inputs[:1], {**op.attrs, "axis": -1, "keepdims": False}, f"{op.name}/rows", op)
    return list(state.create(op.kind, rows.outputs, {**op.attrs, "axis": None}, op.name, op).outputs)


def _serves(op: Operation) -> bool:
    """Is it such a reduction, and worth two?"""
    if op.kind not in REDUCTIONS or op.controls or op.attrs["keepdims"]:
        return False
    value = op.inputs[0]
    if not value.shape.known or (value.shape.rank or 0) < 2 or value.dtype.name not in ("float32", "float64"):
        return False
    shape = value.shape.static
    every = op.attrs["axis"] is None or _axes(op.attrs["axis"], len(shape)) == set(range(len(shape)))
    return every and shape[-1] >= FEWEST and math.prod(shape) >= _LEAST and (
        value.op.definition.elementwise is not None and fusible(value.op) and not over_rows(value.op))


def _axes(axis: int | tuple[int, ...], rank: int) -> set[int]:
    return {one % rank for one in ((axis,) if isinstance(axis, int) else axis)}
