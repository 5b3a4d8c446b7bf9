"""Sums and means of columns as members of clusters, over all axes but the last: batch normalisation, gradients of biases."""
from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.core.graph.graph import Operation
from workbench.core.kernels.fused_columns import MANY, NARROWEST, SUMS, reduces_columns

__all__ = ["columns_together", "over_columns"]


def over_columns(op: Operation) -> bool:
    """May it be in a cluster as a sum or mean of columns of floats?"""
    if op.kind not in SUMS or op.controls:
        return False
    value = op.inputs[0]
    if not value.shape.known or value.dtype.name not in ("float32", "float64"):
        return False
    shape = value.shape.static
    return reduces_columns(op.attrs["axis"], shape) and shape[-1] >= NARROWEST and math.prod(shape) >= MANY


def columns_together(members: Sequence[Operation], space: Sequence[int]) -> bool:
    """Can one kernel compute them, of which some add up the columns of `space`? It goes through the rows, and knows of the
    other inputs one number a column, or one in all; nobody inside can read a sum before its end."""
    inside, sums = set(members), {op for op in members if over_columns(op)}
    for op in members:
        over = op.inputs[0].shape if op in sums else op.outputs[0].shape
        if over.static != tuple(space) or any([t.op in sums for t in op.inputs]):
            return False
        outer = [t.shape.static for t in op.inputs[:1 if op.kind == "broadcast_to" else None] if t.op not in inside]
        if not all([shape == tuple(space) or math.prod(shape[:-1]) == 1 for shape in outer]):
            return False
    return True
