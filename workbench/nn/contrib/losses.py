"""Losses by the names of tf.contrib.losses: predictions come first, and weights may have fewer axes than the losses."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn import losses as _losses
from workbench.nn.arg_scope import add_arg_scope
from workbench.nn.framework import name_scope

__all__ = ["absolute_difference", "add_loss", "compute_weighted_loss", "cosine_distance", "hinge_loss", "log_loss",
           "mean_pairwise_squared_error", "mean_squared_error", "sigmoid_cross_entropy", "softmax_cross_entropy",
           "sparse_softmax_cross_entropy"]

add_loss = add_arg_scope(_losses.add_loss)


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """Σ losses · weights over the number of losses whose weight is not zero: a scalar, put into the collection LOSSES.

    `weights` is a scalar, or has the first axes of `losses`: the others count alike. ShapeError where a rank is unknown or
    the weights do not fit.
    """
    found = convert(losses)
    return _losses.compute_weighted_loss(found, _deep(convert(weights), found.shape.rank), scope or "weighted_loss")


def _deep(weights: Tensor, rank: int | None) -> Tensor:
    """The weights with an axis of 1 for each axis of the losses that they lack."""
    if rank is None or weights.shape.rank is None:
        raise errors.ShapeError(f"compute_weighted_loss: losses have rank {rank} and weights {weights.name} shape "
                                f"{weights.shape}; losses.get_shape().ndims cannot be None, nor that of the weights: set_shape")
    if weights.shape.rank > 1 and weights.shape.as_list()[-1] == 1:
        weights = ops.squeeze(weights, axis=[-1])
    for _ in range(rank - (weights.shape.rank or rank)):
        weights = ops.expand_dims(weights, -1)
    return weights


def _weighted(function: Callable[..., Tensor], predictions: Any, labels: Any, weights: Any, scope: str | None,
              **options: Any) -> Tensor:
    title = function.__name__ + "_loss" * function.__name__.endswith(("entropy", "distance"))
    with name_scope(scope, title) as inner:
        each = function(labels, predictions, scope=inner, loss_collection=None, reduction=_losses.Reduction.NONE, **options)
        return compute_weighted_loss(each, weights, inner)


def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """|predictions - labels|, reduced by compute_weighted_loss."""
    return _weighted(_losses.absolute_difference, predictions, labels, weights, scope)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """(predictions - labels)², reduced by compute_weighted_loss."""
    return _weighted(_losses.mean_squared_error, predictions, labels, weights, scope)


def log_loss(predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7,
             scope: str | None = None) -> Tensor:
    """-labels · log(predictions) - (1 - labels) · log(1 - predictions), reduced by compute_weighted_loss."""
    return _weighted(_losses.log_loss, predictions, labels, weights, scope, epsilon=epsilon)


def cosine_distance(predictions: Any, labels: Any = None, axis: Any = None, weights: Any = 1.0, scope: str | None = None,
                    dim: Any = None) -> Tensor:
    """1 - Σ predictions · labels over `axis` (`dim`) of unit vectors, reduced by compute_weighted_loss."""
    along = dim if axis is None else axis
    if along is None:
        raise errors.InvalidArgumentError("cosine_distance: axis is missing; `axis` (or `dim`) must be specified.")
    return _weighted(_losses.cosine_distance, predictions, labels, weights, scope, axis=along)


def sigmoid_cross_entropy(logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: str | None = None) -> Tensor:
    """The cross entropy of independent classes, reduced by compute_weighted_loss."""
    return _weighted(_losses.sigmoid_cross_entropy, logits, multi_class_labels, weights, scope, label_smoothing=label_smoothing)


def softmax_cross_entropy(logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: str | None = None) -> Tensor:
    """The cross entropy of one-hot labels, reduced by compute_weighted_loss."""
    return _weighted(_losses.softmax_cross_entropy, logits, onehot_labels, weights, scope, label_smoothing=label_smoothing)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """The cross entropy of labels that are numbers of classes, [batch] or [batch, 1], reduced by compute_weighted_loss."""
    return _weighted(_losses.sparse_softmax_cross_entropy, logits, labels, weights, scope)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Tensor:
    """max(0, 1 - (2 · labels - 1) · logits), element by element: here, it is not reduced."""
    with name_scope(scope, "hinge_loss"):
        x, wanted = convert(logits), convert(labels)
        if not x.shape.compatible(wanted.shape):
            raise errors.ShapeError(f"hinge_loss: Shapes {x.shape} and {wanted.shape} are incompatible; give a label for each "
                                    "logit")
        signs: Tensor = 2.0 * ops.cast(wanted, x.dtype) - 1.0
        found: Tensor = ops.relu(1.0 - signs * x)
        return found


def mean_pairwise_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """2 · (mean of d² - (mean of d)²) of an example's differences d, summed over the examples with their weights.

    That is (n - 1) / n of what tf.losses gives: the mean over all n² pairs, those of an element with itself among them.
    """
    x = ops.cast(convert(predictions), "float32")
    with name_scope(scope, "mean_pairwise_squared_error"):
        differences = x - ops.cast(convert(labels), "float32")
        if differences.shape.rank is None:
            raise errors.ShapeError(f"mean_pairwise_squared_error: predictions {x.name} have unknown rank; set_shape it")
        given = ops.cast(convert(weights), "float32")
        _, spread = ops.moments(ops.reshape(differences, ops.stack([ops.shape(differences)[0], -1])), [1])
        used = ops.reshape(given, [-1]) + ops.zeros_like(spread)
        found: Tensor = ops.reduce_sum(2.0 * spread * used, name="value")
        return add_loss(found)
