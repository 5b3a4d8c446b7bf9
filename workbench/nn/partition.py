"""Variables in parts: how many slices a partitioner makes of a shape, and the variable that consists of them (paper §4.2)."""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, install_operators, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.variables import Variable, group

__all__ = ["PartInfo", "Partitioner", "PartitionedVariable", "fixed_size_partitioner", "initial_part",
           "min_max_variable_partitioner", "slices", "variable_axis_size_partitioner"]

Partitioner = Callable[..., Sequence[int]]
"""partitioner(shape=, dtype=): into how many slices each axis goes; more than 1 on one axis alone."""


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """`num_shards` slices of `axis`, or one for each of its elements when there are fewer."""
    _positive("fixed_size_partitioner", num_shards=num_shards)
    return lambda shape, dtype: _along("fixed_size_partitioner", as_shape(shape), axis, lambda dims: num_shards)


def variable_axis_size_partitioner(max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16,
                                   max_shards: int | None = None) -> Partitioner:
    """As few slices of `axis` as keep each within `max_shard_bytes`, at most `max_shards`; a string counts as
    `bytes_per_string_element`."""
    _positive("variable_axis_size_partitioner", max_shard_bytes=max_shard_bytes, max_shards=max_shards or 1)

    def count(dims: Sequence[int], dtype: Any) -> int:
        row = math.prod(dims) // max(1, dims[axis]) * _bytes(dtype, bytes_per_string_element)
        found = math.ceil(dims[axis] / max(1, max_shard_bytes // max(1, row)))
        return found if max_shards is None else min(found, max_shards)
    return lambda shape, dtype: _along("variable_axis_size_partitioner", as_shape(shape), axis, lambda dims: count(dims, dtype))


def min_max_variable_partitioner(max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10,
                                 bytes_per_string_element: int = 16) -> Partitioner:
    """At most `max_partitions` slices of `axis`, and no more than hold `min_slice_size` bytes each."""
    _positive("min_max_variable_partitioner", max_partitions=max_partitions, min_slice_size=min_slice_size)

    def count(dims: Sequence[int], dtype: Any) -> int:
        return min(max_partitions, math.ceil(math.prod(dims) * _bytes(dtype, bytes_per_string_element) / min_slice_size))
    return lambda shape, dtype: _along("min_max_variable_partitioner", as_shape(shape), axis, lambda dims: count(dims, dtype))


def _positive(where: str, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise errors.InvalidArgumentError(f"{where}: {name} is {number}; use 1 or more")


def _bytes(dtype: Any, text: int) -> int:
    found = as_dtype(dtype)
    return text if found.name == "string" else found.size


def _along(where: str, shape: Shape, axis: int, count: Callable[[Sequence[int]], int]) -> list[int]:
    dims = [int(d) for d in shape.static]
    if not -len(dims) <= axis < len(dims):
        raise errors.InvalidArgumentError(f"{where}: axis is {axis} but the variable has shape {shape}; use one of its axes")
    found = [1] * len(dims)
    found[axis] = max(1, min(dims[axis], count(dims)))
    return found


@dataclass(frozen=True)
class PartInfo:
    """Which slice of a variable an initializer makes: slice `number`, which begins at `var_offset` in `full_shape`."""

    full_shape: tuple[int, ...]
    var_offset: tuple[int, ...]
    number: int = 0


def slices(name: str, shape: Shape, partitions: Sequence[int]) -> tuple[int, list[tuple[PartInfo, list[int]]]]:
    """(axis, the part and its shape for each slice); the first slices have one element more where it does not come out even.

    InvalidArgumentError for partitions that do not fit the shape or cut more than one axis.
    """
    dims = tuple(int(d) for d in shape.static)
    cut = [axis for axis, count in enumerate(partitions) if count != 1]
    if len(partitions) != len(dims) or len(cut) > 1 or any(not 1 <= c <= max(1, d) for c, d in zip(partitions, dims)):
        raise errors.InvalidArgumentError(f"get_variable: {name!r} of shape {shape} is to be cut into {list(partitions)} slices; "
                                          "give a number for each axis, and cut one axis alone")
    axis = cut[0] if cut else 0
    small, extra = divmod(dims[axis], partitions[axis])
    found, start = [], 0
    for number in range(partitions[axis]):
        size = small + (number < extra)
        offset = tuple(start if a == axis else 0 for a in range(len(dims)))
        found.append((PartInfo(dims, offset, number), [size if a == axis else d for a, d in enumerate(dims)]))
        start += size
    return axis, found


def initial_part(initializer: Any, shape: list[int], dtype: DType, part: PartInfo) -> Any:
    """The initial value of one slice alone: the whole is made nowhere, unless it is given as a value."""
    if not callable(initializer) or isinstance(initializer, (Tensor, Variable)):
        return ops.slice(convert(initializer, dtype), list(part.var_offset), shape)
    known = inspect.signature(initializer).parameters
    return initializer(shape, dtype=dtype, **({"partition_info": part} if "partition_info" in known else {}))


class PartitionedVariable:
    """One variable in slices along `axis`, each a variable of its own, perhaps on a parameter server of its own.

    Where a tensor is expected it is the slices joined; iterate over it for the slices, as embedding_lookup does.
    """

    __array_priority__ = 100

    def __init__(self, name: str, shape: Shape, dtype: DType, parts: Sequence[Variable], axis: int) -> None:
        self.name, self.shape, self.dtype, self.axis = name, shape, dtype, axis
        self._parts = list(parts)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def get_shape(self) -> Shape:
        """The shape of the whole."""
        return self.shape

    def as_tensor(self) -> Tensor:
        """The slices joined, where they are asked for."""
        if len(self._parts) == 1:
            return self._parts[0].value()
        return ops.concat([part.value() for part in self._parts], axis=self.axis)

    def __tensor__(self) -> Tensor:
        return self.as_tensor()

    def __graph_element__(self) -> Tensor:
        return self.as_tensor()

    @property
    def initializer(self) -> Operation:
        """Gives every slice its initial value."""
        return group(*(part.initializer for part in self._parts))

    def assign(self, value: Any) -> Operation:
        """Replace the whole by `value`, of its shape and dtype."""
        whole, updates, start = convert(value, self.dtype), [], 0
        for part in self._parts:
            size = [int(d) for d in part.shape.static]
            offset = [start if a == self.axis else 0 for a in range(len(size))]
            updates.append(part.assign(ops.slice(whole, offset, size)).op)
            start += size[self.axis]
        return group(*updates)

    def __repr__(self) -> str:
        return f"<PartitionedVariable {self.name!r} shape={self.shape} dtype={self.dtype.name} parts={len(self._parts)}>"


install_operators(PartitionedVariable)
