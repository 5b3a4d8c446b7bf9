"""Metrics that only tf.contrib.metrics has: maps of metrics, the accuracy of one batch, shares of what is wrong."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn import metrics
from workbench.nn.metrics_more import listed, share_by_thresholds
from workbench.nn.scopes import variable_scope

__all__ = ["accuracy", "aggregate_metric_map", "aggregate_metrics", "streaming_false_negative_rate",
           "streaming_false_negative_rate_at_thresholds", "streaming_false_positive_rate",
           "streaming_false_positive_rate_at_thresholds"]

Metric = tuple[Tensor, Tensor]


def aggregate_metrics(*value_update_tuples: tuple[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(values, updates) of metrics, each given as (value, update). InvalidArgumentError (a ValueError) for no metric."""
    if not value_update_tuples:
        raise errors.InvalidArgumentError("aggregate_metrics: Expected at least one value_tensor/update_op pair; pass some")
    values, updates = zip(*value_update_tuples)
    return values, updates


def aggregate_metric_map(names_to_tuples: Mapping[str, tuple[Any, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(name -> value, name -> update) of metrics by name."""
    return ({name: value for name, (value, _) in names_to_tuples.items()},
            {name: update for name, (_, update) in names_to_tuples.items()})


def accuracy(predictions: Any, labels: Any, weights: Any = None) -> Tensor:
    """How many of the predictions of one batch equal the labels, as a share; weighted, where weights are given.

    InvalidArgumentErrors (ValueErrors) for floats and for dtypes that differ.
    """
    found, wanted = convert(predictions), convert(labels)
    if found.dtype.kind not in ("int", "uint", "bool", "string"):
        raise errors.InvalidArgumentError(f"accuracy: Labels should have bool, integer, or string dtype, not "
                                          f"{found.dtype.name}; take the argmax first")
    if found.dtype != wanted.dtype:
        raise errors.InvalidArgumentError(f"accuracy: Dtypes of predictions and labels should match. Given: predictions "
                                          f"({found.dtype.name}) and labels ({wanted.dtype.name}); cast one")
    with get_default_graph().name_scope("accuracy"):
        correct = ops.cast(ops.equal(found, wanted), "float32")
        if weights is None:
            return ops.reduce_mean(correct)
        scale = ops.cast(convert(weights), "float32")
        return ops.reduce_sum(correct * scale) / ops.reduce_sum(ops.ones_like(correct) * scale)


# shares of what is wrong

def _rate(wrong: Callable[..., Metric], right: Callable[..., Metric], title: str) -> Callable[..., Metric]:
    def metric(predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
               updates_collections: Any = None, name: str | None = None) -> Metric:
        with variable_scope(name, title):
            pairs = zip(wrong(labels, predictions, weights), right(labels, predictions, weights))
            value, update = (ops.div_no_nan(bad, bad + good) for bad, good in pairs)
            return listed(value, update, metrics_collections, updates_collections)
    metric.__name__ = metric.__qualname__ = f"streaming_{title}"
    metric.__doc__ = f"({title.replace('_', ' ')} of truth values, operation that sees one more batch)."
    return metric


def _rate_by_thresholds(kinds: tuple[str, str], title: str) -> Callable[..., Metric]:
    rate = share_by_thresholds(kinds, title)

    def metric(predictions: Any, labels: Any, thresholds: Sequence[float], weights: Any = None,
               metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> Metric:
        return rate(labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)
    metric.__name__ = metric.__qualname__ = f"streaming_{title}_at_thresholds"
    metric.__doc__ = f"({title.replace('_', ' ')} for each threshold, operation that sees one more batch)."
    return metric


streaming_false_positive_rate = _rate(metrics.false_positives, metrics.true_negatives, "false_positive_rate")
streaming_false_negative_rate = _rate(metrics.false_negatives, metrics.true_positives, "false_negative_rate")
streaming_false_positive_rate_at_thresholds = _rate_by_thresholds(("fp", "tn"), "false_positive_rate")
streaming_false_negative_rate_at_thresholds = _rate_by_thresholds(("fn", "tp"), "false_negative_rate")
