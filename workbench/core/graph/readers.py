"""Who reads which tensor: found when somebody asks, and kept while operations are only added."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Readers"]


class Readers:
    """Of the first operations of one graph, as many as there were when it was asked last."""

    def __init__(self) -> None:
        self._found: dict[Any, list[Any]] = {}
        self._count = 0

    def of(self, tensor: Any, operations: Sequence[Any]) -> Sequence[Any]:
        """Those of `operations`, the graph's, that take `tensor`, in their order."""
        for op in operations[self._count:]:
            for read in dict.fromkeys(op.inputs):
                self._found.setdefault(read, []).append(op)
        self._count = len(operations)
        return self._found.get(tensor, ())
