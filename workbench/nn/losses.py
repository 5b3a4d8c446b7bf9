"""Losses: weighted means over a batch, gathered in the collection LOSSES."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import GraphKeys, get_collection
from workbench.nn.weights import checked_weights, squeezed, squeezed_weights

__all__ = ["Reduction", "absolute_difference", "add_loss", "compute_weighted_loss", "cosine_distance", "get_losses",
           "get_regularization_loss", "get_regularization_losses", "get_total_loss", "hinge_loss", "huber_loss", "log_loss",
           "mean_pairwise_squared_error", "mean_squared_error", "sequence_loss_by_example", "sigmoid_cross_entropy",
           "softmax_cross_entropy", "sparse_softmax_cross_entropy"]


class Reduction:
    """How the losses of a batch become one number: NONE leaves them, SUM is Σ losses · weights, MEAN divides it by Σ
    weights, SUM_BY_NONZERO_WEIGHTS by the number of weights that are not zero, SUM_OVER_BATCH_SIZE by that of the losses."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Every way."""
        return cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def validate(cls, key: str) -> None:
        """InvalidArgumentError (ValueError) for an unknown way."""
        if key not in cls.all():
            raise errors.InvalidArgumentError(f"compute_weighted_loss: reduction {key!r} is unknown; use one of "
                                              f"{', '.join(cls.all())}")


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None,
                          loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Σ losses · weights divided as `reduction` says, a scalar (for Reduction.NONE the products); 0 where it would
    divide by 0.

    `weights` is a scalar, or has the rank of `losses` with lengths of theirs or 1; losses of integers become float32. The
    result goes to `loss_collection` unless that is None. All losses of this module end here. Raises InvalidArgumentError
    for an unknown reduction, ShapeError for weights that do not fit.
    """
    Reduction.validate(reduction)
    losses = _floating(convert(losses))
    with root_graph().name_scope(scope or "weighted_loss"):
        weights = checked_weights(weights, losses, "compute_weighted_loss")
        product = losses * weights
        if reduction == Reduction.NONE:
            return add_loss(product, loss_collection)
        total = ops.reduce_sum(product, name="value" if reduction == Reduction.SUM else None)
        if reduction != Reduction.SUM:
            spread = weights + ops.zeros_like(losses)
            by = {Reduction.MEAN: spread, Reduction.SUM_OVER_BATCH_SIZE: ops.ones_like(losses),
                  Reduction.SUM_BY_NONZERO_WEIGHTS: ops.cast(ops.not_equal(spread, 0.0), losses.dtype)}[reduction]
            total = ops.div_no_nan(total, ops.reduce_sum(by), name="value")
        return add_loss(total, loss_collection)


def _floating(tensor: Tensor) -> Tensor:
    """Integers and truth values as float32, which losses of them are."""
    return tensor if tensor.dtype.is_floating else ops.cast(tensor, "float32")


def add_loss(loss: Tensor, loss_collection: str | None = GraphKeys.LOSSES) -> Tensor:
    """Put a loss into the collection that get_total_loss sums."""
    if loss_collection:
        root_graph().add_to_collection(loss_collection, loss)
    return loss


def _pair(labels: Any, predictions: Any, where: str) -> tuple[Tensor, Tensor]:
    predictions = _floating(convert(predictions))
    labels = convert(labels)
    if not labels.shape.compatible(predictions.shape):
        raise errors.ShapeError(f"{where}: labels {labels.name} has shape {labels.shape} but predictions "
                                f"{predictions.name} has {predictions.shape}; make them equal")
    return ops.cast(labels, predictions.dtype), predictions


def mean_squared_error(labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
                       loss_collection: str | None = GraphKeys.LOSSES,
                       reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """(predictions - labels)², two tensors of one shape, reduced by compute_weighted_loss; ShapeError where shapes differ."""
    labels, predictions = _pair(labels, predictions, "mean_squared_error")
    return compute_weighted_loss(ops.squared_difference(predictions, labels), weights, scope or "mean_squared_error",
                                 loss_collection, reduction)


def absolute_difference(labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
                        loss_collection: str | None = GraphKeys.LOSSES,
                        reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """|predictions - labels|, two tensors of one shape, reduced by compute_weighted_loss; ShapeError where shapes differ."""
    labels, predictions = _pair(labels, predictions, "absolute_difference")
    return compute_weighted_loss(ops.abs(predictions - labels), weights, scope or "absolute_difference",
                                 loss_collection, reduction)


def mean_pairwise_squared_error(labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
                                loss_collection: str | None = GraphKeys.LOSSES) -> Tensor:
    """The mean over an example's pairs of elements of ((p_i - p_j) - (l_i - l_j))², summed over the examples with their
    `weights`: a scalar, or of the rank of `labels`. An example that has several counts with their sum. ShapeError for weights
    that do not fit."""
    labels, predictions = _pair(labels, predictions, "mean_pairwise_squared_error")
    with root_graph().name_scope(scope or "mean_pairwise_squared_error"):
        differences = ops.reshape(predictions - labels, ops.stack([ops.shape(predictions)[0], -1]))
        examples = ops.reduce_sum(ops.ones_like(differences), axis=1, keepdims=True)
        squares = ops.reduce_sum(ops.square(differences), axis=1, keepdims=True)
        sums = ops.reduce_sum(differences, axis=1, keepdims=True)
        pairs = examples * (examples - 1.0)
        alone = ops.equal(pairs, 0.0)
        each = 2.0 * (examples * squares - ops.square(sums)) / ops.select(alone, ops.ones_like(pairs), pairs)
        each = ops.select(alone, ops.zeros_like(each), each)
        weights = checked_weights(weights, predictions, "mean_pairwise_squared_error")
        sizes = ops.concat([[-1], ops.ones_like(ops.shape(predictions)[1:])], 0)
        return add_loss(ops.reduce_sum(ops.reshape(each, sizes) * weights), loss_collection)


def huber_loss(labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, scope: str | None = None,
               loss_collection: str | None = GraphKeys.LOSSES,
               reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Squared (halved) up to a distance of `delta` between labels and predictions of one shape, linear beyond.

    Reduced by compute_weighted_loss. Source: Huber 1964.
    """
    labels, predictions = _pair(labels, predictions, "huber_loss")
    distance = ops.abs(predictions - labels)
    near = ops.minimum(distance, delta)
    return compute_weighted_loss(0.5 * near * near + delta * (distance - near), weights, scope or "huber_loss",
                                 loss_collection, reduction)


