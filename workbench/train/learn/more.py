"""More of tf.contrib.learn: estimators as scikit-learn's, data of pandas, small models."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn import losses, metrics
from workbench.nn.scopes import get_variable, variable_scope
from workbench.train.estimators.feature_kinds import NumericColumn
from workbench.train.estimators.run_config import TaskType
from workbench.train.learn.estimator import (
    BaseEstimator,
    Estimator,
    ModeKeys,
    ModelFnOps,
    ProblemType,
    infer_real_valued_columns_from_input,
)
from workbench.train.learn.heads import MetricKey

OPS = ("categorical_variable", "embedding_lookup", "mean_squared_error_regressor", "one_hot_matrix", "softmax_classifier")
"""What `learn.ops` has."""
__all__ = ["LogisticRegressor", "NotFittedError", "SKCompat", "TaskType", "extract_dask_data", "extract_dask_labels",
           "extract_pandas_data", "extract_pandas_labels", "extract_pandas_matrix", "infer_real_valued_columns_from_input_fn",
           "linear_regression", "linear_regression_zero_init", "logistic_regression", "logistic_regression_zero_init", *OPS]


class NotFittedError(ValueError, AttributeError):
    """An estimator was asked before it was trained."""


class SKCompat:
    """An estimator of tf.contrib.learn with scikit-learn's methods over arrays: fit(x, y), predict(x), score(x, y)."""

    def __init__(self, estimator: Any) -> None:
        if not isinstance(estimator, BaseEstimator):
            raise errors.InvalidArgumentError(f"SKCompat: the estimator is a {type(estimator).__name__}; pass one of "
                                              "tf.contrib.learn")
        self._estimator = estimator

    def fit(self, x: Any, y: Any, batch_size: int = 128, steps: int | None = None, max_steps: int | None = None,
            monitors: Any = None) -> SKCompat:
        """Train on arrays; itself."""
        self._estimator.fit(x, y, None, steps, batch_size, monitors, max_steps)
        return self

    def score(self, x: Any, y: Any, batch_size: int = 128, steps: int | None = None, metrics: Any = None) -> dict[str, Any]:
        """The metrics over arrays."""
        return self._estimator.evaluate(x, y, batch_size=batch_size, steps=steps, metrics=metrics, name="score")

    def predict(self, x: Any, batch_size: int = 128, outputs: Any = None) -> Any:
        """The predictions for arrays, as arrays."""
        return self._estimator.predict(x, None, batch_size, outputs, False)


# data of pandas

_NUMBERS = "biuf"


def _numeric(frame: Any, what: str) -> None:
    bad = [f"{name} is {kind}" for name, kind in zip(frame.columns, frame.dtypes) if kind.kind not in _NUMBERS]
    if bad:
        raise ValueError(f"Data types for extracting pandas {what} must be int, float, or bool. Found: {', '.join(bad)}")


def extract_pandas_data(data: Any) -> Any:
    """The numbers of a DataFrame as float64 [rows, columns]; anything else as it is. ValueError for columns of other types."""
    if not hasattr(data, "columns"):
        return data
    _numeric(data, "data")
    return np.asarray(data, np.float64)


def extract_pandas_matrix(data: Any) -> Any:
    """The values of a DataFrame; anything else as it is."""
    return np.asarray(data) if hasattr(data, "columns") else data


def extract_pandas_labels(labels: Any) -> Any:
    """The values of a Series, or of the one column of a DataFrame; anything else as it is. ValueError for more columns."""
    if hasattr(labels, "columns"):
        if len(labels.columns) > 1:
            raise ValueError("Only one column for labels is allowed.")
        _numeric(labels, "labels")
        return np.asarray(labels)
    return np.asarray(labels) if hasattr(labels, "iloc") else labels


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[NumericColumn]:
    """Columns for the features that an input function builds: a tensor [n, d], or tensors by name."""
    with get_default_graph().fresh().as_default():
        features = input_fn()
        return infer_real_valued_columns_from_input(features[0] if isinstance(features, tuple) else features)


def _gathered(data: Any) -> Any:
    return data.compute() if hasattr(data, "dask") and hasattr(data, "npartitions") else None


def extract_dask_data(data: Any) -> Any:
    """The rows of a dask frame or series, brought together as an array; anything else as it is."""
    rows = _gathered(data)
    return data if rows is None else np.asarray(rows)


def extract_dask_labels(labels: Any) -> Any:
    """As extract_dask_data, of one column. ValueError for more."""
    rows = _gathered(labels)
    if rows is None:
        return labels
    if hasattr(rows, "columns") and len(rows.columns) > 1:
        raise ValueError(f"extract_dask_labels: Only one column for labels is allowed. There are {len(rows.columns)}")
    return np.asarray(rows)


# small models

def LogisticRegressor(model_fn: Callable[..., Any], thresholds: Any = None, model_dir: Any = None, config: Any = None,
                      feature_engineering_fn: Any = None) -> Estimator:
    """An estimator of `model_fn(features, labels, mode)` -> (probabilities, loss, train_op), with metrics of classification:
    areas, and accuracy, precision and recall at `thresholds` (default: 0.5)."""
    def model(features: Any, labels: Any, mode: str) -> ModelFnOps:
        predictions, loss, step = model_fn(features, labels, mode)
        found = _judged(predictions, labels, thresholds or [0.5]) if mode == ModeKeys.EVAL else None
        return ModelFnOps(mode, predictions, loss, step, found, {"head": (
            ProblemType.LOGISTIC_REGRESSION, {"predictions": predictions})})
    return Estimator(model, model_dir, config, None, feature_engineering_fn)


