"""Feature columns by the names of tf.contrib.layers: sparse columns say how their identifiers are joined."""
from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.arguments import refuse
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys, add_to_collection, get_collection
from workbench.train.estimators import feature_columns as made
from workbench.train.estimators.feature_bases import Categorical, Dense, Features
from workbench.train.estimators.feature_kinds import (
    EmbeddingColumn,
    HashedColumn,
    IdentityColumn,
    IndicatorColumn,
    NumericColumn,
)
from workbench.train.estimators.feature_models import input_layer, make_parse_example_spec
from workbench.train.input.examples import parse_example

__all__ = ["bucketized_column", "check_feature_columns", "create_feature_spec_for_parsing", "crossed_column",
           "embedding_column", "input_from_feature_columns", "one_hot_column", "parse_feature_columns_from_examples",
           "shared_embedding_columns", "sparse_column_with_hash_bucket", "sparse_column_with_integerized_feature",
           "sparse_column_with_keys", "sparse_column_with_vocabulary_file", "transform_features",
           "weighted_sparse_column"]


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    """Which interval a number of `source_column` lies in; a boundary that is given again counts once. InvalidArgumentErrors
    (ValueErrors) unless the column is real-valued with one dimension and the boundaries ascend."""
    if not isinstance(source_column, NumericColumn):
        raise errors.InvalidArgumentError(f"bucketized_column: source_column must be an instance of _RealValuedColumn, made "
                                          f"by real_valued_column. Given: {source_column}")
    return made.bucketized_column(source_column, [b for b, _ in itertools.groupby(boundaries)])


def _joined(column: Categorical, combiner: str) -> Any:
    column.combiner = combiner
    return column


def sparse_column_with_hash_bucket(column_name: str, hash_bucket_size: int, combiner: str = "sum",
                                   dtype: Any = "string") -> Any:
    """Strings or integers by their hash below `hash_bucket_size`."""
    return _joined(made.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype), combiner)


def sparse_column_with_integerized_feature(column_name: str, bucket_size: int, combiner: str = "sum",
                                           dtype: Any = "int64") -> Any:
    """Integers by their remainder below `bucket_size`."""
    return _joined(IdentityColumn(column_name, bucket_size, None, wraps=True, dtype=dtype), combiner)


def sparse_column_with_keys(column_name: str, keys: Sequence[Any], default_value: int = -1, combiner: str = "sum",
                            dtype: Any = "string") -> Any:
    """Strings or integers by their place in `keys`."""
    return _joined(made.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value), combiner)


def sparse_column_with_vocabulary_file(column_name: str, vocabulary_file: Any, num_oov_buckets: int = 0,
                                       vocab_size: int | None = None, default_value: int = -1, combiner: str = "sum",
                                       dtype: Any = "string") -> Any:
    """Strings or integers by their line in a file."""
    return _joined(made.categorical_column_with_vocabulary_file(column_name, vocabulary_file, vocab_size, num_oov_buckets,
                                                                   default_value, dtype), combiner)


def weighted_sparse_column(sparse_id_column: Any, weight_column_name: str, dtype: Any = "float32") -> Any:
    """The identifiers of a column, with weights from another feature."""
    return made.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def one_hot_column(sparse_id_column: Any) -> Any:
    """One number for each identifier: how often it is there."""
    return made.indicator_column(sparse_id_column)


def embedding_column(sparse_id_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                     trainable: bool = True) -> EmbeddingColumn:
    """`dimension` trained numbers for each identifier, combined."""
    return made.embedding_column(sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt,
                                    max_norm, trainable)


def shared_embedding_columns(sparse_id_columns: Sequence[Any], dimension: int, combiner: str = "mean",
                             shared_embedding_name: str | None = None, initializer: Any = None, ckpt_to_load_from: Any = None,
                             tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                             trainable: bool = True) -> list[EmbeddingColumn]:
    """embedding_column for each, all with one table."""
    return made.shared_embedding_columns(sparse_id_columns, dimension, combiner, initializer, shared_embedding_name,
                                            ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable)


