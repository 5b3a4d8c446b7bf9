"""Functions of neural networks that are a few operations each: normalisation, weighted losses, one-dimensional filters."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["batch_norm_with_global_normalization", "conv1d", "crelu", "log_poisson_loss", "normalize_moments",
           "sufficient_statistics", "weighted_cross_entropy_with_logits"]


def batch_norm_with_global_normalization(t: Any, m: Any, v: Any, beta: Any, gamma: Any, variance_epsilon: float,
                                         scale_after_normalization: bool, name: str | None = None) -> Tensor:
    """(t - m) / √(v + variance_epsilon), times gamma if `scale_after_normalization`, plus beta; t float [..., depth], the
    others [depth]."""
    return ops.batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon,
                                   name=name)


def weighted_cross_entropy_with_logits(targets: Any, logits: Any, pos_weight: Any, name: str | None = None) -> Tensor:
    """targets · -log(sigmoid(logits)) · pos_weight + (1 - targets) · -log(1 - sigmoid(logits)), without overflow.

    `targets` and `logits` are floats of one shape, which the result has; `pos_weight` above 1 favours recall.
    """
    x, z = convert(logits), convert(targets, convert(logits).dtype)
    if not x.shape.compatible(z.shape):
        raise errors.ShapeError(f"weighted_cross_entropy_with_logits: targets have shape {z.shape} but logits {x.shape}; "
                                "make them equal")
    with get_default_graph().name_scope(name or "logistic_loss"):
        weight = 1.0 + (ops.cast(convert(pos_weight), x.dtype) - 1.0) * z
        return (1.0 - z) * x + weight * (ops.log1p(ops.exp(-ops.abs(x))) + ops.relu(-x))


def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """exp(log_input) - log_input · targets, elementwise: the Poisson loss of counts.

    With `compute_full_loss` Stirling's approximation of log(targets!) is added for targets above 1.
    """
    x, z = convert(log_input), convert(targets, convert(log_input).dtype)
    with get_default_graph().name_scope(name or "log_poisson_loss"):
        result = ops.exp(x) - x * z
        if compute_full_loss:
            safe = ops.maximum(z, 1.0)
            stirling = safe * ops.log(safe) - safe + 0.5 * ops.log(6.283185307179586 * safe)
            result += ops.select(ops.logical_and(z >= 0.0, z <= 1.0), ops.zeros_like(z), stirling)
        return result


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """relu of the features and of their negatives, one after the other along `axis`, which doubles. Source: Shang et al.
    2016."""
    x = convert(features)
    return ops.relu(ops.concat([x, -x], axis=axis), name=name)


def conv1d(value: Any, filters: Any, stride: int, padding: str, use_cudnn_on_gpu: bool | None = None,
           data_format: str | None = None, name: str | None = None) -> Tensor:
    """Sequences [batch, width, channels] filtered by [width, channels, outputs]; `data_format` "NCW" puts channels
    second. ShapeError for another rank."""
    if data_format not in (None, "NHWC", "NWC", "NCHW", "NCW"):
        raise errors.InvalidArgumentError(f"conv1d: data_format {data_format!r} is unknown; use NWC or NCW")
    x, channels_second = convert(value), data_format in ("NCHW", "NCW")
    if x.shape.rank not in (None, 3):
        raise errors.ShapeError(f"conv1d: value {x.name} has shape {x.shape}; sequences have rank 3")
    axis = 2 if channels_second else 1
    with get_default_graph().name_scope(name or "conv1d"):
        strides = [1, 1, 1, stride] if channels_second else [1, 1, stride, 1]
        made = ops.conv2d(ops.expand_dims(x, axis), ops.expand_dims(convert(filters), 0), strides, padding,
                          data_format="NCHW" if channels_second else "NHWC")
        return ops.squeeze(made, axis=[axis])


def sufficient_statistics(x: Any, axes: Any, shift: Any = None, keep_dims: bool = False,
                          name: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """(count, sum, sum of squares, shift) of x over `axes`, after `shift` was subtracted: what mean and variance need."""
    x = convert(x)
    with get_default_graph().name_scope(name or "sufficient_statistics"):
        lengths = ops.gather(ops.shape(x), convert(list(axes), "int32"))
        count = ops.cast(ops.reduce_prod(lengths), x.dtype)
        moved = x if shift is None else x - convert(shift, x.dtype)
        total = ops.reduce_sum(moved, axis=axes, keepdims=keep_dims)
        squares = ops.reduce_sum(ops.square(moved), axis=axes, keepdims=keep_dims)
        return count, total, squares, None if shift is None else convert(shift, x.dtype)


def normalize_moments(counts: Any, mean_ss: Any, variance_ss: Any, shift: Any,
                      name: str | None = None) -> tuple[Tensor, Tensor]:
    """(mean, variance) from the sums that sufficient_statistics gave."""
    with get_default_graph().name_scope(name or "normalize"):
        share = ops.reciprocal(convert(counts))
        moved = convert(mean_ss) * share
        mean = moved if shift is None else moved + shift
        return mean, convert(variance_ss) * share - ops.square(moved)
