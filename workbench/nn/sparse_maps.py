"""Sparse tensors that wait between steps: in a map, where each is known by a number."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.sparse import SparseTensor
from workbench.nn.sparse_ops import sparse_of

__all__ = ["add_many_sparse_to_tensors_map", "add_sparse_to_tensors_map", "take_many_sparse_from_tensors_map"]

_ADDING = ("sparse_map_add", "sparse_map_add_rows")


def add_sparse_to_tensors_map(sp_input: Any, container: str | None = None, shared_name: str | None = None,
                              name: str | None = None) -> Tensor:
    """The number (int64 scalar) under which a map keeps the sparse tensor until it is taken."""
    sp = sparse_of(sp_input, "add_sparse_to_tensors_map")
    return ops.sparse_map_add(sp.indices, sp.values, sp.dense_shape, container=container or "", shared_name=shared_name or "",
                              name=name)


def add_many_sparse_to_tensors_map(sp_input: Any, container: str | None = None, shared_name: str | None = None,
                                   name: str | None = None) -> Tensor:
    """The numbers (int64 [rows]) under which a map keeps the rows of the sparse tensor, which stand in order."""
    sp = sparse_of(sp_input, "add_many_sparse_to_tensors_map")
    return ops.sparse_map_add_rows(sp.indices, sp.values, sp.dense_shape, container=container or "", shared_name=shared_name
    or "", name=name)


def take_many_sparse_from_tensors_map(sparse_map_op: Operation, sparse_handles: Any, rank: int | None = None,
                                      name: str | None = None) -> SparseTensor:
    """The sparse tensor of rank `rank` + 1 whose rows are those of the numbers (int64 [n]), from the map that `sparse_map_op`
    adds to; they are gone then. Its shape holds all of theirs.

    DtypeError (a TypeError) for an operation that adds to no map, InvalidArgumentError in the step for an unknown number.
    """
    if getattr(sparse_map_op, "kind", None) not in _ADDING:
        raise errors.DtypeError(f"take_many_sparse_from_tensors_map: {sparse_map_op!r} adds to no map; pass the .op of what "
                                "add_sparse_to_tensors_map gave")
    attrs = sparse_map_op.attrs
    with get_default_graph().colocate_with(sparse_map_op):
        return SparseTensor(*ops.sparse_map_take(
            sparse_handles, dtype=sparse_map_op.inputs[1].dtype, rank=None if rank is None else rank + 1,
            shared_name=attrs["shared_name"] or sparse_map_op.name, container=attrs["container"], name=name))
