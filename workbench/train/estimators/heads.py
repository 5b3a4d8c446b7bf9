"""Heads of tf.estimator: from the outputs of a model to predictions, loss, metrics, a training step and what is served."""
from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn import checks, losses, metrics
from workbench.nn.sparse import SparseTensor
from workbench.nn.sparse_ops import sparse_to_indicator
from workbench.train.estimators.estimator_spec import EstimatorSpec, ModeKeys
from workbench.train.estimators.feature_bases import Features
from workbench.train.estimators.feature_kinds import NumericColumn
from workbench.train.estimators.shared import two_ranks
from workbench.train.estimators.signatures import DEFAULT_KEY, ClassificationOutput, PredictOutput, RegressionOutput
from workbench.train.saving import summary

__all__ = ["METRIC_KEYS", "PREDICTION_KEYS", "BinaryHead", "Head", "LossAndLabels", "MultiClassHead", "MultiLabelHead",
           "RegressionHead", "binary_classification_head", "multi_class_head", "multi_label_head", "regression_head"]

METRIC_KEYS = types.SimpleNamespace(
    LOSS="loss", LOSS_MEAN="average_loss", ACCURACY="accuracy", ACCURACY_BASELINE="accuracy_baseline", AUC="auc",
    AUC_PR="auc_precision_recall", LABEL_MEAN="label/mean", PREDICTION_MEAN="prediction/mean",
    ACCURACY_AT_THRESHOLD="accuracy/positive_threshold_%g", PRECISION_AT_THRESHOLD="precision/positive_threshold_%g",
    RECALL_AT_THRESHOLD="recall/positive_threshold_%g")
"""What the metrics of a ready estimator are called."""

PREDICTION_KEYS = types.SimpleNamespace(
    CLASSES="classes", CLASS_IDS="class_ids", LOGISTIC="logistic", LOGITS="logits", PREDICTIONS="predictions",
    PROBABILITIES="probabilities")
"""What its predictions are called."""

Metric = tuple[Any, Any]


class LossAndLabels(NamedTuple):
    """The losses of a batch before they are weighted, and the labels as the head reads them."""

    unweighted_loss: Tensor
    processed_labels: Tensor


class Head:
    """From logits [batch, logits_dimension] to an EstimatorSpec.

    `weight_column` (a feature, or a numeric column) holds the weight of each example; with a `name`, keys of metrics and
    summaries end with "/name". Subclasses give `logits_dimension`, `create_loss`, and how they predict, serve and measure.
    """

    def __init__(self, weight_column: Any = None, name: str | None = None) -> None:
        self._weight_column, self.name = weight_column, name

    @property
    def logits_dimension(self) -> int:
        """How many outputs the model has for an example."""
        raise NotImplementedError(f"{type(self).__name__}.logits_dimension is missing; define it")

    def create_loss(self, features: Any, mode: str, logits: Tensor, labels: Any) -> LossAndLabels:
        """The losses of the examples [batch, n], and their labels."""
        raise NotImplementedError(f"{type(self).__name__}.create_loss is missing; define it")

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError(f"{type(self).__name__}._predictions is missing; define it")

    def _served(self, predictions: dict[str, Tensor]) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__}._served is missing; define it")

    def _measured(self, predictions: dict[str, Tensor], labels: Tensor, weights: Any) -> dict[str, Metric]:
        """Metrics beside the mean loss, by the keys above."""
        return {}

    def _of_examples(self, unweighted: Tensor) -> Tensor:
        """One loss an example that counts in the loss of the step."""
        return unweighted

    def key(self, metric: str) -> str:
        """What this head calls a metric."""
        return f"{metric}/{self.name}" if self.name else metric

    def create_estimator_spec(self, features: Any, mode: str, logits: Any, labels: Any = None,
                              train_op_fn: Callable[[Tensor], Any] | None = None) -> EstimatorSpec:
        """The spec of a model with these logits; `train_op_fn(loss)` gives the operation that trains.

        InvalidArgumentErrors for logits and labels of another width, and where train_op_fn is missing in training.
        """
        with get_default_graph().name_scope("head"):
            logits = _checked(ops.cast(convert(logits), "float32"), self.logits_dimension,
                              "logits shape must be [batch_size, logits_dimension], got {}.")
            predictions = self._predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=self._served(predictions))
            unweighted, read = self.create_loss(features, mode, logits, labels)
            weights, each = self._weights(features), self._of_examples(unweighted)
            loss = losses.compute_weighted_loss(each, weights, reduction=losses.Reduction.SUM)
            if mode == ModeKeys.EVAL:
                measured = {METRIC_KEYS.LOSS_MEAN: metrics.mean(each, weights, name=METRIC_KEYS.LOSS_MEAN),
                            **self._measured(predictions, read, weights)}
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops={
                    self.key(name): metric for name, metric in measured.items()})
            if train_op_fn is None:
                raise errors.InvalidArgumentError("head: train_op_fn can not be None.; give a function of the loss")
            mean = losses.compute_weighted_loss(each, weights, reduction=losses.Reduction.MEAN)
        with get_default_graph().name_scope(None):
            summary.scalar(self.key(METRIC_KEYS.LOSS), loss)
            summary.scalar(self.key(METRIC_KEYS.LOSS_MEAN), mean)
        return EstimatorSpec(mode, predictions, loss, train_op_fn(loss))

    def _weights(self, features: Mapping[str, Any]) -> Any:
        """The weight of each example [batch, 1], or 1. TypeError for a column of another kind."""
        if self._weight_column is None:
            return 1.0
        column = self._weight_column
        if isinstance(column, str):
            column = NumericColumn(column, (1,), None, "float32", None)
        if not isinstance(column, NumericColumn):
            raise TypeError(f"Weight column must be either a string or _NumericColumn. Given type: {type(column)}.")
        return two_ranks(ops.cast(column.dense_tensor(Features(features)), "float32"))


