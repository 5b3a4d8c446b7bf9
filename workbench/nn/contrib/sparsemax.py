"""Sparsemax, a softmax that gives zeros, and the loss that goes with it, as tf.contrib.sparsemax has them.

Source: Martins and Astudillo 2016.
"""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["sparsemax", "sparsemax_loss"]


def sparsemax(logits: Any, name: str | None = None) -> Tensor:
    """The distribution nearest to each row of `logits` [batch, classes], of its shape: many of its probabilities are 0.

    ShapeError (a ValueError) for another rank, or an unknown number of classes.
    """
    with get_default_graph().name_scope(name or "sparsemax"):
        z = convert(logits)
        count = z.shape.as_list()[1] if z.shape.rank == 2 else None
        if count is None:
            raise errors.ShapeError(f"sparsemax: logits has shape {z.shape} but [batch, classes] is needed, with a known "
                                    "number of classes; reshape it")
        sums = ops.cumsum(ops.top_k(z, count)[0], axis=1)
        numbers = ops.cast(ops.range(1, count + 1), z.dtype)
        # with its k largest elements alone, a row would be lowered by this much
        lowered = (sums - 1) / numbers
        # the largest of these is that of the elements which stay above it
        found: Tensor = ops.maximum(z - ops.reduce_max(lowered, axis=1, keepdims=True), ops.zeros_like(z))
        return found


def sparsemax_loss(logits: Any, sparsemax: Any, labels: Any, name: str | None = None) -> Tensor:
    """How far `logits` [batch, classes] are from `labels`, distributions of their shape: [batch], 0 where sparsemax gives the
    labels. `sparsemax` is what it gives for the logits; the gradient by the logits is sparsemax - labels."""
    with get_default_graph().name_scope(name or "sparsemax_loss"):
        z, p, q = convert(logits), convert(sparsemax), convert(labels)
        kept = ops.where(ops.greater(p, ops.zeros_like(p)), p * (z - 0.5 * p), ops.zeros_like(p))
        found: Tensor = ops.reduce_sum(kept + q * (0.5 * q - z), axis=1)
        return found
