"""Metrics by name: from targets and predictions of a batch to numbers whose mean is shown."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.train.keras import losses
from workbench.train.keras.registry import Kind

__all__ = ["binary_accuracy", "categorical_accuracy", "deserialize", "get", "serialize", "sparse_categorical_accuracy",
           "sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy"]


def _share(hits: Tensor) -> Tensor:
    made: Tensor = ops.cast(hits, "float32")
    return made


def binary_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Share of the elements that round to their target, for each row."""
    y_pred = convert(y_pred)
    made: Tensor = ops.reduce_mean(_share(ops.equal(ops.cast(y_true, y_pred.dtype), ops.round(y_pred))), -1)
    return made


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the largest prediction is that of the largest target, else 0."""
    return _share(ops.equal(ops.argmax(y_true, -1), ops.argmax(y_pred, -1)))


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the largest prediction has the target's number; targets are [batch, …, 1]."""
    return _share(ops.equal(ops.cast(ops.reduce_max(y_true, -1), "int64"), ops.argmax(y_pred, -1)))


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Share of the rows whose target is among the k largest predictions."""
    made: Tensor = ops.reduce_mean(_share(ops.in_top_k(y_pred, ops.argmax(y_true, -1), k)), -1)
    return made


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Share of the rows whose target's number is among the k largest predictions."""
    rows = ops.cast(ops.reduce_max(y_true, -1), "int32")
    made: Tensor = ops.reduce_mean(_share(ops.in_top_k(y_pred, rows, k)), -1)
    return made


METRICS = Kind("metric function", binary_accuracy, categorical_accuracy, sparse_categorical_accuracy,
               top_k_categorical_accuracy, sparse_top_k_categorical_accuracy, aliases=losses.LOSSES.names)
get, serialize, deserialize = METRICS.get, METRICS.serialize, METRICS.deserialize
