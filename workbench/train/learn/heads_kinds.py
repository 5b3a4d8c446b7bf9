"""The kinds of heads of tf.contrib.learn: numbers, one class of two or of several, any number of classes."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn import metrics, metrics_more
from workbench.nn.sparse import SparseTensor
from workbench.nn.sparse_ops import sparse_to_indicator
from workbench.train.estimators.shared import two_ranks
from workbench.train.learn.estimator import PredictionKey, ProblemType
from workbench.train.learn.heads import MetricKey, Single, hinge, logistic, softmax, spread

__all__ = ["Binary", "Labels", "Margin", "Regression", "Several"]


class Regression(Single):
    """Numbers, from outputs by a link."""

    scope, problem = "regression_head", ProblemType.LINEAR_REGRESSION

    def __init__(self, losses: Callable[[Tensor, Tensor], Tensor], link: Callable[[Tensor], Tensor], *given: Any) -> None:
        super().__init__(*given)
        self._each, self._link = losses, link

    def _losses(self, target: Tensor, logits: Tensor) -> Tensor:
        logits = two_ranks(logits)
        if not logits.shape.is_compatible_with(target.shape):
            raise ValueError(f"{self.scope}: Shapes {logits.shape} and {target.shape} are incompatible; give logits and "
                             "labels the same columns")
        return self._each(target, logits)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        found = self._link(logits)
        return {PredictionKey.SCORES: ops.squeeze(found, axis=[1]) if self._width == 1 else found}

    def _metrics(self, predictions: dict[str, Tensor], target: Tensor, weights: Tensor | None) -> dict[str, Any]:
        return {}


class _Classes(Single):
    """Heads whose predictions hold classes."""

    def _exported(self, predictions: dict[str, Tensor]) -> dict[str, Tensor]:
        shares = predictions[PredictionKey.PROBABILITIES]
        shape = ops.shape(shares)
        names = ops.expand_dims(self._names(shape[1]), 0)
        return {PredictionKey.PROBABILITIES: shares, PredictionKey.CLASSES: ops.tile(names, ops.stack([shape[0], 1]))}

    def _names(self, count: Tensor) -> Tensor:
        names: Tensor = ops.as_string(ops.range(count))
        return names


def _two(logits: Tensor) -> Tensor:
    made: Tensor = ops.concat([ops.zeros_like(logits), logits], axis=1)
    return made


def _accuracy(target: Tensor, classes: Tensor, weights: Tensor | None) -> Any:
    return metrics.accuracy(target, ops.reshape(classes, ops.shape(target)), weights)


def _average(values: Tensor, weights: Tensor | None, column: int | None = None) -> Any:
    values = ops.cast(values, "float32")
    every = None if weights is None else spread(weights, values)
    if column is not None:
        values, every = values[:, column], None if every is None else every[:, column]
    return metrics.mean(values, every)


def _areas(target: Tensor, shares: Tensor, weights: Tensor | None, column: int | None = None) -> list[Any]:
    """Areas under the curves of rates, and of precision and recall."""
    labels = ops.reshape(ops.cast(target, "bool"), ops.shape(shares))
    every = None if weights is None else spread(weights, shares)
    if column is not None:
        labels, shares, every = labels[:, column], shares[:, column], None if every is None else every[:, column]
    return [metrics.auc(labels, shares, every, curve=curve) for curve in ("ROC", "PR")]


class Binary(_Classes):
    """One class of two, logistic."""

    scope, problem = "binary_logistic_head", ProblemType.LOGISTIC_REGRESSION

    def __init__(self, thresholds: Sequence[float] | None, *given: Any) -> None:
        super().__init__(1, *given)
        self._thresholds = tuple(thresholds or (0.5,))

    def _losses(self, target: Tensor, logits: Tensor) -> Tensor:
        return logistic(target, logits)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        both = _two(logits)
        return {PredictionKey.LOGITS: logits, PredictionKey.LOGISTIC: ops.sigmoid(logits, name=PredictionKey.LOGISTIC),
                PredictionKey.PROBABILITIES: ops.softmax(both, name=PredictionKey.PROBABILITIES),
                PredictionKey.CLASSES: ops.argmax(both, 1, name=PredictionKey.CLASSES)}

    def _metrics(self, predictions: dict[str, Tensor], target: Tensor, weights: Tensor | None) -> dict[str, Any]:
        shares = predictions[PredictionKey.LOGISTIC]
        areas = _areas(target, shares, weights)
        found = {MetricKey.ACCURACY: _accuracy(target, predictions[PredictionKey.CLASSES], weights),
                 MetricKey.PREDICTION_MEAN: _average(shares, weights), MetricKey.LABEL_MEAN: _average(target, weights),
                 MetricKey.ACCURACY_BASELINE: _average(target, weights), MetricKey.AUC: areas[0], MetricKey.AUC_PR: areas[1]}
        for at in self._thresholds:
            over = ops.cast(ops.greater_equal(shares, at), "float32")
            found[MetricKey.ACCURACY_MEAN % at] = metrics.accuracy(ops.cast(target, "float32"), over, weights)
            found[MetricKey.PRECISION_MEAN % at] = _at(metrics_more.precision_at_thresholds, target, shares, at, weights)
            found[MetricKey.RECALL_MEAN % at] = _at(metrics_more.recall_at_thresholds, target, shares, at, weights)
        return found


def _at(metric: Any, target: Tensor, shares: Tensor, at: float, weights: Tensor | None) -> Any:
    return tuple(ops.squeeze(part) for part in metric(target, shares, (at,), weights))


class Margin(Single):
    """One class of two, by the side of a margin."""

    scope, problem = "binary_svm_head", ProblemType.LOGISTIC_REGRESSION

    def _losses(self, target: Tensor, logits: Tensor) -> Tensor:
        return hinge(target, logits)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {PredictionKey.LOGITS: logits, PredictionKey.CLASSES: ops.argmax(_two(logits), 1, name=PredictionKey.CLASSES)}

    def _metrics(self, predictions: dict[str, Tensor], target: Tensor, weights: Tensor | None) -> dict[str, Any]:
        return {MetricKey.ACCURACY: _accuracy(target, predictions[PredictionKey.CLASSES], weights)}


class Several(_Classes):
    """One class of several, or (`Labels`) any number of them."""

    scope, problem = "multi_class_head", ProblemType.CLASSIFICATION

    def __init__(self, classes: int, measured: Sequence[int] | None, words: Sequence[Any] | None, *given: Any) -> None:
        super().__init__(classes, *given)
        self._measured, self._words = tuple(measured or ()), words
        for number in self._measured:
            if not 0 <= number < classes:
                raise ValueError(f"{self.scope}: Class ID {number} not in [0, {classes}).")
        if words and len(words) != classes:
            raise ValueError(f"{self.scope}: Length of label_keys must equal n_classes. There are {len(words)} for {classes}")

    def _numbers(self, target: Tensor) -> Tensor:
        if not self._words:
            return target
        words = tuple(w.encode() if isinstance(w, str) else w for w in self._words)
        numbers: Tensor = ops.vocabulary_index(target, vocabulary=words)
        return numbers

    def _loss(self, target: Any, logits: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        return super()._loss(self._numbers(target), logits, weights)

    def _losses(self, target: Tensor, logits: Tensor) -> Tensor:
        return softmax(target, logits)

    def _names(self, count: Tensor) -> Tensor:
        return ops.constant(list(self._words), "string") if self._words else super()._names(count)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        best = ops.argmax(logits, 1, name=PredictionKey.CLASSES)
        classes = ops.gather(ops.constant(list(self._words), "string"), best) if self._words else best
        return {PredictionKey.LOGITS: logits, PredictionKey.CLASSES: classes,
                PredictionKey.PROBABILITIES: ops.softmax(logits, name=PredictionKey.PROBABILITIES)}

    def _metrics(self, predictions: dict[str, Tensor], target: Tensor, weights: Tensor | None) -> dict[str, Any]:
        classes = predictions[PredictionKey.CLASSES]
        found = {MetricKey.ACCURACY: _accuracy(target, classes, weights)}
        for number in () if self._words else self._measured:
            found[MetricKey.CLASS_PREDICTION_MEAN % number] = _average(
                ops.equal(two_ranks(classes), ops.constant(number, classes.dtype)), weights)
            found[MetricKey.CLASS_LABEL_MEAN % number] = _average(
                ops.equal(target, ops.constant(number, target.dtype)), weights)
            found.update(_of_column(predictions, weights, number))
        return found


def _of_column(predictions: dict[str, Tensor], weights: Tensor | None, number: int) -> dict[str, Any]:
    return {MetricKey.CLASS_PROBABILITY_MEAN % number: _average(predictions[PredictionKey.PROBABILITIES], weights, number),
            MetricKey.CLASS_LOGITS_MEAN % number: _average(predictions[PredictionKey.LOGITS], weights, number)}


class Labels(Several):
    """Any number of classes, each logistic."""

    scope = "multi_label_head"

    def _target(self, labels: Any) -> Any:
        given = labels[self.label_name] if isinstance(labels, Mapping) else labels
        if isinstance(given, SparseTensor):
            return ops.cast(sparse_to_indicator(given, self._width), "int64")
        return convert(given)

    def _losses(self, target: Tensor, logits: Tensor) -> Tensor:
        return logistic(target, logits)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {PredictionKey.LOGITS: logits,
                PredictionKey.PROBABILITIES: ops.sigmoid(logits, name=PredictionKey.PROBABILITIES),
                PredictionKey.CLASSES: ops.cast(ops.greater(logits, 0.0), "int64", name=PredictionKey.CLASSES)}

    def _metrics(self, predictions: dict[str, Tensor], target: Tensor, weights: Tensor | None) -> dict[str, Any]:
        shares, classes = predictions[PredictionKey.PROBABILITIES], predictions[PredictionKey.CLASSES]
        areas = _areas(target, shares, weights)
        found = {MetricKey.ACCURACY: metrics.accuracy(ops.cast(target, "int64"), classes,
                                                      None if weights is None else spread(weights, shares)),
                 MetricKey.AUC: areas[0], MetricKey.AUC_PR: areas[1]}
        for number in self._measured:
            one = _areas(target, shares, weights, number)
            found.update({MetricKey.CLASS_PREDICTION_MEAN % number: _average(classes, weights, number),
                          MetricKey.CLASS_LABEL_MEAN % number: _average(target, weights, number),
                          MetricKey.CLASS_AUC % number: one[0], MetricKey.CLASS_AUC_PR % number: one[1],
                          **_of_column(predictions, weights, number)})
        return found
