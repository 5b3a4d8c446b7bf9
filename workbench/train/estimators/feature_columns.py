"""Feature columns: how features become numbers, identifiers, embeddings; layers and linear models over them."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.nn.arguments import refuse
from workbench.nn.initializers import Zeros
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.sparse_lookups import safe_embedding_lookup_sparse
from workbench.nn.sparse_ops import sparse_reshape
from workbench.train.estimators.feature_kinds import (
    COLLECTIONS,
    BucketizedColumn,
    Categorical,
    Column,
    CrossedColumn,
    Dense,
    EmbeddingColumn,
    Features,
    HashedColumn,
    IdentityColumn,
    IndicatorColumn,
    NumericColumn,
    VocabularyColumn,
    WeightedColumn,
)
from workbench.train.input.examples import FixedLenFeature

__all__ = ["bucketized_column", "categorical_column_with_hash_bucket", "categorical_column_with_identity",
           "categorical_column_with_vocabulary_file", "categorical_column_with_vocabulary_list",
           "classifier_parse_example_spec", "crossed_column", "embedding_column", "indicator_column", "input_layer",
           "linear_model", "make_parse_example_spec", "numeric_column", "regressor_parse_example_spec",
           "shared_embedding_columns", "weighted_categorical_column"]


# columns by their public names

def numeric_column(key: str, shape: Any = (1,), default_value: Any = None, dtype: Any = "float32",
                   normalizer_fn: Callable[[Tensor], Tensor] | None = None) -> NumericColumn:
    """The feature `key` as numbers of `shape` an example; `normalizer_fn` maps them before use.

    `default_value` stands for it in examples that lack it. InvalidArgumentError for dimensions below 1 and other dtypes.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(int(d) for d in shape)
    if any(d < 1 for d in dims) or not (as_dtype(dtype).is_floating or as_dtype(dtype).is_integer):
        raise errors.InvalidArgumentError(f"numeric_column {key!r}: shape is {list(dims)} and dtype {as_dtype(dtype).name}; "
                                          "use dimensions of 1 or more and numbers")
    return NumericColumn(key, dims, default_value, dtype, normalizer_fn)


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
    if not boundaries or any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise errors.InvalidArgumentError(f"bucketized_column: boundaries must be a sorted list: {list(boundaries)}")
    return BucketizedColumn(source_column, tuple(float(b) for b in boundaries))


def _at_least_one(where: str, what: str, given: Any) -> int:
    if given is None or int(given) < 1:
        raise errors.InvalidArgumentError(f"{where}: {what} must be at least 1, it is {given}")
    return int(given)


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> IdentityColumn:
    """Integers of [0, num_buckets) as they are. Others become `default_value`; without one the step fails."""
    count = _at_least_one("categorical_column_with_identity", "num_buckets", num_buckets)
    if default_value is not None and not 0 <= default_value < count:
        raise errors.InvalidArgumentError(f"categorical_column_with_identity: default_value {default_value} not in range [0, "
                                          f"{count}), column_name {key}")
    return IdentityColumn(key, count, default_value)


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = "string") -> HashedColumn:
    """Strings or integers by their hash below `hash_bucket_size`; "" and -1 of dense features are no values."""
    return HashedColumn(key, _at_least_one("categorical_column_with_hash_bucket", "hash_bucket_size", hash_bucket_size), dtype)


def categorical_column_with_vocabulary_list(key: str, vocabulary_list: Sequence[Any], dtype: Any = None,
                                            default_value: int = -1, num_oov_buckets: int = 0) -> VocabularyColumn:
    """Strings or integers by their place in a list; others are `default_value`, or hash to `num_oov_buckets` more."""
    where = "categorical_column_with_vocabulary_list"
    words = tuple(w.encode() if isinstance(w, str) else w if isinstance(w, bytes) else int(w) for w in vocabulary_list)
    if not words or len(set(words)) != len(words):
        raise errors.InvalidArgumentError(f"{where}: vocabulary_list {list(vocabulary_list)} of {key!r} is empty or has "
                                          "duplicates; give each word once")
    if num_oov_buckets and default_value != -1:
        raise errors.InvalidArgumentError(f"{where}: Can't specify both num_oov_buckets and default_value in {key}.")
    kind = "string" if isinstance(words[0], bytes) else "int64"
    if dtype is not None and (as_dtype(dtype).kind == "string") != (kind == "string"):
        raise errors.InvalidArgumentError(f"{where}: dtype {as_dtype(dtype).name} and vocabulary dtype {kind} do not match, "
                                          f"column_name: {key}")
    return VocabularyColumn(key, words, dtype or kind, default_value, num_oov_buckets)


