"""tf.contrib.nn: dropout that keeps mean and variance, order statistics, a smooth relu, losses by position and by rank."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.embedding import embedding_lookup
from workbench.nn.partitions import PartitionedVariable
from workbench.nn.sampled import sampled_softmax_loss

__all__ = ["alpha_dropout", "deprecated_flipped_sigmoid_cross_entropy_with_logits",
           "deprecated_flipped_softmax_cross_entropy_with_logits",
           "deprecated_flipped_sparse_softmax_cross_entropy_with_logits", "nth_element", "rank_sampled_softmax_loss",
           "scaled_softplus"]

ALPHA = -1.0507009873554805 * 1.6732632423543772
"""What an element of selu's output becomes when it is dropped: the value that selu falls to."""


def alpha_dropout(x: Any, keep_prob: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None) -> Tensor:
    """Dropout for networks of selu (Klambauer et al., "Self-Normalizing Neural Networks", 2017): a dropped element becomes
    selu's lowest value, and the result is scaled and moved so that mean 0 and variance 1 stay.

    `keep_prob`: the part that is kept, a float in (0, 1] or a scalar of the type of `x`; `noise_shape`: of what is drawn,
    broadcast to x. InvalidArgumentError (a ValueError) for a float outside of that.
    """
    if isinstance(keep_prob, (int, float)) and not 0 < keep_prob <= 1:
        raise errors.InvalidArgumentError(f"alpha_dropout: keep_prob is {keep_prob}; use a number in (0, 1]")
    x = convert(x)
    if isinstance(keep_prob, (int, float)) and keep_prob == 1:
        return x
    with get_default_graph().name_scope(name or "alpha_dropout"):
        keep = ops.cast(convert(keep_prob), x.dtype)
        drawn = ops.random_uniform(ops.shape(x) if noise_shape is None else noise_shape, seed=seed, dtype=x.dtype)
        kept = ops.cast(ops.greater_equal(drawn, 1.0 - keep), x.dtype)
        scale = ops.rsqrt(keep + ALPHA * ALPHA * keep * (1.0 - keep))
        made: Tensor = scale * (x * kept + ALPHA * (1.0 - kept)) - scale * ALPHA * (1.0 - keep)
        made.set_shape(x.shape)
        return made


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """The element at place `n` of each row (the last axis of `input`) in ascending order, or in descending order with
    `reverse`: [...]. `n` is an int or an int32 scalar; ShapeError where it is known to lie outside of a row, and
    for an input of unknown rank."""
    x, place = convert(input), convert(n, "int32")
    last = x.shape[-1].value if x.shape.rank else None
    if isinstance(n, int) and last is not None and not 0 <= n < last:
        raise errors.ShapeError(f"nth_element: input must have at least n+1={n + 1} elements in its last dimension, it has "
                                f"shape {x.shape}; use an n in [0, {last})")
    with get_default_graph().name_scope(name or "nth_element"):
        ordered = ops.sort(x, direction="DESCENDING" if reverse else "ASCENDING")
        return ops.gather(ordered, place, axis=-1)


def scaled_softplus(x: Any, alpha: Any, clip: Any = None, name: str | None = None) -> Tensor:
    """alpha · ln(1 + exp(x / alpha)), at most `clip` where that is given: the closer to relu (relu6 with 6) the smaller the
    positive `alpha`."""
    x = convert(x)
    with get_default_graph().name_scope(name or "scaled_softplus"):
        alpha = ops.cast(convert(alpha), x.dtype)
        made = alpha * ops.softplus(x / alpha)
        return made if clip is None else ops.minimum(made, ops.cast(convert(clip), x.dtype))


def deprecated_flipped_softmax_cross_entropy_with_logits(logits: Any, labels: Any, dim: int = -1,
                                                         name: str | None = None) -> Tensor:
    """softmax_cross_entropy_with_logits with the logits first, as before TensorFlow 1.0."""
    return ops.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(logits: Any, labels: Any, name: str | None = None) -> Tensor:
    """sparse_softmax_cross_entropy_with_logits with the logits first, as before TensorFlow 1.0."""
    return ops.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(logits: Any, targets: Any, name: str | None = None) -> Tensor:
    """sigmoid_cross_entropy_with_logits with the logits first, as before TensorFlow 1.0."""
    return ops.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)


def rank_sampled_softmax_loss(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_resampled: int,
                              num_classes: int, num_true: int, sampled_values: Any, resampling_temperature: Any,
                              remove_accidental_hits: bool, partition_strategy: str, name: str | None = None) -> Tensor:
    """sampled_softmax_loss [batch] over those `num_resampled` of the sampled classes that the model finds likeliest, which is
    Σ exp(logit / resampling_temperature) over the batch; by default learned_unigram_candidate_sampler draws `num_sampled`.

    Source: Bai, Goldman, Zhang 2017 (TAPAS). InvalidArgumentErrors where the three numbers do not fall, and for another
    strategy than "div" and "mod".
    """
    if num_sampled > num_classes:
        raise errors.InvalidArgumentError(f"rank_sampled_softmax_loss: num_sampled ({num_sampled}) cannot be greater than "
                                          f"num_classes ({num_classes})")
    if num_sampled <= num_resampled:
        raise errors.InvalidArgumentError(f"rank_sampled_softmax_loss: num_resampled ({num_resampled}) must be less than "
                                          f"num_sampled ({num_sampled})")
    if partition_strategy not in ("div", "mod"):
        raise errors.InvalidArgumentError(f"rank_sampled_softmax_loss: partition_strategy is {partition_strategy!r}; use 'div' "
                                          "or 'mod'")
    with get_default_graph().name_scope(name or "rank_sampled_softmax_loss"):
        drawn, true_expected, expected = sampled_values or ops.learned_unigram_candidate_sampler(
            true_classes=labels, num_true=num_true, num_sampled=num_sampled, unique=True, range_max=num_classes)
        drawn, expected = ops.cast(ops.stop_gradient(convert(drawn)), "int64"), convert(expected)
        rows, offsets = (embedding_lookup(list(t) if isinstance(t, (list, tuple, PartitionedVariable)) else [t], drawn,
                                          partition_strategy) for t in (weights, biases))
        x = convert(inputs) / resampling_temperature
        scores = ops.reduce_logsumexp(ops.matmul(rows, x, transpose_b=True), axis=1)
        scores += ops.reshape(offsets, [-1]) / resampling_temperature
        _, places = ops.top_k(scores, num_resampled, sorted=False)
        chosen = ops.gather(drawn, places), true_expected, ops.gather(expected, places)
        return sampled_softmax_loss(weights, biases, labels, inputs, num_resampled, num_classes, num_true, chosen,
                                    remove_accidental_hits, partition_strategy)
