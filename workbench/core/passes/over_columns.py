"""Sums and means of columns as members of clusters, over all axes but the last: batch normalisation, gradients of biases."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

from workbench.core.graph.graph import Operation, Tensor
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


def columns_together(members: Mapping[Operation, Sequence[Tensor]], sums: Set[Operation], space: Sequence[int]) -> bool:
    """Can one kernel compute members over `space`, with what they read, of which `sums` add up its columns? It goes through the
    rows, and knows of the other inputs one number a column, or one in all; nobody inside can read a sum before its end."""
    for tensors in members.values():
        if any([t.op in sums for t in tensors]):
            return False
        outer = [t.shape.static for t in tensors if t.op not in members]
        if not all([shape == tuple(space) or math.prod(shape[:-1]) == 1 for shape in outer]):
            return False
    return True