def _checked(values: Tensor, width: int, told: str) -> Tensor:
    """`values` [batch, width], checked now where the shape is known and with each step where it is not."""
    known = values.shape.as_list() if values.shape.rank is not None else [None, None]
    if len(known) != 2 or known[1] not in (None, width):
        raise errors.InvalidArgumentError(f"head: {told.format(values.shape)}; the head has {width} outputs an example")
    if known[1] is not None:
        return values
    message = told.format(values.shape)
    with get_default_graph().control_dependencies([
            checks.assert_rank(values, 2, message=message),
            checks.assert_equal(ops.shape(values)[-1], width, message=message)]):
        return ops.identity(values)


def _labels(labels: Any, width: int) -> Tensor:
    """Labels [batch] or [batch, width] as [batch, width]."""
    if isinstance(labels, SparseTensor):
        raise errors.InvalidArgumentError("head: SparseTensor labels are not supported.; make them dense")
    if labels is None:
        raise errors.InvalidArgumentError("head: labels are None; the input function gives (features, labels)")
    return _checked(two_ranks(labels), width, f"Mismatched label shape. Classifier configured with n_classes={width}.  "
                    "Received {}. Suggested Fix: check your n_classes argument to the estimator and/or the shape of your "
                    "label.")


def _within(ids: Tensor, classes: int) -> Tensor:
    """Class numbers, checked with each step to be below `classes` and not below 0."""
    with get_default_graph().control_dependencies([
            checks.assert_less(ids, ops.cast(classes, ids.dtype), message="Label IDs must < n_classes"),
            checks.assert_non_negative(ids, message="Label IDs must >= 0")]):
        return ops.identity(ids)


def _places(words: Tensor, vocabulary: Sequence[Any]) -> Tensor:
    """The place of each word in the vocabulary, -1 where it is not there."""
    found: Tensor = ops.vocabulary_index(words, vocabulary=tuple(w.encode() if isinstance(w, str) else w for w in vocabulary))
    return found


def _called(ids: Tensor, vocabulary: Sequence[Any] | None) -> Tensor:
    """What classes are called: their numbers as text, or the words of the vocabulary."""
    found: Tensor = ops.as_string(ids) if not vocabulary else ops.gather(ops.constant(list(vocabulary), "string"), ids)
    return found


def _as_classes(scores: Tensor, vocabulary: Sequence[Any] | None, classes: int) -> ClassificationOutput:
    names = ops.constant([list(vocabulary) if vocabulary else [str(k) for k in range(classes)]], "string")
    return ClassificationOutput(scores, ops.tile(names, ops.stack([ops.shape(scores)[0], 1])))


def _checked_vocabulary(vocabulary: Any, classes: int) -> Any:
    if vocabulary is not None and not isinstance(vocabulary, (list, tuple)):
        raise errors.InvalidArgumentError(f"head: label_vocabulary should be a list. Given type: {type(vocabulary)}")
    if vocabulary is not None and len(vocabulary) != classes:
        raise errors.InvalidArgumentError(f"head: label_vocabulary has {len(vocabulary)} items but n_classes is {classes}; "
                                          "name each class")
    return vocabulary


def _checked_thresholds(thresholds: Any) -> tuple[float, ...]:
    given = tuple(thresholds or ())
    if any(not 0 < one < 1 for one in given):
        raise errors.InvalidArgumentError(f"head: thresholds not in (0, 1): {given}.; a probability is compared with them")
    return given


