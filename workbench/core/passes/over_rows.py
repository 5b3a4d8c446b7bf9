"""Sums, means, extremes and softmax as members of clusters: what of rows may be one, what fits together, what kernels do."""
from __future__ import annotations

from collections.abc import Sequence

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.core.kernels.fused_loops import REPEAT
from workbench.core.kernels.fused_rows import REDUCTIONS, SOFTMAX, softmax_steps
from workbench.core.ops.fused import Step
from workbench.core.passes.over_columns import columns_together, over_columns

__all__ = ["over_rows", "read", "reducing_steps", "repeats", "space", "together"]

FEWEST = 64      # columns: shorter rows do not fill the vectors of a loop over one


def over_rows(op: Operation) -> bool:
    """May it be in a cluster as a reduction or softmax of rows of floats?"""
    if op.kind not in (*REDUCTIONS, *SOFTMAX) or op.controls or not (op.inputs[0].shape.known and _extent(op).known):
        return False
    over, axis = _extent(op).static, op.attrs.get("axis", -1)
    known = ("float32",) if op.kind in SOFTMAX else ("float32", "float64")      # NumPy's exponential of float64 is fast
    if not over or over[-1] < FEWEST or op.inputs[0].dtype.name not in known:
        return False
    last = len(over) - 1
    return axis in (-1, last, (-1,), (last,)) or (axis is None and last == 0)


def repeats(op: Operation) -> bool:
    """May it be in a cluster as what gives each element the number of its row, its column, or of all?"""
    return (op.kind == REPEAT and not op.controls and op.inputs[0].shape.known and op.outputs[0].shape.known
            and op.inputs[0].dtype.name in ("float32", "float64"))


def _extent(op: Operation) -> Shape:
    """What the loops over an operation go over."""
    return op.inputs[0].shape if op.kind in REDUCTIONS else op.outputs[0].shape


def _one_a_row(over: Sequence[int]) -> Shape:
    return Shape((*over[:-1], 1))


def space(members: Sequence[Operation]) -> tuple[int, ...]:
    """The shape whose rows members reduce, () if none does."""
    return next((_extent(op).static for op in members if op.kind in REDUCTIONS or op.kind in SOFTMAX), ())


def together(members: Sequence[Operation]) -> bool:
    """Can one kernel compute them: are all over one shape, or some over that shape's rows and others one number a row?

    Nobody inside reads a reduction that drops its axis: of such values NumPy would make a row.
    """
    shapes, over = {_extent(op) for op in members}, space(members)
    if not over:
        return len(shapes) == 1
    sums = {op for op in members if over_columns(op)}
    if sums:
        whole = shapes == {Shape(over)} and not any([over_rows(op) for op in members])
        return whole and columns_together({op: read(op) for op in members}, sums, over)
    dropping = {op for op in members if op.kind in REDUCTIONS and not op.attrs["keepdims"]}
    return shapes <= {Shape(over), _one_a_row(over)} and not any([t.op in dropping for op in members for t in op.inputs])


def reducing_steps(op: Operation, operand: tuple[str, int], first: int) -> list[Step]:
    """The steps of what reduces rows or columns, or repeats, of which the first has the number `first`."""
    if op.kind in REDUCTIONS:
        axis = tuple(range(len(op.inputs[0].shape.static) - 1)) if over_columns(op) else -1
        return [(op.kind, (operand,), (("axis", axis), ("keepdims", op.attrs["keepdims"])))]
    if op.kind == REPEAT:
        return [(REPEAT, (operand,), (("shape", op.outputs[0].shape.static),))]
    return softmax_steps(op.kind, operand, first)


def read(op: Operation) -> tuple[Tensor, ...]:
    """What a kernel reads for an operation: not the shape to which a number is repeated."""
    return op.inputs[:1] if op.kind == REPEAT else op.inputs
