"""Linear models, sequences and transformed features over columns, by the names of tf.contrib.layers."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.contrib.layers import model_variable
from workbench.nn.initializers import Zeros
from workbench.nn.partitions import variable_parts
from workbench.nn.scopes import variable_scope
from workbench.nn.sparse import SparseTensor, sparse_placeholder
from workbench.nn.sparse_lookups import safe_embedding_lookup_sparse
from workbench.nn.sparse_ops import sparse_concat, sparse_reshape
from workbench.train.estimators.contrib_columns import check_feature_columns, create_feature_spec_for_parsing, kept_in
from workbench.train.estimators.feature_bases import Categorical, Features
from workbench.train.estimators.feature_kinds import (
    BucketizedColumn,
    CrossedColumn,
    EmbeddingColumn,
    IndicatorColumn,
    NumericColumn,
)
from workbench.train.estimators.feature_models import weighted, weights_of
from workbench.train.input.examples import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    VarLenFeature,
    parse_single_sequence_example,
)

__all__ = ["SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY", "joint_weighted_sum_from_feature_columns",
           "make_place_holder_tensors_for_base_features", "parse_feature_columns_from_sequence_examples",
           "sequence_input_from_feature_columns", "weighted_sum_from_feature_columns"]

SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY = 0xDECAFCAFFE


def _sorted(feature_columns: Any) -> list[Any]:
    check_feature_columns(feature_columns)
    return sorted(feature_columns, key=lambda column: str(column.name))


def _collections(given: Any) -> Any:
    return None if given is None else [*given]


def weighted_sum_from_feature_columns(columns_to_tensors: Any, feature_columns: Any, num_outputs: int,
                                      weight_collections: Any = None, trainable: bool = True,
                                      scope: Any = None) -> tuple[Tensor, dict[Any, list[Any]], Any]:
    """A linear model: (Σ of each column times its weights, and a bias: [batch, num_outputs]; column -> its variables; bias).

    Several identifiers of a column are joined as the column says. All variables begin as 0. ValueErrors as
    check_feature_columns.
    """
    batch, columns = Features(columns_to_tensors), _sorted(feature_columns)
    sums, variables = list[Tensor](), dict[Any, list[Any]]()
    for column in columns:
        if isinstance(column, (EmbeddingColumn, IndicatorColumn)):
            raise errors.InvalidArgumentError(f"weighted_sum_from_feature_columns: Error creating weighted sum for column: "
                                              f"{column.name}. A linear model takes {column.source} itself")
    with variable_scope(scope, "weighted_sum_from_feature_columns"):
        for column in columns:
            with variable_scope(None, column.name or "feature"):
                weights = model_variable("weights" if isinstance(column, Categorical) else "weight",
                                         [weights_of(column), num_outputs], "float32", Zeros(), None, trainable,
                                         _collections(weight_collections))
                sums.append(weighted(column, batch, weights, column.combiner, trainable))
                variables[column] = variable_parts(weights)
        bias = _bias(num_outputs, trainable, weight_collections)
        found = ops.bias_add(ops.add_n(sums) if len(sums) > 1 else sums[0], convert(bias))
    return found, variables, bias


def _bias(width: int, trainable: bool, collections: Any) -> Any:
    return model_variable("bias_weight", [width], "float32", Zeros(), None, trainable, _collections(collections))


def joint_weighted_sum_from_feature_columns(columns_to_tensors: Any, feature_columns: Any, num_outputs: int,
                                            weight_collections: Any = None, trainable: bool = True,
                                            scope: Any = None) -> tuple[Tensor, list[Any], Any]:
    """weighted_sum_from_feature_columns with the weights of all columns one below the other in one variable.

    NotImplementedError for columns of numbers, of weights, and those not joined by their sum.
    """
    batch, columns, start, parts = Features(columns_to_tensors), _sorted(feature_columns), 0, list[SparseTensor]()
    with variable_scope(scope, "joint_weighted_sum_from_feature_columns"):
        for column in columns:
            if not isinstance(column, Categorical):
                raise NotImplementedError("joint_weighted_sum_from_feature_columns: Real-valued columns are not supported. Use "
                                          f"weighted_sum_from_feature_columns instead, or bucketize {column}")
            found, importance = batch.of(column, column.identifiers)
            if importance is not None or column.combiner != "sum":
                raise NotImplementedError(f"joint_weighted_sum_from_feature_columns: {column} has weights, or the combiner "
                                          f"{column.combiner!r}; use weighted_sum_from_feature_columns")
            known = ops.greater_equal(found.values, ops.constant(0, "int64"))
            values = ops.where(known, found.values + ops.constant(start, "int64"), found.values)
            parts.append(SparseTensor(found.indices, values, found.dense_shape))
            start += column.buckets
        with variable_scope(None, "linear_weights"):
            weights = model_variable("weights", [start, num_outputs], "float32", Zeros(), None, trainable,
                                     _collections(weight_collections))
            together = sparse_concat(1, parts) if len(parts) > 1 else parts[0]
            total = safe_embedding_lookup_sparse(weights, together, None, "sum")
        bias = _bias(num_outputs, trainable, weight_collections)
        return ops.bias_add(total, convert(bias)), variable_parts(weights), bias


def sequence_input_from_feature_columns(columns_to_tensors: Any, feature_columns: Any, weight_collections: Any = None,
                                        trainable: bool = True, scope: Any = None) -> Tensor:
    """The columns side by side for each step of a sequence: [batch, steps, sum of their widths].

    Numbers come as [batch, steps, width] (or [batch, steps]), identifiers as sparse [batch, steps(, several)]. ValueErrors
    for other columns than numbers, embeddings and one-hot ones, and where these stand on intervals or crossed columns.
    """
    columns = _sorted(feature_columns)
    for column in columns:
        source = column.source if isinstance(column, (EmbeddingColumn, IndicatorColumn)) else column
        if isinstance(source, (BucketizedColumn, CrossedColumn)):
            raise ValueError(f"sequence_input_from_feature_columns: Column {column.name} is or has an ancestor "
                             f"{type(source).__name__} that is not supported for sequences")
        if not isinstance(column, (EmbeddingColumn, IndicatorColumn, NumericColumn)):
            raise ValueError(f"sequence_input_from_feature_columns: FeatureColumn type {type(column).__name__} is not "
                             "currently supported for sequence data.; wrap it with an embedding_column or one_hot_column")
    found = list[Tensor]()
    with variable_scope(scope, "sequence_input_from_feature_columns"), kept_in(weight_collections):
        for column in columns:
            with variable_scope(None, column.name or "feature"):
                found.append(_steps(column, columns_to_tensors, trainable))
        together: Tensor = ops.concat(found, axis=2) if len(found) > 1 else found[0]
    return together


def _steps(column: Any, features: Mapping[Any, Any], trainable: bool) -> Tensor:
    batch = Features(features)
    if isinstance(column, NumericColumn):
        x = column.dense_tensor(batch, trainable)
        shape, known = ops.shape(x), x.shape.as_list()
        steps: Tensor = ops.reshape(x, ops.stack([shape[0], shape[1], -1]))
        steps.set_shape([*known[:2], None if None in known[2:] else math.prod(known[2:])])
        return steps
    pair = batch.of(column.source, column.source.identifiers)
    seeded = Features({column.source: tuple(None if part is None else _three(part) for part in pair)})
    found: Tensor = column.dense_tensor(seeded, trainable)
    return found


def _three(found: SparseTensor) -> SparseTensor:
    if found.dense_shape.shape.as_list() != [2]:
        return found
    return sparse_reshape(found, ops.concat([found.dense_shape, ops.constant([1], "int64")], axis=0))


def parse_feature_columns_from_sequence_examples(serialized: Any, context_feature_columns: Any, sequence_feature_columns: Any,
                                                 name: str | None = None, example_name: Any = None) -> tuple[Any, Any]:
    """(context, sequence) features by name that the columns need, of one serialised SequenceExample."""
    steps: dict[str, Any] = {}
    for key, feature in create_feature_spec_for_parsing(sequence_feature_columns or ()).items():
        steps[key] = feature if not isinstance(feature, FixedLenFeature) else FixedLenSequenceFeature(
            list(feature.shape), feature.dtype)
    return parse_single_sequence_example(ops.reshape(convert(serialized, "string"), []),
                                         create_feature_spec_for_parsing(context_feature_columns or ()) or None, steps or None,
                                         example_name, name)


def make_place_holder_tensors_for_base_features(feature_columns: Sequence[Any]) -> dict[str, Any]:
    """A placeholder for each feature that the columns need: sparse ones of identifiers, dense ones [batch, …] of numbers."""
    found: dict[str, Any] = {}
    for key, feature in create_feature_spec_for_parsing(feature_columns).items():
        if isinstance(feature, VarLenFeature):
            found[key] = sparse_placeholder(feature.dtype, name=f"Placeholder_{key}")
        elif isinstance(feature, FixedLenFeature):
            found[key] = ops.placeholder(feature.dtype, [None, *feature.shape], name=f"Placeholder_{key}")
        else:
            raise errors.InvalidArgumentError(f"make_place_holder_tensors_for_base_features: {key} is read as "
                                              f"{type(feature).__name__}; make its placeholder yourself")
    return found
