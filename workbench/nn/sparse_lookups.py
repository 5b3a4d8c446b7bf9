"""Lookups by sparse identifiers that may be missing or invalid: rows without one give zeros, or a default's row."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.sparse import SparseTensor, embedding_lookup_sparse
from workbench.nn.sparse_ops import sparse_fill_empty_rows, sparse_reshape, sparse_retain

__all__ = ["safe_embedding_lookup_sparse"]


def safe_embedding_lookup_sparse(embedding_weights: Any, sparse_ids: SparseTensor, sparse_weights: SparseTensor | None = None,
                                 combiner: str | None = None, default_id: int | None = None, name: str | None = None,
                                 partition_strategy: str = "div", max_norm: float | None = None) -> Tensor:
    """The combined rows of a table for each list of ids [..., ids]: [..., width].

    Ids below 0, and unless `combiner` (default "mean") is "sum" those of weight 0 or less, are left out. Lists without an id
    give the row of `default_id`, zeros without one.
    """
    combiner = combiner or "mean"
    table = embedding_weights[0] if isinstance(embedding_weights, (list, tuple)) and len(embedding_weights) == 1 else (
        embedding_weights)
    with get_default_graph().name_scope(name or "embedding_lookup"):
        before = sparse_ids.dense_shape
        rank = sparse_ids.get_shape().rank
        if rank is None and sparse_ids.indices.shape.rank is not None:
            rank = sparse_ids.indices.shape.as_list()[1]
        if rank != 2:
            flat = ops.stack([ops.reduce_prod(before[:-1]), before[-1]])
            sparse_ids = sparse_reshape(sparse_ids, flat)
            if sparse_weights is not None:
                sparse_weights = sparse_reshape(sparse_weights, flat)
        ids, weights = _pruned(sparse_ids, sparse_weights, combiner)
        ids, empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        found = embedding_lookup_sparse(table, ids, weights, partition_strategy, combiner=combiner, max_norm=max_norm)
        if default_id is None:
            none = ops.reshape(ops.cast(empty, "bool"), [-1, 1])
            found = ops.where(ops.tile(none, ops.stack([1, ops.shape(found)[1]])), ops.zeros_like(found), found)
        if rank != 2:
            found = ops.reshape(found, ops.concat([ops.cast(before[:-1], "int32"), ops.shape(found)[1:]], 0))
    return found


def _pruned(ids: SparseTensor, weights: SparseTensor | None, combiner: str) -> tuple[SparseTensor, SparseTensor | None]:
    valid = ops.greater_equal(ids.values, 0)
    if weights is not None and combiner != "sum":
        valid = ops.logical_and(valid, ops.greater(weights.values, 0))
    return sparse_retain(ids, valid), None if weights is None else sparse_retain(weights, valid)
