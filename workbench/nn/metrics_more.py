"""Metrics by thresholds, by rank, by class and of whole tensors; counters as in metrics."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.scatters import scatter_add
from workbench.nn.scopes import variable_scope
from workbench.nn.sparse import SparseTensor, SparseTensorValue, sparse_tensor_to_dense
from workbench.nn.variables import GraphKeys, Variable
from workbench.nn.weights import checked_weights, fitted_weights

__all__ = ["by_thresholds", "counter", "listed", "mean_per_class_accuracy", "mean_tensor", "precision_at_thresholds",
           "precision_at_top_k", "recall_at_k", "recall_at_thresholds", "recall_at_top_k", "sensitivity_at_specificity",
           "sparse_average_precision_at_k", "sparse_precision_at_k", "specificity_at_sensitivity"]

Metric = tuple[Tensor, Tensor]
TINY = 1e-7


def counter(name: str, shape: Sequence[int] = (), dtype: Any = np.float32) -> Variable:
    """A local variable of zeros."""
    return Variable(np.zeros(shape, dtype), trainable=False, name=name,
                    collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES])


def listed(value: Tensor, update: Tensor, values: Any, updates: Any) -> Metric:
    """The pair, added to the collections (a name or several) that were asked for."""
    for item, keys in ((value, values), (update, updates)):
        for key in [keys] if isinstance(keys, str) else keys or ():
            root_graph().add_to_collection(key, item)
    return value, update


def mean_tensor(values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
                name: str | None = None) -> Metric:
    """(the mean of all values seen, element by element, operation that sees one more batch)."""
    with variable_scope(name, "mean"):
        x = ops.cast(convert(values), "float32")
        scale = ops.ones_like(x) if weights is None else ops.ones_like(x) * fitted_weights(weights, x, "mean_tensor")
        total, count = counter("total_tensor", x.shape.static), counter("count_tensor", x.shape.static)
        sums = total.assign_add(x * scale), count.assign_add(scale)
        return listed(ops.div_no_nan(total.value(), count.value()), ops.div_no_nan(*sums), metrics_collections,
                      updates_collections)


def mean_per_class_accuracy(labels: Any, predictions: Any, num_classes: int, weights: Any = None,
                            metrics_collections: Any = None, updates_collections: Any = None,
                            name: str | None = None) -> Metric:
    """(mean over the classes of the share of a class's examples that are right, operation that sees one more batch and gives
    the share of each class)."""
    with variable_scope(name, "mean_accuracy"):
        truth, found = (ops.reshape(ops.cast(convert(x), "int64"), [-1]) for x in (labels, predictions))
        scale = ops.ones_like(ops.cast(truth, "float32"))
        if weights is not None:
            scale = scale * ops.reshape(ops.cast(convert(weights), "float32"), [-1])
        total, right = counter("total", [num_classes]), counter("count", [num_classes])
        hits = ops.cast(ops.equal(truth, found), "float32") * scale
        sums = scatter_add(right, truth, hits), scatter_add(total, truth, scale)
        return listed(ops.reduce_mean(ops.div_no_nan(right.value(), total.value())), ops.div_no_nan(*sums), metrics_collections,
                      updates_collections)


# thresholds

def by_thresholds(labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any,
                  kinds: Sequence[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(counts so far, counts after one more batch) of "tp", "fp", "tn", "fn", [thresholds] each."""
    scores = ops.cast(convert(predictions), "float32")
    scale = ops.ones_like(scores) if weights is None else ops.ones_like(scores) * fitted_weights(weights, scores, "metric")
    row = ops.reshape(scores, [1, -1])
    truth = ops.reshape(ops.cast(ops.cast(convert(labels), "bool"), "float32"), [1, -1])
    above = ops.cast(row > convert(np.array(list(thresholds), np.float32)[:, None]), "float32")
    parts = {"tp": above * truth, "fn": (1.0 - above) * truth, "tn": (1.0 - above) * (1.0 - truth), "fp": above * (1.0 - truth)}
    names = {"tp": "true_positives", "fn": "false_negatives", "tn": "true_negatives", "fp": "false_positives"}
    counters = {kind: counter(names[kind], [len(thresholds)]) for kind in kinds}
    updates = {kind: counters[kind].assign_add(ops.reduce_sum(parts[kind] * ops.reshape(scale, [1, -1]), axis=1))
               for kind in kinds}
    return {kind: found.value() for kind, found in counters.items()}, updates


def _counts(kind: str, title: str) -> Callable[..., Metric]:
    def metric(labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any = None, metrics_collections: Any = None,
               updates_collections: Any = None, name: str | None = None) -> Metric:
        with variable_scope(name, title):
            values, updates = by_thresholds(labels, predictions, thresholds, weights, [kind])
            return listed(values[kind], updates[kind], metrics_collections, updates_collections)
    metric.__name__ = metric.__qualname__ = f"{title}_at_thresholds"
    metric.__doc__ = f"(weights of the {title.replace('_', ' ')} for each threshold, operation that sees one more batch)."
    return metric


