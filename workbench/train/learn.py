"""Estimators by the names of tf.contrib.learn: arrays go straight into fit, evaluate and predict."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.arguments import refuse
from workbench.train import canned
from workbench.train import estimator as modern
from workbench.train.estimator import EstimatorSpec, ModeKeys, RunConfig
from workbench.train.feature_columns import numeric_column
from workbench.train.feature_kinds import NumericColumn

__all__ = ["DNNClassifier", "DNNRegressor", "Estimator", "LinearClassifier", "LinearRegressor", "MetricSpec", "ModeKeys",
           "ModelFnOps", "RunConfig", "infer_real_valued_columns_from_input", "real_valued_column"]


class ModelFnOps(NamedTuple):
    """What a model function returns: as EstimatorSpec, with the older names."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Mapping[str, Any] | None = None
    output_alternatives: Any = None
    training_chief_hooks: Sequence[Any] | None = None
    training_hooks: Sequence[Any] | None = None
    scaffold: Any = None


class MetricSpec:
    """A metric for evaluate(): `metric_fn(predictions, labels[, weights])` over the named predictions and labels."""

    def __init__(self, metric_fn: Callable[..., Any], prediction_key: str | None = None, label_key: str | None = None,
                 weight_key: str | None = None) -> None:
        self.metric_fn, self.prediction_key, self.label_key, self.weight_key = (
            metric_fn, prediction_key, label_key, weight_key)

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """(value, update) of the metric; InvalidArgumentError for a key that is not there."""
        chosen = [self._part("prediction", predictions, self.prediction_key), self._part("label", labels, self.label_key)]
        weights = {} if self.weight_key is None else {"weights": self._part("weight", inputs, self.weight_key)}
        return self.metric_fn(*chosen, **weights)

    def _part(self, what: str, values: Any, key: str | None) -> Any:
        if not isinstance(values, Mapping):
            return values
        if key is None and len(values) == 1:
            return next(iter(values.values()))
        if key not in values:
            raise errors.InvalidArgumentError(f"MetricSpec: {what}_key is {key!r} but there are "
                                              f"{', '.join(map(repr, values))}; name one of them")
        return values[key]


def real_valued_column(column_name: str, dimension: int = 1, default_value: Any = None, dtype: Any = "float32",
                       normalizer: Callable[[Tensor], Tensor] | None = None) -> NumericColumn:
    """The feature `column_name` as `dimension` numbers an example."""
    return numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def infer_real_valued_columns_from_input(x: Any) -> list[NumericColumn]:
    """Columns for an array [n, d] or [n], or for each entry of a dictionary of such."""
    if isinstance(x, Mapping):
        return [column for key in sorted(x) for column in _inferred(key, x[key])]
    return _inferred("", x)


def _inferred(key: str, x: Any) -> list[NumericColumn]:
    array = np.asarray(x)
    return [real_valued_column(key, int(np.prod(array.shape[1:])), dtype=array.dtype)]


def _input_fn(x: Any, y: Any, input_fn: Any, batch_size: int | None, epochs: int | None, shuffle: bool) -> Any:
    if (x is None) == (input_fn is None):
        raise errors.InvalidArgumentError("estimator: give either x (and y) or input_fn")
    if input_fn is not None:
        return input_fn
    x = {k: np.asarray(v) for k, v in x.items()} if isinstance(x, Mapping) else np.asarray(x)
    rows = len(next(iter(x.values())) if isinstance(x, Mapping) else x)
    return modern.numpy_input_fn(x, None if y is None else np.asarray(y), batch_size or rows, epochs, shuffle, rows)


class _Learner(modern.Estimator):
    """fit, evaluate and predict over arrays."""

    def fit(self, x: Any = None, y: Any = None, input_fn: Any = None, steps: int | None = None,
            batch_size: int | None = None, monitors: Any = None, max_steps: int | None = None) -> Any:
        """Go on for `steps` batches of `batch_size` examples (default: all) in random order, or until `max_steps` in all.

        `monitors` are hooks, and monitors of tf.contrib.learn. InvalidArgumentError without a number of steps for arrays,
        which never end.
        """
        if input_fn is None and steps is None and max_steps is None:
            raise errors.InvalidArgumentError("fit: arrays are read again and again; give steps or max_steps")
        for monitor in monitors or ():
            if hasattr(monitor, "set_estimator"):
                monitor.set_estimator(self)
        self.train(_input_fn(x, y, input_fn, batch_size, None, True), monitors, steps, max_steps)
        return self

    partial_fit = fit

    def evaluate(self, x: Any = None, y: Any = None, input_fn: Any = None, batch_size: int | None = None,      # type: ignore[override]
                 steps: int | None = None, metrics: Any = None, name: str | None = None,
                 checkpoint_path: Any = None, hooks: Any = None) -> dict[str, Any]:
        """Mean loss, metrics (also those of `metrics`, name -> MetricSpec or function) and global step."""
        self._metrics = metrics
        return super().evaluate(_input_fn(x, y, input_fn, batch_size, 1, False), steps, hooks, checkpoint_path, name)

    def _spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = super()._spec(features, labels, mode)
        if mode != ModeKeys.EVAL or not self._metrics:
            return spec
        more = {}
        for key, metric in self._metrics.items():
            found = metric if isinstance(metric, MetricSpec) else MetricSpec(metric)
            more[key] = found.create_metric_ops(features, labels, self._measured(spec.predictions))
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **more})

    _metrics: Any = None

    def _measured(self, predictions: Any) -> Any:
        return predictions

    def _outcome(self, x: Any, input_fn: Any, batch_size: int | None, key: str | None, iterable: bool,
                 outputs: Any = None) -> Any:
        found = super().predict(_input_fn(x, None, input_fn, batch_size, 1, False), outputs)
        rows = (row[key] if key is not None else row for row in found)
        rows = (row[0] if key in ("class_ids", "predictions") else row for row in rows)
        return rows if iterable else _together(list(rows))


