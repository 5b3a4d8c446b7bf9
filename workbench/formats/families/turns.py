"""Orders of axes: transposes, also of tensors whose rank only the step knows."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node, exports, imports
from workbench.formats.values import attr

__all__: list[str] = []

INT32 = as_dtype("int32")


@exports("transpose")
def _(writer: Any, op: Operation) -> None:
    x, perm = op.inputs[0], op.attrs["perm"]
    if perm is None and x.shape.rank is None:
        ends = [writer.constant(op, part, np.int32(-1)) for part in ("limit", "delta")]
        text = writer.aux(op, "Range", [_counted(writer, op, -1), *ends], {"Tidx": attr("type", INT32)})
    else:
        order = np.arange(x.shape.rank or 0)[::-1] if perm is None else np.asarray(perm)
        text = writer.constant(op, "perm", order.astype(np.int32))
    writer.node(op, "Transpose", [writer.ref(x), text], {"T": attr("type", x.dtype), "Tperm": attr("type", INT32)})


def _counted(writer: Any, op: Operation, more: int) -> str:
    """The rank of what `op` reads, and `more`."""
    rank = writer.aux(op, "Rank", [writer.ref(op.inputs[0])], {"T": attr("type", op.inputs[0].dtype)})
    return str(writer.aux(op, "Add", [rank, writer.constant(op, "more", np.int32(more))], {"T": attr("type", INT32)}))


@exports("permute")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Transpose", [writer.ref(each) for each in op.inputs], {
        "T": attr("type", op.inputs[0].dtype), "Tperm": attr("type", INT32)})


@exports("matrix_transpose")
def _(writer: Any, op: Operation) -> None:
    x = op.inputs[0]
    if x.shape.rank is None:
        first, second = _counted(writer, op, -2), _counted(writer, op, -1)
        start, delta = writer.constant(op, "start", np.int32(0)), writer.constant(op, "delta", np.int32(1))
        front = writer.aux(op, "Range", [start, first, delta], {"Tidx": attr("type", INT32)})
        ends = [writer.aux(op, "ExpandDims", [end, writer.constant(op, "dim", np.int32(0))], {
            "T": attr("type", INT32), "Tdim": attr("type", INT32)}) for end in (second, first)]
        text = writer.aux(op, "ConcatV2", [front, *ends, writer.constant(op, "axis", np.int32(0))], {
            "T": attr("type", INT32), "N": attr("i", 3), "Tidx": attr("type", INT32)})
    else:
        order = [*range(x.shape.rank - 2), x.shape.rank - 1, x.shape.rank - 2]
        text = writer.constant(op, "perm", np.asarray(order, np.int32))
    writer.node(op, "Transpose", [writer.ref(x), text], {"T": attr("type", x.dtype), "Tperm": attr("type", INT32)})


@imports("Transpose")
def _(node: Node) -> Any:
    perm = constant_value(node.inputs[1])
    return ops.transpose(node.inputs[0], perm=node.inputs[1] if perm is None else perm.tolist(), name=node.exact)
