"""Layers of sequences [batch, steps, channels]: filtered and pooled along their steps."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.layers import Activation, _bias, _depth, _finish
from workbench.nn.scopes import get_variable, variable_scope

__all__ = ["average_pooling1d", "conv1d", "max_pooling1d", "separable_conv1d"]


def _length(value: Any) -> int:
    return int(value[0]) if isinstance(value, (list, tuple)) else int(value)


def _rows(inputs: Any, data_format: str, where: str) -> tuple[Tensor, bool]:
    """(images [batch, 1, steps, channels], do channels come second outside?)."""
    x, second = convert(inputs), data_format == "channels_first"
    if data_format not in ("channels_last", "channels_first"):
        raise errors.InvalidArgumentError(f"{where}: data_format {data_format!r} is unknown; use channels_last or "
                                          "channels_first")
    if x.shape.rank != 3:
        raise errors.ShapeError(f"{where}: inputs {x.name} has shape {x.shape}; sequences have rank 3: reshape it")
    return ops.expand_dims(ops.transpose(x, [0, 2, 1]) if second else x, 1), second


def _back(y: Tensor, second: bool) -> Tensor:
    made: Tensor = ops.squeeze(y, axis=[1])
    return ops.transpose(made, [0, 2, 1]) if second else made


def conv1d(inputs: Any, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
           data_format: str = "channels_last", dilation_rate: Any = 1, activation: Activation = None, use_bias: bool = True,
           kernel_initializer: Any = None, bias_initializer: Any = None, kernel_regularizer: Any = None,
           bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
           bias_constraint: Any = None, trainable: bool = True, name: str | None = None, reuse: Any = None) -> Tensor:
    """activation(convolution + bias): [batch, steps, channels] to [batch, steps', filters]; variables `kernel` [kernel_size,
    channels, filters] and `bias` [filters]. ShapeError unless the rank is 3 and the channels are known."""
    x, second = _rows(inputs, data_format, "conv1d")
    with variable_scope(name, "conv1d", reuse=reuse):
        kernel = get_variable("kernel", [_length(kernel_size), _depth(x, "conv1d"), filters], x.dtype, kernel_initializer,
                              kernel_regularizer, trainable, constraint=kernel_constraint)
        y = ops.conv2d(x, ops.expand_dims(convert(kernel), 0), [1, 1, _length(strides), 1], padding.upper(),
                       dilations=[1, 1, _length(dilation_rate), 1])
        y = _bias(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, constraint=bias_constraint)
        return _finish(_back(y, second), activation, activity_regularizer)


def separable_conv1d(inputs: Any, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                     data_format: str = "channels_last", dilation_rate: Any = 1, depth_multiplier: int = 1,
                     activation: Activation = None, use_bias: bool = True, depthwise_initializer: Any = None,
                     pointwise_initializer: Any = None, bias_initializer: Any = None, depthwise_regularizer: Any = None,
                     pointwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                     depthwise_constraint: Any = None, pointwise_constraint: Any = None, bias_constraint: Any = None,
                     trainable: bool = True, name: str | None = None, reuse: Any = None) -> Tensor:
    """Each channel filtered by `depth_multiplier` kernels, then all mixed to `filters`: variables `depthwise_kernel` [steps,
    channels, multiplier], `pointwise_kernel` [1, channels · multiplier, filters] and `bias`. Errors as conv1d."""
    x, second = _rows(inputs, data_format, "separable_conv1d")
    channels, step = _depth(x, "separable_conv1d"), _length(strides)
    with variable_scope(name, "separable_conv1d", reuse=reuse):
        deep = get_variable("depthwise_kernel", [_length(kernel_size), channels, depth_multiplier], x.dtype,
                            depthwise_initializer, depthwise_regularizer, trainable, constraint=depthwise_constraint)
        mixing = get_variable("pointwise_kernel", [1, channels * depth_multiplier, filters], x.dtype, pointwise_initializer,
                              pointwise_regularizer, trainable, constraint=pointwise_constraint)
        y = ops.separable_conv2d(x, ops.expand_dims(convert(deep), 0), ops.expand_dims(convert(mixing), 0), [1, step, step, 1],
                                 padding.upper(), rate=[1, _length(dilation_rate)])
        y = _bias(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, constraint=bias_constraint)
        return _finish(_back(y, second), activation, activity_regularizer)


def max_pooling1d(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                  name: str | None = None) -> Tensor:
    """The largest of each window of `pool_size` steps."""
    return _pool(ops.max_pool, inputs, pool_size, strides, padding, data_format, name or "max_pooling1d")


def average_pooling1d(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                      name: str | None = None) -> Tensor:
    """The mean of each window of `pool_size` steps; padding does not count."""
    return _pool(ops.avg_pool, inputs, pool_size, strides, padding, data_format, name or "average_pooling1d")


def _pool(operation: Any, inputs: Any, size: Any, strides: Any, padding: str, data_format: str, name: str) -> Tensor:
    x, second = _rows(inputs, data_format, name)
    return _back(operation(x, [1, 1, _length(size), 1], [1, 1, _length(strides), 1], padding.upper(), name=name), second)
