"""Estimators ready to use: linear and deep classifiers and regressors over numeric feature columns."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.nn import layers, metrics
from workbench.nn.arguments import refuse
from workbench.nn.initializers import Zeros, glorot_uniform_initializer
from workbench.nn.scopes import variable_scope
from workbench.train.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig
from workbench.train.optimize import OPTIMIZER_CLS_NAMES
from workbench.train.optimizer import Optimizer
from workbench.train.schedules import get_global_step

__all__ = ["DNNClassifier", "DNNRegressor", "LinearClassifier", "LinearRegressor", "NumericColumn", "input_layer",
           "numeric_column"]


class NumericColumn(NamedTuple):
    """One feature of numbers: [batch] or [batch, *shape]."""

    key: str
    shape: tuple[int, ...]
    dtype: Any
    normalizer_fn: Callable[[Tensor], Tensor] | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def width(self) -> int:
        return math.prod(self.shape)


def numeric_column(key: str, shape: Any = (1,), default_value: Any = None, dtype: Any = "float32",
                   normalizer_fn: Callable[[Tensor], Tensor] | None = None) -> NumericColumn:
    """The feature `key` as numbers of `shape` an example; `normalizer_fn` maps them before use.

    Features are arrays without gaps: `default_value`, which fills them, is refused.
    """
    refuse("numeric_column", "give every example a value", default_value=default_value)
    dims = (shape,) if isinstance(shape, int) else tuple(int(d) for d in shape)
    if any(d < 1 for d in dims) or not (as_dtype(dtype).is_floating or as_dtype(dtype).is_integer):
        raise errors.InvalidArgumentError(f"numeric_column {key!r}: shape is {list(dims)} and dtype {as_dtype(dtype).name}; "
                                          "use dimensions of 1 or more and numbers")
    return NumericColumn(key, dims, as_dtype(dtype), normalizer_fn)


def input_layer(features: Mapping[str, Any], feature_columns: Sequence[NumericColumn]) -> Tensor:
    """The columns side by side in the order of their names: float32 [batch, sum of their widths]."""
    found = []
    for column in sorted(feature_columns, key=lambda c: c.key):
        if column.key not in features:
            raise errors.InvalidArgumentError(f"input_layer: there is no feature {column.key!r}; there are "
                                              f"{', '.join(map(repr, sorted(features))) or 'none'}")
        values = ops.cast(convert(features[column.key]), "float32")
        if column.normalizer_fn is not None:
            values = column.normalizer_fn(values)
        found.append(ops.reshape(values, [-1, column.width]))
    return ops.concat(found, axis=1) if len(found) > 1 else found[0]


def _optimizer(given: Any, rate: float) -> Optimizer:
    if isinstance(given, Optimizer):
        return given
    if isinstance(given, str) and given in OPTIMIZER_CLS_NAMES:
        return OPTIMIZER_CLS_NAMES[given](rate)
    if callable(given):
        return given()
    raise errors.InvalidArgumentError(f"estimator: optimizer {given!r} is unknown; use an Optimizer or one of "
                                      f"{', '.join(OPTIMIZER_CLS_NAMES)}")


# from outputs to losses, predictions and metrics

def _rows(labels: Any) -> Tensor:
    x = convert(labels)
    return ops.expand_dims(x, 1) if x.shape.rank == 1 else x


def _finish(mode: str, predictions: dict[str, Any], losses: Tensor | None, found: Any, train: Any,
            total: Callable[[Tensor], Tensor] = ops.reduce_sum) -> EstimatorSpec:
    """The spec; `total` makes one loss of those of a batch."""
    if losses is None:
        return EstimatorSpec(mode, predictions)
    loss = total(losses)
    if mode == ModeKeys.TRAIN:
        return EstimatorSpec(mode, predictions, loss, train(loss))
    return EstimatorSpec(mode, predictions, loss, eval_metric_ops={
        "average_loss": metrics.mean(losses, name="average_loss"), **found()})


def _regression(mode: str, outputs: Tensor, labels: Any, train: Any, total: Any) -> EstimatorSpec:
    if mode == ModeKeys.PREDICT:
        return _finish(mode, {"predictions": outputs}, None, None, None)
    target = ops.cast(_rows(labels), "float32")
    return _finish(mode, {"predictions": outputs}, ops.squared_difference(outputs, target), lambda: {
        "label/mean": metrics.mean(target, name="label_mean"),
        "prediction/mean": metrics.mean(outputs, name="prediction_mean")}, train, total)


def _classification(mode: str, outputs: Tensor, labels: Any, train: Any, classes: int, total: Any) -> EstimatorSpec:
    logistic = ops.sigmoid(outputs)
    shares = ops.softmax(outputs) if classes > 2 else ops.concat([1.0 - logistic, logistic], axis=1)
    ids = ops.expand_dims(ops.argmax(shares, 1), 1)
    predictions = {"logits": outputs, "probabilities": shares, "class_ids": ids, "classes": ops.as_string(ids)}
    if classes == 2:
        predictions["logistic"] = logistic
    if mode == ModeKeys.PREDICT:
        return _finish(mode, predictions, None, None, None)
    target = ops.cast(_rows(labels), "int64")
    if classes > 2:
        losses = ops.sparse_softmax_cross_entropy_with_logits(labels=ops.reshape(target, [-1]), logits=outputs)
    else:
        losses = ops.sigmoid_cross_entropy_with_logits(labels=ops.cast(target, "float32"), logits=outputs)

    def found() -> dict[str, Any]:
        general = {"accuracy": metrics.accuracy(target, ids)}
        return general if classes > 2 else {
            **general, "auc": metrics.auc(target, logistic), "precision": metrics.precision(target, ids),
            "recall": metrics.recall(target, ids), "label/mean": metrics.mean(target, name="label_mean"),
            "prediction/mean": metrics.mean(logistic, name="prediction_mean")}
    return _finish(mode, predictions, losses, found, train, total)


# the estimators

class _Canned(Estimator):
    """An estimator whose model is `outputs(features, mode)` [batch, width], read as classes (or numbers without)."""

    _total = staticmethod(ops.reduce_sum)

    def __init__(self, columns: Sequence[NumericColumn], classes: int | None, optimizer: Any, rate: float, model_dir: Any,
                 config: RunConfig | None) -> None:
        if not columns or not all(isinstance(c, NumericColumn) for c in columns):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: feature_columns is {columns!r}; pass numeric columns")
        if classes is not None and classes < 2:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: n_classes is {classes}; use 2 or more")
        self._columns, self._classes = list(columns), classes
        self._chosen, self._learning_rate = optimizer, rate
        self._width = classes if classes is not None and classes > 2 else 1
        super().__init__(self._model, model_dir, config)

    def _outputs(self, features: Mapping[str, Any], mode: str) -> Tensor:
        """What the model makes of the features: [batch, width]; a subclass defines it."""
        raise errors.UnimplementedError(f"{type(self).__name__}: _outputs(features, mode) is missing; define it")

    def _model(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        outputs = self._outputs(features, mode)

        def train(loss: Tensor) -> Any:
            return _optimizer(self._chosen, self._learning_rate).minimize(loss, global_step=get_global_step())
        if self._classes is None:
            return _regression(mode, outputs, labels, train, self._total)
        return _classification(mode, outputs, labels, train, self._classes, self._total)


class _Linear(_Canned):
    def _outputs(self, features: Mapping[str, Any], mode: str) -> Tensor:
        with variable_scope("linear"):
            return layers.dense(input_layer(features, self._columns), self._width, kernel_initializer=Zeros(),
                                name="linear_model")


class _Deep(_Canned):
    def __init__(self, hidden_units: Sequence[int], activation_fn: Any, dropout: float | None, *rest: Any) -> None:
        self._units, self._activation, self._dropout = list(hidden_units), activation_fn, dropout
        super().__init__(*rest)

    def _outputs(self, features: Mapping[str, Any], mode: str) -> Tensor:
        with variable_scope("dnn"):
            x = input_layer(features, self._columns)
            for number, units in enumerate(self._units):
                x = layers.dense(x, units, self._activation, kernel_initializer=glorot_uniform_initializer(),
                                 name=f"hiddenlayer_{number}")
                if self._dropout is not None and mode == ModeKeys.TRAIN:
                    x = layers.dropout(x, self._dropout, training=True)
            return layers.dense(x, self._width, kernel_initializer=glorot_uniform_initializer(), name="logits")


def _linear_rate(columns: Sequence[Any]) -> float:
    return min(0.2, 1.0 / math.sqrt(max(len(columns), 1)))


class LinearClassifier(_Linear):
    """Logistic regression (softmax for more than two classes); labels are class numbers [batch] or [batch, 1].

    Predictions: "logits", "probabilities", "class_ids", "classes". The loss is the sum over a batch.
    """

    def __init__(self, feature_columns: Sequence[NumericColumn], model_dir: Any = None, n_classes: int = 2,
                 optimizer: Any = "Ftrl", config: RunConfig | None = None) -> None:
        super().__init__(feature_columns, n_classes, optimizer, _linear_rate(feature_columns), model_dir, config)


class LinearRegressor(_Linear):
    """Linear regression of one number; labels are [batch] or [batch, 1], predictions {"predictions": [batch, 1]}."""

    def __init__(self, feature_columns: Sequence[NumericColumn], model_dir: Any = None, optimizer: Any = "Ftrl",
                 config: RunConfig | None = None) -> None:
        super().__init__(feature_columns, None, optimizer, _linear_rate(feature_columns), model_dir, config)


class DNNClassifier(_Deep):
    """A classifier with fully connected layers of `hidden_units`; otherwise like LinearClassifier."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[NumericColumn], model_dir: Any = None,
                 n_classes: int = 2, optimizer: Any = "Adagrad", activation_fn: Any = ops.relu,
                 dropout: float | None = None, config: RunConfig | None = None) -> None:
        super().__init__(hidden_units, activation_fn, dropout, feature_columns, n_classes, optimizer, 0.05, model_dir, config)


class DNNRegressor(_Deep):
    """A regressor with fully connected layers of `hidden_units`; otherwise like LinearRegressor."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[NumericColumn], model_dir: Any = None,
                 optimizer: Any = "Adagrad", activation_fn: Any = ops.relu, dropout: float | None = None,
                 config: RunConfig | None = None) -> None:
        super().__init__(hidden_units, activation_fn, dropout, feature_columns, None, optimizer, 0.05, model_dir, config)
