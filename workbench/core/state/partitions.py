"""Partitions of data that lie in a task: put there from outside, read by the datasets of its iterators."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.state.container import Container

__all__ = ["Columns", "keep", "kept"]

Columns = tuple[Sequence[Any], ...]
"""What a partition holds of each component of a row, row by row."""

_APART = "workbench/partitions"      # a container of its own: who forgets variables begins anew with the same data


class _Partitions:
    def __init__(self, found: Sequence[Columns]) -> None:
        self.found = list(found)


def keep(container: Container, name: str, partitions: Sequence[Columns]) -> None:
    """From now on these are the task's partitions of the data `name`, as long as the task lives."""
    container.get(name, _Partitions, lambda: _Partitions(partitions), _APART)


def kept(container: Container, name: str) -> list[Columns]:
    """The task's partitions of the data `name`, in order. FailedPreconditionError where it has none."""
    def nothing() -> _Partitions:
        raise errors.FailedPreconditionError(f"from_dask: {container.name or 'this process'} has no partitions of {name}; make "
                                             "the iterator on a worker of the cluster whose tasks share the data")
    return container.get(name, _Partitions, nothing, _APART).found
