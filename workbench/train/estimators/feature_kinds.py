"""Kinds of feature columns: what each makes of the features of a batch, and how examples are read for it."""
from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.checks import assert_greater_equal, assert_less
from workbench.nn.initializers import truncated_normal_initializer
from workbench.nn.scopes import get_variable
from workbench.nn.sparse import SparseTensor, sparse_tensor_to_dense
from workbench.nn.sparse_lookups import safe_embedding_lookup_sparse
from workbench.nn.sparse_ops import sparse_merge, sparse_retain
from workbench.train.estimators.feature_bases import Categorical, Dense, Features
from workbench.train.input.examples import FixedLenFeature, VarLenFeature
from workbench.train.saving.saver import default_kind, newest_checkpoint

__all__ = ["BucketizedColumn", "CrossedColumn", "EmbeddingColumn", "HashedColumn", "IdentityColumn", "IndicatorColumn",
           "NumericColumn", "VocabularyColumn", "WeightedColumn", "from_checkpoint"]

_CROSS_KEY = 0xDECAFCAFFE


class NumericColumn(Dense):
    """One feature of numbers."""

    def __init__(self, key: str, shape: tuple[int, ...], default_value: Any, dtype: Any, normalizer_fn: Any) -> None:
        self.key = self.name = key
        self.shape, self.dtype, self.normalizer_fn, self.default_value = shape, as_dtype(dtype), normalizer_fn, default_value
        self.spec = {key: FixedLenFeature(shape, self.dtype, default_value)}

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        value = features.raw(self.key)
        if isinstance(value, SparseTensor):
            raise errors.InvalidArgumentError(f"numeric_column: The corresponding Tensor of numerical column must be a Tensor. "
                                              f"SparseTensor is not supported. key: {self.key}")
        numbers = ops.cast(value, "float32")
        return numbers if self.normalizer_fn is None else convert(self.normalizer_fn(numbers))


class BucketizedColumn(Dense, Categorical):
    """Numbers as the intervals that they lie in."""

    def __init__(self, source: NumericColumn, boundaries: tuple[float, ...]) -> None:
        self.source = self.source_column = source
        self.boundaries, self.spec = boundaries, source.spec
        self.name = f"{source.name}_bucketized"
        self.shape, self.buckets = (*source.shape, len(boundaries) + 1), (len(boundaries) + 1) * source.width

    def _intervals(self, features: Features) -> Tensor:
        numbers = features.of(self.source, lambda f: self.source.dense_tensor(f))
        above = ops.greater_equal(ops.expand_dims(numbers, -1), ops.constant(self.boundaries, "float32"))
        return ops.reduce_sum(ops.cast(above, "int64"), axis=-1)

    def _transform_feature(self, inputs: Features) -> Tensor:
        return self._intervals(inputs)

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        found: Tensor = ops.one_hot(self._intervals(features), len(self.boundaries) + 1)
        return found

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        width, count = self.source.width, len(self.boundaries) + 1
        found = ops.reshape(self._intervals(features), [-1, width]) + ops.constant([count * i for i in range(width)], "int64")
        places = ops.where(ops.fill(ops.shape(found), True))
        return SparseTensor(places, ops.reshape(found, [-1]), ops.shape(found, "int64")), None


class IdentityColumn(Categorical):
    """Integers that are identifiers themselves; others become `default_value`, or with `wraps` their remainder."""

    def __init__(self, key: str, buckets: int, default_value: int | None, wraps: bool = False, dtype: Any = "int64") -> None:
        self.key = self.name = key
        self.buckets = self.num_buckets = buckets
        self.default_value, self._wraps = default_value, wraps
        self.spec = {key: VarLenFeature(as_dtype(dtype))}

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        found = features.sparse(self.key)
        if not found.dtype.is_integer:
            raise errors.InvalidArgumentError(f"categorical_column_with_identity: Invalid input, not integer. key: {self.key} "
                                              f"dtype: {found.dtype.name}")
        values = ops.cast(found.values, "int64")
        if self._wraps:
            values = ops.floormod(values, self.buckets)
        elif self.default_value is None:
            top = assert_less(values, ops.constant(self.buckets, "int64"), message=f"assert_less_than_num_buckets {self.key}")
            low = assert_greater_equal(values, ops.constant(0, "int64"), message=f"assert_greater_or_equal_0 {self.key}")
            with get_default_graph().control_dependencies([top, low]):
                values = ops.identity(values)
        else:
            outside = ops.logical_or(ops.less(values, 0), ops.greater_equal(values, self.buckets))
            values = ops.where(outside, ops.fill(ops.shape(values), ops.constant(self.default_value, "int64")), values)
        return SparseTensor(found.indices, values, found.dense_shape), None


