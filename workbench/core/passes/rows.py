"""Rows cut from a large tensor are read where they lie, and gradients of rows that are all of a tensor are put together."""
from __future__ import annotations

from workbench.core.graph.arrays import strided_key
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.passes.rewrite import Rewrite, rewrite, single_readers

__all__ = ["rows"]

FEWEST = 1 << 14      # elements: below, a copy costs no more than the call
_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def rows(program: Program) -> Program:
    """`x[a:b]` becomes the same memory, and `add_n` of the gradients of `x[:a]`, `x[a:b]` and `x[b:]` becomes their `concat`.

    Each such gradient would be as large as x, zeros around the rows that it is of.
    """
    if not any(op.kind == "strided_slice" for op in program.graph.operations):
        return program
    single = single_readers(program)

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.controls:
            return None
        if op.kind == "strided_slice":
            return _block(op, inputs, state)
        return _whole(op, inputs, state) if op.kind == "add_n" and single.issuperset(op.inputs) else None
    return rewrite(program, visit)


def _block(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
    found = _cut(op, op.inputs[0].shape, op.inputs[1:4])
    if found is None or (op.outputs[0].shape.num_elements() or 0) < FEWEST:
        return None
    attrs = {"first": found[0], "count": found[1]}
    return list(state.create("row_block", inputs[:1], attrs, op.name, op).outputs)


def _whole(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
    if not all([t.op.kind == "strided_slice_grad" and not t.op.controls for t in op.inputs]) or len(op.inputs) < 2:
        return None
    cuts = [_cut(t.op, t.shape, t.op.inputs[1:4]) for t in op.inputs]
    parts = sorted([(*cut, new.op.inputs[4]) for cut, new in zip(cuts, inputs) if cut is not None], key=lambda part: part[0])
    at = 0
    for first, count, _ in parts:
        if first != at:
            return None
        at += count
    if len(parts) < len(cuts) or at != op.outputs[0].shape.static[0]:
        return None
    return list(state.create("concat", [dy for *_, dy in parts], {"axis": 0}, op.name, op).outputs)


def _cut(op: Operation, shape: Shape, vectors: tuple[Tensor, ...]) -> tuple[int, int] | None:
    """(the first row, how many) of those that a slice takes, where it takes whole rows one after the other."""
    if not shape.known or not shape.rank or any([t.op.kind != "constant" for t in vectors]):
        return None
    key = strided_key(*(t.op.attrs["value"].tolist() for t in vectors), *(op.attrs[mask] for mask in _MASKS))
    if len(key) > len(shape.static) or not all([isinstance(part, slice) for part in key]):
        return None
    taken = [range(size)[part] for size, part in zip(shape.static, key)]
    if any([part.step != 1 for part in taken]) or any([len(part) < size for part, size in zip(taken[1:], shape.static[1:])]):
        return None
    return taken[0].start, len(taken[0])
