"""tf.contrib.estimator: estimators over heads of one's own, several heads at once, more metrics, features that pass through."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.sparse import SparseTensor
from workbench.nn.variables import group
from workbench.train.estimators.canned import Deep
from workbench.train.estimators.estimator import Estimator, arguments
from workbench.train.estimators.estimator_spec import EstimatorSpec, ModeKeys
from workbench.train.estimators.heads import Head
from workbench.train.estimators.signatures import DEFAULT_KEY, PredictOutput
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.optimizers.schedules import clip_by_global_norm

__all__ = ["DNNEstimator", "add_metrics", "clip_gradients_by_norm", "forward_features", "multi_head"]


class DNNEstimator(Deep):
    """Fully connected layers of `hidden_units` below any head."""

    def __init__(self, head: Head, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None,
                 optimizer: Any = "Adagrad", activation_fn: Any = ops.relu, dropout: float | None = None,
                 input_layer_partitioner: Any = None, config: Any = None) -> None:
        super().__init__(hidden_units, activation_fn, dropout, feature_columns, head, optimizer, input_layer_partitioner,
                         model_dir, config)


# several heads

class _MultiHead(Head):
    """Heads side by side: logits and labels are dictionaries by their names."""

    def __init__(self, heads: Sequence[Head], weights: Sequence[float] | None) -> None:
        super().__init__(None, "_".join(str(head.name) for head in heads))
        self._heads, self._shares = list(heads), weights

    @property
    def logits_dimension(self) -> int:
        return sum(head.logits_dimension for head in self._heads)

    def create_estimator_spec(self, features: Any, mode: str, logits: Any, labels: Any = None,
                              train_op_fn: Callable[[Tensor], Any] | None = None) -> EstimatorSpec:
        for name, given in (("logits", logits), *((("labels", labels),) if labels is not None else ())):
            if not isinstance(given, dict):
                raise errors.InvalidArgumentError(f"multi_head: {name} must be a dict. Given: {given}; its keys are the names "
                                                  "of the heads")
        specs = {str(head.name): head.create_estimator_spec(
            features, mode, logits[head.name], None if labels is None else labels[head.name],
            lambda loss: group(name="no_op_train")) for head in self._heads}
        predictions = {(name, key): value for name, spec in specs.items() for key, value in spec.predictions.items()}
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions, export_outputs=_all_served(specs))
        shares = self._shares or [1.0] * len(specs)
        loss = ops.add_n([share * spec.loss for share, spec in zip(shares, specs.values())])
        measured = {key: metric for spec in specs.values() for key, metric in spec.eval_metric_ops.items()}
        if mode == ModeKeys.EVAL:
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops=measured)
        if train_op_fn is None:
            raise errors.InvalidArgumentError("multi_head: train_op_fn can not be None in TRAIN mode.; give a "
                                              "function of the loss")
        return EstimatorSpec(mode, loss=loss, train_op=train_op_fn(loss), eval_metric_ops=measured)


def _all_served(specs: Mapping[str, EstimatorSpec]) -> dict[str, Any]:
    """Every output of every head under "output/head", the first head's default as the default, all predictions as "predict"."""
    served = {(f"{key}/{name}" if key else name): value for name, spec in specs.items()
              for key, value in spec.export_outputs.items()}
    first = next(iter(specs.values())).export_outputs
    every = {f"{name}/{key}": value for name, spec in specs.items() for key, value in spec.predictions.items()}
    return {DEFAULT_KEY: first.get(DEFAULT_KEY) or next(iter(first.values())), **served, "predict": PredictOutput(every)}


