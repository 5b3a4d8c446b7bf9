"""Sums over devices without a server: rings of ordinary operations, which the partition makes messages of."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph

__all__ = ["all_max", "all_min", "all_prod", "all_sum"]

Combine = Callable[[Tensor, Tensor], Tensor]


def all_sum(tensors: Sequence[Any]) -> list[Tensor]:
    """The sum of n tensors of one dtype and known shape, on the device of each; all results are the same bits.

    Each tensor is cut into n parts. The sum of a part begins on one device and goes around the ring of them, and every device
    ends with one whole part, which all others receive: of tensors of b bytes a device sends and receives 2 (n - 1) / n b,
    however many they are (Patarasuk and Yuan 2009, bandwidth optimal all-reduce). The order of the sum of a part is that of the
    ring from its own device on. ShapeError or DtypeError for tensors that differ, InvalidArgumentError for none, for rows of a
    tensor (IndexedSlices) and for a shape that is not known.
    """
    return _reduced("all_sum", tensors, ops.add)


def all_prod(tensors: Sequence[Any]) -> list[Tensor]:
    """The product of the tensors, as all_sum their sum."""
    return _reduced("all_prod", tensors, ops.multiply)


def all_min(tensors: Sequence[Any]) -> list[Tensor]:
    """The least of each element, as all_sum their sum."""
    return _reduced("all_min", tensors, ops.minimum)


def all_max(tensors: Sequence[Any]) -> list[Tensor]:
    """The greatest of each element, as all_sum their sum."""
    return _reduced("all_max", tensors, ops.maximum)


def _reduced(where: str, tensors: Sequence[Any], combine: Combine) -> list[Tensor]:
    values = _checked(where, tensors)
    count, size = len(values), values[0].shape.num_elements() or 0
    ends = [size * part // count for part in range(count + 1)]
    graph = root_graph()
    with graph.name_scope(where):
        parts: list[list[Tensor]] = []                # of each tensor, on its device
        for value in values:
            with graph.only_device(value.op.device):
                row = ops.reshape(value, [size])
                parts.append([row[begin:end] for begin, end in itertools.pairwise(ends)])
        whole = [_around(values, [part[number] for part in parts], number, combine) for number in range(count)]
        found = []
        for value in values:
            with graph.only_device(value.op.device):
                found.append(ops.reshape(ops.concat(whole, axis=0), value.shape.static))
        return found


def _around(values: Sequence[Tensor], part: Sequence[Tensor], first: int, combine: Combine) -> Tensor:
    """One part, gathered from device `first` on around the ring."""
    total = part[first]
    for number in [*range(first + 1, len(part)), *range(first)]:
        with root_graph().only_device(values[number].op.device):
            total = combine(total, part[number])
    return total


def _checked(where: str, tensors: Sequence[Any]) -> list[Tensor]:
    if not tensors:
        raise errors.InvalidArgumentError(f"{where}: there are 0 tensors; pass one of each device")
    if any(isinstance(tensor, IndexedSlices) for tensor in tensors):
        raise errors.InvalidArgumentError(f"{where}: rows of a tensor (IndexedSlices) cannot be cut into parts of one size; "
                                          "pass convert_to_tensor of them, or sum them on a server")
    values = [convert(tensor) for tensor in tensors]
    first = values[0]
    for value in values:
        if not value.shape.known:
            raise errors.InvalidArgumentError(f"{where}: {value.name} has shape {value.shape}; it has to be known to be cut: "
                                              "set_shape it")
        if value.shape.static != first.shape.static:
            raise errors.ShapeError(f"{where}: {value.name} has shape {value.shape} but {first.name} has {first.shape}; pass "
                                    "tensors of one shape")
        if value.dtype != first.dtype:
            raise errors.DtypeError(f"{where}: {value.name} is {value.dtype.name} but {first.name} is {first.dtype.name}; pass "
                                    "tensors of one dtype")
    return values
