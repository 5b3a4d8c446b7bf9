"""A sum of products that adds up over their rows becomes one product over all rows."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, rewrite, single_readers

__all__ = ["join"]

FEWEST = 8
"""Products that are worth joining. Two or three are replicas of a model on one device as often as steps of a loop, and sums
over replicas keep the order that they have on a cluster: synchronous training is the same there to the bit."""


def join(program: Program) -> Program:
    """`add_n(aᵢᵀ @ bᵢ)` becomes `concat(aᵢ)ᵀ @ concat(bᵢ)`, and a sum of bias gradients the gradient of all rows.

    This is the gradient of a weight that is used in every step of an unrolled loop: the sum would store a gradient for
    each step and read them all again. It is done where the rows are less to copy than the gradients to store.
    """
    if not any(op.kind == "add_n" for op in program.graph.operations):
        return program
    single = single_readers(program)
    rows: dict[tuple[Tensor, ...], Tensor] = {}      # several sums over the same rows share them

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind != "add_n" or op.controls or len(inputs) < FEWEST or not single.issuperset(op.inputs):
            return None

        def joined(parts: Sequence[Tensor]) -> Tensor:
            if tuple(parts) not in rows:
                made = state.create("concat", parts, {"axis": 0}, f"{op.name}/rows", parts[0].op)
                rows[tuple(parts)] = made.outputs[0]
            return rows[tuple(parts)]
        makers = [tensor.op for tensor in inputs]
        for rule in (_products, _biases):
            found = rule(op, makers, state, joined)
            if found is not None:
                return [found]
        return None
    return rewrite(program, visit)


def _products(op: Operation, makers: Sequence[Operation], state: Rewrite,
              joined: Callable[[Sequence[Tensor]], Tensor]) -> Tensor | None:
    if not all(m.kind == "matmul" and m.attrs["transpose_a"] and not m.attrs["transpose_b"] and _matrices(m)
               for m in makers):
        return None
    sides = [[m.inputs[side] for m in makers] for side in (0, 1)]
    if not _pays(op, makers, [tensor for side in sides for tensor in side]):
        return None
    return state.create("matmul", [joined(side) for side in sides], makers[0].attrs, op.name, op).outputs[0]


def _biases(op: Operation, makers: Sequence[Operation], state: Rewrite,
            joined: Callable[[Sequence[Tensor]], Tensor]) -> Tensor | None:
    if not all(m.kind == "bias_add_grad" and m.attrs["data_format"] == "NHWC" and _matrices(m) for m in makers):
        return None
    rows = [m.inputs[0] for m in makers]
    return state.create("bias_add_grad", [joined(rows)], makers[0].attrs, op.name, op).outputs[0]


def _matrices(maker: Operation) -> bool:
    return not maker.controls and all(t.shape.known and t.shape.rank == 2 for t in maker.inputs)


def _pays(op: Operation, makers: Sequence[Operation], rows: Sequence[Tensor]) -> bool:
    """Rows are read and written once more, each gradient is written once and read once."""
    return sum(math.prod(t.shape.static) for t in rows) < len(makers) * math.prod(op.outputs[0].shape.static)