def log_loss(labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None,
             loss_collection: str | None = GraphKeys.LOSSES,
             reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """-labels · log(predictions) - (1 - labels) · log(1 - predictions) for predictions in 0 … 1, of one shape with
    the labels.

    `epsilon` is added inside the logarithms. Reduced by compute_weighted_loss.
    """
    labels, predictions = _pair(labels, predictions, "log_loss")
    losses = -(labels * ops.log(predictions + epsilon)) - (1.0 - labels) * ops.log(1.0 - predictions + epsilon)
    return compute_weighted_loss(losses, weights, scope or "log_loss", loss_collection, reduction)


def hinge_loss(labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
               loss_collection: str | None = GraphKeys.LOSSES,
               reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """max(0, 1 - (2 · labels - 1) · logits) for labels 0 and 1 in the shape of the logits, reduced by compute_weighted_loss."""
    labels, logits = _pair(labels, logits, "hinge_loss")
    return compute_weighted_loss(ops.relu(1.0 - (2.0 * labels - 1.0) * logits), weights, scope or "hinge_loss",
                                 loss_collection, reduction)


def cosine_distance(labels: Any, predictions: Any, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
                    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
                    dim: int | None = None) -> Tensor:
    """1 - Σ labels · predictions over `axis`; both must have unit length there."""
    axis = dim if axis is None else axis
    if axis is None:
        raise errors.InvalidArgumentError("cosine_distance: axis is missing; pass the axis along which vectors lie")
    labels, predictions = _pair(labels, predictions, "cosine_distance")
    losses = 1.0 - ops.reduce_sum(labels * predictions, axis=[axis], keepdims=True)
    return compute_weighted_loss(losses, weights, scope or "cosine_distance_loss", loss_collection, reduction)


def softmax_cross_entropy(onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0.0,
                          scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Cross entropy of softmax(logits) [n, classes] against one-hot labels [n, classes], reduced by
    compute_weighted_loss.

    `label_smoothing` s makes labels (1 - s) · label + s / classes.
    """
    labels: Any
    labels, logits = _pair(onehot_labels, logits, "softmax_cross_entropy")
    if label_smoothing:
        classes = ops.cast(ops.shape(logits)[-1], logits.dtype)
        labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
    losses = ops.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return compute_weighted_loss(losses, weights, scope or "softmax_cross_entropy_loss", loss_collection, reduction)


def sparse_softmax_cross_entropy(labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
                                 loss_collection: str | None = GraphKeys.LOSSES,
                                 reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Cross entropy of softmax(logits) [n, classes] against class numbers int [n] or [n, 1], reduced by
    compute_weighted_loss; weights may be [n, 1] too."""
    labels, logits = squeezed(convert(labels), convert(logits), 1)
    weights = squeezed_weights(convert(weights), labels)
    losses = ops.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return compute_weighted_loss(losses, weights, scope or "sparse_softmax_cross_entropy_loss", loss_collection, reduction)


def sigmoid_cross_entropy(multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0.0,
                          scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Cross entropy of sigmoid(logits) against independent labels in 0 … 1 of the same shape, reduced by
    compute_weighted_loss.

    `label_smoothing` s makes labels (1 - s) · label + s / 2.
    """
    labels: Any
    labels, logits = _pair(multi_class_labels, logits, "sigmoid_cross_entropy")
    if label_smoothing:
        labels = labels * (1.0 - label_smoothing) + 0.5 * label_smoothing
    losses = ops.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return compute_weighted_loss(losses, weights, scope or "sigmoid_cross_entropy_loss", loss_collection, reduction)


def sequence_loss_by_example(logits: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any],
                             average_across_timesteps: bool = True,
                             softmax_loss_function: Callable[..., Any] | None = None, name: str | None = None) -> Tensor:
    """Per example, the weighted cross entropy summed (or averaged) over time: [batch].

    Each argument lists one entry per step: logits [batch, classes], targets int [batch], weights [batch].
    `softmax_loss_function(labels=, logits=)` replaces the cross entropy. InvalidArgumentError for lists of other lengths.
    """
    if not len(logits) == len(targets) == len(weights) or not logits:
        raise errors.InvalidArgumentError(f"sequence_loss_by_example: {len(logits)} logits, {len(targets)} targets and "
                                          f"{len(weights)} weights; give one of each per step")
    loss = softmax_loss_function or ops.sparse_softmax_cross_entropy_with_logits
    with root_graph().name_scope(name or "sequence_loss_by_example"):
        losses = [loss(labels=ops.reshape(t, [-1]), logits=x) * w for x, t, w in zip(logits, targets, weights)]
        total = ops.add_n(losses)
        return total / (ops.add_n([convert(w) for w in weights]) + 1e-12) if average_across_timesteps else total


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Tensor]:
    """The losses made so far."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """The losses that regularizers of variables made."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """The sum of the losses that regularizers made, 0 where there are none: a scalar."""
    found = get_regularization_losses(scope)
    return ops.add_n(found, name=name) if found else convert(0.0)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Tensor:
    """The sum of all losses, with those of regularizers unless told otherwise: a scalar. InvalidArgumentError when
    there is none."""
    found = get_losses() + (get_regularization_losses() if add_regularization_losses else [])
    if not found:
        raise errors.InvalidArgumentError("get_total_loss: there are 0 losses; make one with wb.losses or add_loss")
    return ops.add_n(found, name=name)
