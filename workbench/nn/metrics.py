"""Metrics over many batches: a value, and an operation that takes in one more batch; counters are local variables."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.checks import assert_less, assert_non_negative
from workbench.nn.framework import after
from workbench.nn.metrics_more import (
    counter,
    false_negatives_at_thresholds,
    false_positives_at_thresholds,
    listed,
    mean_per_class_accuracy,
    mean_tensor,
    precision_at_thresholds,
    precision_at_top_k,
    recall_at_k,
    recall_at_thresholds,
    recall_at_top_k,
    sensitivity_at_specificity,
    sparse_average_precision_at_k,
    sparse_precision_at_k,
    specificity_at_sensitivity,
    true_negatives_at_thresholds,
    true_positives_at_thresholds,
)
from workbench.nn.scopes import variable_scope
from workbench.nn.weights import fitted_weights, squeezed

__all__ = [
    "accuracy", "auc", "confusion_matrix", "false_negatives", "false_negatives_at_thresholds", "false_positives",
    "false_positives_at_thresholds", "mean", "mean_absolute_error", "mean_cosine_distance", "mean_iou",
    "mean_per_class_accuracy", "mean_relative_error", "mean_squared_error", "mean_tensor", "percentage_below", "precision",
    "precision_at_thresholds", "precision_at_top_k", "recall", "recall_at_k", "recall_at_thresholds", "recall_at_top_k",
    "root_mean_squared_error",
    "sensitivity_at_specificity", "sparse_average_precision_at_k", "sparse_precision_at_k", "specificity_at_sensitivity",
    "true_negatives", "true_negatives_at_thresholds", "true_positives", "true_positives_at_thresholds",
]

Metric = tuple[Tensor, Tensor]


def _scale(values: Tensor, weights: Any) -> Tensor:
    ones = ops.ones_like(values)
    return ones if weights is None else ones * fitted_weights(weights, values, "metric", "float32")


def mean(values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
         name: str | None = None) -> Metric:
    """(mean of all values seen, operation that sees one more batch and gives the new mean); 0 before any.

    Like every metric: float32 scalars, `weights` of a shape that broadcasts to the values, counters as local variables.
    """
    with variable_scope(name, "mean"):
        total, count = counter("total"), counter("count")
        values = ops.cast(convert(values), "float32")
        scale = _scale(values, weights)
        sums = total.assign_add(ops.reduce_sum(values * scale)), count.assign_add(ops.reduce_sum(scale))
        return listed(ops.div_no_nan(total.value(), count.value()), ops.div_no_nan(*sums), metrics_collections,
                      updates_collections)


def _pair(labels: Any, predictions: Any, where: str) -> tuple[Tensor, Tensor]:
    predictions = convert(predictions)
    labels, predictions = squeezed(ops.cast(convert(labels), predictions.dtype), predictions)
    if not labels.shape.compatible(predictions.shape):
        raise errors.ShapeError(f"{where}: labels have shape {labels.shape} but predictions {predictions.shape}; make them "
                                "equal")
    return labels, predictions


def accuracy(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
             updates_collections: Any = None, name: str | None = None) -> Metric:
    """(share of predictions equal to labels, operation that sees one more batch)."""
    labels, predictions = _pair(labels, predictions, "accuracy")
    right = ops.cast(ops.equal(labels, predictions), "float32")
    return mean(right, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_squared_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                       updates_collections: Any = None, name: str | None = None) -> Metric:
    """(mean of (labels - predictions)², operation that sees one more batch)."""
    squares = ops.squared_difference(*_pair(labels, predictions, "mean_squared_error"))
    return mean(squares, weights, metrics_collections, updates_collections, name or "mean_squared_error")


def mean_absolute_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                        updates_collections: Any = None, name: str | None = None) -> Metric:
    """(mean of |labels - predictions|, operation that sees one more batch)."""
    labels, predictions = _pair(labels, predictions, "mean_absolute_error")
    return mean(ops.abs(predictions - labels), weights, metrics_collections, updates_collections,
                name or "mean_absolute_error")


def root_mean_squared_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                            updates_collections: Any = None, name: str | None = None) -> Metric:
    """(√ of the mean of (labels - predictions)², operation that sees one more batch)."""
    value, update = mean_squared_error(labels, predictions, weights, name=name or "root_mean_squared_error")
    return listed(ops.sqrt(value), ops.sqrt(update), metrics_collections, updates_collections)


def mean_relative_error(labels: Any, predictions: Any, normalizer: Any, weights: Any = None, metrics_collections: Any = None,
                        updates_collections: Any = None, name: str | None = None) -> Metric:
    """(mean of |labels - predictions| / normalizer, 0 where that is 0, operation that sees one more batch)."""
    labels, predictions = _pair(labels, predictions, "mean_relative_error")
    by = ops.cast(convert(normalizer), predictions.dtype) + ops.zeros_like(predictions)
    apart = ops.div_no_nan(ops.abs(labels - predictions), by)
    return mean(apart, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_cosine_distance(labels: Any, predictions: Any, dim: int, weights: Any = None, metrics_collections: Any = None,
                         updates_collections: Any = None, name: str | None = None) -> Metric:
    """(1 - mean of Σ labels · predictions over axis `dim`, operation that sees one more batch); both have unit length."""
    labels, predictions = _pair(labels, predictions, "mean_cosine_distance")
    products = ops.reduce_sum(labels * predictions, axis=[dim], keepdims=True)
    value, update = mean(products, weights, name=name or "mean_cosine_distance")
    return listed(1.0 - value, 1.0 - update, metrics_collections, updates_collections)


def percentage_below(values: Any, threshold: Any, weights: Any = None, metrics_collections: Any = None,
                     updates_collections: Any = None, name: str | None = None) -> Metric:
    """(share of the values below `threshold`, operation that sees one more batch)."""
    below = ops.cast(ops.less(convert(values), threshold), "float32")
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


# counts of right and wrong truth values

def _truths(labels: Any, predictions: Any, where: str) -> tuple[Tensor, Tensor]:
    labels, predictions = ops.cast(convert(labels), "bool"), ops.cast(convert(predictions), "bool")
    return _pair(labels, predictions, where)


def _count(which: tuple[bool, bool], labels: Any, predictions: Any, weights: Any, name: str) -> Metric:
    """How often (label, prediction) was `which`."""
    with variable_scope(None, name):
        labels, predictions = _truths(labels, predictions, name)
        hits = ops.logical_and(*(x if wanted else ops.logical_not(x) for wanted, x in zip(which, (labels, predictions))))
        total, found = counter("count"), ops.cast(hits, "float32")
        update = total.assign_add(ops.reduce_sum(found * _scale(found, weights)))
        return total.value(), update


def true_positives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                   updates_collections: Any = None, name: str | None = None) -> Metric:
    """(weight of the examples that are true and predicted so, operation that sees one more batch)."""
    return listed(*_count((True, True), labels, predictions, weights, name or "true_positives"), metrics_collections,
                   updates_collections)


def false_positives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                    updates_collections: Any = None, name: str | None = None) -> Metric:
    """(weight of the examples that are false but predicted true, operation that sees one more batch)."""
    return listed(*_count((False, True), labels, predictions, weights, name or "false_positives"), metrics_collections,
                   updates_collections)


def true_negatives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                   updates_collections: Any = None, name: str | None = None) -> Metric:
    """(weight of the examples that are false and predicted so, operation that sees one more batch)."""
    return listed(*_count((False, False), labels, predictions, weights, name or "true_negatives"), metrics_collections,
                   updates_collections)


def false_negatives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                    updates_collections: Any = None, name: str | None = None) -> Metric:
    """(weight of the examples that are true but predicted false, operation that sees one more batch)."""
    return listed(*_count((True, False), labels, predictions, weights, name or "false_negatives"), metrics_collections,
                   updates_collections)


def _share(second: Any, labels: Any, predictions: Any, weights: Any, values: Any, updates: Any, name: str) -> Metric:
    """True positives by all of which they are a part."""
    with variable_scope(None, name):
        good, good_update = true_positives(labels, predictions, weights)
        bad, bad_update = second(labels, predictions, weights)
        return listed(ops.div_no_nan(good, good + bad), ops.div_no_nan(good_update, good_update + bad_update), values, updates)


def precision(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
              updates_collections: Any = None, name: str | None = None) -> Metric:
    """(share of the examples predicted true that are, operation that sees one more batch); both are truth values."""
    return _share(false_positives, labels, predictions, weights, metrics_collections, updates_collections,
                  name or "precision")


def recall(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
           updates_collections: Any = None, name: str | None = None) -> Metric:
    """(share of the true examples that are predicted so, operation that sees one more batch); both are truth values."""
    return _share(false_negatives, labels, predictions, weights, metrics_collections, updates_collections, name or "recall")


def auc(labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
        updates_collections: Any = None, curve: str = "ROC", name: str | None = None,
        summation_method: str = "trapezoidal") -> Metric:
    """(area under a curve over thresholds, operation that sees one more batch).

    `predictions` lie in 0 … 1. The curve "ROC" is the true positive rate by the false one, "PR" precision by recall; between
    two thresholds its height is their mean ("trapezoidal"), the lower ("minoring") or the higher ("majoring").
    InvalidArgumentError for another curve or method, or fewer than 2 thresholds.
    """
    if summation_method not in _HEIGHTS:
        raise errors.InvalidArgumentError(f"auc: summation_method is {summation_method!r}; use one of {', '.join(_HEIGHTS)}")
    if curve not in ("ROC", "PR") or num_thresholds < 2:
        raise errors.InvalidArgumentError(f"auc: curve is {curve!r} and num_thresholds {num_thresholds}; use ROC or PR and 2 "
                                          "or more")
    inner = [i / (num_thresholds - 1) for i in range(1, num_thresholds - 1)]
    limits = np.array([[-1e-7, *inner, 1 + 1e-7]], np.float32).T
    with variable_scope(name, "auc"):
        scores = ops.reshape(ops.cast(convert(predictions), "float32"), [1, -1])
        truth = ops.reshape(ops.cast(ops.cast(convert(labels), "bool"), "float32"), [1, -1])
        scale = ops.reshape(_scale(ops.cast(convert(predictions), "float32"), weights), [1, -1])
        above = ops.cast(scores > convert(limits), "float32")
        parts = {"true_positives": above * truth, "false_negatives": (1.0 - above) * truth,
                 "true_negatives": (1.0 - above) * (1.0 - truth), "false_positives": above * (1.0 - truth)}
        counters = {key: counter(key, [num_thresholds]) for key in parts}
        updates = {key: counters[key].assign_add(ops.reduce_sum(part * scale, axis=1)) for key, part in parts.items()}
        return listed(_area(curve, summation_method, **{k: c.value() for k, c in counters.items()}),
                      _area(curve, summation_method, **updates), metrics_collections, updates_collections)


_HEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "trapezoidal": lambda a, b: (a + b) / 2.0, "minoring": lambda a, b: ops.minimum(a, b),
    "majoring": lambda a, b: ops.maximum(a, b)}


def _area(curve: str, method: str, true_positives: Tensor, false_negatives: Tensor, true_negatives: Tensor,
          false_positives: Tensor) -> Tensor:
    tiny = 1e-6
    found = (true_positives + tiny) / (true_positives + false_negatives + tiny)
    if curve == "ROC":
        x, y = false_positives / (false_positives + true_negatives + tiny), found
    else:
        x, y = found, (true_positives + tiny) / (true_positives + false_positives + tiny)
    return ops.reduce_sum((x[:-1] - x[1:]) * _HEIGHTS[method](y[:-1], y[1:]))


# classes

def confusion_matrix(labels: Any, predictions: Any, num_classes: Any = None, dtype: Any = "int32",
                     name: str | None = None, weights: Any = None) -> Tensor:
    """[classes, classes]: how often class i (row) was predicted as class j (column), or the sum of weights [n] there.

    `labels` and `predictions` are integers [n], one of them perhaps [n, 1]; `num_classes` defaults to the largest of them plus
    1. ShapeError where their shapes differ.
    """
    with root_graph().name_scope(name or "confusion_matrix"):
        labels, predictions = squeezed(convert(labels), convert(predictions))
        if not labels.shape.compatible(predictions.shape):
            raise errors.ShapeError(f"confusion_matrix: labels have shape {labels.shape} but predictions {predictions.shape}; "
                                    "they must be equal")
        if weights is not None and not predictions.shape.compatible(convert(weights).shape):
            raise errors.ShapeError(f"confusion_matrix: predictions have shape {predictions.shape} but weights "
                                    f"{convert(weights).shape}; give one weight for each")
        labels, predictions = (ops.cast(ops.reshape(x, [-1]), "int64") for x in (labels, predictions))
        labels, predictions = (after([assert_non_negative(x, message=f"`{what}` contains negative values")], x)
                               for what, x in (("labels", labels), ("predictions", predictions)))
        count = ops.maximum(ops.reduce_max(labels), ops.reduce_max(predictions)) + 1 if num_classes is None else (
            ops.cast(convert(num_classes), "int64"))
        if num_classes is not None:
            labels, predictions = (after([assert_less(x, count, message=f"`{what}` out of bound")], x)
                                   for what, x in (("labels", labels), ("predictions", predictions)))
        values = ops.ones_like(labels) if weights is None else ops.reshape(convert(weights), [-1])
        shape = ops.stack([count, count])
        return ops.scatter_nd(ops.stack([labels, predictions], axis=1), ops.cast(values, dtype), shape)


def mean_iou(labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
             updates_collections: Any = None, name: str | None = None) -> Metric:
    """(mean over the classes seen of intersection / union, operation that adds a batch to the confusion matrix and gives
    that matrix)."""
    with variable_scope(name, "mean_iou"):
        total = counter("total_confusion_matrix", [num_classes, num_classes], np.float64)
        update = total.assign_add(confusion_matrix(labels, predictions, num_classes, "float64", weights=weights))
        matrix = ops.cast(total.value(), "float32")
        hits = ops.diag_part(matrix)
        union = ops.reduce_sum(matrix, axis=0) + ops.reduce_sum(matrix, axis=1) - hits
        seen = ops.cast(union > 0.0, "float32")
        value = ops.div_no_nan(ops.reduce_sum(ops.div_no_nan(hits, union)), ops.reduce_sum(seen))
        return listed(value, update, metrics_collections, updates_collections)
