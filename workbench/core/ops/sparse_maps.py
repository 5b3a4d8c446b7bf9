"""Sparse tensors that wait between steps in a map, known by numbers: added whole or row by row, and taken together."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.ops.sparse_parts import joined_rows
from workbench.core.state.container import Context

Array = np.ndarray[Any, Any]
Parts = tuple[Array, Array, Array]
_TAKING = "take_many_sparse_from_tensors_map"
STATE: dict[str, Any] = {"context": True, "stateful": True, "differentiable": False, "keeps": False, "counts": True}


class SparseMap:
    """Sparse tensors by number, each taken once."""

    def __init__(self) -> None:
        self._numbers, self._parts = itertools.count(), dict[int, Parts]()
        self._lock = threading.Lock()

    def add(self, rows: Sequence[Parts]) -> list[int]:
        """Copies of the tensors; returns their numbers."""
        with self._lock:
            found = [next(self._numbers) for _ in rows]
            self._parts.update((number, (np.array(i), np.array(v), np.array(s))) for number, (i, v, s) in zip(found, rows))
        return found

    def take(self, numbers: Sequence[int], name: str) -> list[Parts]:
        """The tensors of these numbers, which are forgotten; InvalidArgumentError, and nothing taken, where one is not
        there."""
        with self._lock:
            lost = next((number for number in numbers if number not in self._parts), None)
            if lost is not None:
                raise errors.InvalidArgumentError(f"{_TAKING}: Unable to find SparseTensor: {lost} in map: {name}; take each "
                                                  "once, from the map to which it was added")
            return [self._parts.pop(number) for number in dict.fromkeys(numbers)]


def _map(context: Context, shared_name: str, container: str) -> SparseMap:
    return context.container.get(shared_name or context.node, SparseMap, SparseMap, container)


@op("indices[n,r] values[n] shape[r] -> []", types="int64 any int64 -> int64", **STATE)
def sparse_map_add(context: Context, indices: Array, values: Array, shape: Array, *, shared_name: str = "",
                   container: str = "") -> Array:
    """The number under which a map keeps the sparse tensor."""
    return np.asarray(_map(context, shared_name, container).add([(indices, values, shape)])[0], np.int64)


def _rows(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    known = inputs[2].op.attrs.get("value") if inputs[2].op.kind == "constant" else None
    return [Shape([None if known is None else int(known[0])])]


@op("indices[n,r] values[n] shape[r] -> [_]", types="int64 any int64 -> int64", shape=_rows, **STATE)
def sparse_map_add_rows(context: Context, indices: Array, values: Array, shape: Array, *, shared_name: str = "",
                        container: str = "") -> Array:
    """The numbers under which a map keeps the rows of the sparse tensor, which stand in order."""
    if len(shape) < 2 or (np.diff(indices[:, 0]) < 0).any():
        raise errors.InvalidArgumentError(f"add_many_sparse_to_tensors_map: the tensor is of rank {len(shape)} with rows "
                                          f"{indices[:, 0].tolist()[:5]}… (Rank of input SparseTensor should be > 1); sort its "
                                          "indices (sparse_reorder), and give it rows")
    ends = np.searchsorted(indices[:, 0], np.arange(int(shape[0]) + 1))
    rows = [(indices[a:b, 1:], values[a:b], shape[1:]) for a, b in itertools.pairwise(ends)]
    return np.asarray(_map(context, shared_name, container).add(rows), np.int64)


@op("handles[n] -> [_,_] [_] [_]", types="int64 -> int64 @dtype int64", **STATE,
    shape=lambda inputs, attrs: [Shape([None, attrs["rank"]]), Shape([None]), Shape([attrs["rank"]])])
def sparse_map_take(context: Context, handles: Array, *, dtype: Any, rank: int | None = None, shared_name: str = "",
                    container: str = "") -> Parts:
    """(indices, values, shape) of the sparse tensor whose rows are those of these numbers, which a map forgets."""
    rows = _map(context, shared_name, container).take([int(number) for number in handles], shared_name)
    ranks = [len(shape) + 1 for *_, shape in rows]
    if odd := next((i for i, rank in enumerate(ranks) if rank != ranks[0]), None):
        raise errors.InvalidArgumentError(f"{_TAKING}: Inconsistent rank across SparseTensors: rank prior to "
                                          f"SparseTensor[{odd}] was: {ranks[0]} but rank of SparseTensor[{odd}] is: "
                                          f"{ranks[odd]}; take tensors of one rank")
    if not rows or rows[0][1].dtype != dtype.numpy:
        raise errors.InvalidArgumentError(f"{_TAKING}: {len(rows)} tensors are taken as {dtype.name}; take one at least, in "
                                          "the dtype in which they were added")
    found: Parts = joined_rows(rows)
    return found
