"""Metrics over many batches that only tf.contrib.metrics has: covariances, curves, kept values, ranked predictions."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.checks import assert_equal
from workbench.nn.framework import control_dependencies
from workbench.nn.metrics_more import (
    averaged,
    by_thresholds,
    counter,
    listed,
    matched,
    precision_at_top_k,
    recall_at_top_k,
)
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys, Variable, group
from workbench.nn.weights import checked_weights

__all__ = ["auc_using_histogram", "sparse_recall_at_top_k", "streaming_concat", "streaming_covariance",
           "streaming_curve_points", "streaming_pearson_correlation", "streaming_sparse_average_precision_at_top_k",
           "streaming_sparse_precision_at_top_k"]

Metric = tuple[Tensor, Tensor]


# ranked predictions, given as the classes themselves

def sparse_recall_at_top_k(labels: Any, top_k_predictions: Any, class_id: int | None = None, weights: Any = None,
                           metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> Metric:
    """recall_at_k where the k best classes, int [..., k], are known already."""
    return recall_at_top_k(labels, top_k_predictions, None, class_id, weights, metrics_collections, updates_collections, name)


def streaming_sparse_precision_at_top_k(top_k_predictions: Any, labels: Any, class_id: int | None = None, weights: Any = None,
                                        metrics_collections: Any = None, updates_collections: Any = None,
                                        name: str | None = None) -> Metric:
    """sparse_precision_at_k where the k best classes, int [..., k], are known already."""
    return precision_at_top_k(labels, top_k_predictions, None, class_id, weights, metrics_collections, updates_collections,
                              name)


def streaming_sparse_average_precision_at_top_k(top_k_predictions: Any, labels: Any, weights: Any = None,
                                                metrics_collections: Any = None, updates_collections: Any = None,
                                                name: str | None = None) -> Metric:
    """sparse_average_precision_at_k where the k best classes, int [..., k], are known already."""
    best = convert(top_k_predictions)
    count: Any = best.shape.as_list()[-1]
    with variable_scope(name, f"average_precision_at_{count}"):
        valid, _, _, right = matched(labels, best, None)
        return averaged(valid, right, count, weights, metrics_collections, updates_collections)


# how two values go together

def _moved(predictions: Any, labels: Any, weights: Any) -> tuple[Metric, list[Tensor]]:
    """((covariance so far, with one more batch), the counters' new values); by the formula for sums of parts (Chan et al.)."""
    x, y = ops.cast(convert(predictions), "float32"), ops.cast(convert(labels), "float32")
    if not x.shape.compatible(y.shape):
        raise errors.ShapeError(f"streaming_covariance: predictions have shape {x.shape} but labels {y.shape}; make them equal")
    scale = ops.ones_like(x) if weights is None else ops.ones_like(x) * checked_weights(weights, x, "streaming_covariance")
    count, mean_x, mean_y, together = (counter(name) for name in (
        "count", "mean_prediction", "mean_label", "comoment"))
    before = [v.value() for v in (count, mean_x, mean_y, together)]
    more = ops.reduce_sum(scale)
    whole = before[0] + more
    safe = ops.maximum(whole, 1e-30)
    here = [ops.reduce_sum(v * scale) / ops.maximum(more, 1e-30) for v in (x, y)]
    apart = ops.reduce_sum((x - here[0]) * (y - here[1]) * scale)
    away = [now - was for now, was in zip(here, before[1:3])]
    after = [count.assign(whole), mean_x.assign(before[1] + away[0] * more / safe),
             mean_y.assign(before[2] + away[1] * more / safe),
             together.assign(before[3] + apart + away[0] * away[1] * before[0] * more / safe)]

    def covariance(number: Tensor, sums: Tensor) -> Tensor:
        nothing = ops.fill([], float("nan"))
        return ops.where(number < 2.0, nothing, sums / ops.maximum(number - 1.0, 1e-30))
    return (covariance(before[0], before[3]), covariance(after[0], after[3])), after


def streaming_covariance(predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
                         updates_collections: Any = None, name: str | None = None) -> Metric:
    """(unbiased covariance of predictions and labels, operation that sees one more batch); NaN for less than two."""
    with variable_scope(name, "covariance"):
        (value, update), after = _moved(predictions, labels, weights)
        with control_dependencies(after):
            return listed(value, ops.identity(update), metrics_collections, updates_collections)


def streaming_pearson_correlation(predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
                                  updates_collections: Any = None, name: str | None = None) -> Metric:
    """(Pearson's correlation of predictions and labels, operation that sees one more batch)."""
    with variable_scope(name, "pearson_r"):
        pairs = []
        for kind, one, other in (("covariance", predictions, labels), ("variance_predictions", predictions, predictions),
                                 ("variance_labels", labels, labels)):
            pairs.append(streaming_covariance(one, other, weights, name=kind))
        value, update = (both / (ops.sqrt(first) * ops.sqrt(second)) for both, first, second in zip(*pairs))
        return listed(value, update, metrics_collections, updates_collections)


# curves

def streaming_curve_points(labels: Any = None, predictions: Any = None, weights: Any = None, num_thresholds: int = 200,
                           metrics_collections: Any = None, updates_collections: Any = None, curve: str = "ROC",
                           name: str | None = None) -> Metric:
    """(points [num_thresholds, 2] of a curve, operation that sees one more batch): false positive rate and recall for "ROC",
    recall and precision for "PR". ValueError for another curve."""
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    tiny = 1e-7
    inside = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
    with variable_scope(name, "curve_points"):
        both = by_thresholds(labels, predictions, [-tiny, *inside, 1.0 + tiny], weights, ("tp", "fn", "tn", "fp"))

        def points(c: dict[str, Tensor]) -> Tensor:
            recall = (c["tp"] + tiny) / (c["tp"] + c["fn"] + tiny)
            other = (c["fp"] / (c["fp"] + c["tn"] + tiny), recall) if curve == "ROC" else (
                recall, (c["tp"] + tiny) / (c["tp"] + c["fp"] + tiny))
            return ops.stack(list(other), axis=1)
        return listed(points(both[0]), points(both[1]), metrics_collections, updates_collections)


def auc_using_histogram(boolean_labels: Any, scores: Any, score_range: Any, nbins: int = 100, collections: Any = None,
                        check_shape: bool = True, name: str | None = None) -> tuple[Tensor, Operation]:
    """(area under the ROC curve by two histograms of `nbins` in `score_range`, operation that sees one more batch).

    `boolean_labels` and `scores` are vectors; with `check_shape` another length is an InvalidArgumentError when run.
    """
    collections = [GraphKeys.LOCAL_VARIABLES] if collections is None else collections
    truth, values = convert(boolean_labels, "bool"), convert(scores)
    with variable_scope(name, "auc_using_histogram"):
        checks = [assert_equal(ops.shape(truth), ops.shape(values))] if check_shape else []
        with control_dependencies(checks):
            values = ops.identity(values)
        kept = []
        for label, flags in (("hist_true", truth), ("hist_false", ops.logical_not(truth))):
            sums = Variable(np.zeros(nbins, np.float32), trainable=False, name=label, collections=collections)
            found = ops.histogram_fixed_width(ops.boolean_mask(values, flags), score_range, nbins)
            kept.append((sums.value(), sums.assign_add(ops.cast(found, "float32"))))
        reads, updates = zip(*kept)
        return _area(*reads), group(*updates)


def _area(true: Tensor, false: Tensor) -> Tensor:
    """The area from histograms of the scores of either kind, by trapezoids from the highest scores down."""
    rise, run = (ops.reverse(h / ops.maximum(ops.reduce_sum(h), 1e-30), axis=[0]) for h in (true, false))
    high, low = ops.cumsum(rise), ops.cumsum(rise, exclusive=True)
    return ops.reduce_sum(run * (high + low) / 2.0)


# values as they are

def streaming_concat(values: Any, axis: int = 0, max_size: int | None = None, metrics_collections: Any = None,
                     updates_collections: Any = None, name: str | None = None) -> Metric:
    """(all values seen, one behind the other along `axis`, operation that sees one more batch); the first `max_size` of them
    where that is given. ShapeError unless the other dimensions are known."""
    given = convert(values)
    rank = given.shape.rank
    if rank is None or not -rank <= axis < rank:
        raise errors.ShapeError(f"streaming_concat: values have shape {given.shape} and axis is {axis}; give one of theirs")
    axis, dims = axis % rank, given.shape.as_list()
    if any(d is None for i, d in enumerate(dims) if i != axis):
        raise errors.ShapeError(f"streaming_concat: values have shape {given.shape}; the dimensions other than {axis} must be "
                                "known: set its shape")
    with variable_scope(name, "streaming_concat"):
        lengths = [0 if i == axis else int(d or 0) for i, d in enumerate(dims)]
        nothing: Any = ops.reshape(ops.constant([], "string"), lengths) if given.dtype.kind == "string" else np.zeros(
            lengths, given.dtype.numpy)
        kept = Variable(nothing, trainable=False, name="array", collections=[GraphKeys.LOCAL_VARIABLES], validate_shape=False)
        joined = ops.concat([kept.value(), given], axis=axis)
        if max_size is not None:
            joined = joined[(*(slice(None),) * axis, slice(max_size))]
        update = kept.assign(joined)
        found = [ops.identity(t) for t in (kept.value(), update)]
        for one in found:
            one.set_shape(Shape([None if i == axis else d for i, d in enumerate(dims)]))
        return listed(found[0], found[1], metrics_collections, updates_collections)
