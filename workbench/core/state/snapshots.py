"""A moment of a task's state: values pinned until they are written, and how far its generators, iterators and readers are."""
from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.state.container import Container
from workbench.core.state.datasets import DatasetIterator
from workbench.core.state.increments import Increments
from workbench.core.state.kept import Kept
from workbench.core.state.passing import generator_state, set_generator_state
from workbench.core.state.readers import Reader
from workbench.core.state.variables import VariableState

__all__ = ["Snapshot", "positions", "set_positions", "set_state", "state_of"]


class Snapshot:
    """Values of variables, or what queues hold, as they were at one moment, whatever is updated since.
    `increments` knows what of them was written before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._values: Sequence[Any] | None = None
        self.increments = Increments()

    def put(self, values: Sequence[Any]) -> None:
        """Pin these instead of what was pinned."""
        with self._lock:
            self._values = values

    def take(self) -> Sequence[Any]:
        """What is pinned, and no longer is. FailedPreconditionError when nothing is."""
        with self._lock:
            values, self._values = self._values, None
        if values is None:
            raise errors.FailedPreconditionError(f"snapshot {self.name!r}: nothing is pinned; run take_snapshot first")
        return values


def positions(container: Container) -> dict[str, Any]:
    """Where every random generator, dataset iterator and reader of the task is, as plain JSON by name."""
    found: dict[str, Any] = {name: generator_state(item) for name, item in container.of(np.random.Generator).items()}
    found.update((name, reader.position()) for name, reader in container.of(Reader).items())
    for name, iterator in container.of(DatasetIterator).items():
        if (position := iterator.position()) is not None:
            found[name] = position
    return found


def set_positions(container: Container, found: Mapping[str, Any]) -> None:
    """Go on from there; what does not exist yet is made. Names that are used otherwise now are InvalidArgumentErrors."""
    for name, position in found.items():
        if "bits" in position:
            generator = container.get(name, np.random.Generator, lambda: np.random.Generator(np.random.Philox()))
            set_generator_state(generator, position)
        elif "kind" in position:
            container.get(name, Reader, partial(Reader, name, position["kind"], tuple(position["options"]))).resume(position)
        else:
            container.get(name, DatasetIterator, partial(DatasetIterator, name)).resume(position)


def state_of(resource: Any) -> Kept | None:
    """What a checkpoint keeps of a queue, an accumulator, or a variable that counts elements; None without a value."""
    if not isinstance(resource, VariableState):
        kept: Kept = resource.state()
        return kept
    return Kept({}, [[resource.read().copy()]], [resource.dtype.numpy]) if resource.initialized else None


def set_state(resource: Any, found: Kept, reopen: bool) -> None:
    """Give that back. A queue that something fills anew is open again (`reopen`)."""
    if isinstance(resource, VariableState):
        resource.assign(found.columns[0][0])
    else:
        resource.set_state(found, reopen)
