"""Heads of tf.contrib.learn: what makes predictions, loss, metrics and a training step of a model's outputs."""
from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn import metrics
from workbench.nn.composed import log_poisson_loss
from workbench.nn.contrib.more import linear
from workbench.nn.initializers import Zeros
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.sparse import SparseTensor
from workbench.nn.variables import group
from workbench.train.estimators.shared import two_ranks
from workbench.train.learn.estimator import ModeKeys, ModelFnOps, ProblemType
from workbench.train.optimizers.rules import AdagradOptimizer
from workbench.train.saving import summary

__all__ = ["Head", "MetricKey", "Single", "check_mode", "hinge", "logistic", "no_op_train_fn", "own_loss", "poisson",
           "required", "softmax", "spread", "squares"]


class MetricKey:
    """Names of metrics."""

    LOSS, AUC, AUC_PR = "loss", "auc", "auc_precision_recall"
    CLASS_AUC, CLASS_AUC_PR = "auc/class%d", "auc_precision_recall/class%d"
    PREDICTION_MEAN, LABEL_MEAN = "labels/prediction_mean", "labels/actual_label_mean"
    CLASS_PREDICTION_MEAN, CLASS_LABEL_MEAN = "labels/prediction_mean/class%d", "labels/actual_label_mean/class%d"
    CLASS_LOGITS_MEAN, CLASS_PROBABILITY_MEAN = "labels/logits_mean/class%d", "labels/probability_mean/class%d"
    ACCURACY, ACCURACY_BASELINE, ACCURACY_MEAN = "accuracy", "accuracy/baseline_label_mean", "accuracy/threshold_%f_mean"
    PRECISION_MEAN, RECALL_MEAN = "precision/positive_threshold_%f_mean", "recall/positive_threshold_%f_mean"


class Head:
    """From the outputs of a model to ModelFnOps; subclasses give `logits_dimension` and `create_model_fn_ops`."""

    @property
    def logits_dimension(self) -> int:
        """How many outputs the model has for an example."""
        raise NotImplementedError(f"{type(self).__name__}.logits_dimension is missing; define it")

    def create_model_fn_ops(self, features: Any, mode: str, labels: Any = None, train_op_fn: Any = None, logits: Any = None,
                            logits_input: Any = None, scope: Any = None) -> ModelFnOps:
        """The operations of `mode` for `logits` [batch, logits_dimension], or for those of one layer over `logits_input`.

        `train_op_fn(loss)` gives the operation that trains. ValueErrors for an unknown mode, for both or neither of logits
        and their input, and without train_op_fn where it trains.
        """
        raise NotImplementedError(f"{type(self).__name__}.create_model_fn_ops is missing; define it")


def no_op_train_fn(loss: Any) -> Any:
    """A training step that does nothing, where the program makes its own of the loss."""
    return group(name="no_op_train")


def check_mode(mode: Any) -> None:
    """ValueError for what is no mode."""
    if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.INFER):
        raise ValueError(f"head: mode={mode} unrecognized.; use one of ModeKeys")


def required(train_op_fn: Any) -> Any:
    """train_op_fn; ValueError where there is none."""
    if train_op_fn is None:
        raise ValueError("head: train_op_fn can not be None in TRAIN mode.; pass a function of the loss, or no_op_train_fn")
    return train_op_fn


# losses: what is minimized, and the weighted average that is reported

def spread(weights: Tensor, values: Tensor) -> Tensor:
    """Weights for each of the values."""
    flat = values.shape.rank == 1 and weights.shape.rank == 2
    shaped = ops.reshape(weights, [-1]) if flat else weights
    found: Tensor = ops.cast(shaped, values.dtype) * ops.ones_like(values)
    return found


