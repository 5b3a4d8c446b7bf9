"""IndexedSlices: rows of a tensor and where they belong, and what they are once fetched."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.shape import Shape

__all__ = ["FLAT", "IndexedSlices", "IndexedSlicesValue", "on_values"]

FLAT: Any = object()
"""What a gradient function gives for an input whose derivative is zero everywhere, where None would say that nothing depends
on it: as the y of relu_grad. It costs nothing on the way back, and where nothing else arrives, it becomes zeros."""


class IndexedSlicesValue(NamedTuple):
    """Rows, their indices, and the dense shape (or None)."""

    values: Any
    indices: Any
    dense_shape: Any = None


class IndexedSlices:
    """Rows `values` at `indices` of a tensor of shape `dense_shape`: the sparse gradient of a gather.

    `values` is [n, ...] , `indices` int [n] (duplicates add up), `dense_shape` an int vector or None.
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values, self.indices, self.dense_shape = values, indices, dense_shape

    @property
    def dtype(self) -> DType:
        """That of the values."""
        return self.values.dtype

    @property
    def op(self) -> Operation:
        """The operation that makes the values."""
        return self.values.op

    @property
    def device(self) -> str:
        """The device asked for where the values are made."""
        return self.values.op.device

    @property
    def name(self) -> str:
        """The name of the values."""
        return self.values.name

    @property
    def graph(self) -> Graph:
        """The graph of the values."""
        return self.values.graph

    @staticmethod
    def __part_shapes__(shape: Shape) -> list[Shape]:
        return [shape, shape[:1], Shape([shape.rank])]      # given as that of `values`

    def __graph_parts__(self) -> tuple[list[Tensor], Callable[..., Any]]:
        parts = [self.values, self.indices, self.dense_shape]
        return [p for p in parts if p is not None], IndexedSlicesValue

    def __neg__(self) -> IndexedSlices:
        return on_values(lambda values: -values, self)      # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<IndexedSlices values={self.values!r} indices={self.indices!r}>"


def on_values(change: Callable[[Any], Any], x: Any) -> Any:
    """What `change` makes of a tensor; of IndexedSlices it is given the rows, which stay at their places."""
    return IndexedSlices(change(x.values), x.indices, x.dense_shape) if isinstance(x, IndexedSlices) else change(x)
