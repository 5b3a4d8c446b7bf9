"""Variables in parts: how they are cut, and the parts as one tensor."""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.core.graph.build import install_operators, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.variables import Variable

__all__ = ["PartInfo", "PartitionedVariable", "along", "fixed_size_partitioner", "min_max_variable_partitioner",
           "part_initializer", "share_parts", "variable_axis_size_partitioner", "variable_parts"]

Partitioner = Callable[..., list[int]]


@dataclass(frozen=True)
class PartInfo:
    """Which part of a variable an initializer makes: part `number`, which begins at `var_offset` in `full_shape`."""

    full_shape: tuple[int, ...]
    var_offset: tuple[int, ...]
    number: int = 0


def part_initializer(initializer: Any, part: PartInfo | None) -> Callable[..., Any]:
    """What makes one part alone, or a variable without parts, as `initializer` (a function or class) would; it is told of
    the part if it asks."""
    made = initializer() if isinstance(initializer, type) else initializer
    told = {"partition_info": part} if "partition_info" in inspect.signature(made).parameters else {}
    return lambda shape, dtype: made(shape, dtype=dtype, **told)


class PartitionedVariable:
    """Variables that are the parts of one along `axis`; as a tensor they are joined, as a list they are the parts."""

    def __init__(self, parts: Sequence[Variable]) -> None:
        told = parts[0]._get_save_slice_info()
        if told is None:
            raise errors.InvalidArgumentError(f"PartitionedVariable: {parts[0].name} does not know its place in the whole; "
                                              "make it by get_variable(partitioner=...) (All variables must have a "
                                              "save_slice_info available)")
        self.name, self._parts, self.shape = told.full_name, list(parts), as_shape(list(told.full_shape))
        shorter = [i for i, (part, whole) in enumerate(zip(told.var_shape, told.full_shape)) if part < whole]
        self._axis = shorter[0] if shorter else 0

    @property
    def axis(self) -> int:
        """Along which it is cut."""
        return self._axis

    @property
    def dtype(self) -> DType:
        """That of its parts."""
        return self._parts[0].dtype

    def get_shape(self) -> Shape:
        """The shape of the whole."""
        return self.shape

    def as_tensor(self) -> Tensor:
        """The parts joined, as they are after the control dependencies in force."""
        graph = get_default_graph()
        with graph.name_scope(None):
            with graph.name_scope(f"{self.name}/ConcatPartitions/"):
                values = [part.value() for part in self._parts]
                joined = ops.concat(values, axis=self._axis) if len(values) > 1 else values[0]
            found: Tensor = ops.identity(joined, name=self.name)
        return found

    def __tensor__(self) -> Tensor:
        return self.as_tensor()

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def _get_variable_list(self) -> list[Variable]:
        return list(self._parts)

    def _get_partitions(self) -> list[int]:
        return [len(self._parts) if axis == self._axis else 1 for axis in range(self.shape.rank or 0)]

    @property
    def initializer(self) -> list[Any]:
        """The initializers of the parts."""
        return [part.initializer for part in self._parts]

    def __repr__(self) -> str:
        return f"<PartitionedVariable {self.name} {self.dtype.name}{self.shape} in {len(self._parts)} parts>"


install_operators(PartitionedVariable)


def variable_parts(variable: Any) -> list[Variable]:
    """The parts of a variable, or of several in a list; a Variable is one part."""
    return [variable] if isinstance(variable, Variable) else list(variable)


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """`num_shards` parts along `axis`, at most one for each row."""
    if num_shards < 1:
        raise errors.InvalidArgumentError(f"fixed_size_partitioner: num_shards is {num_shards}; use a positive number")

    def partitioner(shape: Any, dtype: Any = None) -> list[int]:
        dims = list(as_shape(shape).static)
        return _along("fixed_size_partitioner", dims, axis, num_shards)
    return partitioner


def variable_axis_size_partitioner(max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16,
                                   max_shards: int | None = None) -> Partitioner:
    """As many parts along `axis` as make none larger than `max_shard_bytes`, but no more than `max_shards`."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1 or (max_shards is not None and max_shards < 1):
        raise errors.InvalidArgumentError(f"variable_axis_size_partitioner: max_shard_bytes is {max_shard_bytes}, max_shards "
                                          f"{max_shards}; use positive numbers")

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        dims = list(as_shape(shape).static)
        _along("variable_axis_size_partitioner", dims, axis, 1)
        size = bytes_per_string_element if as_dtype(dtype).name == "string" else as_dtype(dtype).size
        row = size * math.prod(dims) // max(dims[axis], 1)
        rows = max(1, max_shard_bytes // max(row, 1))
        return _along("variable_axis_size_partitioner", dims, axis, min(math.ceil(dims[axis] / rows), max_shards or dims[axis]))
    return partitioner


def min_max_variable_partitioner(max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10,
                                 bytes_per_string_element: int = 16) -> Partitioner:
    """Up to `max_partitions` parts along `axis`, none smaller than `min_slice_size` bytes; one part where there may be none."""
    if max_partitions < 0 or min_slice_size < 1 or bytes_per_string_element < 1:
        raise errors.InvalidArgumentError(f"min_max_variable_partitioner: max_partitions is {max_partitions} and "
                                          f"min_slice_size {min_slice_size}; use positive numbers, or no parts")

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        dims = list(as_shape(shape).static)
        size = bytes_per_string_element if as_dtype(dtype).name == "string" else as_dtype(dtype).size
        count = min(math.ceil(size * math.prod(dims) / min_slice_size), max(max_partitions, 1))
        return _along("min_max_variable_partitioner", dims, axis, count)
    return partitioner


def _along(where: str, dims: list[int], axis: int, count: int) -> list[int]:
    """`count` parts of `axis`, which may count from the end, but one for each row at most."""
    if not -len(dims) <= axis < len(dims):
        raise errors.InvalidArgumentError(f"{where}: axis is {axis} but the variable has shape {dims}; use one of its axes")
    found = [1] * len(dims)
    found[axis] = max(1, min(count, dims[axis]))
    return found


def share_parts(found: PartitionedVariable, slices: list[int]) -> PartitionedVariable:
    """The variable that was cut before; who says how must say the same."""
    if slices and slices != found._get_partitions():
        raise errors.InvalidArgumentError(f"get_variable: Trying to reuse partitioned variable {found.name} but specified "
                                          f"partitions {slices} and found partitions {found._get_partitions()}; ask for these")
    return found


def along(value: Tensor, axis: int, begin: int, length: int) -> Tensor:
    """`length` of `value` along one axis, from `begin` on."""
    dims = value.shape.static
    found: Tensor = ops.slice(value, [begin if i == axis else 0 for i in range(len(dims))],
                              [length if i == axis else d for i, d in enumerate(dims)])
    return found