class HashedColumn(Categorical):
    """Strings or integers by the remainder of their hash."""

    def __init__(self, key: str, buckets: int, dtype: Any) -> None:
        self.key = self.name = key
        self.buckets = self.hash_bucket_size = buckets
        self.dtype = as_dtype(dtype)
        self.spec = {key: VarLenFeature(self.dtype)}

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        found = _of_kind(features.sparse(self.key), self.dtype, self.key)
        words = found.values if self.dtype.kind == "string" else ops.as_string(found.values)
        return SparseTensor(found.indices, ops.string_to_hash_bucket_fast(words, self.buckets), found.dense_shape), None


class VocabularyColumn(Categorical):
    """Strings or integers by their place in a vocabulary of `size` words, which is asked for when it is needed."""

    def __init__(self, key: str, vocabulary: Callable[[], tuple[Any, ...]], size: int, dtype: Any, default_value: int,
                 oov: int) -> None:
        self.key = self.name = key
        self.dtype, self._vocabulary, self.default_value, self.num_oov_buckets = as_dtype(dtype), vocabulary, default_value, oov
        self.buckets = size + oov
        self.spec = {key: VarLenFeature(self.dtype)}

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        found = _of_kind(features.sparse(self.key), self.dtype, self.key)
        numbers = ops.vocabulary_index(found.values, vocabulary=self._vocabulary(), default_value=self.default_value,
                                       num_oov_buckets=self.num_oov_buckets)
        return SparseTensor(found.indices, numbers, found.dense_shape), None


def _of_kind(found: SparseTensor, dtype: Any, key: str) -> SparseTensor:
    if found.dtype.kind != "string" and not found.dtype.is_integer:
        raise errors.InvalidArgumentError(f"feature columns: SparseTensor dtype must be string or integer. key: {key}, "
                                          f"tensor dtype: {found.dtype.name}")
    if (found.dtype.kind == "string") != (dtype.kind == "string"):
        raise errors.InvalidArgumentError(f"feature columns: Column dtype and SparseTensors dtype must be compatible. key: "
                                          f"{key}, column dtype: {dtype.name}, tensor dtype: {found.dtype.name}")
    return found


class WeightedColumn(Categorical):
    """Another column's identifiers, with weights from a feature of their own."""

    def __init__(self, source: Categorical, key: str, dtype: Any) -> None:
        self.source = self.categorical_column = source
        self.key, self.buckets, self.weight_feature_key = key, source.buckets, key
        self.name, self.combiner = f"{source.name}_weighted_by_{key}", source.combiner
        self.sparse_id_column, self.weight_column_name = source, key
        self.spec = {**source.spec, key: VarLenFeature(as_dtype(dtype))}

    def identifiers(self, features: Features) -> tuple[SparseTensor, SparseTensor]:
        given = features.raw(self.key)
        if not (given.dtype.is_floating or given.dtype.is_integer):
            raise errors.InvalidArgumentError(f"weighted_categorical_column: Bad dtype, expected numbers, but got "
                                              f"{given.dtype.name} for {self.key}")
        found = features.sparse(self.key, 0)
        weights = SparseTensor(found.indices, ops.cast(found.values, "float32"), found.dense_shape)
        return self.source.identifiers(features)[0], weights


