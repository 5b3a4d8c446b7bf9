"""Losses by name: from targets and predictions [batch, …, n] to one number for each row [batch, …]."""
from __future__ import annotations

import math
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.train.keras import backend
from workbench.train.keras.registry import Kind

__all__ = [
    "binary_crossentropy", "categorical_crossentropy", "categorical_hinge", "cosine_proximity", "deserialize", "get", "hinge",
    "kullback_leibler_divergence", "logcosh", "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_error",
    "mean_squared_logarithmic_error", "poisson", "serialize", "sparse_categorical_crossentropy", "squared_hinge",
]


def _mean(x: Any) -> Tensor:
    made: Tensor = ops.reduce_mean(x, -1)
    return made


def _above(x: Any) -> Tensor:
    made: Tensor = ops.maximum(x, backend.epsilon())
    return made


def _share(x: Tensor) -> Tensor:
    """A probability, away from 0 and 1."""
    made: Tensor = ops.clip_by_value(x, backend.epsilon(), 1 - backend.epsilon())
    return made


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of (prediction - target)²."""
    return _mean(ops.squared_difference(y_pred, y_true))


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of |prediction - target|."""
    return _mean(ops.abs(y_pred - y_true))


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of |prediction - target| in per cent of |target|."""
    return 100.0 * _mean(ops.abs((y_true - y_pred) / _above(ops.abs(y_true))))


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of the squared difference of log(1 + x)."""
    return _mean(ops.squared_difference(ops.log(_above(y_pred) + 1.0), ops.log(_above(y_true) + 1.0)))


def squared_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of max(0, 1 - target · prediction)²; targets are -1 or 1."""
    return _mean(ops.square(ops.maximum(1.0 - y_true * y_pred, 0.0)))


def hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of max(0, 1 - target · prediction); targets are -1 or 1."""
    return _mean(ops.maximum(1.0 - y_true * y_pred, 0.0))


def categorical_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """How far the best of the wrong classes comes within 1 of the right one, at least 0."""
    right = ops.reduce_sum(y_true * y_pred, -1)
    made: Tensor = ops.maximum(ops.reduce_max((1.0 - y_true) * y_pred, -1) - right + 1.0, 0.0)
    return made


def logcosh(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of log(cosh(prediction - target)), computed so that it does not overflow."""
    apart = y_pred - y_true
    return _mean(apart + ops.softplus(-2.0 * apart) - math.log(2.0))


def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """-Σ target · log(prediction), with predictions scaled to the sum 1; logits go through softmax."""
    if from_logits:
        made: Tensor = ops.softmax_cross_entropy_with_logits(labels=y_true, logits=y_pred)
        return made
    y_pred = convert(y_pred)
    shares = y_pred / ops.reduce_sum(y_pred, -1, keepdims=True)
    return -ops.reduce_sum(y_true * ops.log(_share(shares)), -1)


def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """Cross entropy with targets that number the classes, [batch, …] or [batch, …, 1]."""
    y_pred = convert(y_pred)
    logits = y_pred if from_logits else ops.log(_share(y_pred))
    shape = ops.shape(logits)
    rows = ops.sparse_softmax_cross_entropy_with_logits(
        labels=ops.cast(ops.reshape(y_true, [-1]), "int64"), logits=ops.reshape(logits, [-1, shape[-1]]))
    made: Tensor = ops.reshape(rows, shape[:-1])
    return made


def element_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """Cross entropy of each element with its own target between 0 and 1."""
    if not from_logits:
        share = _share(convert(y_pred))
        y_pred = ops.log(share / (1 - share))
    made: Tensor = ops.sigmoid_cross_entropy_with_logits(labels=y_true, logits=y_pred)
    return made


def binary_crossentropy(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of the cross entropies of the elements."""
    return _mean(element_crossentropy(y_true, y_pred))


def kullback_leibler_divergence(y_true: Any, y_pred: Any) -> Tensor:
    """Σ target · log(target / prediction), both at least epsilon."""
    y_true, y_pred = (ops.clip_by_value(convert(y), backend.epsilon(), 1.0) for y in (y_true, y_pred))
    made: Tensor = ops.reduce_sum(y_true * ops.log(y_true / y_pred), -1)
    return made


def poisson(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of prediction - target · log(prediction)."""
    return _mean(y_pred - y_true * ops.log(y_pred + backend.epsilon()))


def cosine_proximity(y_true: Any, y_pred: Any) -> Tensor:
    """-mean of the products of targets and predictions, each of norm 1, as Keras 2.0 has it."""
    return -_mean(ops.l2_normalize(y_true, -1) * ops.l2_normalize(y_pred, -1))


mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence
cosine = cosine_proximity
ALIASES = {"mse": mse, "MSE": mse, "mae": mae, "MAE": mae, "mape": mape, "MAPE": mape, "msle": msle, "MSLE": msle, "kld": kld,
           "KLD": kld, "cosine": cosine}

LOSSES = Kind("loss function", mean_squared_error, mean_absolute_error, mean_absolute_percentage_error,
              mean_squared_logarithmic_error, squared_hinge, hinge, categorical_hinge, logcosh, categorical_crossentropy,
              sparse_categorical_crossentropy, binary_crossentropy, kullback_leibler_divergence, poisson, cosine_proximity,
              aliases=ALIASES)
get, serialize, deserialize = LOSSES.get, LOSSES.serialize, LOSSES.deserialize
