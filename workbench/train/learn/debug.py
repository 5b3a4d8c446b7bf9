"""Estimators that look at labels alone: what a model has to be better than, by the names of tf.contrib.learn."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.checks import assert_equal
from workbench.nn.sparse import SparseTensor
from workbench.train.learn.estimator import Estimator, ModelFnOps, PredictionKey
from workbench.train.learn.heads_made import multi_class_head, regression_head
from workbench.train.optimize import optimize_loss

__all__ = ["DebugClassifier", "DebugRegressor", "debug_model_fn"]

_RATE = 0.3


def debug_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: Any = None) -> ModelFnOps:
    """Outputs of zeros [batch, width] under the head `params["head"]`, whose bias is all that learns.

    The features, a tensor or a dictionary of such, only say how many examples there are. InvalidArgumentErrors (ValueErrors)
    for none while building, and in the step for features of different numbers of examples.
    """
    named = dict(features) if isinstance(features, Mapping) else {"": features}
    if not named:
        raise errors.InvalidArgumentError("debug_model_fn: features cannot be empty; give one at least, whose first dimension "
                                          "is the batch")
    first, *others = (_count(feature) for feature in named.values())
    with get_default_graph().control_dependencies([assert_equal(first, count) for count in others]):
        logits = ops.zeros([first, params["head"].logits_dimension])
    return params["head"].create_model_fn_ops(named, mode, labels, _minimized, logits)


def _count(feature: Any) -> Tensor:
    """How many examples there are, int32."""
    found: Tensor = ops.cast(feature.dense_shape[0], "int32") if isinstance(feature, SparseTensor) else ops.shape(feature)[0]
    return found


def _minimized(loss: Tensor) -> Any:
    return optimize_loss(loss, None, _RATE, "Adagrad")


class DebugClassifier(Estimator):
    """Gives every example the shares of the classes among the labels it was trained with; ValueError for n_classes < 2.

    Labels are class numbers, or words of `label_keys`; the feature `weight_column_name` says how much each example counts.
    """

    def __init__(self, model_dir: Any = None, n_classes: int = 2, weight_column_name: Any = None, config: Any = None,
                 feature_engineering_fn: Any = None, label_keys: Sequence[Any] | None = None) -> None:
        head = multi_class_head(n_classes, None, weight_column_name, True, label_keys=label_keys)
        super().__init__(debug_model_fn, model_dir, config, {"head": head}, feature_engineering_fn)

    def predict_classes(self, input_fn: Any = None, batch_size: int | None = None) -> Any:
        """The commonest class, once for each example."""
        return self._outcome(None, input_fn, batch_size, PredictionKey.CLASSES, True)

    def predict_proba(self, input_fn: Any = None, batch_size: int | None = None) -> Any:
        """The share of each class [n_classes], once for each example."""
        return self._outcome(None, input_fn, batch_size, PredictionKey.PROBABILITIES, True)


class DebugRegressor(Estimator):
    """Gives every example the mean [label_dimension] of the labels it was trained with; `weight_column_name` as
    DebugClassifier's."""

    def __init__(self, model_dir: Any = None, label_dimension: int = 1, weight_column_name: Any = None, config: Any = None,
                 feature_engineering_fn: Any = None) -> None:
        head = regression_head(None, weight_column_name, label_dimension, True)
        super().__init__(debug_model_fn, model_dir, config, {"head": head}, feature_engineering_fn)

    def predict_scores(self, input_fn: Any = None, batch_size: int | None = None) -> Any:
        """The mean, once for each example."""
        return self._outcome(None, input_fn, batch_size, PredictionKey.SCORES, True)
