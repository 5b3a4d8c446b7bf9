"""Columns of matrices that lie side by side: fused kernels read them where they are, and write them where they go."""
from __future__ import annotations

from collections.abc import Iterable, Mapping

from workbench.core.graph.graph import Operation, Tensor

__all__ = ["Readers", "Sides"]

Readers = dict[Operation, set[Operation | None]]
"""Who uses what each operation makes, or waits for it; None stands for the caller of the step."""


class Sides:
    """The splits and concatenations of columns that stand at the borders of clusters and need no copy of their own.

    The gates of a recurrent cell are such columns of one product, and their gradients of one matrix again.
    """

    def __init__(self, order: Iterable[Operation], readers: Readers, group_of: Mapping[Operation, list[Operation]]) -> None:
        self._first: dict[Tensor, int] = {}              # output of a split -> its first column
        self.joins: set[Operation] = set()
        self._of: dict[Operation, list[Operation]] = {}      # first member of a cluster -> the concatenations it writes
        for op in order:
            if not _of_columns(op):
                continue
            if op.kind == "split" and all([reader in group_of for reader in readers.get(op, ())]):
                self._add_split(op, readers, group_of)
            elif op.kind == "concat":
                self._add_join(op, readers, group_of)

    def _add_split(self, op: Operation, readers: Readers, group_of: Mapping[Operation, list[Operation]]) -> None:
        shapes = {reader.outputs[0].shape for reader in readers.get(op, ()) if reader is not None}
        if any([t.shape not in shapes or len(shapes) > 1 for t in op.outputs]):      # others repeat it along an axis
            return
        first = 0
        for tensor in op.outputs:
            self._first[tensor] = first
            first += tensor.shape.static[-1]

    def _add_join(self, op: Operation, readers: Readers, group_of: Mapping[Operation, list[Operation]]) -> None:
        makers = [t.op for t in op.inputs]
        members = group_of.get(makers[0])
        if members is None or len(set(makers)) < len(makers) or any(
                [group_of.get(maker) is not members or readers[maker].difference(members) != {op} for maker in makers]):
            return
        self.joins.add(op)
        self._of.setdefault(members[0], []).append(op)

    def of(self, members: list[Operation]) -> list[Operation]:
        """The concatenations that a cluster's kernel writes."""
        return self._of.get(members[0], [])

    def column(self, tensor: Tensor) -> int | None:
        """Where a tensor begins in the rows of `source(tensor)`, None for one that is no part of another."""
        return self._first.get(tensor)

    def source(self, tensor: Tensor) -> Tensor:
        """What a kernel reads to get `tensor`."""
        return tensor.op.inputs[0] if tensor in self._first else tensor


def _of_columns(op: Operation) -> bool:
    """Does it cut along, or join, the last axis of several, all of known size?"""
    if op.kind not in ("split", "concat") or op.controls:
        return False
    rank = op.outputs[0].shape.rank or 0
    return rank > 1 and op.attrs["axis"] in (-1, rank - 1) and all([t.shape.known for t in (*op.inputs, *op.outputs)])
