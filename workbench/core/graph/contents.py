"""What is in a graph: its operations in order and by name, who reads their tensors, and which of them plans may contain."""
from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

from workbench import errors
from workbench.core.graph.naming import Names, checked, text_name
from workbench.core.graph.readers import Readers

__all__ = ["Contents"]


class _Numbered(Protocol):
    name: str
    id: int


Op = TypeVar("Op", bound=_Numbered)


class Contents(Generic[Op]):
    """Operations that each have a name of their own, and know by `id` which place they have among all."""

    def __init__(self) -> None:
        self.operations: list[Op] = []
        self.mutations = 0                # changes of operations that plans may contain; sessions key their plans by it
        self.loss_scales: set[str] = set()
        """Variables that multiply losses, and what gathers the gradients of those: what is computed from them may overflow."""
        self._precision: str | None = None
        self._nodes_by_name: dict[str, Op] = {}
        self._names = Names()
        self._planned = 0                 # operations with a smaller id may be in plans with the present `mutations`
        self._readers = Readers()
        self._lock = threading.RLock()

    # lookup
    def get_operations(self) -> list[Op]:
        """All operations, in the order they were made."""
        return list(self.operations)

    def operation(self, name: str) -> Op:
        """The operation called `name`; NotFoundError when there is none."""
        found = self._nodes_by_name.get(name)
        if found is None:
            text_name(name)
            raise errors.NotFoundError(f"graph: no operation {name!r} among {len(self.operations)}; "
                                       "see [op.name for op in graph.operations]")
        return found

    get_operation_by_name = operation

    def has(self, name: str) -> bool:
        """Is there an operation called `name`?"""
        return name in self._nodes_by_name

    def readers(self, tensor: Any) -> list[Op]:
        """The operations that take `tensor` as an input, in the order they were made."""
        with self._lock:
            return list(self._readers.of(tensor, self.operations))

    # more and fewer
    def _full_name(self, name: str | bytes, scope: str) -> str:
        """`name` in a scope, made unique; one that ends in "/" is taken literally. AlreadyExistsError where that is taken."""
        name = name.decode() if isinstance(name, bytes) else name
        if not name.endswith("/"):
            return self._names.next(scope + checked(name, bool(scope)))
        exact = name[:-1]
        self._new(exact)
        return exact

    def _new(self, name: str) -> None:
        if name in self._nodes_by_name:
            raise errors.AlreadyExistsError(f"graph: operation {name!r} exists; choose another name")

    def _add(self, op: Op) -> None:
        operations = self.operations
        op.id = len(operations)
        operations.append(op)
        self._nodes_by_name[op.name] = op
        self._names.use(op.name)

    def retain(self, keep: Collection[Op]) -> None:
        """Drop all operations but `keep`, which need no other; their names are free again."""
        with self._lock:
            self._forget([op for op in self.operations if op not in keep])
            self.operations[:] = [op for op in self.operations if op in keep]
            for position, op in enumerate(self.operations):
                op.id = position

    def drop_last(self, count: int) -> None:
        """Take the last `count` operations back, which nobody uses yet; their names are free again."""
        with self._lock:
            left = len(self.operations) - count
            self._forget(self.operations[left:])
            del self.operations[left:]

    def _forget(self, ops: Sequence[Op]) -> None:
        for op in ops:
            del self._nodes_by_name[op.name]
            self._names.free(op.name)
        self._readers = Readers()

    # plans
    @property
    def precision(self) -> str | None:
        """The type of 16 bits in which plans compute products and convolutions of float32, or None."""
        return self._precision

    @precision.setter
    def precision(self, name: str | None) -> None:
        if name not in (None, "bfloat16", "float16"):
            raise errors.InvalidArgumentError(f"graph: precision is {name!r}; give 'bfloat16', 'float16', or None for float32")
        with self._lock:
            self._precision = name
            self.mutations += 1

    def planning(self) -> int:
        """Say that a plan will be made of the operations there are; returns the `mutations` that it is good for."""
        with self._lock:
            self._planned = len(self.operations)
            return self.mutations

    def changing(self, op: Op) -> None:
        """Say that `op` is about to change, so that plans which may contain it count no more.

        A new operation is in no plan: adding to a graph, or completing what was just added, leaves all plans valid.
        Bodies are planned with the operation that has them, which changes when they do.
        """
        with self._lock:
            self._readers = Readers()
            if op.id < self._planned:
                self.mutations += 1
                self._planned = 0