def multi_head(heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> Head:
    """One head of several, whose losses are added, each times its weight. InvalidArgumentErrors for none, for heads without
    a name or with the same, and for another number of weights."""
    if not heads:
        raise errors.InvalidArgumentError("multi_head: Must specify heads. Given: []; give one or more")
    names = [head.name for head in heads]
    if None in names:
        raise errors.InvalidArgumentError(f"multi_head: All given heads must have name specified. Given: {names}; give "
                                          "each name=")
    if len(set(names)) < len(names):
        raise errors.InvalidArgumentError(f"multi_head: All heads must have unique names. Given: {names}; rename one")
    if head_weights and len(head_weights) != len(heads):
        raise errors.InvalidArgumentError("multi_head: heads and head_weights must have the same size. Given len(heads): "
                                          f"{len(heads)}. Given len(head_weights): {len(head_weights)}.; give one for each")
    return _MultiHead(heads, head_weights)


# what is put around an estimator

def _around(estimator: Estimator, change: Callable[[EstimatorSpec, Any, Any, str], EstimatorSpec]) -> Estimator:
    """An estimator in the same folder whose specs are changed."""
    def model(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        known = {"labels": labels, "mode": mode, "params": estimator.params, "config": config}
        made = estimator.model_fn(features, **{
            key: value for key, value in known.items() if key in arguments(estimator.model_fn)})
        return change(made, features, labels, mode)
    return Estimator(model, estimator.model_dir, estimator.config)


def add_metrics(estimator: Estimator, metric_fn: Callable[..., Mapping[str, Any]]) -> Estimator:
    """An estimator that measures more: `metric_fn` takes any of features, labels, predictions and config, and gives
    {name: (value, update)}; its names come before those of the estimator. InvalidArgumentError for other arguments."""
    asked = arguments(metric_fn)
    if unknown := asked - {"features", "labels", "predictions", "config"}:
        raise errors.InvalidArgumentError(f"add_metrics: metric_fn ({metric_fn}) has following not expected args: "
                                          f"{sorted(unknown)}; it may take features, labels, predictions and config")

    def change(spec: EstimatorSpec, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if mode != ModeKeys.EVAL:
            return spec
        known = {"features": features, "labels": labels, "predictions": spec.predictions, "config": estimator.config}
        more = metric_fn(**{key: known[key] for key in asked})
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **more})
    return _around(estimator, change)


def forward_features(estimator: Estimator, keys: Any = None) -> Estimator:
    """An estimator that gives features (all, or those of `keys`) back with its predictions.

    TypeError for keys that are no text; InvalidArgumentErrors for predictions that are no dictionary, unknown and taken
    keys, and for sparse features.
    """
    wanted = [keys] if isinstance(keys, str) else keys
    if wanted is not None and not (isinstance(wanted, (list, tuple)) and all(isinstance(key, str) for key in wanted)):
        raise TypeError(f"keys should be either a string or a list of strings. Given: {keys}")

    def change(spec: EstimatorSpec, features: Any, _labels: Any, _mode: str) -> EstimatorSpec:
        if not isinstance(spec.predictions, dict):
            raise errors.InvalidArgumentError("forward_features: Predictions should be a dict to be able to forward features. "
                                              f"Given: {type(spec.predictions)}")
        passed = {}
        for key in features if wanted is None else wanted:
            if key not in features:
                raise errors.InvalidArgumentError(f"forward_features: keys should be exist in features. Key \"{key}\" is not "
                                                  f"in features dict, which has {sorted(features)}")
            if key in spec.predictions:
                raise errors.InvalidArgumentError(f"forward_features: Cannot forward feature key ({key}). Since it does exist "
                                                  "in predictions.; name others in keys")
            if isinstance(features[key], SparseTensor):
                raise errors.InvalidArgumentError(f"forward_features: Forwarded feature ({key}) should be a Tensor. Please use "
                                                  "keys argument of forward_features to filter unwanted features.")
            passed[key] = features[key]
        return spec._replace(predictions={**spec.predictions, **passed})
    return _around(estimator, change)


class _Clipping(Optimizer):
    """Another optimizer, over gradients that are cut to a norm together."""

    def __init__(self, inner: Optimizer, norm: Any) -> None:
        super().__init__(False, f"ClipByNorm{inner.get_name()}")
        self._inner, self._norm = inner, norm

    def compute_gradients(self, *args: Any, **options: Any) -> Any:
        """The gradients of the other optimizer."""
        return self._inner.compute_gradients(*args, **options)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Operation:
        """The step of the other optimizer over what is cut."""
        gradients, variables = zip(*grads_and_vars)
        cut, _ = clip_by_global_norm(list(gradients), self._norm)
        return self._inner.apply_gradients(list(zip(cut, variables)), global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """A slot of the other optimizer."""
        return self._inner.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """The slots of the other optimizer."""
        return self._inner.get_slot_names()


def clip_gradients_by_norm(optimizer: Optimizer, clip_norm: Any) -> Optimizer:
    """An optimizer that takes the steps of another over gradients whose norm, all together, is `clip_norm` at most."""
    return _Clipping(optimizer, clip_norm)