class CrossedColumn(Categorical):
    """Combinations of several features' values by the remainder of their hash."""

    def __init__(self, keys: tuple[Any, ...], buckets: int, hash_key: int | None) -> None:
        self.buckets = self.hash_bucket_size = buckets
        self.keys, self.hash_key, self._hash_key = keys, hash_key, hash_key or _CROSS_KEY
        self._leaves: list[Any] = [leaf for key in keys for leaf in (key._leaves if isinstance(key, CrossedColumn) else [key])]
        self.name = "_X_".join(sorted(leaf if isinstance(leaf, str) else leaf.name for leaf in self._leaves))
        self.spec = {}
        for key in keys:
            self.spec.update({key: VarLenFeature(as_dtype("string"))} if isinstance(key, str) else key.spec)

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        sparse, dense = list[SparseTensor](), list[Tensor]()      # crossed in this order, as TensorFlow does
        for leaf in self._leaves:
            value, weights = (features.raw(leaf), None) if isinstance(leaf, str) else leaf.identifiers(features)
            if weights is not None:
                raise errors.InvalidArgumentError("crossed_column does not support weight_tensor, but the given column "
                                                  f"populates weight_tensor. Given column: {leaf.name}")
            (sparse if isinstance(value, SparseTensor) else dense).append(value)
        columns = sparse + [_all_of(value) for value in dense]
        parts = [part for value in columns for part in (value.indices, value.values, value.dense_shape)]
        return SparseTensor(*ops.hashed_crosses(parts, num_buckets=self.buckets, hash_key=self._hash_key)), None


def _all_of(value: Tensor) -> SparseTensor:
    places = ops.where(ops.fill(ops.shape(value), True))
    numbers = value if value.dtype.kind == "string" else ops.cast(value, "int64")
    return SparseTensor(places, ops.gather_nd(numbers, places), ops.shape(value, "int64"))


class IndicatorColumn(Dense):
    """How often each identifier is there, or the sum of its weights."""

    def __init__(self, source: Categorical) -> None:
        self.source = self.categorical_column = source
        self.shape, self.spec = (source.buckets,), source.spec
        self.name, self.sparse_id_column = f"{source.name}_indicator", source

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        found, weights = features.of(self.source, self.source.identifiers)
        if weights is not None:
            known = ops.greater_equal(found.values, 0)
            kept = sparse_merge(sparse_retain(found, known), sparse_retain(weights, known), self.source.buckets)
            return sparse_tensor_to_dense(kept, validate_indices=False)
        known = sparse_tensor_to_dense(found, default_value=-1)
        counted: Tensor = ops.reduce_sum(ops.one_hot(known, self.source.buckets), axis=-2)
        return counted


def from_checkpoint(path: Any, name: str) -> Callable[..., Tensor]:
    """An initializer: the tensor `name` of a checkpoint (of the newest in a folder), read when it runs; of a part its part."""
    def begin(shape: Any, dtype: Any = "float32", partition_info: Any = None) -> Tensor:
        kind, where = default_kind(), newest_checkpoint(path) if os.path.isdir(path) else path
        if where is None:
            raise errors.NotFoundError(f"embedding: {path!r} has no checkpoint; give the path of one")
        sizes = list(shape)
        at = [0] * len(sizes) if partition_info is None else partition_info.var_offset
        cut = tuple(slice(first, first + size) for first, size in zip(at, sizes))
        value: Tensor = ops.py_func(lambda: np.asarray(kind.value(where, name), as_dtype(dtype).numpy)[cut], [], dtype)
        value.set_shape(sizes)
        return value
    return begin


class EmbeddingColumn(Dense):
    """The combined rows of a table for the identifiers. Columns that share a table name it."""

    def __init__(self, source: Categorical, dimension: int, combiner: str, initializer: Any, max_norm: float | None,
                 trainable: bool, shared: str | None = None) -> None:
        self.source = self.categorical_column = self.sparse_id_column = source
        self.shape, self.spec = (dimension,), source.spec
        self.name = f"{source.name}_{'shared_' if shared else ''}embedding"
        self.combiner, self.max_norm, self.trainable, self._shared = combiner, max_norm, trainable, shared
        self.initializer = initializer or truncated_normal_initializer(0.0, 1 / math.sqrt(dimension))

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        found, weights = features.of(self.source, self.source.identifiers)
        table = self._table(trainable, features.collections)
        return safe_embedding_lookup_sparse(table, found, weights, self.combiner, max_norm=self.max_norm)

    def _transform_feature(self, inputs: Features) -> Any:
        return inputs.get(self.source)

    def _table(self, trainable: bool, collections: Sequence[str]) -> Any:
        shape = [self.source.buckets, self.shape[0]]
        kept = get_default_graph().get_collection_ref(f"shared_embedding/{self._shared}") if self._shared else []
        if not kept:
            kept.append(get_variable("embedding_weights", shape, "float32", self.initializer,
                                     trainable=self.trainable and trainable, collections=collections))
        return kept[0]

