"""Layers of volumes [batch, depth, height, width, channels], and separable convolutions of images."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.initializers import Zeros
from workbench.nn.layers import Activation, _bias, _channels, _depth, _finish, _format, _pair, _spread, enlarged
from workbench.nn.scopes import get_variable, variable_scope

__all__ = ["average_pooling3d", "conv3d", "conv3d_transpose", "max_pooling3d", "separable_conv2d"]


def _three(value: Any, where: str) -> list[int]:
    found = [int(v) for v in value or ()] if value is None or hasattr(value, "__iter__") else [int(value)] * 3
    if len(found) != 3:
        raise errors.InvalidArgumentError(f"{where}: {value!r} has {len(found)} numbers; give one, or depth, height and width")
    return found


def _volumes(inputs: Any, data_format: str, where: str) -> tuple[Tensor, bool]:
    """(volumes with channels last, do channels come second outside?)."""
    x, second = convert(inputs), _format(data_format, where) == "NCHW"
    if x.shape.rank != 5:
        raise errors.ShapeError(f"{where}: inputs {x.name} has shape {x.shape}; volumes have rank 5: reshape it")
    return (ops.transpose(x, [0, 2, 3, 4, 1]) if second else x), second


def _back(y: Tensor, second: bool) -> Tensor:
    return ops.transpose(y, [0, 4, 1, 2, 3]) if second else y


def _shifted(y: Tensor, filters: int, use: bool, initializer: Any, regularizer: Any, trainable: bool,
             constraint: Any) -> Tensor:
    if not use:
        return y
    bias = get_variable("bias", [filters], y.dtype, initializer or Zeros(), regularizer, trainable, constraint=constraint)
    return ops.add(y, bias)


def conv3d(inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
           data_format: str = "channels_last", dilation_rate: Any = (1, 1, 1), activation: Activation = None,
           use_bias: bool = True, kernel_initializer: Any = None, bias_initializer: Any = None, kernel_regularizer: Any = None,
           bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
           bias_constraint: Any = None, trainable: bool = True, name: str | None = None, reuse: Any = None) -> Tensor:
    """activation(convolution + bias): [batch, depth, height, width, channels] to [batch, depth', height', width', filters];
    variables `kernel` [depth, height, width, channels, filters] and `bias` [filters]. ShapeError unless the rank is 5 and the
    channels are known."""
    x, second = _volumes(inputs, data_format, "conv3d")
    shape = [*_three(kernel_size, "conv3d: kernel_size"), _depth(x, "conv3d"), filters]
    with variable_scope(name, "conv3d", reuse=reuse):
        kernel = get_variable("kernel", shape, x.dtype, kernel_initializer, kernel_regularizer, trainable,
                              constraint=kernel_constraint)
        y = ops.conv3d(x, kernel, [1, *_three(strides, "conv3d: strides"), 1], padding.upper(),
                       dilations=(1, *_three(dilation_rate, "conv3d: dilation_rate"), 1))
        y = _shifted(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, bias_constraint)
        return _finish(_back(y, second), activation, activity_regularizer)


def conv3d_transpose(inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
                     data_format: str = "channels_last", activation: Activation = None, use_bias: bool = True,
                     kernel_initializer: Any = None, bias_initializer: Any = None, kernel_regularizer: Any = None,
                     bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                     bias_constraint: Any = None, trainable: bool = True, name: str | None = None, reuse: Any = None) -> Tensor:
    """The transpose of conv3d: volumes larger by `strides`; variables `kernel` [depth, height, width, filters, channels] and
    `bias` [filters]. Errors as conv3d."""
    where = "conv3d_transpose"
    x, second = _volumes(inputs, data_format, where)
    size, step = _three(kernel_size, f"{where}: kernel_size"), _three(strides, f"{where}: strides")
    output = enlarged(x, size, step, padding)
    with variable_scope(name, where, reuse=reuse):
        kernel = get_variable("kernel", [*size, filters, _depth(x, where)], x.dtype, kernel_initializer, kernel_regularizer,
                              trainable, constraint=kernel_constraint)
        y = ops.conv3d_transpose(x, kernel, ops.stack([*output, filters]), [1, *step, 1], padding.upper())
        y = _shifted(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, bias_constraint)
        return _finish(_back(y, second), activation, activity_regularizer)


def max_pooling3d(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                  name: str | None = None) -> Tensor:
    """The largest of each window of volumes; `pool_size` and `strides` are a number or (depth, height, width)."""
    return _pool(ops.max_pool3d, inputs, pool_size, strides, padding, data_format, name or "max_pooling3d")


def average_pooling3d(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                      name: str | None = None) -> Tensor:
    """The mean of each window of volumes; padding does not count. Arguments as in max_pooling3d."""
    return _pool(ops.avg_pool3d, inputs, pool_size, strides, padding, data_format, name or "average_pooling3d")


def _pool(operation: Callable[..., Tensor], inputs: Any, size: Any, strides: Any, padding: str, data_format: str,
          name: str) -> Tensor:
    x, second = _volumes(inputs, data_format, name)
    y = operation(x, [1, *_three(size, f"{name}: pool_size"), 1], [1, *_three(strides, f"{name}: strides"), 1], padding.upper(),
                  name=name)
    return _back(y, second)


def separable_conv2d(inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: str = "channels_last", dilation_rate: Any = (1, 1), depth_multiplier: int = 1,
                     activation: Activation = None, use_bias: bool = True, depthwise_initializer: Any = None,
                     pointwise_initializer: Any = None, bias_initializer: Any = None, depthwise_regularizer: Any = None,
                     pointwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                     depthwise_constraint: Any = None, pointwise_constraint: Any = None, bias_constraint: Any = None,
                     trainable: bool = True, name: str | None = None, reuse: Any = None) -> Tensor:
    """Each channel filtered by `depth_multiplier` kernels, then all mixed to `filters`: variables `depthwise_kernel` [height,
    width, channels, multiplier], `pointwise_kernel` [1, 1, channels · multiplier, filters] and `bias`. Errors as conv2d."""
    x, layout = convert(inputs), _format(data_format, "separable_conv2d")
    channels, size = _channels(x, layout, "separable_conv2d"), _pair(kernel_size, "separable_conv2d: kernel_size")
    with variable_scope(name, "separable_conv2d", reuse=reuse):
        deep = get_variable("depthwise_kernel", [*size, channels, depth_multiplier], x.dtype, depthwise_initializer,
                            depthwise_regularizer, trainable, constraint=depthwise_constraint)
        mixing = get_variable("pointwise_kernel", [1, 1, channels * depth_multiplier, filters], x.dtype, pointwise_initializer,
                              pointwise_regularizer, trainable, constraint=pointwise_constraint)
        y = ops.separable_conv2d(x, deep, mixing, _spread(_pair(strides, "separable_conv2d: strides"), layout), padding.upper(),
                                 rate=_pair(dilation_rate, "separable_conv2d: dilation_rate"), data_format=layout)
        return _finish(_bias(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, layout, bias_constraint),
                       activation, activity_regularizer)
