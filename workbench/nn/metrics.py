"""Metrics over many batches: a value, and an operation that takes in one more batch; counters are local variables."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.build import convert, ops
from workbench.core.graph import Tensor
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys, Variable

__all__ = ["accuracy", "mean"]


def _counter(name: str) -> Variable:
    return Variable(np.float32(0), trainable=False, name=name,
                    collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES])


def mean(values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
         name: str | None = None) -> tuple[Tensor, Tensor]:
    """(mean of all values seen, operation that sees one more batch and gives the new mean): float32 scalars, 0 before
    any.

    `weights` broadcasts against `values`. The counters are local variables: run local_variables_initializer first.
    """
    with variable_scope(name, "mean"):
        total, count = _counter("total"), _counter("count")
        values = ops.cast(convert(values), "float32")
        scale = ops.ones_like(values) * (1.0 if weights is None else ops.cast(convert(weights), "float32"))
        sums = total.assign_add(ops.reduce_sum(values * scale)), count.assign_add(ops.reduce_sum(scale))
        return _ratio(total.value(), count.value()), _ratio(*sums)


def _ratio(total: Tensor, count: Tensor) -> Tensor:
    return total / ops.maximum(count, 1e-30) * ops.cast(count > 0.0, "float32")


def accuracy(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
             updates_collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(share of predictions equal to labels, operation that sees one more batch and gives the new share): float32
    scalars.

    Labels and predictions have one shape and any type that compares; for the rest see mean.
    """
    labels, predictions = convert(labels), convert(predictions)
    right = ops.equal(ops.cast(labels, predictions.dtype), predictions)
    return mean(ops.cast(right, "float32"), weights, name=name or "accuracy")
