"""Kinds of feature columns: what each makes of the features of a batch, and how examples are read for it."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.checks import assert_greater_equal, assert_less
from workbench.nn.initializers import truncated_normal_initializer
from workbench.nn.scopes import get_variable
from workbench.nn.sparse import SparseTensor, sparse_tensor_to_dense
from workbench.nn.sparse_lookups import safe_embedding_lookup_sparse
from workbench.nn.sparse_ops import sparse_merge
from workbench.nn.variables import GraphKeys
from workbench.train.input.examples import FixedLenFeature, VarLenFeature

__all__ = ["COLLECTIONS", "BucketizedColumn", "Categorical", "Column", "CrossedColumn", "Dense", "EmbeddingColumn", "Features",
           "HashedColumn", "IdentityColumn", "IndicatorColumn", "NumericColumn", "VocabularyColumn", "WeightedColumn",
           "check_dense"]

_CROSS_KEY = 0xDECAFCAFFE


class Features:
    """The features of a batch, by name, with what columns made of them: each column computes once.

    A column for a key, with its identifiers (or the pair with their weights), was computed before.
    """

    def __init__(self, features: Mapping[Any, Any]) -> None:
        self._features = features
        self._made = {id(key): value if isinstance(value, tuple) else (value, None) for key, value in features.items()
                      if isinstance(key, Categorical)}

    def raw(self, key: str) -> Any:
        """A feature: sparse, or dense with a dimension for its values. ValueError (InvalidArgumentError) for a missing one."""
        if key not in self._features:
            raise errors.InvalidArgumentError(f"feature columns: Feature {key} is not in features dictionary.; there are "
                                              f"{', '.join(sorted(map(repr, self._features))) or 'none'}")
        value = self._features[key]
        if isinstance(value, SparseTensor):
            return value
        tensor = convert(value)
        return ops.expand_dims(tensor, -1) if tensor.shape.rank == 1 else tensor

    def sparse(self, key: str, ignored: Any = None) -> SparseTensor:
        """A feature as a sparse tensor; of a dense one, -1 and "" (or `ignored`) are no values."""
        value = self.raw(key)
        if isinstance(value, SparseTensor):
            return value
        if ignored is None:
            ignored = b"" if value.dtype.kind == "string" else -1
        places = ops.where(ops.not_equal(value, ops.constant(ignored, value.dtype)))
        return SparseTensor(places, ops.gather_nd(value, places), ops.shape(value, "int64"))

    def of(self, column: Any, make: Callable[[Features], Any]) -> Any:
        """What a column makes of the features, once."""
        if id(column) not in self._made:
            self._made[id(column)] = make(self)
        return self._made[id(column)]


class Column:
    """A feature column. `spec` says how its features are read from examples."""

    name: str
    spec: dict[str, Any]
    combiner = "sum"      # how a linear model joins several identifiers; elder columns say it themselves

    @property
    def config(self) -> dict[str, Any]:
        """How its features are read, by the word of tf.contrib.layers."""
        return self.spec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Dense(Column):
    """A column that is a dense tensor [batch, *shape]."""

    shape: tuple[int, ...]

    def dense_tensor(self, features: Features, trainable: bool) -> Tensor:
        raise errors.UnimplementedError(f"{type(self).__name__}: dense_tensor(features, trainable) is missing; define it")

    @property
    def width(self) -> int:
        """Numbers an example."""
        return math.prod(self.shape)

    dimension = width


class Categorical(Column):
    """A column of identifiers below `buckets`, any number an example."""

    buckets: int

    @property
    def bucket_size(self) -> int:
        """The identifiers that there are, by the word of tf.contrib.layers."""
        return self.buckets

    length = bucket_size

    def identifiers(self, features: Features) -> tuple[SparseTensor, SparseTensor | None]:
        """(identifiers, their weights) as sparse tensors of the same places."""
        raise errors.UnimplementedError(f"{type(self).__name__}: identifiers(features) is missing; define it")


def check_dense(where: str, columns: Iterable[Any], other: str) -> None:
    """InvalidArgumentError for a column without dense values, which `other` or an embedding gives it."""
    bare = next((c for c in columns if isinstance(c, Categorical) and not isinstance(c, Dense)), None)
    if bare is not None:
        raise errors.InvalidArgumentError(f"{where}: {bare!r} has no dense values; wrap it with an embedding_column or {other}")


class NumericColumn(Dense):
    """One feature of numbers."""

    def __init__(self, key: str, shape: tuple[int, ...], default_value: Any, dtype: Any, normalizer_fn: Any) -> None:
        self.key = self.name = key
        self.shape, self.dtype, self.normalizer_fn = shape, as_dtype(dtype), normalizer_fn
        self.spec = {key: FixedLenFeature(shape, self.dtype, default_value)}

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        value = features.raw(self.key)
        if isinstance(value, SparseTensor):
            raise errors.InvalidArgumentError(f"numeric_column: The corresponding Tensor of numerical column must be a Tensor. "
                                              f"SparseTensor is not supported. key: {self.key}")
        numbers = ops.cast(value, "float32")
        return numbers if self.normalizer_fn is None else self.normalizer_fn(numbers)


class BucketizedColumn(Dense, Categorical):
    """Numbers as the intervals that they lie in."""

    def __init__(self, source: NumericColumn, boundaries: tuple[float, ...]) -> None:
        self.source, self.boundaries, self.spec = source, boundaries, source.spec
        self.name = f"{source.name}_bucketized"
        self.shape, self.buckets = (*source.shape, len(boundaries) + 1), (len(boundaries) + 1) * source.width

    def _intervals(self, features: Features) -> Tensor:
        numbers = features.of(self.source, lambda f: self.source.dense_tensor(f))
        above = ops.greater_equal(ops.expand_dims(numbers, -1), ops.constant(self.boundaries, "float32"))
        return ops.reduce_sum(ops.cast(above, "int64"), axis=-1)

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
        self.buckets, self._default, self._wraps = buckets, default_value, wraps
        self.spec = {key: VarLenFeature(as_dtype(dtype))}

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        found = features.sparse(self.key)
        if not found.dtype.is_integer:
            raise errors.InvalidArgumentError(f"categorical_column_with_identity: Invalid input, not integer. key: {self.key} "
                                              f"dtype: {found.dtype.name}")
        values = ops.cast(found.values, "int64")
        if self._wraps:
            values = ops.floormod(values, self.buckets)
        elif self._default is None:
            top = assert_less(values, ops.constant(self.buckets, "int64"), message=f"assert_less_than_num_buckets {self.key}")
            low = assert_greater_equal(values, ops.constant(0, "int64"), message=f"assert_greater_or_equal_0 {self.key}")
            with get_default_graph().control_dependencies([top, low]):
                values = ops.identity(values)
        else:
            outside = ops.logical_or(ops.less(values, 0), ops.greater_equal(values, self.buckets))
            values = ops.where(outside, ops.fill(ops.shape(values), ops.constant(self._default, "int64")), values)
        return SparseTensor(found.indices, values, found.dense_shape), None


class HashedColumn(Categorical):
    """Strings or integers by the remainder of their hash."""

    def __init__(self, key: str, buckets: int, dtype: Any) -> None:
        self.key = self.name = key
        self.buckets, self.dtype = buckets, as_dtype(dtype)
        self.spec = {key: VarLenFeature(self.dtype)}

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        found = _of_kind(features.sparse(self.key), self.dtype, self.key)
        words = found.values if self.dtype.kind == "string" else ops.as_string(found.values)
        return SparseTensor(found.indices, ops.string_to_hash_bucket_fast(words, self.buckets), found.dense_shape), None


class VocabularyColumn(Categorical):
    """Strings or integers by their place in a vocabulary."""

    def __init__(self, key: str, vocabulary: tuple[Any, ...], dtype: Any, default_value: int, oov: int) -> None:
        self.key = self.name = key
        self.dtype, self._vocabulary, self._default, self._oov = as_dtype(dtype), vocabulary, default_value, oov
        self.buckets = len(vocabulary) + oov
        self.spec = {key: VarLenFeature(self.dtype)}

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        found = _of_kind(features.sparse(self.key), self.dtype, self.key)
        numbers = ops.vocabulary_index(found.values, vocabulary=self._vocabulary, default_value=self._default,
                                       num_oov_buckets=self._oov)
        return SparseTensor(found.indices, numbers, found.dense_shape), None


def _of_kind(found: SparseTensor, dtype: Any, key: str) -> SparseTensor:
    if (found.dtype.kind == "string") != (dtype.kind == "string") or found.dtype.is_floating:
        raise errors.InvalidArgumentError(f"feature columns: Column dtype and SparseTensors dtype must be compatible. key: "
                                          f"{key}, column dtype: {dtype.name}, tensor dtype: {found.dtype.name}")
    return found


class WeightedColumn(Categorical):
    """Another column's identifiers, with weights from a feature of their own."""

    def __init__(self, source: Categorical, key: str, dtype: Any) -> None:
        self.source, self.key, self.buckets = source, key, source.buckets
        self.name, self.combiner = f"{source.name}_weighted_by_{key}", source.combiner
        self.sparse_id_column, self.weight_column_name = source, key
        self.spec = {**source.spec, key: VarLenFeature(as_dtype(dtype))}

    def identifiers(self, features: Features) -> tuple[SparseTensor, SparseTensor]:
        found = features.sparse(self.key, 0)
        weights = SparseTensor(found.indices, ops.cast(found.values, "float32"), found.dense_shape)
        return self.source.identifiers(features)[0], weights