def _together(rows: list[Any]) -> Any:
    if rows and isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows) if rows else np.zeros(0)


class Estimator(_Learner):
    """Trains and uses `model_fn(features, targets[, mode[, params]])`, which returns ModelFnOps or (predictions, loss,
    train_op)."""

    def __init__(self, model_fn: Callable[..., Any], model_dir: Any = None, config: RunConfig | None = None,
                 params: Mapping[str, Any] | None = None) -> None:
        count = len(inspect.signature(model_fn).parameters)
        if not 2 <= count <= 4:
            raise errors.InvalidArgumentError(f"Estimator: model_fn takes {count} arguments; it may take features, targets, "
                                              "mode and params")

        def model(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
            made = model_fn(*(features, labels, mode, params)[:count])
            if isinstance(made, ModelFnOps):
                return EstimatorSpec(mode, *made[1:5], training_chief_hooks=made.training_chief_hooks or (),
                                     training_hooks=made.training_hooks or (), scaffold=made.scaffold)
            predictions, loss, train_op = made
            return EstimatorSpec(mode, predictions, loss, train_op)
        super().__init__(model, model_dir, config, params)

    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,      # type: ignore[override]
                as_iterable: bool = True) -> Any:
        """The predictions for each example, one after the other, or as arrays; `outputs` names the wanted entries."""
        return self._outcome(x, input_fn, batch_size, None, as_iterable, outputs)


class _Ready(_Learner, canned._Canned):
    """A canned model over columns; features may be one array. The loss is the mean over a batch."""

    _total = staticmethod(ops.reduce_mean)

    def _model(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return super()._model(features if isinstance(features, Mapping) else {"": features}, labels, mode)


class _Classifier(_Ready):
    def _measured(self, predictions: Any) -> Any:
        return {"classes": ops.squeeze(predictions["class_ids"], axis=[1]), "probabilities": predictions["probabilities"],
                "logistic": predictions.get("logistic")}

    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,      # type: ignore[override]
                as_iterable: bool = True) -> Any:
        """The class number of each example, one after the other, or as an array."""
        refuse(f"{type(self).__name__}.predict", "it gives one number an example", outputs=outputs)
        return self._outcome(x, input_fn, batch_size, "class_ids", as_iterable)

    predict_classes = predict

    def predict_proba(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None,
                      as_iterable: bool = True) -> Iterator[Any]:
        """The probability of each class for each example, one after the other, or as an array."""
        return self._outcome(x, input_fn, batch_size, "probabilities", as_iterable)


class _Regressor(_Ready):
    def _measured(self, predictions: Any) -> Any:
        return {"scores": ops.squeeze(predictions["predictions"], axis=[1])}

    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,      # type: ignore[override]
                as_iterable: bool = True) -> Any:
        """The number for each example, one after the other, or as an array."""
        refuse(f"{type(self).__name__}.predict", "it gives one number an example", outputs=outputs)
        return self._outcome(x, input_fn, batch_size, "predictions", as_iterable)

    predict_scores = predict


class DNNClassifier(_Classifier, canned._Deep):
    """A classifier with fully connected layers of `hidden_units`."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None,
                 n_classes: int = 2, optimizer: Any = "Adagrad", activation_fn: Any = ops.relu,
                 dropout: float | None = None, config: RunConfig | None = None) -> None:
        canned._Deep.__init__(self, hidden_units, activation_fn, dropout, feature_columns, n_classes, optimizer, 0.05,
                              model_dir, config)


class DNNRegressor(_Regressor, canned._Deep):
    """A regressor with fully connected layers of `hidden_units`."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None,
                 optimizer: Any = "Adagrad", activation_fn: Any = ops.relu, dropout: float | None = None,
                 config: RunConfig | None = None) -> None:
        canned._Deep.__init__(self, hidden_units, activation_fn, dropout, feature_columns, None, optimizer, 0.05, model_dir,
                              config)


class LinearClassifier(_Classifier, canned._Linear):
    """Logistic regression, or softmax for more than two classes."""

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, n_classes: int = 2,
                 optimizer: Any = "Ftrl", config: RunConfig | None = None) -> None:
        canned._Canned.__init__(self, feature_columns, n_classes, optimizer, canned._linear_rate(feature_columns), model_dir,
                                config)


class LinearRegressor(_Regressor, canned._Linear):
    """Linear regression of one number."""

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, optimizer: Any = "Ftrl",
                 config: RunConfig | None = None) -> None:
        canned._Canned.__init__(self, feature_columns, None, optimizer, canned._linear_rate(feature_columns), model_dir,
                                config)
