"""Heads of tf.contrib.learn by their public names, heads of losses alone, and several heads on one model."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import group
from workbench.train.learn import heads, heads_kinds
from workbench.train.learn.estimator import ModeKeys, ModelFnOps
from workbench.train.learn.heads import Head, MetricKey, no_op_train_fn
from workbench.train.saving import summary

__all__ = ["binary_svm_head", "estimator_head_distribution_regression", "loss_only_head", "multi_class_head",
           "multi_head", "multi_label_head", "poisson_regression_head", "regression_head"]


def regression_head(label_name: Any = None, weight_column_name: Any = None, label_dimension: int = 1,
                    enable_centered_bias: bool = False, head_name: Any = None) -> Head:
    """Numbers: squared errors. Predictions {"scores": [batch], or [batch, label_dimension]}.

    Labels of a dictionary are `label_name`; the feature `weight_column_name` says how much each example counts; with
    `enable_centered_bias` a bias of its own is learned first; a `head_name` is the end of its metrics' names.
    """
    return heads_kinds.Regression(heads.squares, ops.identity, label_dimension, label_name, weight_column_name,
                                  enable_centered_bias, head_name)


def poisson_regression_head(label_name: Any = None, weight_column_name: Any = None, label_dimension: int = 1,
                            enable_centered_bias: bool = False, head_name: Any = None) -> Head:
    """Counts: outputs are logarithms of their means. Otherwise as regression_head."""
    return heads_kinds.Regression(heads.poisson, ops.exp, label_dimension, label_name, weight_column_name,
                                  enable_centered_bias, head_name)


def multi_class_head(n_classes: int, label_name: Any = None, weight_column_name: Any = None,
                     enable_centered_bias: bool = False, head_name: Any = None, thresholds: Sequence[float] | None = None,
                     metric_class_ids: Sequence[int] | None = None, loss_fn: Any = None,
                     label_keys: Sequence[Any] | None = None) -> Head:
    """One class of `n_classes`: logistic for two, a softmax for more.

    Labels are class numbers, or words of `label_keys`. Metrics also at `thresholds` (two classes), or of the classes
    `metric_class_ids`. `loss_fn(labels, logits, weights)` stands in for the cross entropy. ValueErrors for fewer classes
    and for what the other kind takes.
    """
    if n_classes is None or n_classes < 2:
        raise ValueError(f"multi_class_head: n_classes must be > 1 for classification: {n_classes}.")
    given = (label_name, weight_column_name, enable_centered_bias, head_name, heads.own_loss(loss_fn))
    if n_classes > 2:
        return heads_kinds.Several(n_classes, metric_class_ids, label_keys, *given)
    if metric_class_ids:
        raise ValueError("multi_class_head: metric_class_ids invalid for n_classes==2.")
    if label_keys:
        raise ValueError("multi_class_head: label_keys is not supported for n_classes=2.")
    return heads_kinds.Binary(thresholds, *given)


def binary_svm_head(label_name: Any = None, weight_column_name: Any = None, enable_centered_bias: bool = False,
                    head_name: Any = None, thresholds: Sequence[float] | None = None) -> Head:
    """One class of two with hinge losses, which has no probabilities: thresholds change nothing."""
    return heads_kinds.Margin(1, label_name, weight_column_name, enable_centered_bias, head_name)


def multi_label_head(n_classes: int, label_name: Any = None, weight_column_name: Any = None,
                     enable_centered_bias: bool = False, head_name: Any = None, thresholds: Sequence[float] | None = None,
                     metric_class_ids: Sequence[int] | None = None, loss_fn: Any = None) -> Head:
    """Any number of `n_classes`: labels are 0 and 1 for each class [batch, n_classes], or sparse class numbers."""
    if n_classes < 2:
        raise ValueError(f"multi_label_head: n_classes must be > 1 for classification. It is {n_classes}")
    return heads_kinds.Labels(n_classes, metric_class_ids, None, label_name, weight_column_name, enable_centered_bias,
                              head_name, heads.own_loss(loss_fn))


class _LossOnly(Head):
    """Losses of the model itself, such as of its weights."""

    def __init__(self, loss_fn: Callable[[], Any], head_name: Any) -> None:
        self._loss_fn, self.head_name = loss_fn, head_name or "loss_only_head"

    @property
    def logits_dimension(self) -> int:
        return 0

    def create_model_fn_ops(self, features: Any, mode: str, labels: Any = None, train_op_fn: Any = None, logits: Any = None,
                            logits_input: Any = None, scope: Any = None) -> ModelFnOps:
        """Its loss; there are no predictions, so that of the arguments only mode and train_op_fn count."""
        heads.check_mode(mode)
        loss = step = None
        if mode != ModeKeys.INFER:
            with variable_scope(scope, self.head_name):
                found = self._loss_fn()
                loss = ops.add_n(found) if isinstance(found, list) else convert(found)
                with get_default_graph().name_scope(None):
                    summary.scalar(f"{MetricKey.LOSS}/{self.head_name}", loss)
                step = heads.required(train_op_fn)(loss) if mode == ModeKeys.TRAIN else None
        return ModelFnOps(mode, {}, loss, step, {})


def loss_only_head(loss_fn: Callable[[], Any], head_name: Any = None) -> Head:
    """A head for the scalar, or the list of scalars, that `loss_fn()` gives: one among several heads."""
    return _LossOnly(loss_fn, head_name)


class _Multi(Head):
    """Several heads: their losses are added, each times its weight."""

    def __init__(self, parts: Sequence[Any], weights: Sequence[float] | None) -> None:
        if weights and len(weights) != len(parts):
            raise ValueError(f"multi_head: heads and loss_weights must have same size; they have {len(parts)} and "
                             f"{len(weights)}")
        if not all(part.head_name for part in parts):
            raise ValueError("multi_head: Members of MultiHead must have names.; give each a head_name")
        self._parts, self._weights = list(parts), weights

    @property
    def logits_dimension(self) -> int:
        return sum(part.logits_dimension for part in self._parts)

    def _split(self, logits: Any) -> list[Any]:
        if logits is None:
            return [None] * len(self._parts)
        if isinstance(logits, Mapping):
            return [None if isinstance(part, _LossOnly) else logits[part.head_name] for part in self._parts]
        ends = [sum(part.logits_dimension for part in self._parts[:end]) for end in range(len(self._parts) + 1)]
        return [convert(logits)[:, low:high] for low, high in itertools.pairwise(ends)]

    def create_model_fn_ops(self, features: Any, mode: str, labels: Any = None, train_op_fn: Any = None, logits: Any = None,
                            logits_input: Any = None, scope: Any = None) -> ModelFnOps:
        """As a single head's. `logits` are those of all heads side by side, or a dictionary of each head's by its name;
        predictions have (head name, key) for keys."""
        heads.check_mode(mode)
        if mode == ModeKeys.TRAIN:
            heads.required(train_op_fn)
        made = [part.create_model_fn_ops(features, mode, labels, no_op_train_fn, own, logits_input, scope)
                for part, own in zip(self._parts, self._split(logits))]
        predictions = {(part.head_name, key): value for part, one in zip(self._parts, made)
                       for key, value in one.predictions.items()}
        if mode == ModeKeys.INFER:
            return ModelFnOps(mode, predictions, output_alternatives={
                key: value for one in made for key, value in (one.output_alternatives or {}).items()})
        loss = self._together([one.loss for one in made])
        measured = {key: pair for one in made for key, pair in (one.eval_metric_ops or {}).items()}
        if mode == ModeKeys.EVAL:
            return ModelFnOps(mode, predictions, loss, None, measured)
        return ModelFnOps(mode, None, loss, group(train_op_fn(loss), *[one.train_op for one in made]), measured)

    def _together(self, losses: list[Tensor]) -> Tensor:
        total: Tensor = ops.add_n([loss * weight for loss, weight in zip(losses, self._weights)] if self._weights else losses)
        return total


def multi_head(heads: Sequence[Head], loss_weights: Sequence[float] | None = None) -> Head:
    """Several heads, each with a name, on the outputs, or the last layer, of one model. ValueError for another number of
    weights of their losses."""
    return _Multi(heads, loss_weights)


class _Likely(heads_kinds.Regression):
    """Labels are events of a distribution that the outputs make."""

    def __init__(self, make: Callable[[Tensor], Any], columns: int, *given: Any) -> None:
        self._make, self.distributions = make, dict[Tensor, Any]()
        super().__init__(heads.squares, lambda logits: self.distribution(logits).mean(), *given)
        self._columns = columns

    def distribution(self, logits: Any, name: str | None = None) -> Any:
        """The distribution that these outputs make, the same whenever it is asked for."""
        with get_default_graph().name_scope(name or "distribution"):
            key = convert(logits)
            if key not in self.distributions:
                self.distributions[key] = self._make(key)
        return self.distributions[key]

    def _losses(self, target: Tensor, logits: Tensor) -> Tensor:
        found = self.distribution(logits)
        shape = ops.concat([ops.shape(target)[:-1], found.event_shape_tensor()], axis=0)
        losses: Tensor = -found.log_prob(ops.reshape(ops.cast(target, found.dtype), shape))
        return losses

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        found = self._link(logits)
        alone = self._columns == 1 and found.shape.rank == 2
        return {"scores": ops.squeeze(found, axis=[1]) if alone else found}


def estimator_head_distribution_regression(make_distribution_fn: Callable[[Any], Any], label_dimension: int = 1,
                                           logits_dimension: int | None = None, label_name: Any = None,
                                           weight_column_name: Any = None, enable_centered_bias: bool = False,
                                           head_name: Any = None) -> Head:
    """Labels drawn from `make_distribution_fn(logits)`: losses are -log of their density, predictions its means.

    TypeError for what is no function; otherwise as regression_head.
    """
    if not callable(make_distribution_fn):
        raise TypeError("`make_distribution_fn` must be a callable function.")
    return _Likely(make_distribution_fn, label_dimension, logits_dimension or label_dimension, label_name, weight_column_name,
                   enable_centered_bias, head_name)