def _at_thresholds(thresholds: Sequence[float], labels: Tensor, probabilities: Tensor, weights: Any) -> dict[str, Metric]:
    """Accuracy, precision and recall where a class is said from each threshold on."""
    made: dict[str, Metric] = {}
    for least in thresholds:
        made[METRIC_KEYS.ACCURACY_AT_THRESHOLD % least] = metrics.accuracy(
            labels, ops.cast(ops.greater_equal(probabilities, least), "float32"), weights)
        for key, measure in ((METRIC_KEYS.PRECISION_AT_THRESHOLD, metrics.precision_at_thresholds),
                             (METRIC_KEYS.RECALL_AT_THRESHOLD, metrics.recall_at_thresholds)):
            value, update = measure(labels, probabilities, [least], weights)
            made[key % least] = ops.squeeze(value), ops.squeeze(update)
    return made


class MultiClassHead(Head):
    """One of more than two classes; labels [batch] or [batch, 1] are class numbers, or words of `label_vocabulary`."""

    def __init__(self, n_classes: int, weight_column: Any = None, label_vocabulary: Any = None,
                 name: str | None = None) -> None:
        super().__init__(weight_column, name)
        if n_classes is None or n_classes <= 2:
            raise errors.InvalidArgumentError(f"head: n_classes must be > 2: {n_classes}.; two have a head of their own")
        self._classes, self._words = n_classes, _checked_vocabulary(label_vocabulary, n_classes)

    @property
    def logits_dimension(self) -> int:
        return self._classes

    def create_loss(self, features: Any, mode: str, logits: Tensor, labels: Any) -> LossAndLabels:
        given = _labels(labels, 1)
        if self._words is None and not given.dtype.is_integer:
            raise errors.InvalidArgumentError(f"head: Labels dtype should be integer Instead got {given.dtype!r}.; cast them, "
                                              "or give label_vocabulary")
        if self._words is not None and given.dtype.name != "string":
            raise errors.InvalidArgumentError("head: Labels dtype should be string if there is a vocabulary. Instead got "
                                              f"{given.dtype!r}; leave label_vocabulary out")
        ids = _within(given if self._words is None else _places(given, self._words), self._classes)
        found = losses.sparse_softmax_cross_entropy(ids, logits, reduction=losses.Reduction.NONE)
        return LossAndLabels(ops.expand_dims(found, 1) if found.shape.rank == 1 else found, ids)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        ids = ops.expand_dims(ops.argmax(logits, 1, name="class_ids"), 1)
        return {"logits": logits, "probabilities": ops.softmax(logits, name="probabilities"), "class_ids": ids,
                "classes": _called(ids, self._words)}

    def _served(self, predictions: dict[str, Tensor]) -> dict[str, Any]:
        every = _as_classes(predictions["probabilities"], self._words, self._classes)
        return {DEFAULT_KEY: every, "classification": every, "predict": PredictOutput(predictions)}

    def _measured(self, predictions: dict[str, Tensor], labels: Tensor, weights: Any) -> dict[str, Metric]:
        return {METRIC_KEYS.ACCURACY: metrics.accuracy(labels, predictions["class_ids"], weights, name=METRIC_KEYS.ACCURACY)}


class BinaryHead(Head):
    """Of two classes the second or not, by one output; labels [batch] or [batch, 1] are 0 and 1, or words."""

    def __init__(self, weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
                 name: str | None = None) -> None:
        super().__init__(weight_column, name)
        self._thresholds, self._words = _checked_thresholds(thresholds), _checked_vocabulary(label_vocabulary, 2)

    @property
    def logits_dimension(self) -> int:
        return 1

    def create_loss(self, features: Any, mode: str, logits: Tensor, labels: Any) -> LossAndLabels:
        given = _labels(labels, 1)
        read = _within(ops.cast(given if self._words is None else _places(given, self._words), "float32"), 2)
        return LossAndLabels(ops.sigmoid_cross_entropy_with_logits(labels=read, logits=logits), read)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        both = ops.concat([ops.zeros_like(logits), logits], 1, name="two_class_logits")
        ids = ops.reshape(ops.argmax(both, 1), [-1, 1], name="class_ids")
        return {"logits": logits, "logistic": ops.sigmoid(logits, name="logistic"),
                "probabilities": ops.softmax(both, name="probabilities"), "class_ids": ids,
                "classes": _called(ids, self._words)}

    def _served(self, predictions: dict[str, Tensor]) -> dict[str, Any]:
        every = _as_classes(predictions["probabilities"], self._words, 2)
        return {DEFAULT_KEY: every, "classification": every, "regression": RegressionOutput(predictions["logistic"]),
                "predict": PredictOutput(predictions)}

    def _measured(self, predictions: dict[str, Tensor], labels: Tensor, weights: Any) -> dict[str, Metric]:
        keys, logistic = METRIC_KEYS, predictions["logistic"]
        mean, update = metrics.mean(labels, weights, name=keys.LABEL_MEAN)
        known = ops.cast(labels, "bool")
        return {
            keys.ACCURACY: metrics.accuracy(labels, predictions["class_ids"], weights, name=keys.ACCURACY),
            keys.PREDICTION_MEAN: metrics.mean(logistic, weights, name=keys.PREDICTION_MEAN), keys.LABEL_MEAN: (mean, update),
            keys.ACCURACY_BASELINE: (ops.maximum(mean, 1.0 - mean), ops.maximum(update, 1.0 - update)),
            keys.AUC: metrics.auc(known, logistic, weights, name=keys.AUC),
            keys.AUC_PR: metrics.auc(known, logistic, weights, curve="PR", name=keys.AUC_PR),
            **_at_thresholds(self._thresholds, labels, logistic, weights)}


