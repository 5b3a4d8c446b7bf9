"""Layers and linear models over feature columns, and how examples are read for them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.initializers import Zeros
from workbench.nn.partitions import PartitionedVariable
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.sparse_lookups import safe_embedding_lookup_sparse
from workbench.nn.sparse_ops import sparse_reshape
from workbench.nn.variables import GraphKeys, get_collection
from workbench.train.estimators.feature_bases import Categorical, Column, Dense, Features
from workbench.train.estimators.feature_columns import numeric_column
from workbench.train.estimators.feature_kinds import NumericColumn
from workbench.train.input.examples import FixedLenFeature

__all__ = ["classifier_parse_example_spec", "input_layer", "linear_model", "make_parse_example_spec",
           "regressor_parse_example_spec", "transform_features", "weighted", "weights_of"]


def _sorted(where: str, columns: Any, kinds: tuple[type, ...]) -> list[Any]:
    """The columns by name. ValueErrors (InvalidArgumentErrors) without one, for two of a name, and for other things."""
    if isinstance(columns, Mapping):
        raise errors.InvalidArgumentError(f"{where}: Expected feature_columns to be iterable, found dict.; pass its values")
    found = [columns] if isinstance(columns, Column) else list(columns)
    for column in found:
        if not isinstance(column, Column):
            raise errors.InvalidArgumentError(f"{where}: Items of feature_columns must be a _FeatureColumn. Given: {column!r}")
        if not isinstance(column, kinds):
            wanted = "a _DenseColumn" if kinds == (Dense,) else "either a _DenseColumn or _CategoricalColumn"
            raise errors.InvalidArgumentError(f"{where}: Items of feature_columns must be {wanted}. You can wrap a categorical "
                                              f"column with an embedding_column or indicator_column. Given: {column!r}")
    names = [column.name for column in found]
    if not found:
        raise errors.InvalidArgumentError(f"{where}: feature_columns must not be empty; pass at least one")
    twice = [column for column in found if names.count(column.name) > 1]
    if twice:
        raise errors.InvalidArgumentError(f"{where}: Duplicate feature column name found for columns: {twice}; pass each once")
    return sorted(found, key=lambda column: column.name)


def input_layer(features: Mapping[str, Any], feature_columns: Any, weight_collections: Any = None,
                trainable: bool = True, cols_to_vars: dict[Any, Any] | None = None) -> Tensor:
    """The dense columns side by side in the order of their names: float32 [batch, sum of their widths].

    Variables are in `weight_collections` too; `cols_to_vars` is filled with the variables of each column.
    """
    columns = _sorted("input_layer", feature_columns, (Dense,))
    found, batch = [], Features(features, weight_collections or ())
    with variable_scope(None, "input_layer"):
        for column in columns:
            with variable_scope(None, column._var_scope_name or "feature") as scope:
                found.append(_rows(column, batch, trainable))
                _told(cols_to_vars, column, scope)
        _same_batch(columns, found)
        made: Tensor = ops.concat(found, axis=1) if len(found) > 1 else found[0]
    return made


def _rows(column: Any, batch: Features, trainable: bool) -> Tensor:
    """A dense column with a row for each example; examples of another width are an error when run."""
    values: Tensor = convert(column.dense_tensor(batch, trainable))
    size = None if values.shape.rank is None else values.shape.as_list()[0]
    return ops.reshape(values, [ops.shape(values)[0] if size is None else size, column.width])


def _told(kept: dict[Any, Any] | None, column: Any, scope: Any) -> None:
    if kept is not None:
        kept[column] = get_collection(GraphKeys.GLOBAL_VARIABLES, scope.name + "/")


def _same_batch(columns: Sequence[Any], found: Sequence[Tensor]) -> None:
    """InvalidArgumentError (a ValueError) where columns are known to have another number of examples than the first."""
    sizes = [(column.name, tensor.shape.as_list()[0]) for column, tensor in zip(columns, found) if tensor.shape.rank]
    known = [(name, size) for name, size in sizes if size is not None]
    for name, size in known[1:]:
        if size != known[0][1]:
            raise errors.InvalidArgumentError("feature columns: Batch size (first dimension) of each feature must be same. "
                                              f"Batch size of columns ({known[0][0]}, {name}): ({known[0][1]}, {size})")


def linear_model(features: Mapping[str, Any], feature_columns: Any, units: int = 1, sparse_combiner: str = "sum",
                 weight_collections: Any = None, trainable: bool = True, cols_to_vars: dict[Any, Any] | None = None) -> Tensor:
    """Σ of each column times its weights, and a bias: float32 [batch, units]. All variables begin as 0.

    Of several identifiers the weights are joined by `sparse_combiner`: "sum", "mean" or "sqrtn". Variables are in
    `weight_collections` too; `cols_to_vars` is filled with the variables of each column, and of the "bias".
    """
    columns = _sorted("linear_model", feature_columns, (Dense, Categorical))
    batch = Features(features, weight_collections or ())
    with variable_scope(None, "linear_model"):
        sums = []
        for column in columns:
            with variable_scope(None, column._var_scope_name or "feature") as scope:
                weights = get_variable("weights", [weights_of(column), units], "float32", Zeros(), trainable=trainable,
                                       collections=batch.collections)
                sums.append(weighted(column, batch, weights, sparse_combiner, trainable))
                _told(cols_to_vars, column, scope)
        _same_batch(columns, sums)
        bias = get_variable("bias_weights", [units], "float32", Zeros(), trainable=trainable, collections=batch.collections)
        if cols_to_vars is not None:
            cols_to_vars["bias"] = list(bias) if isinstance(bias, PartitionedVariable) else [bias]
        made: Tensor = ops.bias_add(ops.add_n(sums, name="weighted_sum_no_bias"), convert(bias), name="weighted_sum")
    return made


def weighted(column: Any, batch: Features, weights: Any, combiner: str, trainable: bool = True) -> Tensor:
    """A column times its weights, a variable [column's width or identifiers, units]: [batch, units]."""
    if not isinstance(column, Categorical):
        dense: Tensor = ops.matmul(_rows(column, batch, trainable), convert(weights), name="weighted_sum")
        return dense
    found, importance = batch.of(column, column.identifiers)
    flat = ops.stack([found.dense_shape[0], ops.constant(-1, "int64")])
    return safe_embedding_lookup_sparse(weights, sparse_reshape(found, flat),
                                        None if importance is None else sparse_reshape(importance, flat), combiner,
                                        name="weighted_sum")


def weights_of(column: Any) -> int:
    """How many rows a linear model's weights have for it."""
    return int(column.buckets if isinstance(column, Categorical) else column.width)


def transform_features(features: Mapping[str, Any], feature_columns: Any) -> dict[Any, Any]:
    """What each column transforms of the features of a batch, in the order of their names."""
    builder = Features(features)
    with get_default_graph().name_scope("transform_features"):
        return {column: builder.get(column) for column in _sorted("transform_features", feature_columns, (Column,))}


def make_parse_example_spec(feature_columns: Sequence[Column]) -> dict[str, Any]:
    """How parse_example reads what the columns need. ValueError (InvalidArgumentError) where two read a feature differently."""
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, Column):
            raise errors.InvalidArgumentError(f"make_parse_example_spec: All feature_columns must be _FeatureColumn instances. "
                                              f"Given: {column!r}")
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
    return _with_label(feature_columns, label_key, FixedLenFeature((1,), as_dtype(label_dtype), label_default),
                       weight_column)


def regressor_parse_example_spec(feature_columns: Sequence[Column], label_key: str, label_dtype: Any = "float32",
                                 label_default: Any = None, label_dimension: int = 1,
                                 weight_column: Any = None) -> dict[str, Any]:
    """classifier_parse_example_spec for `label_dimension` numbers an example."""
    return _with_label(feature_columns, label_key, FixedLenFeature((label_dimension,), as_dtype(label_dtype),
                                                                  label_default), weight_column)


def _with_label(columns: Sequence[Column], key: str, label: Any, weight: Any) -> dict[str, Any]:
    if not isinstance(weight, (str, NumericColumn, type(None))):
        raise errors.InvalidArgumentError("parse_example_spec: weight_column should be an instance of "
                                          f"tf.feature_column.numeric_column. Given type: {type(weight)} value: {weight}")
    weights = [] if weight is None else [numeric_column(weight) if isinstance(weight, str) else weight]
    found = make_parse_example_spec([*columns, *weights])
    if key in found:
        raise errors.InvalidArgumentError(f"parse_example_spec: label should not be used as feature. label_key: {key}, "
                                          f"features: {found}")
    return {**found, key: label}
