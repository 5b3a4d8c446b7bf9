"""Feature columns: how features become numbers, identifiers, embeddings."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.train.estimators.feature_kinds import (
    BucketizedColumn,
    Categorical,
    CrossedColumn,
    EmbeddingColumn,
    HashedColumn,
    IdentityColumn,
    IndicatorColumn,
    NumericColumn,
    VocabularyColumn,
    WeightedColumn,
    from_checkpoint,
)

__all__ = ["bucketized_column", "categorical_column_with_hash_bucket", "categorical_column_with_identity",
           "categorical_column_with_vocabulary_file", "categorical_column_with_vocabulary_list", "crossed_column",
           "embedding_column", "indicator_column", "numeric_column", "shared_embedding_columns",
           "weighted_categorical_column"]


# columns by their public names

def numeric_column(key: str, shape: Any = (1,), default_value: Any = None, dtype: Any = "float32",
                   normalizer_fn: Callable[[Tensor], Tensor] | None = None) -> NumericColumn:
    """The feature `key` as numbers of `shape` an example; `normalizer_fn` maps them before use.

    `default_value` stands for it in examples that lack it. InvalidArgumentError for dimensions below 1 and other dtypes.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(shape.as_list() if isinstance(shape, Shape) else shape)
    if not all(isinstance(d, (int, np.integer)) for d in dims):
        raise TypeError(f"numeric_column: shape dimensions must be integer. shape: {list(dims)}, key: {key}")
    if any(d < 1 for d in dims):
        raise errors.InvalidArgumentError(f"numeric_column: shape dimensions must be greater than 0. shape: {list(dims)}, key: "
                                          f"{key}")
    if not (as_dtype(dtype).is_floating or as_dtype(dtype).is_integer):
        raise errors.InvalidArgumentError(f"numeric_column: dtype must be convertible to float. dtype: {as_dtype(dtype).name}, "
                                          f"key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"numeric_column: normalizer_fn must be a callable. Given: {normalizer_fn}")
    return NumericColumn(key, dims, _default_value(key, dims, default_value, as_dtype(dtype)), dtype, normalizer_fn)


def _default_value(key: str, shape: tuple[int, ...], given: Any, dtype: Any) -> Any:
    """The default of a numeric column as nested tuples of its shape, None where there is none."""
    if given is None:
        return None
    found = np.asarray(given)
    if found.dtype.kind not in "fiu" or (dtype.is_integer and found.dtype.kind == "f"):
        raise TypeError(f"numeric_column: default_value must be compatible with dtype. default_value: {given}, dtype: "
                        f"{dtype.name}, key: {key}")
    if found.ndim and found.shape != shape:
        raise errors.InvalidArgumentError("numeric_column: The shape of default_value must be equal to given shape. "
                                          f"default_value: {given}, shape: {shape}, key: {key}")

    def nested(value: Any) -> Any:
        return tuple(nested(one) for one in value) if isinstance(value, list) else value
    return nested(np.broadcast_to(found, shape).astype(dtype.numpy).tolist())


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> BucketizedColumn:
    """Which interval a number of `source_column` lies in: (-inf, b0), [b0, b1), …, [bn, inf).

    ValueError (InvalidArgumentError) unless the column is numeric with at most one dimension and the boundaries ascend.
    """
    if not isinstance(source_column, NumericColumn):
        raise errors.InvalidArgumentError("bucketized_column: source_column must be a column generated with numeric_column(). "
                                          f"Given: {source_column}")
    if len(source_column.shape) > 1:
        raise errors.InvalidArgumentError(f"bucketized_column: source_column must be one-dimensional column. Given: "
                                          f"{source_column}")
    if not isinstance(boundaries, (list, tuple)) or not boundaries or any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise errors.InvalidArgumentError(f"bucketized_column: boundaries must be a sorted list: {boundaries}")
    return BucketizedColumn(source_column, tuple(float(b) for b in boundaries))


def _at_least_one(where: str, what: str, given: Any) -> int:
    if given is None or int(given) < 1:
        raise errors.InvalidArgumentError(f"{where}: {what} must be at least 1, it is {given}")
    return int(given)


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> IdentityColumn:
    """Integers of [0, num_buckets) as they are. Others become `default_value`; without one the step fails."""
    count = num_buckets
    if num_buckets < 1:
        raise errors.InvalidArgumentError(f"categorical_column_with_identity: num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < count:
        raise errors.InvalidArgumentError(f"categorical_column_with_identity: default_value {default_value} not in range [0, "
                                          f"{count}), column_name {key}")
    return IdentityColumn(key, count, default_value)


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = "string") -> HashedColumn:
    """Strings or integers by their hash below `hash_bucket_size`; "" and -1 of dense features are no values."""
    where = "categorical_column_with_hash_bucket"
    if hash_bucket_size is None:
        raise errors.InvalidArgumentError(f"{where}: hash_bucket_size must be set. key: {key}")
    return HashedColumn(key, _at_least_one(where, "hash_bucket_size", hash_bucket_size), _words_or_integers(where, key, dtype))


def _words_or_integers(where: str, key: str, dtype: Any) -> Any:
    if as_dtype(dtype).kind != "string" and not as_dtype(dtype).is_integer:
        raise errors.InvalidArgumentError(f"{where}: dtype must be string or integer. dtype: {as_dtype(dtype).name}, "
                                          f"column_name: {key}")
    return dtype


def categorical_column_with_vocabulary_list(key: str, vocabulary_list: Sequence[Any], dtype: Any = None,
                                            default_value: int = -1, num_oov_buckets: int = 0) -> VocabularyColumn:
    """Strings or integers by their place in a list; others are `default_value`, or hash to `num_oov_buckets` more."""
    where = "categorical_column_with_vocabulary_list"
    if any(not isinstance(word, (str, bytes, int, np.integer)) for word in vocabulary_list):
        raise errors.InvalidArgumentError(f"{where}: vocabulary dtype must be string or integer. vocabulary_list: "
                                          f"{list(vocabulary_list)}, column_name: {key}")
    words = tuple(w.encode() if isinstance(w, str) else w if isinstance(w, bytes) else int(w) for w in vocabulary_list)
    if not words:
        raise errors.InvalidArgumentError(f"{where}: vocabulary_list {list(vocabulary_list)} must be non-empty, "
                                          f"column_name: {key}")
    if len(set(words)) != len(words):
        raise errors.InvalidArgumentError(f"{where}: Duplicate keys in vocabulary_list: {list(vocabulary_list)}, column_name: "
                                          f"{key}; give each word once")
    _out_of_vocabulary(where, key, num_oov_buckets, None if default_value == -1 else default_value)
    kind = "string" if isinstance(words[0], bytes) else "int64"
    if (_words_or_integers(where, key, dtype) if dtype is not None else kind) and as_dtype(
            dtype or kind).is_integer != (kind == "int64"):
        raise errors.InvalidArgumentError(f"{where}: dtype {as_dtype(dtype).name} and vocabulary dtype {kind} do not match, "
                                          f"column_name: {key}")
    return VocabularyColumn(key, lambda: words, len(words), dtype or kind, default_value, num_oov_buckets)


def _out_of_vocabulary(where: str, key: str, buckets: Any, default: Any) -> None:
    if buckets < 0:
        raise errors.InvalidArgumentError(f"{where}: Invalid num_oov_buckets {buckets} in {key}; give 0 or more")
    if buckets and default is not None:
        raise errors.InvalidArgumentError(f"{where}: Can't specify both num_oov_buckets and default_value in {key}.")


def categorical_column_with_vocabulary_file(key: str, vocabulary_file: Any, vocabulary_size: int | None,
                                            num_oov_buckets: int = 0, default_value: int | None = None,
                                            dtype: Any = "string") -> VocabularyColumn:
    """As categorical_column_with_vocabulary_list, of the first `vocabulary_size` lines (None: all) of a file, which is read
    when features are.

    ValueErrors (InvalidArgumentErrors) where it has fewer, and for no file and sizes below 1.
    """
    where = "categorical_column_with_vocabulary_file"
    if not vocabulary_file:
        raise errors.InvalidArgumentError(f"{where}: Missing vocabulary_file in {key}.")
    if vocabulary_size is not None and vocabulary_size < 1:
        raise errors.InvalidArgumentError(f"{where}: Invalid vocabulary_size in {key}: {vocabulary_size}; give 1 or more")
    _out_of_vocabulary(where, key, num_oov_buckets, default_value)
    wanted = as_dtype(_words_or_integers(where, key, dtype))

    def words() -> tuple[Any, ...]:
        with open(vocabulary_file, encoding="utf-8") as file:
            lines = file.read().splitlines()
        size = len(lines) if vocabulary_size is None else vocabulary_size
        if not 0 < size <= len(lines):
            raise errors.InvalidArgumentError(f"{where}: Invalid vocab_size in {key}: {size}, but {vocabulary_file} has "
                                              f"{len(lines)} lines")
        return tuple(line.encode() if wanted.kind == "string" else int(line) for line in lines[:size])
    return VocabularyColumn(key, words, len(words()) if vocabulary_size is None else vocabulary_size, wanted,
                            -1 if default_value is None else default_value, num_oov_buckets)


def weighted_categorical_column(categorical_column: Categorical, weight_feature_key: str,
                                dtype: Any = "float32") -> WeightedColumn:
    """The identifiers of a column, with the weights of the feature `weight_feature_key`, one for each."""
    if dtype is None or not (as_dtype(dtype).is_floating or as_dtype(dtype).is_integer):
        raise errors.InvalidArgumentError(f"weighted_categorical_column: dtype {dtype} is not convertible to "
                                          "float.")
    return WeightedColumn(_categorical("weighted_categorical_column", categorical_column), weight_feature_key, dtype)


def crossed_column(keys: Sequence[Any], hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """Combinations of features (names of strings or integers, or columns of few identifiers) by their hash.

    ValueError (InvalidArgumentError) for fewer than two, and for hashed columns: cross the raw feature by its name.
    """
    if len(keys) < 2:
        raise errors.InvalidArgumentError(f"crossed_column: keys must be a list with length > 1. Given: {list(keys)}")
    for key in keys:
        if isinstance(key, HashedColumn) or not isinstance(key, (str, Categorical)):
            raise errors.InvalidArgumentError("crossed_column: Unsupported key type. All keys must be either string, or "
                                              "categorical column; categorical_column_with_hash_bucket is not supported: "
                                              f"cross the raw feature by its name. Given: {key}")
    if not hash_bucket_size or hash_bucket_size < 1:
        raise errors.InvalidArgumentError(f"crossed_column: hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)


def _categorical(where: str, column: Any) -> Categorical:
    if not isinstance(column, Categorical):
        raise errors.InvalidArgumentError(f"{where}: {column!r} is not a categorical column; make one with "
                                          "categorical_column_…")
    return column


def indicator_column(categorical_column: Categorical) -> IndicatorColumn:
    """One number for each identifier: how often it is there."""
    return IndicatorColumn(_categorical("indicator_column", categorical_column))


def _beginning(where: str, checkpoint: Any, name: Any) -> Any:
    """The initializer that reads a table from a checkpoint, None where none is given."""
    if (checkpoint is None) != (name is None):
        raise errors.InvalidArgumentError(f"{where}: Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none "
                                          f"of them.; they are {checkpoint!r} and {name!r}")
    return None if checkpoint is None else from_checkpoint(checkpoint, name)


def embedding_column(categorical_column: Categorical, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                     trainable: bool = True) -> EmbeddingColumn:
    """`dimension` trained numbers for each identifier; several are combined by "mean", "sqrtn" or "sum".

    The table begins as the tensor `tensor_name_in_ckpt` of a checkpoint, a file or the newest of a folder; ValueError
    (InvalidArgumentError) where only one of the two is given.
    """
    begin = _beginning("embedding_column", ckpt_to_load_from, tensor_name_in_ckpt)
    source = _categorical("embedding_column", categorical_column)
    if initializer is not None and not callable(initializer):
        raise errors.InvalidArgumentError(f"embedding_column: initializer must be callable if specified. Embedding of "
                                          f"column_name: {source.name}; it is {initializer!r}")
    return EmbeddingColumn(source, _at_least_one("embedding_column", "dimension", dimension), combiner, begin or initializer,
                           max_norm, trainable)


def shared_embedding_columns(categorical_columns: Sequence[Categorical], dimension: int, combiner: str = "mean",
                             initializer: Any = None, shared_embedding_collection_name: str | None = None,
                             ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                             trainable: bool = True) -> list[EmbeddingColumn]:
    """embedding_column for each, all with one table. ValueError (InvalidArgumentError) where they differ in identifiers."""
    begin = _beginning("shared_embedding_columns", ckpt_to_load_from, tensor_name_in_ckpt)
    found = [_categorical("shared_embedding_columns", column) for column in categorical_columns]
    if len({column.buckets for column in found}) != 1:
        raise errors.InvalidArgumentError("shared_embedding_columns: To use shared_embedding_column, all categorical_columns "
                                          f"must have the same number of buckets; they have {[c.buckets for c in found]}")
    name = shared_embedding_collection_name or "_".join(sorted(c.name for c in found)) + "_shared_embedding"
    return [EmbeddingColumn(c, dimension, combiner, begin or initializer, max_norm, trainable, name) for c in found]
