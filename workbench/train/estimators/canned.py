"""Estimators ready to use: linear and deep classifiers and regressors over feature columns, and both together."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn import layers
from workbench.nn.initializers import glorot_uniform_initializer
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys, get_collection
from workbench.train.estimators.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig
from workbench.train.estimators.feature_bases import Column, check_dense
from workbench.train.estimators.feature_models import input_layer, linear_model
from workbench.train.estimators.heads import BinaryHead, Head, MultiClassHead, RegressionHead
from workbench.train.estimators.shared import LARGE, cut, linear_rate, optimizer_of
from workbench.train.optimizers.schedules import get_global_step, get_or_create_global_step

__all__ = ["DNNClassifier", "DNNLinearCombinedClassifier", "DNNLinearCombinedRegressor", "DNNRegressor", "LinearClassifier",
           "LinearRegressor"]


# the estimators

class _Canned(Estimator):
    """An estimator whose model is `outputs(features, mode)` [batch, width], read by a head: of so many classes, of numbers
    without, or the given one.

    `more` are weight_column (a feature, or a numeric column, with the weight of each example), label_vocabulary (what the
    classes are called in labels and predictions), label_dimension (numbers that a regressor gives) and partitioner (how the
    tables of the input are cut into parts; by default a large one into one for each parameter server).
    """

    def __init__(self, columns: Sequence[Any], classes: int | Head | None, optimizer: Any, rate: float,
                 model_dir: Any, config: RunConfig | None, **more: Any) -> None:
        kind = type(self).__name__
        if not columns or not all(isinstance(c, Column) for c in columns):
            raise errors.InvalidArgumentError(f"{kind}: feature_columns is {columns!r}; pass feature columns")
        if isinstance(classes, int) and classes < 2:
            raise errors.InvalidArgumentError(f"{kind}: n_classes is {classes}; use 2 or more")
        self._columns, self._chosen, self._learning_rate, self._cut = list(columns), optimizer, rate, more.get("partitioner")
        weight, words = more.get("weight_column"), more.get("label_vocabulary")
        self._head: Head = classes if isinstance(classes, Head) else RegressionHead(
            weight, more.get("label_dimension", 1)) if classes is None else BinaryHead(
            weight, None, words) if classes == 2 else MultiClassHead(classes, weight, words)
        self._width = self._head.logits_dimension
        super().__init__(self._model, model_dir, config)

    def _outputs(self, features: Mapping[str, Any], mode: str) -> Tensor:
        """What the model makes of the features: [batch, width]; a subclass defines it."""
        raise errors.UnimplementedError(f"{type(self).__name__}: _outputs(features, mode) is missing; define it")

    def _input_cut(self) -> Any:
        return self._cut or cut(self.config, LARGE)

    def _minimized(self, loss: Tensor) -> Any:
        return optimizer_of(self._chosen, self._learning_rate).minimize(loss, global_step=get_global_step())

    def _model(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return self._head.create_estimator_spec(features, mode, self._outputs(features, mode), labels, self._minimized)


def _linear_outputs(features: Mapping[str, Any], columns: Sequence[Any], width: int, parts: Any) -> Tensor:
    with variable_scope("linear", partitioner=parts):
        return linear_model(features, columns, width)


def _deep_outputs(features: Mapping[str, Any], columns: Sequence[Any], width: int, units: Sequence[int], activation: Any,
                  dropout: float | None, mode: str, parts: Any, input_parts: Any) -> Tensor:
    with variable_scope("dnn", partitioner=parts):
        with variable_scope("input_from_feature_columns", partitioner=input_parts):
            x = input_layer(features, columns)
        for number, count in enumerate(units):
            x = layers.dense(x, count, activation, kernel_initializer=glorot_uniform_initializer(),
                             name=f"hiddenlayer_{number}")
            if dropout is not None and mode == ModeKeys.TRAIN:
                x = layers.dropout(x, dropout, training=True)
        return layers.dense(x, width, kernel_initializer=glorot_uniform_initializer(), name="logits")


class _Linear(_Canned):
    def _outputs(self, features: Mapping[str, Any], mode: str) -> Tensor:
        return _linear_outputs(features, self._columns, self._width, self._input_cut())


class Deep(_Canned):
    """Fully connected layers of `hidden_units` over columns."""

    def __init__(self, hidden_units: Sequence[int], activation_fn: Any, dropout: float | None, *rest: Any, **more: Any) -> None:
        self._units, self._activation, self._dropout = list(hidden_units), activation_fn, dropout
        super().__init__(*rest, **more)
        check_dense(type(self).__name__, self._columns, "indicator_column")

    def _outputs(self, features: Mapping[str, Any], mode: str) -> Tensor:
        return _deep_outputs(features, self._columns, self._width, self._units, self._activation, self._dropout, mode,
                             cut(self.config), self._input_cut())


class _Both(_Canned):
    """A linear model and a network, each over columns and with an optimizer of its own; their outputs are added."""

    def __init__(self, linear: tuple[Any, Any], deep: tuple[Any, Any, Any, Any, float | None], classes: int | None,
                 model_dir: Any, config: RunConfig | None, **more: Any) -> None:
        (self._flat, self._flat_optimizer), (self._columns_deep, self._deep_optimizer, self._units, *self._how) = (
            (list(linear[0] or ()), linear[1]), (list(deep[0] or ()), *deep[1:]))
        if bool(self._columns_deep) != bool(self._units):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: dnn_hidden_units must be defined when "
                                              "dnn_feature_columns is specified, and the other way round")
        super().__init__([*self._flat, *self._columns_deep], classes, None, 0.0, model_dir, config, **more)

    def _outputs(self, features: Mapping[str, Any], mode: str) -> Tensor:
        found = []
        if self._columns_deep:
            found.append(_deep_outputs(features, self._columns_deep, self._width, self._units, self._how[0], self._how[1],
                                       mode, cut(self.config), self._input_cut()))
        if self._flat:
            found.append(_linear_outputs(features, self._flat, self._width, self._input_cut()))
        return ops.add_n(found) if len(found) > 1 else found[0]

    def _minimized(self, loss: Tensor) -> Any:
        step, made = get_or_create_global_step(), list[Any]()
        for scope, columns, chosen, rate in (("dnn/", self._columns_deep, self._deep_optimizer, 0.05),
                                             ("linear/", self._flat, self._flat_optimizer, linear_rate(self._flat))):
            if columns:
                made.append(optimizer_of(chosen, rate).minimize(
                    loss, var_list=get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)))
        with step.graph.control_dependencies(made):
            return step.assign_add(1)


class LinearClassifier(_Linear):
    """Logistic regression (softmax for more than two classes); labels are class numbers [batch] or [batch, 1], or words.

    Predictions: "logits", "probabilities", "class_ids", "classes". The loss is the sum over a batch, of each example times
    its weight, the feature `weight_column`.
    """

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Sequence[Any] | None = None, optimizer: Any = "Ftrl",
                 config: RunConfig | None = None, partitioner: Any = None) -> None:
        super().__init__(feature_columns, n_classes, optimizer, linear_rate(feature_columns), model_dir, config,
                         weight_column=weight_column, label_vocabulary=label_vocabulary, partitioner=partitioner)


class LinearRegressor(_Linear):
    """Linear regression of `label_dimension` numbers; labels are [batch] or [batch, dimension], predictions
    {"predictions": [batch, dimension]}."""

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, label_dimension: int = 1,
                 weight_column: Any = None, optimizer: Any = "Ftrl", config: RunConfig | None = None,
                 partitioner: Any = None) -> None:
        super().__init__(feature_columns, None, optimizer, linear_rate(feature_columns), model_dir, config,
                         weight_column=weight_column, label_dimension=label_dimension, partitioner=partitioner)


class DNNClassifier(Deep):
    """A classifier with fully connected layers of `hidden_units`; otherwise like LinearClassifier."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Sequence[Any] | None = None, optimizer: Any = "Adagrad",
                 activation_fn: Any = ops.relu, dropout: float | None = None, input_layer_partitioner: Any = None,
                 config: RunConfig | None = None) -> None:
        super().__init__(hidden_units, activation_fn, dropout, feature_columns, n_classes, optimizer, 0.05, model_dir, config,
                         weight_column=weight_column, label_vocabulary=label_vocabulary, partitioner=input_layer_partitioner)