def crossed_column(columns: Any, hash_bucket_size: int, combiner: str = "sum", ckpt_to_load_from: Any = None,
                   tensor_name_in_ckpt: Any = None, hash_key: int | None = None) -> Any:
    """Combinations of columns by their hash; of hashed columns the words themselves are crossed."""
    refuse("crossed_column", "restore its weights with a Saver", ckpt_to_load_from=ckpt_to_load_from,
           tensor_name_in_ckpt=tensor_name_in_ckpt)
    keys = [column.key if isinstance(column, HashedColumn) else column for column in columns]
    return _joined(made.crossed_column(keys, hash_bucket_size, hash_key), combiner)


def input_from_feature_columns(columns_to_tensors: Any, feature_columns: Any, weight_collections: Any = None,
                               trainable: bool = True, scope: Any = None) -> Tensor:
    """The dense columns side by side, in the order of their names. Variables are also in `weight_collections`.

    ValueErrors as check_feature_columns, and for columns of identifiers alone.
    """
    check_feature_columns(feature_columns)
    for column in feature_columns:
        if isinstance(column, Categorical) and not isinstance(column, Dense):
            raise errors.InvalidArgumentError(f"input_from_feature_columns: Error creating input layer for column: "
                                              f"{column.name}. {column} has no dense values; wrap it with an "
                                              "embedding_column or one_hot_column")
    with variable_scope(scope, "input_from_feature_columns"), kept_in(weight_collections):
        return input_layer(columns_to_tensors, feature_columns, trainable=trainable)


@contextlib.contextmanager
def kept_in(collections: Any) -> Iterator[None]:
    """Variables of the model that are made inside are also in these collections."""
    before = set(get_collection(GraphKeys.MODEL_VARIABLES))
    yield
    for variable in get_collection(GraphKeys.MODEL_VARIABLES):
        for key in collections or ():
            if variable not in before and key not in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES):
                add_to_collection(key, variable)


def check_feature_columns(feature_columns: Any) -> None:
    """ValueErrors for a dictionary, and for two columns of a name."""
    if isinstance(feature_columns, Mapping):
        raise ValueError("check_feature_columns: Expected feature_columns to be iterable, found dict.; pass its values")
    seen = set()
    for column in feature_columns:
        if column.name in seen:
            raise ValueError(f"check_feature_columns: Duplicate feature column key found for column: {column.name}. One "
                             "of them must be left out")
        seen.add(column.name)


def transform_features(features: Any, feature_columns: Any) -> dict[Any, Any]:
    """What each column makes of the features: column -> tensor; of identifiers sparse, with weights a pair of such."""
    batch, found = Features(features), dict[Any, Any]()
    check_feature_columns(feature_columns)
    for column in sorted(feature_columns, key=lambda one: str(one.name)):
        source = column.source if isinstance(column, (EmbeddingColumn, IndicatorColumn)) else column
        if isinstance(source, Categorical):
            pair = batch.of(source, source.identifiers)
            found[column] = pair[0] if pair[1] is None else pair
        else:
            found[column] = source.dense_tensor(batch, True)
    return found


def create_feature_spec_for_parsing(feature_columns: Any) -> dict[str, Any]:
    """How parse_example reads what the columns need."""
    return make_parse_example_spec(list(feature_columns))


def parse_feature_columns_from_examples(serialized: Any, feature_columns: Any, name: str | None = None,
                                        example_names: Any = None) -> dict[Any, Any]:
    """The features that the columns need, of serialised examples, by name, and what each column makes of them."""
    with get_default_graph().name_scope(name or "parse_feature_columns_from_examples"):
        parsed = parse_example(convert(serialized, "string"), create_feature_spec_for_parsing(feature_columns), None,
                               example_names)
        return {**parsed, **transform_features(parsed, list(feature_columns))}