def _judged(predictions: Tensor, labels: Any, thresholds: Any) -> dict[str, Any]:
    target = convert(next(iter(labels.values())) if isinstance(labels, dict) else labels)
    average = metrics.mean(target)
    found = {MetricKey.PREDICTION_MEAN: metrics.mean(predictions), MetricKey.LABEL_MEAN: average,
             MetricKey.ACCURACY_BASELINE: average, MetricKey.AUC: metrics.auc(target, predictions)}
    for at in thresholds:
        over = ops.cast(ops.greater_equal(predictions, at), "float32")
        found[MetricKey.ACCURACY_MEAN % at] = metrics.accuracy(ops.cast(target, "float32"), over)
        found[MetricKey.PRECISION_MEAN % at] = metrics.precision(target, over)
        found[MetricKey.RECALL_MEAN % at] = metrics.recall(target, over)
    return found


def _affine(x: Tensor, width: Any, mean: float | None, spread: float) -> list[Tensor]:
    """Weights and biases that make `width` numbers of those of x."""
    start = None if mean is None else (lambda shape, dtype=None, **_: ops.random_normal(shape, mean, spread, dtype=dtype))
    weights = get_variable("weights", [x.shape.as_list()[1], width], x.dtype, start)
    bias = get_variable("bias", [width], x.dtype, start)
    return [weights.value(), bias.value()]


def linear_regression(x: Any, y: Any, init_mean: float | None = None, init_stddev: float = 1.0) -> list[Tensor]:
    """[predictions, mean squared error] of a linear model of x [n, d] for y [n] or [n, k]. Weights begin as normal numbers
    around `init_mean`, or by the scope's initializer."""
    with variable_scope("linear_regression"):
        features, targets = convert(x), convert(y)
        width = 1 if targets.shape.rank == 1 else targets.shape.as_list()[1]
        weights, bias = _affine(features, width, init_mean, init_stddev)
        return list(mean_squared_error_regressor(features, targets, weights, bias))


def logistic_regression(x: Any, y: Any, class_weight: Any = None, init_mean: float | None = None,
                        init_stddev: float = 1.0) -> list[Tensor]:
    """[probabilities, mean cross entropy] of a softmax of x [n, d] for one-hot y [n, classes]; an example counts as much as
    `class_weight` [classes] says of its class."""
    with variable_scope("logistic_regression"):
        features, targets = convert(x), convert(y)
        weights, bias = _affine(features, targets.shape.as_list()[1], init_mean, init_stddev)
        return list(softmax_classifier(features, targets, weights, bias, class_weight))


def linear_regression_zero_init(x: Any, y: Any) -> list[Tensor]:
    """linear_regression whose weights begin as 0."""
    return linear_regression(x, y, 0.0, 0.0)


def logistic_regression_zero_init(x: Any, y: Any) -> list[Tensor]:
    """logistic_regression whose weights begin as 0."""
    return logistic_regression(x, y, None, 0.0, 0.0)


# their parts

def mean_squared_error_regressor(tensor_in: Any, labels: Any, weights: Any, biases: Any,
                                 name: str | None = None) -> tuple[Tensor, Tensor]:
    """(predictions, mean squared error) of x·weights + biases for labels [n] or [n, k]."""
    with get_default_graph().name_scope(name or "mean_squared_error_regressor"):
        found, targets = ops.matmul(convert(tensor_in), convert(weights)) + biases, convert(labels)
        found = ops.squeeze(found, axis=[1]) if targets.shape.rank == 1 and found.shape.rank == 2 else found
        return found, losses.mean_squared_error(targets, found)


def softmax_classifier(tensor_in: Any, labels: Any, weights: Any, biases: Any, class_weight: Any = None,
                       name: str | None = None) -> tuple[Tensor, Tensor]:
    """(probabilities, mean cross entropy) of a softmax of x·weights + biases for one-hot labels [n, classes]; an example
    counts as much as `class_weight` [classes] says of its class."""
    with get_default_graph().name_scope(name or "softmax_classifier"):
        logits = ops.matmul(convert(tensor_in), convert(weights)) + biases
        targets = ops.cast(convert(labels), logits.dtype)
        each: Any = 1.0 if class_weight is None else ops.reduce_sum(targets * convert(class_weight, logits.dtype), axis=1)
        return ops.softmax(logits), losses.softmax_cross_entropy(targets, logits, each)


def embedding_lookup(params: Any, ids: Any, name: str | None = "embedding_lookup") -> Tensor:
    """The rows of `params` [n, …] for identifiers of any shape."""
    return ops.gather(convert(params), convert(ids), name=name)


def categorical_variable(tensor_in: Any, n_classes: int, embedding_size: int, name: str) -> Tensor:
    """A vector for each class number, of a variable [n_classes, embedding_size] in the scope `name`."""
    with variable_scope(name):
        return embedding_lookup(get_variable(f"{name}_embeddings", [n_classes, embedding_size]).value(), tensor_in)


def one_hot_matrix(tensor_in: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0) -> Tensor:
    """one_hot of int classes, float32 [..., num_classes]."""
    return ops.one_hot(ops.cast(convert(tensor_in), "int64"), num_classes, on_value, off_value, dtype="float32")