def categorical_column_with_vocabulary_file(key: str, vocabulary_file: Any, vocabulary_size: int | None,
                                            num_oov_buckets: int = 0, default_value: int | None = None,
                                            dtype: Any = "string") -> VocabularyColumn:
    """As categorical_column_with_vocabulary_list, of the first `vocabulary_size` lines (None: all) of a file, read now.

    ValueError (InvalidArgumentError) where it has fewer.
    """
    with open(vocabulary_file, encoding="utf-8") as file:
        lines = file.read().splitlines()
    size = len(lines) if vocabulary_size is None else vocabulary_size
    if not 0 < size <= len(lines):
        raise errors.InvalidArgumentError(f"categorical_column_with_vocabulary_file: Invalid vocab_size in {key}: {size}, but "
                                          f"{vocabulary_file} has {len(lines)} lines")
    words = lines[:size] if as_dtype(dtype).kind == "string" else [int(line) for line in lines[:size]]
    return categorical_column_with_vocabulary_list(key, words, dtype, -1 if default_value is None else default_value,
                                                   num_oov_buckets)


def weighted_categorical_column(categorical_column: Categorical, weight_feature_key: str,
                                dtype: Any = "float32") -> WeightedColumn:
    """The identifiers of a column, with the weights of the feature `weight_feature_key`, one for each."""
    if not (as_dtype(dtype).is_floating or as_dtype(dtype).is_integer):
        raise errors.InvalidArgumentError(f"weighted_categorical_column: dtype {as_dtype(dtype).name} is not convertible to "
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
            raise errors.InvalidArgumentError(f"crossed_column: Unsupported key {key}; cross a name, or a column that is "
                                              "categorical and not hashed")
    return CrossedColumn(tuple(keys), _at_least_one("crossed_column", "hash_bucket_size", hash_bucket_size), hash_key)


def _categorical(where: str, column: Any) -> Categorical:
    if not isinstance(column, Categorical):
        raise errors.InvalidArgumentError(f"{where}: {column!r} is no categorical column; make one with categorical_column_…")
    return column


def indicator_column(categorical_column: Categorical) -> IndicatorColumn:
    """One number for each identifier: how often it is there."""
    return IndicatorColumn(_categorical("indicator_column", categorical_column))


def embedding_column(categorical_column: Categorical, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                     trainable: bool = True) -> EmbeddingColumn:
    """`dimension` trained numbers for each identifier; several are combined by "mean", "sqrtn" or "sum"."""
    refuse("embedding_column", "restore the table with a Saver", ckpt_to_load_from=ckpt_to_load_from,
           tensor_name_in_ckpt=tensor_name_in_ckpt)
    source = _categorical("embedding_column", categorical_column)
    return EmbeddingColumn(source, _at_least_one("embedding_column", "dimension", dimension), combiner, initializer, max_norm,
                           trainable)


def shared_embedding_columns(categorical_columns: Sequence[Categorical], dimension: int, combiner: str = "mean",
                             initializer: Any = None, shared_embedding_collection_name: str | None = None,
                             ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                             trainable: bool = True) -> list[EmbeddingColumn]:
    """embedding_column for each, all with one table. ValueError (InvalidArgumentError) where they differ in identifiers."""
    refuse("shared_embedding_columns", "restore the table with a Saver", ckpt_to_load_from=ckpt_to_load_from,
           tensor_name_in_ckpt=tensor_name_in_ckpt)
    found = [_categorical("shared_embedding_columns", column) for column in categorical_columns]
    if len({column.buckets for column in found}) != 1:
        raise errors.InvalidArgumentError("shared_embedding_columns: To use shared_embedding_column, all categorical_columns "
                                          f"must have the same number of buckets; they have {[c.buckets for c in found]}")
    name = shared_embedding_collection_name or "_".join(sorted(c.name for c in found)) + "_shared_embedding"
    return [EmbeddingColumn(c, dimension, combiner, initializer, max_norm, trainable, name) for c in found]


# models over columns

def _sorted(where: str, columns: Any, kinds: tuple[type, ...]) -> list[Any]:
    """The columns by name. ValueErrors (InvalidArgumentErrors) without one, for two of a name, and for other things."""
    found = [columns] if isinstance(columns, Column) else list(columns)
    for column in found:
        if not isinstance(column, kinds):
            raise errors.InvalidArgumentError(f"{where}: feature_columns holds {column!r}; wrap a categorical column with an "
                                              "embedding_column or indicator_column" if isinstance(column, Categorical) else
                                              f"{where}: feature_columns holds {column!r}; pass feature columns")
    names = [column.name for column in found]
    if not found or len(set(names)) != len(names):
        raise errors.InvalidArgumentError(f"{where}: feature_columns are {names}; pass at least one, each once")
    return sorted(found, key=lambda column: column.name)


def input_layer(features: Mapping[str, Any], feature_columns: Any, weight_collections: Any = None,
                trainable: bool = True) -> Tensor:
    """The dense columns side by side in the order of their names: float32 [batch, sum of their widths]."""
    refuse("input_layer", "variables are in GLOBAL_VARIABLES and MODEL_VARIABLES", weight_collections=weight_collections)
    columns = _sorted("input_layer", feature_columns, (Dense,))
    found, batch = [], Features(features)
    with variable_scope(None, "input_layer"):
        for column in columns:
            with variable_scope(None, column.name or "feature"):
                found.append(ops.reshape(column.dense_tensor(batch, trainable), [-1, column.width]))
        made: Tensor = ops.concat(found, axis=1) if len(found) > 1 else found[0]
    return made


def linear_model(features: Mapping[str, Any], feature_columns: Any, units: int = 1, sparse_combiner: str = "sum",
                 weight_collections: Any = None, trainable: bool = True) -> Tensor:
    """Σ of each column times its weights, and a bias: float32 [batch, units]. All variables begin as 0.

    Of several identifiers the weights are joined by `sparse_combiner`: "sum", "mean" or "sqrtn".
    """
    refuse("linear_model", "variables are in GLOBAL_VARIABLES and MODEL_VARIABLES", weight_collections=weight_collections)
    columns = _sorted("linear_model", feature_columns, (Dense, Categorical))
    batch = Features(features)
    with variable_scope(None, "linear_model"):
        sums = []
        for column in columns:
            with variable_scope(None, column.name or "feature"):
                weights = get_variable("weights", [weights_of(column), units], "float32", Zeros(), trainable=trainable,
                                       collections=COLLECTIONS)
                sums.append(weighted(column, batch, weights, sparse_combiner, trainable))
        bias = get_variable("bias_weights", [units], "float32", Zeros(), trainable=trainable, collections=COLLECTIONS)
        made: Tensor = ops.bias_add(ops.add_n(sums, name="weighted_sum_no_bias"), bias.value(), name="weighted_sum")
    return made


def weighted(column: Any, batch: Features, weights: Any, combiner: str, trainable: bool = True) -> Tensor:
    """A column times its weights, a variable [column's width or identifiers, units]: [batch, units]."""
    if not isinstance(column, Categorical):
        dense: Tensor = ops.matmul(ops.reshape(column.dense_tensor(batch, trainable), [-1, column.width]), weights.value(),
                                   name="weighted_sum")
        return dense
    found, importance = batch.of(column, column.identifiers)
    flat = ops.stack([found.dense_shape[0], ops.constant(-1, "int64")])
    return safe_embedding_lookup_sparse(weights, sparse_reshape(found, flat),
                                        None if importance is None else sparse_reshape(importance, flat), combiner,
                                        name="weighted_sum")


def weights_of(column: Any) -> int:
    """How many rows a linear model's weights have for it."""
    return int(column.buckets if isinstance(column, Categorical) else column.width)


def make_parse_example_spec(feature_columns: Sequence[Column]) -> dict[str, Any]:
    """How parse_example reads what the columns need. ValueError (InvalidArgumentError) where two read a feature differently."""
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, Column):
            raise errors.InvalidArgumentError(f"make_parse_example_spec: All feature_columns must be feature columns. Given: "
                                              f"{column!r}")
        for key, feature in column.spec.items():
            if found.setdefault(key, feature) != feature:
                raise errors.InvalidArgumentError(f"make_parse_example_spec: feature_columns contain different parse_spec for "
                                                  f"key {key}. Given {feature} and {found[key]}")
    return found


