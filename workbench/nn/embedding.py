"""Embeddings: rows of one table, or of a table sharded over parameter servers (paper §4.2)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.partitions import PartitionedVariable
from workbench.nn.variables import Variable

__all__ = ["embedding_lookup", "gather"]


def embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None,
                     validate_indices: bool = True, max_norm: float | None = None) -> Tensor:
    """Rows `ids` (any shape) of the table `params`: a variable or tensor, or a list of its parts, or a PartitionedVariable.

    Strategy "mod" puts row id into part id % n at id // n; "div" gives each part a contiguous range, the first ones one
    row more. Only the rows asked for are read, where they are, and only they get a gradient. `max_norm` clips each row.
    """
    parts = list(params) if isinstance(params, (list, tuple, PartitionedVariable)) else [params]
    if not parts:
        raise errors.InvalidArgumentError("embedding_lookup: params lists 0 parts; pass at least one variable")
    with get_default_graph().name_scope(name or "embedding_lookup"):
        ids, parts = convert(ids), [part if isinstance(part, Variable) else convert(part) for part in parts]
        if len(parts) == 1:
            return _clipped(gather(parts[0], ids), max_norm, ids)
        flat = ops.reshape(ids, [-1])
        shard, row = _assign(parts, flat, partition_strategy)
        indices = ops.dynamic_partition(ops.range(ops.size(flat)), shard, len(parts))
        wanted = ops.dynamic_partition(row, shard, len(parts))
        found = ops.dynamic_stitch(list(indices), [gather(p, w) for p, w in zip(parts, wanted)])
        width = parts[0].get_shape()[1:]
        for part in parts[1:]:
            width = width.merge(part.get_shape()[1:], "embedding_lookup: the rows of its parts")
        dims = convert(list(width.static), "int32") if width.known else ops.shape(parts[0])[1:]
        result = ops.reshape(found, ops.concat([ops.shape(ids), dims], axis=0))
        result.set_shape(ids.shape + width)
        return _clipped(result, max_norm, ids)


def gather(params: Any, indices: Any, *, axis: Any = 0, name: str | None = None) -> Tensor:
    """The slices of `params` along `axis` at `indices` (ints [...]), whose shape takes the place of that axis.

    Of a variable only these rows are read, at that moment, and nobody holds the others meanwhile. InvalidArgumentError outside.
    """
    if isinstance(params, Variable) and isinstance(axis, int) and axis == 0 and params.shape.rank != 0:
        return params.gather(convert(indices), name=name)
    found: Tensor = ops.gather(params, indices, axis=axis, name=name)
    return found


def _assign(parts: Sequence[Any], flat: Tensor, strategy: str) -> tuple[Tensor, Tensor]:
    """(part, row within the part) of each id."""
    count = convert(len(parts), flat.dtype)
    if strategy == "mod":
        return ops.cast(ops.floormod(flat, count), "int32"), ops.floordiv(flat, count)
    if strategy != "div":
        raise errors.InvalidArgumentError(f"embedding_lookup: partition_strategy {strategy!r} is unknown; use mod or "
                                          "div")
    rows = ops.add_n([_length(part, flat.dtype) for part in parts])
    small, extra = ops.floordiv(rows, count), ops.floormod(rows, count)
    first = extra * (small + 1)      # ids below this lie in the parts with one row more
    in_large, least = flat < first, ops.maximum(small, 1)
    shard = ops.select(in_large, ops.floordiv(flat, small + 1), extra + ops.floordiv(flat - first, least))
    row = ops.select(in_large, ops.floormod(flat, small + 1), ops.floormod(flat - first, least))
    return ops.cast(shard, "int32"), row


def _length(part: Any, dtype: Any) -> Tensor:
    length = part.get_shape().as_list()[0] if part.get_shape().rank is not None else None
    return ops.cast(ops.shape(part)[0], dtype) if length is None else convert(length, dtype)


def _clipped(rows: Tensor, max_norm: float | None, ids: Tensor) -> Tensor:
    if max_norm is None:
        return rows
    first, last = ids.shape.rank, rows.shape.rank
    if first is None or last is None:
        flat = ops.reshape(rows, ops.stack([ops.size(ids), ops.reduce_prod(ops.shape(rows)[ops.rank(ids):])]))
        return ops.reshape(_shortened(flat, max_norm, [1]), ops.shape(rows))
    return _shortened(rows, max_norm, list(range(first, last)))


def _shortened(rows: Tensor, max_norm: float, axes: list[int]) -> Tensor:
    norm = ops.sqrt(ops.reduce_sum(ops.square(rows), axis=axes, keepdims=True))
    return rows * (max_norm / ops.maximum(norm, max_norm))
