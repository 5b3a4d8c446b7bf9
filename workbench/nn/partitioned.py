"""Variables that a program cuts itself: a list of parts."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.scopes import get_variable, get_variable_scope, variable_scope
from workbench.nn.variables import Variable

__all__ = ["create_partitioned_variables", "uncut"]


@contextlib.contextmanager
def uncut() -> Iterator[None]:
    """What is made here is assigned whole: one piece, whatever the scope's partitioner."""
    scope = get_variable_scope()
    cut = scope.partitioner
    scope.set_partitioner(None)
    try:
        yield
    finally:
        scope.set_partitioner(cut)


def create_partitioned_variables(shape: Sequence[int], slicing: Sequence[int], initializer: Any, dtype: Any = "float32",
                                 trainable: bool = True, collections: Any = None, name: str | None = None,
                                 reuse: Any = None) -> list[Variable]:
    """The parts of a variable of `shape`, `slicing` of them along each axis, of which one may have more than one part.

    `initializer` is a tensor of the whole, or makes each part. ValueErrors (InvalidArgumentErrors) for another number of axes,
    and for several axes that are cut.
    """
    if len(shape) != len(slicing):
        raise errors.InvalidArgumentError("create_partitioned_variables: The 'shape' and 'slicing' of a partitioned Variable "
                                          f"must have the length: shape: {shape}, slicing: {slicing}")
    if not shape:
        raise errors.InvalidArgumentError(f"create_partitioned_variables: A partitioned Variable must have rank at least 1: "
                                          f"shape: {shape}")
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        leaf = scope.name.rpartition("/")[2]
    make = initializer if callable(initializer) else _parts_of(convert(initializer))
    with variable_scope(get_variable_scope(), reuse=reuse):
        made = get_variable(leaf, list(shape), dtype if callable(initializer) else None, make, None, trainable, collections,
                            partitioner=lambda **_: list(slicing))
    return list(made)


def _parts_of(whole: Tensor) -> Any:
    def part(shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        if partition_info is None:
            return whole
        found: Tensor = ops.slice(whole, list(partition_info.var_offset), list(shape))
        return found
    return part
