"""Where values wait between steps besides queues: staging areas."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.train.input.queues import FIFOQueue

__all__ = ["StagingArea"]


class StagingArea:
    """A buffer on a device: `put` and `get` whole tuples, first in, first out; at most `capacity` (0: any number)."""

    def __init__(self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None, capacity: int = 0,
                 memory_limit: int = 0) -> None:
        if memory_limit:
            raise errors.UnimplementedError(f"StagingArea: memory_limit={memory_limit} is not offered; use capacity")
        self._queue = FIFOQueue(capacity or -1, dtypes, shapes, names=names, shared_name=shared_name, name="StagingArea")

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self._queue.name

    @property
    def dtypes(self) -> list[Any]:
        """Of the components."""
        return self._queue.dtypes

    @property
    def shapes(self) -> Any:
        """Of the components; None where none were given."""
        return self._queue.shapes

    @property
    def names(self) -> Any:
        """Of the components; None where they have none."""
        return self._queue.names

    def put(self, values: Any, name: str | None = None) -> Any:
        """An operation that adds a tuple: a list, or a dictionary by names; waits while the area is full."""
        return self._queue.enqueue(values, name=name)

    def get(self, name: str | None = None) -> Any:
        """The oldest tuple, a list (a dictionary where components have names); waits for one."""
        found = self._queue.dequeue(name=name)
        return found if isinstance(found, (list, Mapping)) else [found]

    def size(self, name: str | None = None) -> Any:
        """How many wait: int32 scalar."""
        return self._queue.size(name=name)
