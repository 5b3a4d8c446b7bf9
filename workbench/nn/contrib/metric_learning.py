"""Losses that bring embeddings of one class together and those of others apart, as tf.contrib.losses.metric_learning."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.sparse import SparseTensor, sparse_tensor_to_dense

__all__ = ["contrastive_loss", "lifted_struct_loss", "npairs_loss", "npairs_loss_multilabel", "triplet_semihard_loss"]


def _squared_distances(features: Tensor) -> Tensor:
    """Squared Euclidean distances between rows [n, width]: [n, n], never below 0 and 0 between a row and itself."""
    norms = ops.reduce_sum(ops.square(features), axis=1, keepdims=True)
    found = ops.maximum(norms + ops.transpose(norms) - 2.0 * ops.matmul(features, features, transpose_b=True), 0.0)
    return found * (1.0 - ops.eye(ops.shape(features)[0], dtype=features.dtype))


def _distances(features: Tensor) -> Tensor:
    """Euclidean distances; where one is 0, so is its gradient."""
    squared = _squared_distances(features)
    apart = ops.greater(squared, 0.0)
    return ops.where(apart, ops.sqrt(ops.where(apart, squared, ops.ones_like(squared))), ops.zeros_like(squared))


def _pairs(labels: Any, dtype: Any) -> tuple[Tensor, Tensor]:
    """(which rows have other labels, how many times a pair of two rows has one label: 1 or 0): [n, n]. ShapeError unless the
    labels are a vector."""
    found = convert(labels)
    if found.shape.rank != 1:
        raise errors.ShapeError(f"metric_learning: labels have shape {found.shape}; pass one for each row, of shape [n]")
    same = ops.equal(ops.expand_dims(found, 1), ops.expand_dims(found, 0))
    return ops.logical_not(same), ops.cast(same, dtype) - ops.eye(ops.shape(found)[0], dtype=dtype)


def contrastive_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0) -> Tensor:
    """The mean of d² for pairs of rows [n, width] with label 1, and of max(margin - d, 0)² for those with label 0.

    Source: Hadsell, Chopra, LeCun 2006.
    """
    anchor, other = convert(embeddings_anchor), convert(embeddings_positive)
    squared = ops.reduce_sum(ops.square(anchor - other), axis=1)
    same = ops.cast(convert(labels), anchor.dtype)
    return ops.reduce_mean(same * squared + (1.0 - same) * ops.square(ops.maximum(margin - ops.sqrt(squared), 0.0)),
                           name="contrastive_loss")


def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """The mean of max(margin + D(a, p) - D(a, n), 0) over rows a and p of one label, D the squared distance.

    n is the nearest row of another label that is farther than p; where there is none, the farthest of another label.
    Source: Schroff, Kalenichenko, Philbin 2015. ShapeError unless `labels` are a vector [n] for `embeddings` [n, width].
    """
    squared = _squared_distances(convert(embeddings))
    others, positive = _pairs(labels, squared.dtype)
    each = ops.tile(ops.expand_dims(squared, 1), ops.stack([1, ops.shape(squared)[0], 1]))      # [a, p, n]
    beyond = ops.logical_and(ops.greater(each, ops.expand_dims(squared, 2)), ops.expand_dims(others, 1))
    far = ops.ones_like(each) * squared.dtype.max
    nearest = ops.reduce_min(ops.where(beyond, each, far), axis=2)
    farthest = ops.reduce_max(ops.where(others, squared, ops.zeros_like(squared)), axis=1, keepdims=True)
    chosen = ops.where(ops.reduce_any(beyond, axis=2), nearest, farthest + ops.zeros_like(squared))
    return ops.truediv(ops.reduce_sum(ops.maximum((margin + squared - chosen) * positive, 0.0)), ops.reduce_sum(positive),
                       name="triplet_semihard_loss")


def lifted_struct_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """Half the mean, over pairs of one label, of max(d + log(Σ exp(margin - d to rows of other labels)), 0)², where the sum
    is over the neighbours of both rows.

    Source: Song, Xiang, Jegelka, Savarese 2016. ShapeError unless `labels` are a vector [n] for `embeddings` [n, width].
    """
    distances = _distances(convert(embeddings))
    others, positive = _pairs(labels, distances.dtype)
    near = ops.where(others, margin - distances, ops.zeros_like(distances) + distances.dtype.min)
    each = ops.reduce_logsumexp(near, axis=1, keepdims=True) + ops.zeros_like(distances)
    both = ops.reduce_logsumexp(ops.stack([each, ops.transpose(each)]), axis=0)
    found = ops.square(ops.maximum((both + distances) * positive, 0.0))
    return ops.truediv(0.5 * ops.reduce_sum(found), ops.reduce_sum(positive), name="liftedstruct_loss")


def _by_similarity(alike: Tensor, anchor: Any, other: Any, strength: float) -> Tensor:
    """The cross entropy between which rows are alike and the rows' products, and `strength` of a quarter of the norms."""
    a, p = convert(anchor), convert(other)
    norms = sum(ops.reduce_mean(ops.reduce_sum(ops.square(x), axis=1)) for x in (a, p))
    wanted = alike / ops.reduce_sum(alike, axis=1, keepdims=True)
    products = ops.matmul(a, p, transpose_b=True)
    losses = ops.softmax_cross_entropy_with_logits(labels=ops.cast(wanted, products.dtype), logits=products)
    return ops.add(ops.reduce_mean(losses), norms * (0.25 * strength), name="npairs_loss")


def npairs_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002,
                print_losses: bool = False) -> Tensor:
    """How badly the products of rows [n, width] tell which have one label, and `reg_lambda` of a quarter of their norms.

    Source: Sohn 2016. ShapeError unless `labels` are a vector [n]. With `print_losses` each run prints the loss.
    """
    dtype = convert(embeddings_anchor).dtype
    others, _ = _pairs(labels, dtype)
    found = _by_similarity(1.0 - ops.cast(others, dtype), embeddings_anchor, embeddings_positive, reg_lambda)
    return ops.Print(found, [found], "npairs_loss") if print_losses else found


def npairs_loss_multilabel(sparse_labels: Sequence[SparseTensor], embeddings_anchor: Any, embeddings_positive: Any,
                           reg_lambda: float = 0.002, print_losses: bool = False) -> Tensor:
    """npairs_loss where each row has several labels: rows are alike as often as they share one.

    A row's sparse tensor has a 1, or true, at the place of each class that is a label of the row.
    TypeError where a row's labels are no sparse tensor.
    """
    if not all(isinstance(labels, SparseTensor) for labels in sparse_labels):
        raise TypeError(f"sparse_labels must be a list of SparseTensors, but got {list(sparse_labels)}")
    dtype = convert(embeddings_anchor).dtype
    has = ops.stack([ops.reshape(ops.cast(sparse_tensor_to_dense(labels), dtype), [-1]) for labels in sparse_labels])
    shared = ops.reduce_sum(ops.minimum(ops.expand_dims(has, 1), ops.expand_dims(has, 0)), 2)
    found = _by_similarity(shared, embeddings_anchor, embeddings_positive, reg_lambda)
    return ops.Print(found, [found], "npairs_loss") if print_losses else found
