"""Convolutions, pooling, normalization, dropout and CTC under the names of Keras's backend."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn import ctc, layers, layers_3d
from workbench.nn.sparse import SparseTensor, sparse_tensor_to_dense
from workbench.train.keras import backend
from workbench.train.keras.backend_shapes import temporal_padding

__all__ = ["batch_normalization", "bias_add", "conv1d", "conv2d", "conv2d_transpose", "conv3d", "ctc_batch_cost", "ctc_decode",
           "ctc_label_dense_to_sparse", "dropout", "normalize_batch_in_training", "pool2d", "pool3d", "separable_conv2d"]


def _convolved(x: Any, kernel: Any, strides: Sequence[int], padding: str, data_format: str | None,
               rates: Sequence[int]) -> Tensor:
    letters = "DHW"[3 - len(strides):]
    order = f"NC{letters}" if backend.layout(data_format) == "channels_first" else f"N{letters}C"
    made: Tensor = ops.convolution(x, kernel, padding.upper(), list(strides), list(rates), data_format=order)
    return made


def conv1d(x: Any, kernel: Any, strides: int = 1, padding: str = "valid", data_format: str | None = None,
           dilation_rate: int = 1) -> Tensor:
    """The convolution along the time of [batch, time, channels]; padding "causal" looks back alone."""
    if padding == "causal":
        x, padding = temporal_padding(x, (dilation_rate * (kernel.shape.as_list()[0] - 1), 0)), "valid"
    return _convolved(x, kernel, [strides], padding, data_format, [dilation_rate])


def conv2d(x: Any, kernel: Any, strides: Any = (1, 1), padding: str = "valid", data_format: str | None = None,
           dilation_rate: Any = (1, 1)) -> Tensor:
    """The convolution of images with a kernel [height, width, channels, outputs]."""
    return _convolved(x, kernel, strides, padding, data_format, dilation_rate)


def conv3d(x: Any, kernel: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: str | None = None,
           dilation_rate: Any = (1, 1, 1)) -> Tensor:
    """The convolution of volumes with a kernel [depth, height, width, channels, outputs]."""
    return _convolved(x, kernel, strides, padding, data_format, dilation_rate)


def _image_steps(data_format: str | None, strides: Any) -> tuple[str, list[int]]:
    """(the order of the axes of images, the strides along all of them)."""
    if backend.layout(data_format) == "channels_first":
        return "NCHW", [1, 1, *strides]
    return "NHWC", [1, *strides, 1]


def conv2d_transpose(x: Any, kernel: Any, output_shape: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: str | None = None) -> Tensor:
    """The transpose of conv2d with a kernel [height, width, outputs, channels]; None as the first size is that of `x`."""
    order, steps = _image_steps(data_format, strides)
    sizes = [ops.shape(x)[0], *output_shape[1:]] if output_shape[0] is None else output_shape
    made: Tensor = ops.conv2d_transpose(x, kernel, sizes, steps, padding.upper(), order)
    return made


def separable_conv2d(x: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: str | None = None, dilation_rate: Any = (1, 1)) -> Tensor:
    """The convolution of each channel by itself, then one of single points over all."""
    order, steps = _image_steps(data_format, strides)
    made: Tensor = ops.separable_conv2d(x, depthwise_kernel, pointwise_kernel, steps, padding.upper(), list(dilation_rate),
                                        data_format=order)
    return made


def _pooled(mode: str, kinds: dict[str, Callable[..., Tensor]], *arguments: Any) -> Tensor:
    if mode not in kinds:
        raise errors.InvalidArgumentError(f"keras: Invalid pooling mode: {mode!r}; use 'max' or 'avg'")
    return kinds[mode](*arguments)


def pool2d(x: Any, pool_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: str | None = None,
           pool_mode: str = "max") -> Tensor:
    """The largest ("max") or the mean ("avg") of windows of images."""
    return _pooled(pool_mode, {"max": layers.max_pooling2d, "avg": layers.average_pooling2d}, x, pool_size, strides, padding,
                   backend.layout(data_format))


def pool3d(x: Any, pool_size: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: str | None = None,
           pool_mode: str = "max") -> Tensor:
    """The largest ("max") or the mean ("avg") of windows of volumes."""
    return _pooled(pool_mode, {"max": layers_3d.max_pooling3d, "avg": layers_3d.average_pooling3d}, x, pool_size, strides,
                   padding, backend.layout(data_format))


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Tensor:
    """x + bias, one for each channel, or for each element of a row with its channels last."""
    x, bias = convert(x), convert(bias)
    if (x.shape.rank or 0) > 2 and backend.layout(data_format) == "channels_first":
        rank, own = x.shape.rank, bias.shape.rank
        bias = ops.reshape(bias, [-1, *[1] * (rank - 2)]) if own == 1 else ops.transpose(bias, [own - 1, *range(own - 1)])
    made: Tensor = x + bias
    return made


def dropout(x: Any, level: float, noise_shape: Any = None, seed: int | None = None) -> Tensor:
    """A share `level` of the elements 0 and the rest larger; without a seed NumPy's generator gives one."""
    made: Tensor = ops.dropout(x, 1.0 - level, noise_shape, np.random.randint(10 ** 7) if seed is None else seed)
    return made


