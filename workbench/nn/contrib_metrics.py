"""Metrics that only tf.contrib.metrics has: maps of metrics, and the accuracy of one batch."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["accuracy", "aggregate_metric_map", "aggregate_metrics"]


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