def _total(losses: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    if weights is None:
        mean: Tensor = ops.reduce_mean(losses)
        return mean, mean
    every = spread(weights, losses)
    weighted = losses * every
    return ops.reduce_mean(weighted), ops.reduce_sum(weighted) / ops.reduce_sum(every)


def squares(labels: Tensor, logits: Tensor) -> Tensor:
    """Squared errors."""
    return ops.squared_difference(logits, ops.cast(labels, "float32"))


def poisson(labels: Tensor, logits: Tensor) -> Tensor:
    """Negative logarithms of the likelihood of counts, with Stirling's term."""
    return log_poisson_loss(ops.cast(labels, "float32"), logits, compute_full_loss=True)


def logistic(labels: Tensor, logits: Tensor) -> Tensor:
    """Cross entropy of each label, 0 or 1."""
    found: Tensor = ops.sigmoid_cross_entropy_with_logits(labels=ops.cast(labels, "float32"), logits=logits)
    return found


def hinge(labels: Tensor, logits: Tensor) -> Tensor:
    """How far each output is from the right side of the margin."""
    found: Tensor = ops.relu(1.0 - (2.0 * ops.cast(labels, "float32") - 1.0) * logits)
    return found


def softmax(labels: Tensor, logits: Tensor) -> Tensor:
    """Cross entropy of class numbers [batch, 1]: [batch, 1]. ValueError for labels that are no integers."""
    if not labels.dtype.is_integer:
        raise ValueError(f"multi_class_head: Labels dtype should be integer Instead got {labels.dtype}.; cast them")
    found = ops.sparse_softmax_cross_entropy_with_logits(labels=ops.reshape(labels, [-1]), logits=logits)
    return ops.expand_dims(found, 1)


def own_loss(loss_fn: Any) -> Any:
    """A program's loss in the place of ours. ValueError where it does not take labels, logits and weights."""
    if loss_fn is None:
        return None
    known = inspect.signature(loss_fn).parameters
    for name in ("labels", "logits", "weights"):
        if name not in known:
            raise ValueError(f"head: Argument {name} not found in loss_fn.; it takes {', '.join(known)}")

    def loss(labels: Any, logits: Any, weights: Any) -> tuple[Tensor, Tensor]:
        found = loss_fn(labels, logits) if weights is None else loss_fn(labels, logits, weights)
        return found, found
    return loss


class Single(Head):
    """A head of one kind: subclasses give `scope`, losses, predictions and metrics."""

    scope, problem = "head", ProblemType.UNSPECIFIED

    def __init__(self, width: int, label_name: Any = None, weight_column_name: Any = None, enable_centered_bias: bool = False,
                 head_name: Any = None, loss_fn: Any = None) -> None:
        if width is None or width < 1:
            raise ValueError(f"{self.scope}: Invalid logits_dimension {width}.; use 1 or more")
        self._width, self._centered, self._loss_fn = width, enable_centered_bias, loss_fn
        self.label_name, self.weight_column_name, self.head_name = label_name, weight_column_name, head_name

    @property
    def logits_dimension(self) -> int:
        return self._width

    def _key(self, name: str) -> str:
        return f"{name}/{self.head_name}" if self.head_name else name

    def create_model_fn_ops(self, features: Any, mode: str, labels: Any = None, train_op_fn: Any = None, logits: Any = None,
                            logits_input: Any = None, scope: Any = None) -> ModelFnOps:
        with variable_scope(scope, self.head_name or self.scope):
            target = None if mode == ModeKeys.INFER or labels is None else self._target(labels)
            found = self._logits(logits, logits_input)
            check_mode(mode)
            bias = self._bias() if self._centered else None
            if bias is not None:
                found = ops.bias_add(found, bias.value())
            with get_default_graph().name_scope("predictions"):
                predictions = self._predictions(found)
            loss = step = measured = None
            if target is not None:
                weights = self._weights(features)
                loss, average = self._loss(target, found, weights)
                with get_default_graph().name_scope(None):
                    summary.scalar(self._key(MetricKey.LOSS), average)
                if mode == ModeKeys.TRAIN:
                    step = self._step(required(train_op_fn), loss, bias, target, found, weights)
                with get_default_graph().name_scope("metrics"):
                    measured = {self._key(MetricKey.LOSS): metrics.mean(average), **{
                        self._key(key): pair for key, pair in self._metrics(predictions, target, weights).items()}}
            return ModelFnOps(mode, predictions, loss, step, measured,
                              {self.head_name: (self.problem, self._exported(predictions))})

    def _logits(self, logits: Any, before: Any) -> Tensor:
        if (logits is None) == (before is None):
            raise ValueError(f"{self.scope}: {'Neither' if logits is None else 'Both'} logits "
                             f"{'nor' if logits is None else 'and'} logits_input supplied.; give one")
        if logits is None:
            return linear(before, self._width, scope="logits")
        found = convert(logits)
        last = None if not found.shape.rank else found.shape.as_list()[-1]
        if last not in (None, self._width):
            raise ValueError(f"{self.scope}: Dimensions {last} and {self._width} are not compatible: logits have {last} "
                             f"columns; make {self._width}")
        return found

    def _weights(self, features: Any) -> Tensor | None:
        name = self.weight_column_name
        if not name:
            return None
        if name not in features:
            raise ValueError(f"{self.scope}: Weights {name} missing from features.; there are {', '.join(map(repr, features))}")
        return two_ranks(ops.cast(convert(features[name]), "float32"))

    def _target(self, labels: Any) -> Any:
        given = labels[self.label_name] if isinstance(labels, Mapping) else labels
        if isinstance(given, SparseTensor):
            raise ValueError(f"{self.scope}: SparseTensor is not supported.; pass dense labels")
        return two_ranks(given)

    def _loss(self, target: Any, logits: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        if self._loss_fn is not None:
            return self._loss_fn(target, logits, weights)
        return _total(self._losses(target, logits), weights)

    def _bias(self) -> Any:
        made = get_variable("centered_bias_weight", [self._width], "float32", Zeros())
        for number in range(self._width):
            summary.scalar(self._key(f"centered_bias/bias_{number}"), made.value()[number])
        return made

    def _step(self, train: Any, loss: Tensor, bias: Any, target: Any, logits: Tensor, weights: Tensor | None) -> Any:
        with get_default_graph().name_scope("train_op"):
            step = train(loss)
        if bias is None:
            return step
        alone = ops.zeros_like(logits) + bias.value()
        return group(step, AdagradOptimizer(0.1).minimize(self._loss(target, alone, weights)[0], var_list=[bias],
                                                          name="centered_bias_step"))

    def _losses(self, target: Any, logits: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._losses is missing; define it")

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError(f"{type(self).__name__}._predictions is missing; define it")

    def _metrics(self, predictions: dict[str, Tensor], target: Any, weights: Tensor | None) -> dict[str, Any]:
        """Metrics besides the loss."""
        raise NotImplementedError(f"{type(self).__name__}._metrics is missing; define it")

    def _exported(self, predictions: dict[str, Tensor]) -> dict[str, Tensor]:
        return predictions
