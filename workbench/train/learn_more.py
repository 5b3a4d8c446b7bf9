"""More of tf.contrib.learn: wide and deep models over arrays, estimators as scikit-learn's, data of pandas, small models."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.nn import losses
from workbench.nn.scopes import get_variable, variable_scope
from workbench.train import canned
from workbench.train.estimator import RunConfig
from workbench.train.feature_kinds import NumericColumn
from workbench.train.learn import _Classifier, _Learner, _Regressor, real_valued_column

__all__ = ["DNNLinearCombinedClassifier", "DNNLinearCombinedRegressor", "NotFittedError", "PredictionKey", "ProblemType",
           "SKCompat", "TaskType", "extract_pandas_data", "extract_pandas_labels", "extract_pandas_matrix",
           "infer_real_valued_columns_from_input_fn", "linear_regression", "logistic_regression", "one_hot_matrix"]


class NotFittedError(ValueError, AttributeError):
    """An estimator was asked before it was trained."""


class TaskType:
    """What a task of a cluster is for."""

    MASTER, PS, WORKER = "master", "ps", "worker"


class ProblemType:
    """What kind of answer a model gives."""

    UNSPECIFIED, CLASSIFICATION, LINEAR_REGRESSION, LOGISTIC_REGRESSION = 0, 1, 2, 3


class PredictionKey:
    """Names of predictions."""

    CLASSES, PROBABILITIES, LOGITS, LOGISTIC, SCORES = "classes", "probabilities", "logits", "logistic", "scores"
    TOP_K, GENERIC = "top_k", "output"


class DNNLinearCombinedClassifier(_Classifier, canned._Both):
    """A classifier whose outputs are those of a linear model plus those of a network."""

    def __init__(self, model_dir: Any = None, n_classes: int = 2, linear_feature_columns: Any = None,
                 linear_optimizer: Any = None, dnn_feature_columns: Any = None, dnn_optimizer: Any = None,
                 dnn_hidden_units: Any = None, dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None,
                 config: RunConfig | None = None, fix_global_step_increment_bug: bool = False) -> None:
        del fix_global_step_increment_bug      # each step counts once, whichever is asked for
        canned._Both.__init__(self, (linear_feature_columns, linear_optimizer or "Ftrl"), (
            dnn_feature_columns, dnn_optimizer or "Adagrad", dnn_hidden_units, dnn_activation_fn, dnn_dropout), n_classes,
            model_dir, config)


class DNNLinearCombinedRegressor(_Regressor, canned._Both):
    """A regressor whose outputs are those of a linear model plus those of a network."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = None,
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = None, dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None, config: RunConfig | None = None,
                 fix_global_step_increment_bug: bool = False) -> None:
        del fix_global_step_increment_bug      # each step counts once, whichever is asked for
        canned._Both.__init__(self, (linear_feature_columns, linear_optimizer or "Ftrl"), (
            dnn_feature_columns, dnn_optimizer or "Adagrad", dnn_hidden_units, dnn_activation_fn, dnn_dropout), None,
            model_dir, config)


class SKCompat:
    """An estimator of tf.contrib.learn with scikit-learn's methods over arrays: fit(x, y), predict(x), score(x, y)."""

    def __init__(self, estimator: Any) -> None:
        if not isinstance(estimator, _Learner):
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
        return self._estimator.evaluate(x, y, None, batch_size, steps, metrics, "score")

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
    with Graph().as_default():
        features = input_fn()
        features = features[0] if isinstance(features, tuple) else features
        named = features if isinstance(features, dict) else {"": features}
        return [real_valued_column(key, int(np.prod(named[key].shape.as_list()[1:])), dtype=named[key].dtype)
                for key in sorted(named)]


# small models

def _affine(x: Tensor, width: Any, mean: float | None, spread: float) -> Tensor:
    start = None if mean is None else (lambda shape, dtype=None, **_: ops.random_normal(shape, mean, spread))
    weights = get_variable("weights", [x.shape.as_list()[1], width], initializer=start)
    bias = get_variable("bias", [width], initializer=start)
    return ops.matmul(x, weights.value()) + bias.value()


def linear_regression(x: Any, y: Any, init_mean: float | None = None, init_stddev: float = 1.0) -> list[Tensor]:
    """[predictions, mean squared error] of a linear model of x [n, d] for y [n] or [n, k]. Weights begin as normal numbers
    around `init_mean`, or by the scope's initializer."""
    with variable_scope("linear_regression"):
        features, targets = convert(x), convert(y)
        width = 1 if targets.shape.rank == 1 else targets.shape.as_list()[1]
        found = _affine(features, width, init_mean, init_stddev)
        found = ops.squeeze(found, axis=[1]) if targets.shape.rank == 1 else found
        return [found, losses.mean_squared_error(targets, found)]


def logistic_regression(x: Any, y: Any, class_weight: Any = None, init_mean: float | None = None,
                        init_stddev: float = 1.0) -> list[Tensor]:
    """[probabilities, mean cross entropy] of a softmax of x [n, d] for one-hot y [n, classes]; an example counts as much as
    `class_weight` [classes] says of its class."""
    with variable_scope("logistic_regression"):
        features, targets = convert(x), ops.cast(convert(y), "float32")
        logits = _affine(features, targets.shape.as_list()[1], init_mean, init_stddev)
        weights: Any = 1.0 if class_weight is None else ops.reduce_sum(targets * convert(class_weight, "float32"), axis=1)
        return [ops.softmax(logits), losses.softmax_cross_entropy(targets, logits, weights)]


def one_hot_matrix(tensor_in: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0) -> Tensor:
    """one_hot of int classes, float32 [..., num_classes]."""
    return ops.one_hot(ops.cast(convert(tensor_in), "int64"), num_classes, on_value, off_value, dtype="float32")
