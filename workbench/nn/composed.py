"""Functions of neural networks that are a few operations each: normalisation, weighted losses, one-dimensional filters."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["batch_norm_with_global_normalization", "conv1d", "crelu", "fused_batch_norm", "log_poisson_loss",
           "normalize_moments", "sufficient_statistics", "swish", "weighted_cross_entropy_with_logits", "weighted_moments",
           "with_space_to_batch"]


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
    with get_default_graph().name_scope(name or "logistic_loss") as scope:
        weight = 1.0 + (ops.cast(convert(pos_weight), x.dtype) - 1.0) * z
        return ops.add((1.0 - z) * x, weight * (ops.log1p(ops.exp(-ops.abs(x))) + ops.relu(-x)), name=scope)


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


def swish(features: Any, name: str | None = None) -> Tensor:
    """Each float feature times its sigmoid. Source: Ramachandran et al. 2017."""
    x = convert(features)
    return ops.multiply(x, ops.sigmoid(x), name=name)


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


def fused_batch_norm(x: Any, scale: Any, offset: Any, mean: Any = None, variance: Any = None, epsilon: float = 0.001,
                     data_format: str = "NHWC", is_training: bool = True,
                     name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(y, mean, variance): float images [n, height, width, c] normalised channel by channel, times `scale` plus `offset` [c].

    While training by the moments of the batch, which are given back, the variance over n - 1; else by the `mean` and
    `variance` [c] given. Gradients are those of y, and none by moments that were given. `data_format` "NCHW" puts channels
    second; `epsilon` is at least 1.001e-5.
    InvalidArgumentError where moments are missing, or given while training. Source: Ioffe, Szegedy 2015.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise errors.InvalidArgumentError(f"fused_batch_norm: data_format is {data_format!r}; use 'NHWC' or 'NCHW'")
    if is_training != (mean is None) or is_training != (variance is None):
        raise errors.InvalidArgumentError(f"fused_batch_norm: is_training is {is_training}, mean {mean} and variance "
                                          f"{variance}; Both mean and variance must be None if is_training is True, and "
                                          "given otherwise")
    x, second = convert(x), data_format == "NCHW"
    with get_default_graph().name_scope("FusedBatchNorm"):
        rows = ops.transpose(x, [0, 2, 3, 1]) if second else x
        if rows.shape.rank is None or rows.shape.as_list()[-1] is None:
            rows = ops.ensure_shape(rows, [None, None, None, convert(scale).shape.num_elements()])
        if is_training:
            mean, variance = ops.moments(rows, [0, 1, 2])
            count = ops.cast(ops.reduce_prod(ops.shape(rows)[:3]), variance.dtype)
            given = ops.stop_gradient(mean), ops.stop_gradient(variance * count / ops.maximum(count - 1.0, 1.0))
        else:
            mean, variance = given = ops.stop_gradient(convert(mean)), ops.stop_gradient(convert(variance))
        y = ops.batch_normalization(rows, mean, variance, offset, scale, max(epsilon, 1.001e-5))
        y.set_shape(rows.shape)
    return (ops.transpose(y, [0, 3, 1, 2], name=name) if second else ops.identity(y, name=name)), *given


def weighted_moments(x: Any, axes: Any, frequency_weights: Any, name: str | None = None,
                     keep_dims: bool = False) -> tuple[Tensor, Tensor]:
    """(mean, variance) of float x over `axes`, each element counted `frequency_weights` times, which broadcast."""
    x = convert(x)
    with get_default_graph().name_scope(name or "weighted_moments"):
        share = ops.zeros_like(x) + ops.cast(convert(frequency_weights), x.dtype)
        total = ops.reduce_sum(share, axis=axes, keepdims=True)
        mean = ops.reduce_sum(share * x, axis=axes, keepdims=True) / total
        variance = ops.reduce_sum(share * ops.squared_difference(x, mean), axis=axes, keepdims=True) / total
        if keep_dims:
            return mean, variance
        gone = list(axes) if isinstance(axes, (list, tuple)) else [axes]
        return ops.squeeze(mean, axis=gone), ops.squeeze(variance, axis=gone)


def with_space_to_batch(input: Any, dilation_rate: Any, padding: str, op: Callable[..., Any], filter_shape: Any = None,
                        spatial_dims: Any = None, data_format: str | None = None) -> Tensor:
    """`op(input, number of axes, padding)` dilated: run on every `dilation_rate`-th element of the axes, as batches.

    `dilation_rate` has a number for each of the `spatial_dims` (1, 2, …, or behind the channels where `data_format` begins
    "NC"). "SAME" needs `filter_shape`, a length for each axis; `op` is told "VALID" where a rate is above 1.
    InvalidArgumentError else.
    """
    x, rates = convert(input), [int(rate) for rate in dilation_rate]
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    axes = list(range(first, first + len(rates))) if spatial_dims is None else sorted(spatial_dims)
    if padding not in ("SAME", "VALID") or min(rates) < 1 or len(axes) != len(rates):
        raise errors.InvalidArgumentError(f"with_space_to_batch: dilation_rate is {rates}, spatial_dims {axes} and padding "
                                          f"{padding!r}; give a rate from 1 for each axis, and 'SAME' or 'VALID'")
    if max(rates) == 1:
        return op(x, len(rates), padding)
    if padding == "SAME" and filter_shape is None:
        raise errors.InvalidArgumentError("with_space_to_batch: filter_shape must be specified for SAME padding; give its "
                                          "lengths")
    reach = [0] * len(rates) if padding == "VALID" else [
        (int(length) - 1) * rate for length, rate in zip(list(filter_shape)[:len(rates)], rates)]
    last = max(axes) + 1 - axes[0]
    apart = dict(zip(axes, zip(rates, reach)))
    block, sides = zip(*[apart.get(axis, (1, 0)) for axis in range(axes[0], axes[0] + last)])
    sizes = ops.shape(x)[axes[0]:axes[0] + last]
    paddings, crops = ops.required_space_to_batch_paddings(sizes, list(block), [[n // 2, n - n // 2] for n in sides])
    order = [*range(axes[0], x.shape.rank or 0)]
    moved = x if axes[0] == 1 else ops.transpose(x, [0, *order, *range(1, axes[0])])
    batches = ops.space_to_batch_nd(moved, list(block), paddings)
    back = [0, *range(len(order) + 1, x.shape.rank or 0), *range(1, len(order) + 1)]
    made = op(batches if axes[0] == 1 else ops.transpose(batches, back), len(rates), "VALID")
    outer = made if axes[0] == 1 else ops.transpose(made, [0, *order, *range(1, axes[0])])
    whole = ops.batch_to_space_nd(outer, list(block), crops)
    return whole if axes[0] == 1 else ops.transpose(whole, back)