class CrossedColumn(Categorical):
    """Combinations of several features' values by the remainder of their hash."""

    def __init__(self, keys: tuple[Any, ...], buckets: int, hash_key: int | None) -> None:
        self.keys, self.buckets, self._hash_key = keys, buckets, hash_key or _CROSS_KEY
        self._leaves: list[Any] = [leaf for key in keys for leaf in (key._leaves if isinstance(key, CrossedColumn) else [key])]
        self.name = "_X_".join(sorted(leaf if isinstance(leaf, str) else leaf.name for leaf in self._leaves))
        self.spec = {}
        for key in keys:
            self.spec.update({key: VarLenFeature(as_dtype("string"))} if isinstance(key, str) else key.spec)

    def identifiers(self, features: Features) -> tuple[SparseTensor, None]:
        sparse, dense = list[SparseTensor](), list[Tensor]()      # crossed in this order, as TensorFlow does
        for leaf in self._leaves:
            value = features.raw(leaf) if isinstance(leaf, str) else leaf.identifiers(features)[0]
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
        self.source, self.shape, self.spec = source, (source.buckets,), source.spec
        self.name, self.sparse_id_column = f"{source.name}_indicator", source

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        found, weights = features.of(self.source, self.source.identifiers)
        if weights is not None:
            return sparse_tensor_to_dense(sparse_merge(found, weights, self.source.buckets), validate_indices=False)
        known = sparse_tensor_to_dense(found, default_value=-1)
        counted: Tensor = ops.reduce_sum(ops.one_hot(known, self.source.buckets), axis=-2)
        return counted


