"""The gradients of what every iteration of a loop uses: summed, or listed and joined behind the loop."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.core.ops.flow_grad import GradientBody, dense_shape_as, zero_as

__all__ = ["Total", "total_of"]


class Total:
    """No gradient; kinds of gradients are subclasses. `arguments` and `results` are loop variables of the backward loop."""

    def __init__(self) -> None:
        self.arguments: list[Tensor] = []
        self.results: list[Tensor] = []

    def initial(self) -> list[Tensor]:
        """What the loop variables start with, built beside the loop."""
        return []

    def total(self, outputs: Sequence[Tensor]) -> Any:
        """The gradient from what the loop variables end with."""
        return None


def total_of(outer: Tensor, inner: Tensor, grad: Any, body: GradientBody, trips: int | None) -> Total:
    """How the gradient `grad` that one iteration gives for `inner`, the capture of `outer`, becomes that of the loop.

    `body` is the backward loop's, in which this builds; it runs `trips` times, if that is known.
    """
    if grad is None:
        return Total()
    if isinstance(grad, IndexedSlices):
        return _Slices(outer, grad, body)
    grad = body.capture(grad)
    return _Product(grad, body, trips) if _adds_up_over_rows(grad) else _Sum(outer, inner, grad, body)


class _Sum(Total):
    def __init__(self, outer: Tensor, inner: Tensor, grad: Tensor, body: GradientBody) -> None:
        super().__init__()
        self.outer, self.grad = outer, grad
        shape = inner.shape if inner.dtype is not resource else grad.shape
        self.arguments = [body.argument(grad.dtype, shape, "sum")]
        add = ops.list_add_n if grad.dtype is variant else ops.add_n
        self.results = [add([self.arguments[0], grad])]

    def initial(self) -> list[Tensor]:
        return [zero_as(self.grad, self.outer)]

    def total(self, outputs: Sequence[Tensor]) -> Any:
        return outputs[0]


class _Listed(Total):
    """Each iteration puts `parts` on lists."""

    def __init__(self, parts: Sequence[Tensor], body: GradientBody) -> None:
        super().__init__()
        self.parts = parts
        self.arguments = [body.argument(variant, Shape(()), "parts") for _ in parts]
        self.results = [ops.list_push(a, part) for a, part in zip(self.arguments, parts)]

    def initial(self) -> list[Tensor]:
        return [ops.list_new() for _ in self.parts]

    def joined(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """The parts of all iterations, one below the other."""
        return [ops.list_concat(t, dtype=part.dtype, shape=part.shape[1:]) for t, part in zip(outputs, self.parts)]


class _Slices(_Listed):
    """Slices are joined, not made dense."""

    def __init__(self, outer: Tensor, grad: IndexedSlices, body: GradientBody) -> None:
        super().__init__([body.capture(grad.values), body.capture(grad.indices)], body)
        self.outer, self.grad = outer, grad

    def total(self, outputs: Sequence[Tensor]) -> Any:
        values, indices = self.joined(outputs)
        return IndexedSlices(values, indices, dense_shape_as(self.grad, self.outer))


class _Product(_Listed):
    """`aᵀ @ b` of every iteration, a weight's gradient, is one product of all their rows: nothing of the weight's size is
    written, and read again, in each of them."""

    def __init__(self, grad: Tensor, body: GradientBody, trips: int | None) -> None:
        super().__init__(grad.op.inputs, body)
        self.trips = trips

    def joined(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        if self.trips is None or not all(part.shape.known for part in self.parts):
            return super().joined(outputs)
        stacks = [ops.list_stack(t, dtype=part.dtype, shape=part.shape, length=self.trips)
                  for t, part in zip(outputs, self.parts)]
        return [ops.reshape(stack, [-1, part.shape.static[1]]) for stack, part in zip(stacks, self.parts)]

    def total(self, outputs: Sequence[Tensor]) -> Any:
        return ops.matmul(*self.joined(outputs), transpose_a=True)


def _adds_up_over_rows(grad: Tensor) -> bool:
    """Is it `aᵀ @ b`, of fewer elements in a and b than it has itself, as far as that is known?"""
    node = grad.op
    if node.kind != "matmul" or not node.attrs["transpose_a"] or node.attrs["transpose_b"] or node.controls:
        return False
    if any(t.shape.rank != 2 for t in node.inputs):
        return False
    (rows, left), (_, right) = (t.shape.as_list() for t in node.inputs)
    if left is None or right is None:
        return False
    return rows is None or rows * (left + right) < left * right