def classifier_parse_example_spec(feature_columns: Sequence[Column], label_key: str, label_dtype: Any = "int64",
                                  label_default: Any = None, weight_column: Any = None) -> dict[str, Any]:
    """make_parse_example_spec with the label, one number of class or name an example (`label_dtype`), and the weight of
    examples, a feature or a numeric column. ValueError (InvalidArgumentError) where a column reads the label, or the weight
    otherwise."""
    return _with_label(feature_columns, label_key, FixedLenFeature([1], label_dtype, label_default), weight_column)


def regressor_parse_example_spec(feature_columns: Sequence[Column], label_key: str, label_dtype: Any = "float32",
                                 label_default: Any = None, label_dimension: int = 1,
                                 weight_column: Any = None) -> dict[str, Any]:
    """classifier_parse_example_spec for `label_dimension` numbers an example."""
    return _with_label(feature_columns, label_key, FixedLenFeature([label_dimension], label_dtype, label_default),
                       weight_column)


def _with_label(columns: Sequence[Column], key: str, label: Any, weight: Any) -> dict[str, Any]:
    weights = [] if weight is None else [weight if isinstance(weight, Column) else numeric_column(weight)]
    found = make_parse_example_spec([*columns, *weights])
    if key in found:
        raise errors.InvalidArgumentError(f"parse_example_spec: label should not be used as feature. label_key: {key}, "
                                          f"features: {found}")
    return {**found, key: label}
