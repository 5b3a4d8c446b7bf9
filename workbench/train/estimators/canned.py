"""Estimators ready to use: linear and deep classifiers and regressors over feature columns, and both together."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.train.estimators.canned_models import dnn_linear_combined_model_fn, dnn_model_fn, linear_model_fn
from workbench.train.estimators.estimator import Estimator, EstimatorSpec, RunConfig
from workbench.train.estimators.feature_bases import Column, check_dense
from workbench.train.estimators.heads import BinaryHead, Head, MultiClassHead, RegressionHead

__all__ = ["DNNClassifier", "DNNLinearCombinedClassifier", "DNNLinearCombinedRegressor", "DNNRegressor", "LinearClassifier",
           "LinearRegressor"]


# the estimators

class _Canned(Estimator):
    """An estimator whose model is `model(features, labels, mode, head, …)`, of `canned_models`, with its options by name.

    The head is that of so many classes, of numbers without, or the given one. `more` are weight_column (a feature, or a
    numeric column, with the weight of each example), label_vocabulary (what the classes are called in labels and predictions)
    and label_dimension (numbers that a regressor gives).
    """

    def __init__(self, columns: Sequence[Any], classes: int | Head | None, model: Any, options: dict[str, Any],
                 model_dir: Any, config: RunConfig | None, **more: Any) -> None:
        kind = type(self).__name__
        if not columns or not all(isinstance(c, Column) for c in columns):
            raise errors.InvalidArgumentError(f"{kind}: feature_columns is {columns!r}; pass feature columns")
        if isinstance(classes, int) and classes < 2:
            raise errors.InvalidArgumentError(f"{kind}: n_classes is {classes}; use 2 or more")
        weight, words = more.get("weight_column"), more.get("label_vocabulary")
        self._head: Head = classes if isinstance(classes, Head) else RegressionHead(
            weight, more.get("label_dimension", 1)) if classes is None else BinaryHead(
            weight, None, words) if classes == 2 else MultiClassHead(classes, weight, words)
        self._built, self._options = model, options
        super().__init__(self._model, model_dir, config)

    def _model(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        made: EstimatorSpec = self._built(features, labels, mode, self._head, config=self.config, **self._options)
        return made


class _Linear(_Canned):
    def __init__(self, columns: Sequence[Any], classes: int | None, optimizer: Any, partitioner: Any, *rest: Any,
                 **more: Any) -> None:
        super().__init__(columns, classes, linear_model_fn, {
            "feature_columns": columns, "optimizer": optimizer, "partitioner": partitioner}, *rest, **more)


class Deep(_Canned):
    """Fully connected layers of `hidden_units` over columns."""

    def __init__(self, hidden_units: Sequence[int], activation_fn: Any, dropout: float | None, columns: Sequence[Any],
                 classes: int | Head | None, optimizer: Any, partitioner: Any, *rest: Any, **more: Any) -> None:
        super().__init__(columns, classes, dnn_model_fn, {
            "hidden_units": list(hidden_units), "feature_columns": columns, "optimizer": optimizer,
            "activation_fn": activation_fn, "dropout": dropout, "input_layer_partitioner": partitioner}, *rest, **more)
        check_dense(type(self).__name__, columns, "indicator_column")


class _Both(_Canned):
    """A linear model and a network, each over columns and with an optimizer of its own; their outputs are added."""

    def __init__(self, linear: tuple[Any, Any], deep: tuple[Any, Any, Any, Any, float | None], classes: int | None,
                 partitioner: Any, model_dir: Any, config: RunConfig | None, **more: Any) -> None:
        flat, columns, units = list(linear[0] or ()), list(deep[0] or ()), deep[2]
        if bool(columns) != bool(units):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: dnn_hidden_units must be defined when "
                                              "dnn_feature_columns is specified, and the other way round")
        if not flat and not columns:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: Either linear_feature_columns or dnn_feature_columns "
                                              "must be defined.")
        super().__init__([*flat, *columns], classes, dnn_linear_combined_model_fn, {
            "linear_feature_columns": flat, "linear_optimizer": linear[1], "dnn_feature_columns": columns,
            "dnn_optimizer": deep[1], "dnn_hidden_units": units, "dnn_activation_fn": deep[3], "dnn_dropout": deep[4],
            "input_layer_partitioner": partitioner}, model_dir, config, **more)


class LinearClassifier(_Linear):
    """Logistic regression (softmax for more than two classes); labels are class numbers [batch] or [batch, 1], or words.

    Predictions: "logits", "probabilities", "class_ids", "classes". The loss is the sum over a batch, of each example times
    its weight, the feature `weight_column`.
    """

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Sequence[Any] | None = None, optimizer: Any = "Ftrl",
                 config: RunConfig | None = None, partitioner: Any = None) -> None:
        super().__init__(feature_columns, n_classes, optimizer, partitioner, model_dir, config,
                         weight_column=weight_column, label_vocabulary=label_vocabulary)


class LinearRegressor(_Linear):
    """Linear regression of `label_dimension` numbers; labels are [batch] or [batch, dimension], predictions
    {"predictions": [batch, dimension]}."""

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, label_dimension: int = 1,
                 weight_column: Any = None, optimizer: Any = "Ftrl", config: RunConfig | None = None,
                 partitioner: Any = None) -> None:
        super().__init__(feature_columns, None, optimizer, partitioner, model_dir, config,
                         weight_column=weight_column, label_dimension=label_dimension)


class DNNClassifier(Deep):
    """A classifier with fully connected layers of `hidden_units`; otherwise like LinearClassifier."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Sequence[Any] | None = None, optimizer: Any = "Adagrad",
                 activation_fn: Any = ops.relu, dropout: float | None = None, input_layer_partitioner: Any = None,
                 config: RunConfig | None = None) -> None:
        super().__init__(hidden_units, activation_fn, dropout, feature_columns, n_classes, optimizer, input_layer_partitioner,
                         model_dir, config, weight_column=weight_column, label_vocabulary=label_vocabulary)


class DNNRegressor(Deep):
    """A regressor with fully connected layers of `hidden_units`; otherwise like LinearRegressor."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None,
                 label_dimension: int = 1, weight_column: Any = None, optimizer: Any = "Adagrad", activation_fn: Any = ops.relu,
                 dropout: float | None = None, input_layer_partitioner: Any = None, config: RunConfig | None = None) -> None:
        super().__init__(hidden_units, activation_fn, dropout, feature_columns, None, optimizer, input_layer_partitioner,
                         model_dir, config, weight_column=weight_column, label_dimension=label_dimension)


class DNNLinearCombinedClassifier(_Both):
    """A classifier whose outputs are those of a linear model plus those of a network; otherwise like LinearClassifier."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Sequence[Any] | None = None,
                 input_layer_partitioner: Any = None, config: RunConfig | None = None) -> None:
        super().__init__((linear_feature_columns, linear_optimizer), (
            dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout), n_classes,
            input_layer_partitioner, model_dir, config, weight_column=weight_column, label_vocabulary=label_vocabulary)


class DNNLinearCombinedRegressor(_Both):
    """A regressor whose outputs are those of a linear model plus those of a network; otherwise like LinearRegressor."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None, label_dimension: int = 1,
                 weight_column: Any = None, input_layer_partitioner: Any = None, config: RunConfig | None = None) -> None:
        super().__init__((linear_feature_columns, linear_optimizer), (
            dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout), None,
            input_layer_partitioner, model_dir, config, weight_column=weight_column, label_dimension=label_dimension)
