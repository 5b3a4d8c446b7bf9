"""tf.contrib.nn: dropout that keeps mean and variance, order statistics, a smooth relu, losses by position."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["alpha_dropout", "deprecated_flipped_sigmoid_cross_entropy_with_logits",
           "deprecated_flipped_softmax_cross_entropy_with_logits",
           "deprecated_flipped_sparse_softmax_cross_entropy_with_logits", "nth_element", "scaled_softplus"]

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