def batch_normalization(x: Any, mean: Any, var: Any, beta: Any, gamma: Any, epsilon: float = 1e-3) -> Tensor:
    """gamma · (x - mean) / √(var + epsilon) + beta."""
    made: Tensor = ops.batch_normalization(x, mean, var, beta, gamma, epsilon)
    return made


def normalize_batch_in_training(x: Any, gamma: Any, beta: Any, reduction_axes: Sequence[int],
                                epsilon: float = 1e-3) -> tuple[Tensor, Tensor, Tensor]:
    """(the normalized batch, its mean, its variance) over axes."""
    axes = list(reduction_axes)
    mean, var = ops.moments(x, axes, keep_dims=True)
    shift, scale = (None if one is None else ops.reshape(one, ops.shape(mean)) for one in (beta, gamma))
    return batch_normalization(x, mean, var, shift, scale, epsilon), ops.squeeze(mean, axes), ops.squeeze(var, axes)


# sequences without alignment

def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> SparseTensor:
    """The first `label_lengths` [batch] of the rows of labels [batch, longest]."""
    labels = convert(labels)
    sizes = ops.shape(labels, "int64")
    there = ops.where(ops.sequence_mask(label_lengths, sizes[1]))
    return SparseTensor(there, ops.gather_nd(labels, there), sizes)


def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Tensor:
    """The CTC loss [batch, 1] of labels [batch, longest] and softmax outputs [batch, time, classes]; lengths are [batch, 1]."""
    labels = ctc_label_dense_to_sparse(ops.cast(y_true, "int32"), ops.reshape(label_length, [-1]))
    made: Tensor = ops.expand_dims(ctc.ctc_loss(labels, _logits(y_pred), ops.reshape(input_length, [-1])), 1)
    return made


def ctc_decode(y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100,
               top_paths: int = 1) -> tuple[list[Tensor], Tensor]:
    """([labels [batch, longest] with -1 behind their ends], scores) of softmax outputs [batch, time, classes].

    The best class of each step, or with greedy=False the `top_paths` best of a beam search.
    """
    decode = ctc.ctc_greedy_decoder if greedy else lambda x, length: ctc.ctc_beam_search_decoder(
        x, length, beam_width, top_paths)
    found, score = decode(_logits(y_pred), input_length)
    return [sparse_tensor_to_dense(one, -1) for one in found], score


def _logits(y_pred: Any) -> Tensor:
    """Softmax outputs as ctc takes them, time first."""
    made: Tensor = ops.log(ops.transpose(y_pred, [1, 0, 2]) + 1e-8)
    return made