class EmbeddingColumn(Dense):
    """The combined rows of a table for the identifiers. Columns that share a table name it."""

    def __init__(self, source: Categorical, dimension: int, combiner: str, initializer: Any, max_norm: float | None,
                 trainable: bool, shared: str | None = None) -> None:
        self.source, self.shape, self.spec, self.sparse_id_column = source, (dimension,), source.spec, source
        self.name = f"{source.name}_{'shared_' if shared else ''}embedding"
        self._combiner, self._max_norm, self._trainable, self._shared = combiner, max_norm, trainable, shared
        self._initializer = initializer or truncated_normal_initializer(0.0, 1 / math.sqrt(dimension))

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        found, weights = features.of(self.source, self.source.identifiers)
        return safe_embedding_lookup_sparse(self._table(trainable), found, weights, self._combiner, max_norm=self._max_norm)

    def _table(self, trainable: bool) -> Any:
        shape = [self.source.buckets, self.shape[0]]
        kept = get_default_graph().get_collection_ref(f"shared_embedding/{self._shared}") if self._shared else []
        if not kept:
            kept.append(get_variable("embedding_weights", shape, "float32", self._initializer,
                                     trainable=self._trainable and trainable, collections=COLLECTIONS))
        return kept[0]


COLLECTIONS = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
