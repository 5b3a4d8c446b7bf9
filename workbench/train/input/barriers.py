"""Barriers as objects of a program: values by key that are given out once all their components were inserted."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.arguments import refuse
from workbench.train.input.queues import listed, shapes_of

__all__ = ["Barrier"]


class Barrier:
    """A map that outlives a step, from string keys to tuples of components of `types`, and of `shapes` where they are given.

    Elements whose components are all there can be taken, those first whose first component came first. `shared_name` lets
    several barriers be one. InvalidArgumentErrors (ValueErrors) for shapes without elements, and in the step for components
    of another type or shape.
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        self._types: list[DType] = [as_dtype(t) for t in listed(types)]
        self._shapes = [as_shape(None)] * len(self._types) if shapes is None else shapes_of(shapes, len(self._types))
        for number, shape in enumerate(self._shapes):
            if shape.known and not shape.num_elements():
                raise errors.InvalidArgumentError(f"Barrier: Empty tensors are not supported, but received shape "
                                                  f"'{_written(shape)}' at index {number}; leave the component out")
        self.barrier_ref: Tensor = ops.barrier(**self._options, shared_name=shared_name or "", name=name)

    @property
    def _options(self) -> dict[str, Any]:
        return {"component_types": tuple(self._types), "shapes": tuple(self._shapes)}

    @property
    def name(self) -> str:
        """The name of the barrier's operation."""
        return self.barrier_ref.op.name

    def _called(self, name: str | None, what: str) -> str:
        return name or f"{self.name.rpartition('/')[2]}_Barrier{what}"

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Row i of `values` [n, ...] becomes the component of keys[i] (strings [n]); all of them or, with an error, none.

        Raises in the step InvalidArgumentError for a key that has this component and for rows that do not fit,
        CancelledError for a new key when the barrier is closed.
        """
        if not 0 <= component_index < len(self._types):
            raise errors.InvalidArgumentError(f"{self.name}: component_index {component_index} is out of range, there are "
                                              f"{len(self._types)} components; use 0 to {len(self._types) - 1}")
        return ops.barrier_insert_many(self.barrier_ref, convert(keys, "string"), convert(values, self._types[component_index]),
                                       component_index=component_index, name=self._called(name, "InsertMany"))

    def take_many(self, num_elements: Any, allow_small_batch: bool = False, timeout: Any = None,
                  name: str | None = None) -> tuple[Tensor, Tensor, list[Tensor]]:
        """(numbers, keys, components) of `num_elements` complete elements: int64 [n], string [n], a list of [n, ...]. The
        step waits for them. A number tells which insertion brought the key, from -2**63 on.

        Raises OutOfRangeError in the step once the barrier is closed and so many cannot come; with `allow_small_batch` a
        closed barrier gives what it has, if anything.
        """
        refuse("Barrier.take_many", "use RunOptions(timeout_in_ms=…)", timeout=timeout)
        numbers, keys, *values = ops.barrier_take_many(self.barrier_ref, num_elements, allow_small_batch=allow_small_batch,
                                                       **self._options, name=self._called(name, "TakeMany"))
        return numbers, keys, values

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No new keys come, but elements that were begun can be completed, unless they are cancelled, too."""
        return ops.barrier_close(self.barrier_ref, cancel_pending_enqueues=cancel_pending_enqueues,
                                 name=self._called(name, "Close"))

    def ready_size(self, name: str | None = None) -> Tensor:
        """Complete elements inside: int32 scalar."""
        return ops.barrier_ready_size(self.barrier_ref, name=self._called(name, "ReadySize"))

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Elements inside that lack components: int32 scalar."""
        return ops.barrier_incomplete_size(self.barrier_ref, name=self._called(name, "IncompleteSize"))


def _written(shape: Shape) -> str:
    return str(tuple(shape.static))