true_positives_at_thresholds = _counts("tp", "true_positives")
false_positives_at_thresholds = _counts("fp", "false_positives")
true_negatives_at_thresholds = _counts("tn", "true_negatives")
false_negatives_at_thresholds = _counts("fn", "false_negatives")


def share_by_thresholds(kinds: tuple[str, str], title: str) -> Callable[..., Metric]:
    """The metric `title`_at_thresholds: of the examples of two `kinds` the share of the first."""
    good, bad = kinds

    def metric(labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any = None, metrics_collections: Any = None,
               updates_collections: Any = None, name: str | None = None) -> Metric:
        with variable_scope(name, f"{title}_at_thresholds"):
            pair = by_thresholds(labels, predictions, thresholds, weights, kinds)
            value, update = (c[good] / (TINY + c[good] + c[bad]) for c in pair)
            return listed(value, update, metrics_collections, updates_collections)
    metric.__name__ = metric.__qualname__ = f"{title}_at_thresholds"
    metric.__doc__ = f"({title} for each threshold, operation that sees one more batch)."
    return metric


precision_at_thresholds = share_by_thresholds(("tp", "fp"), "precision")
recall_at_thresholds = share_by_thresholds(("tp", "fn"), "recall")


def sensitivity_at_specificity(labels: Any, predictions: Any, specificity: float, weights: Any = None,
                               num_thresholds: int = 200, metrics_collections: Any = None, updates_collections: Any = None,
                               name: str | None = None) -> Metric:
    """(share of the true examples found at the threshold whose specificity is nearest, operation that sees one more batch);
    predictions lie in 0 … 1."""
    with variable_scope(name, "sensitivity_at_specificity"):
        pair = _by_target(labels, predictions, specificity, weights, num_thresholds, "specificity")
        value, update = (_nearest(c, ["tn", "fp"], ["tp", "fn"], specificity) for c in pair)
        return listed(value, update, metrics_collections, updates_collections)


def specificity_at_sensitivity(labels: Any, predictions: Any, sensitivity: float, weights: Any = None,
                               num_thresholds: int = 200, metrics_collections: Any = None, updates_collections: Any = None,
                               name: str | None = None) -> Metric:
    """(share of the false examples left out at the threshold whose sensitivity is nearest, operation that sees one more
    batch); predictions lie in 0 … 1."""
    with variable_scope(name, "specificity_at_sensitivity"):
        pair = _by_target(labels, predictions, sensitivity, weights, num_thresholds, "sensitivity")
        value, update = (_nearest(c, ["tp", "fn"], ["tn", "fp"], sensitivity, last=True) for c in pair)
        return listed(value, update, metrics_collections, updates_collections)


def _by_target(labels: Any, predictions: Any, target: float, weights: Any, count: int, what: str) -> Any:
    if not 0 <= target <= 1:
        raise errors.InvalidArgumentError(f"metric: {what} must be in the range [0, 1]; it is {target}")
    inner = [(i + 1) / (count - 1) for i in range(count - 2)]
    return by_thresholds(labels, predictions, [-TINY, *inner, 1 - TINY], weights, ("tp", "fn", "tn", "fp"))


def _nearest(counts: dict[str, Tensor], fixed: list[str], wanted: list[str], target: float,
             last: bool = False) -> Tensor:
    """The share of the `wanted` at the threshold, of several the first or the last, whose share of the `fixed` is nearest."""
    def share(kinds: list[str]) -> Tensor:
        good, bad = (counts[kind] for kind in kinds)
        return good / (good + bad + TINY)
    away = ops.abs(share(fixed) - target)
    nearest = ops.argmin(away, axis=0)
    if last:
        nearest = ops.cast(ops.size(away) - 1, nearest.dtype) - ops.argmin(ops.reverse(away, [0]), axis=0)
    return ops.gather(share(wanted), nearest)


# by rank

_NONE = -(2 ** 62)      # stands for a label that is not there; any other, also one below zero, counts as not found