class RegressionHead(Head):
    """`label_dimension` numbers of each example, by the square of their errors; labels [batch] or [batch, dimension]."""

    def __init__(self, weight_column: Any = None, label_dimension: int = 1, name: str | None = None) -> None:
        super().__init__(weight_column, name)
        if label_dimension < 1:
            raise errors.InvalidArgumentError(f"head: Invalid label_dimension {label_dimension}.; use 1 or more")
        self._width = label_dimension

    @property
    def logits_dimension(self) -> int:
        return self._width

    def create_loss(self, features: Any, mode: str, logits: Tensor, labels: Any) -> LossAndLabels:
        read = ops.cast(_labels(labels, self._width), "float32")
        return LossAndLabels(losses.mean_squared_error(read, logits, reduction=losses.Reduction.NONE), read)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {"predictions": logits}

    def _served(self, predictions: dict[str, Tensor]) -> dict[str, Any]:
        value = RegressionOutput(predictions["predictions"])
        return {DEFAULT_KEY: value, "regression": value, "predict": PredictOutput(predictions)}


class MultiLabelHead(Head):
    """Any number of `n_classes` classes; labels are a row of zeros and ones, or a SparseTensor of class numbers or words."""

    def __init__(self, n_classes: int, weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
                 name: str | None = None) -> None:
        super().__init__(weight_column, name)
        if n_classes is None or n_classes < 2:
            raise errors.InvalidArgumentError(f"head: n_classes must be > 1 for multi-class classification. Given: {n_classes}")
        self._classes, self._words = n_classes, _checked_vocabulary(label_vocabulary, n_classes)
        self._thresholds = _checked_thresholds(thresholds)

    @property
    def logits_dimension(self) -> int:
        return self._classes

    def create_loss(self, features: Any, mode: str, logits: Tensor, labels: Any) -> LossAndLabels:
        read = self._indicators(labels)
        return LossAndLabels(losses.sigmoid_cross_entropy(read, logits, reduction=losses.Reduction.NONE), read)

    def _indicators(self, labels: Any) -> Tensor:
        if not isinstance(labels, SparseTensor):
            return _labels(labels, self._classes)
        ids = labels if labels.dtype.name != "string" else SparseTensor(
            labels.indices, _places(labels.values, self._words or ()), labels.dense_shape)
        return ops.cast(sparse_to_indicator(ids, self._classes), "int64")

    def _of_examples(self, unweighted: Tensor) -> Tensor:
        mean: Tensor = ops.reduce_mean(unweighted, -1, keepdims=True)
        return mean

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {"logits": logits, "probabilities": ops.sigmoid(logits, name="probabilities")}

    def _served(self, predictions: dict[str, Tensor]) -> dict[str, Any]:
        return {"": ClassificationOutput(predictions["probabilities"])}

    def _measured(self, predictions: dict[str, Tensor], labels: Tensor, weights: Any) -> dict[str, Metric]:
        keys, shares = METRIC_KEYS, predictions["probabilities"]
        return {keys.AUC: metrics.auc(labels, shares, weights, name=keys.AUC),
                keys.AUC_PR: metrics.auc(labels, shares, weights, curve="PR", name=keys.AUC_PR),
                **_at_thresholds(self._thresholds, labels, shares, weights)}


def multi_class_head(n_classes: int, weight_column: Any = None, label_vocabulary: Any = None, name: str | None = None) -> Head:
    """The head for one of more than two classes."""
    return MultiClassHead(n_classes, weight_column, label_vocabulary, name)


def binary_classification_head(weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
                               name: str | None = None) -> Head:
    """The head for two classes."""
    return BinaryHead(weight_column, thresholds, label_vocabulary, name)


def regression_head(weight_column: Any = None, label_dimension: int = 1, name: str | None = None) -> Head:
    """The head for numbers."""
    return RegressionHead(weight_column, label_dimension, name)


def multi_label_head(n_classes: int, weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
                     name: str | None = None) -> Head:
    """The head for any number of classes at once."""
    return MultiLabelHead(n_classes, weight_column, thresholds, label_vocabulary, name)