class DNNRegressor(Deep):
    """A regressor with fully connected layers of `hidden_units`; otherwise like LinearRegressor."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None,
                 label_dimension: int = 1, weight_column: Any = None, optimizer: Any = "Adagrad", activation_fn: Any = ops.relu,
                 dropout: float | None = None, input_layer_partitioner: Any = None, config: RunConfig | None = None) -> None:
        super().__init__(hidden_units, activation_fn, dropout, feature_columns, None, optimizer, 0.05, model_dir, config,
                         weight_column=weight_column, label_dimension=label_dimension, partitioner=input_layer_partitioner)


class DNNLinearCombinedClassifier(_Both):
    """A classifier whose outputs are those of a linear model plus those of a network; otherwise like LinearClassifier."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Sequence[Any] | None = None,
                 input_layer_partitioner: Any = None, config: RunConfig | None = None) -> None:
        super().__init__((linear_feature_columns, linear_optimizer), (
            dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout), n_classes, model_dir, config,
            weight_column=weight_column, label_vocabulary=label_vocabulary, partitioner=input_layer_partitioner)


class DNNLinearCombinedRegressor(_Both):
    """A regressor whose outputs are those of a linear model plus those of a network; otherwise like LinearRegressor."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None, label_dimension: int = 1,
                 weight_column: Any = None, input_layer_partitioner: Any = None, config: RunConfig | None = None) -> None:
        super().__init__((linear_feature_columns, linear_optimizer), (
            dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout), None, model_dir, config,
            weight_column=weight_column, label_dimension=label_dimension, partitioner=input_layer_partitioner)