def _ranked(labels: Any, predictions: Any, k: int, class_id: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `matched` says of the k best of the predictions [..., classes]."""
    return matched(labels, ops.top_k(convert(predictions), k)[1], class_id)


def matched(labels: Any, best: Any, class_id: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(is this label counted, was it found), (is this prediction counted, is it right): bool [..., labels] and [..., k], for
    the classes [..., k] that are predicted."""
    best = ops.cast(convert(best), "int64")
    if isinstance(labels, (SparseTensor, SparseTensorValue)):
        given = SparseTensor.from_value(labels)
        truth = sparse_tensor_to_dense(SparseTensor(given.indices, ops.cast(given.values, "int64"), given.dense_shape), _NONE)
    else:
        truth = ops.cast(convert(labels), "int64")
    if truth.shape.rank is not None and best.shape.rank is not None and truth.shape.rank == best.shape.rank - 1:
        truth = ops.expand_dims(truth, -1)
    same = ops.equal(ops.expand_dims(truth, -1), ops.expand_dims(truth, -2))
    earlier = ops.matrix_band_part(ops.cast(same, "float32"), -1, 0) - ops.matrix_band_part(ops.cast(same, "float32"), 0, 0)
    there = ops.not_equal(truth, ops.constant(_NONE, "int64"))
    valid = ops.logical_and(ops.equal(ops.reduce_sum(earlier, axis=-1), 0.0), there)
    match = ops.equal(ops.expand_dims(truth, -1), ops.expand_dims(best, -2))
    counted = ops.ones_like(best, "bool")
    if class_id is not None:
        valid = ops.logical_and(valid, ops.equal(truth, class_id))
        counted = ops.equal(best, class_id)
    return valid, ops.reduce_any(match, axis=-1), counted, ops.reduce_any(match, axis=-2)


def _summed(flags: Tensor, weights: Any, where: str) -> Tensor:
    each = ops.reduce_sum(ops.cast(flags, "float64"), axis=-1)
    return ops.reduce_sum(each if weights is None else each * checked_weights(weights, each, where))


def share(counted: Tensor, right: Tensor, bad: str, weights: Any, where: str, values: Any, updates: Any) -> Metric:
    """(share of what counts that is right, operation that sees one more batch); `bad` is what the rest is called."""
    sums = (_summed(ops.logical_and(counted, right), weights, where),
            _summed(ops.logical_and(counted, ops.logical_not(right)), weights, where))
    counters = [counter(name, (), np.float64) for name in ("true_positive", bad)]
    after = [c.assign_add(s) for c, s in zip(counters, sums)]
    good, rest = (c.value() for c in counters)
    return listed(good / (good + rest), after[0] / (after[0] + after[1]), values, updates)


def recall_at_k(labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
                metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> Metric:
    """(share of the labels, int [..., labels] or sparse, among the k best predictions [..., classes], operation that sees one
    more batch); of one class with `class_id`. NaN before there is a label."""
    with variable_scope(name, f"recall_at_{k}"):
        valid, found, _, _ = _ranked(labels, predictions, k, class_id)
        return share(valid, found, "false_negative", weights, "recall_at_k", metrics_collections, updates_collections)


def sparse_precision_at_k(labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
                          metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> Metric:
    """(share of the k best predictions that are labels, operation that sees one more batch); arguments as in recall_at_k."""
    with variable_scope(name, f"precision_at_{k}"):
        _, _, counted, right = _ranked(labels, predictions, k, class_id)
        return share(counted, right, "false_positive", weights, "sparse_precision_at_k", metrics_collections,
                     updates_collections)


def precision_at_top_k(labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None,
                       weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
                       name: str | None = None) -> Metric:
    """sparse_precision_at_k where the k best classes, int [..., k], are known already."""
    best = convert(predictions_idx)
    with variable_scope(name, f"precision_at_{k or best.shape.as_list()[-1]}"):
        _, _, counted, right = matched(labels, best, class_id)
        return share(counted, right, "false_positive", weights, "precision_at_top_k", metrics_collections, updates_collections)


def recall_at_top_k(labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None, weights: Any = None,
                    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> Metric:
    """recall_at_k where the k best classes, int [..., k], are known already."""
    best = convert(predictions_idx)
    with variable_scope(name, f"recall_at_{k or best.shape.as_list()[-1]}"):
        valid, found, _, _ = matched(labels, best, class_id)
        return share(valid, found, "false_negative", weights, "recall_at_top_k", metrics_collections, updates_collections)


def sparse_average_precision_at_k(labels: Any, predictions: Any, k: int, weights: Any = None, metrics_collections: Any = None,
                                  updates_collections: Any = None, name: str | None = None) -> Metric:
    """(mean of the average precision of the k best predictions, operation that sees one more batch)."""
    with variable_scope(name, f"average_precision_at_{k}"):
        valid, _, _, right = _ranked(labels, predictions, k, None)
        return averaged(valid, right, k, weights, metrics_collections, updates_collections)


def averaged(valid: Tensor, right: Tensor, k: int, weights: Any, values: Any, updates: Any) -> Metric:
    """(mean of the average precision, operation that sees one more batch), from what `matched` says of k predictions."""
    hits = ops.cast(right, "float64")
    precision = ops.cumsum(hits, axis=-1) / convert(np.arange(1.0, k + 1))
    relevant = ops.minimum(ops.reduce_sum(ops.cast(valid, "float64"), axis=-1), float(k))
    each = ops.reduce_sum(precision * hits, axis=-1) / relevant
    scale = ops.ones_like(each)
    if weights is not None:
        scale = scale * checked_weights(weights, each, "sparse_average_precision_at_k")
    most, total = counter("max", (), np.float64), counter("total", (), np.float64)
    sums = total.assign_add(ops.reduce_sum(each * scale)), most.assign_add(ops.reduce_sum(scale))
    return listed(ops.div_no_nan(total.value(), most.value()), ops.div_no_nan(*sums), values, updates)
