"""Layers over sequences, images and volumes: convolutions, pooling, up-sampling, padding, cropping, batch normalization."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn import layer_classes, layers_1d, layers_3d
from workbench.nn import layers as wb_layers
from workbench.train.keras import activations, backend
from workbench.train.keras.backend_shapes import enlarged, padded, spatial_axes, temporal_padding
from workbench.train.keras.base import Layer, Over
from workbench.train.keras.core_layers import keep, kept
from workbench.train.keras.registry import config_of

__all__ = [
    "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNormalization",
    "Conv1D", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Convolution1D", "Convolution2D",
    "Convolution2DTranspose", "Convolution3D", "Convolution3DTranspose", "Cropping1D", "Cropping2D", "Cropping3D",
    "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalAvgPool1D", "GlobalAvgPool2D",
    "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D",
    "GlobalMaxPooling3D", "MaxPool1D", "MaxPool2D", "MaxPool3D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D",
    "SeparableConv2D", "SeparableConvolution2D", "UpSampling1D", "UpSampling2D", "UpSampling3D", "ZeroPadding1D",
    "ZeroPadding2D", "ZeroPadding3D",
]


def several(layer: Layer, name: str, value: Any, count: int) -> tuple[Any, ...]:
    """A number for each axis, from one or from as many. InvalidArgumentError for another number of them, or for none."""
    if not isinstance(value, (int, list, tuple)):
        raise errors.InvalidArgumentError(f"{layer.name}: {name} is {value!r}; give one number or {count}")
    found = (value,) * count if isinstance(value, int) else tuple(value)
    if len(found) != count:
        raise errors.InvalidArgumentError(f"{layer.name}: {name} is {value!r}, {len(found)} numbers; give one or {count}")
    return found


class _Conv(Over):
    """A convolution of `filters` kernels of `kernel_size`, with a bias and an activation."""

    _rank = 2

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
                 dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, **options: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **options)
        self._shaped(filters, kernel_size, strides, padding, data_format, activation, use_bias)
        self.dilation_rate = several(self, "dilation_rate", dilation_rate, self._rank)
        keep(self, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
             kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
             bias_constraint=bias_constraint)

    def _shaped(self, filters: int, kernel_size: Any, strides: Any, padding: str, data_format: str | None, activation: Any,
                use_bias: bool) -> None:
        """Keep what all convolutions have."""
        self.filters, self.use_bias, self.activation = int(filters), use_bias, activations.get(activation)
        self.kernel_size = several(self, "kernel_size", kernel_size, self._rank)
        self.strides = several(self, "strides", strides, self._rank)
        self.padding, self.data_format = padding.lower(), backend.layout(data_format)

    def _arguments(self) -> dict[str, Any]:
        names = ("filters", "kernel_size", "strides", "padding", "data_format", "activation", "use_bias", "dilation_rate",
                 "depth_multiplier")
        return {**{name: getattr(self, name) for name in names if name in vars(self)}, **kept(self)}


class Conv1D(_Conv):
    """Convolution along the time of [batch, time, features]; padding "causal" looks back alone."""

    _class, _rank = layer_classes.Conv1D, 1

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", dilation_rate: Any = 1,
                 activation: Any = None, use_bias: bool = True, *more: Any, data_format: str | None = None,
                 **options: Any) -> None:
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, *more,
                         **options)

    def get_config(self) -> dict[str, Any]:
        """Its arguments, those of its weights among them."""
        return {**super().get_config(), **config_of(self, of=_Conv)}

    def _arguments(self) -> dict[str, Any]:
        found = super()._arguments()
        return {**found, "padding": "valid"} if self.padding == "causal" else found

    def call(self, inputs: Any, *args: Any, **options: Any) -> Any:
        """The convolution."""
        if self.padding == "causal":
            inputs = temporal_padding(inputs, (self.dilation_rate[0] * (self.kernel_size[0] - 1), 0))
        return super().call(inputs, *args, **options)


class Conv2D(_Conv):
    """Convolution of images [batch, height, width, channels], or with channels first."""

    _class = layer_classes.Conv2D


class Conv3D(_Conv):
    """Convolution of volumes."""

    _class, _rank = layer_classes.Conv3D, 3


class Conv2DTranspose(_Conv):
    """The gradient of a convolution as a layer, which makes images larger."""

    _class = layer_classes.Conv2DTranspose

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
                 activation: Any = None, use_bias: bool = True, *more: Any, **options: Any) -> None:
        super().__init__(filters, kernel_size, strides, padding, data_format, 1, activation, use_bias, *more, **options)
        del self.dilation_rate

    def get_config(self) -> dict[str, Any]:
        """Its arguments, those of its weights among them."""
        return {**super().get_config(), **config_of(self, of=_Conv)}


class Conv3DTranspose(Conv2DTranspose):
    """The same for volumes."""

    _class, _rank = layer_classes.Conv3DTranspose, 3


class SeparableConv2D(_Conv):
    """A convolution of each channel by itself, then one of single points over all."""

    _class = layer_classes.SeparableConv2D

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
                 depth_multiplier: int = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", pointwise_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", depthwise_regularizer: Any = None, pointwise_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, depthwise_constraint: Any = None,
                 pointwise_constraint: Any = None, bias_constraint: Any = None, **options: Any) -> None:
        Layer.__init__(self, activity_regularizer=activity_regularizer, **options)
        self._shaped(filters, kernel_size, strides, padding, data_format, activation, use_bias)
        self.depth_multiplier = depth_multiplier
        keep(self, depthwise_initializer=depthwise_initializer, pointwise_initializer=pointwise_initializer,
             bias_initializer=bias_initializer, depthwise_regularizer=depthwise_regularizer,
             pointwise_regularizer=pointwise_regularizer, bias_regularizer=bias_regularizer,
             depthwise_constraint=depthwise_constraint, pointwise_constraint=pointwise_constraint,
             bias_constraint=bias_constraint)


class BatchNormalization(Over):
    """gamma · (x - mean) / √(variance + epsilon) + beta: of the batch while training, of moving averages else."""

    _class = layer_classes.BatchNormalization

    def __init__(self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", moving_mean_initializer: Any = "zeros",
                 moving_variance_initializer: Any = "ones", beta_regularizer: Any = None, gamma_regularizer: Any = None,
                 beta_constraint: Any = None, gamma_constraint: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.axis, self.momentum, self.epsilon, self.center, self.scale = axis, momentum, epsilon, center, scale
        self.supports_masking = True
        keep(self, beta_initializer=beta_initializer, gamma_initializer=gamma_initializer,
             moving_mean_initializer=moving_mean_initializer, moving_variance_initializer=moving_variance_initializer,
             beta_regularizer=beta_regularizer, gamma_regularizer=gamma_regularizer, beta_constraint=beta_constraint,
             gamma_constraint=gamma_constraint)

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("axis", "momentum", "epsilon", "center", "scale")} | kept(self) | {
            "fused": False}

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, normalized."""
        return super().call(inputs, training=backend.flag(training))


# pooling

class _Pooling(Layer):
    """The largest or mean of each window."""

    _rank = 2
    _function: Callable[..., Tensor]

    def __init__(self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: str | None = None,
                 **options: Any) -> None:
        super().__init__(**options)
        self.pool_size = several(self, "pool_size", pool_size, self._rank)
        self.strides = several(self, "strides", pool_size if strides is None else strides, self._rank)
        self.padding, self.data_format = padding.lower(), backend.layout(data_format)

    def call(self, inputs: Any) -> Tensor:
        """The windows' results."""
        return type(self)._function(inputs, self.pool_size, self.strides, self.padding, self.data_format)


def _pooling(name: str, rank: int, function: Callable[..., Tensor]) -> Any:
    doc = f"{function.__name__} as a layer; by default windows of 2, side by side."
    return type(name, (_Pooling,), {"_rank": rank, "_function": staticmethod(function), "__doc__": doc, "__module__": __name__})


MaxPooling1D: Any = _pooling("MaxPooling1D", 1, layers_1d.max_pooling1d)
MaxPooling2D: Any = _pooling("MaxPooling2D", 2, wb_layers.max_pooling2d)
MaxPooling3D: Any = _pooling("MaxPooling3D", 3, layers_3d.max_pooling3d)
AveragePooling1D: Any = _pooling("AveragePooling1D", 1, layers_1d.average_pooling1d)
AveragePooling2D: Any = _pooling("AveragePooling2D", 2, wb_layers.average_pooling2d)
AveragePooling3D: Any = _pooling("AveragePooling3D", 3, layers_3d.average_pooling3d)


class _Spatial(Layer):
    """Base of what works on the axes between batch and channels."""

    _rank = 2

    def __init__(self, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.data_format = backend.layout(data_format)

    def _axes(self) -> list[int]:
        """The axes of space or time."""
        return spatial_axes(self._rank, self.data_format)


def _global(name: str, rank: int, reduction: Callable[..., Tensor], doc: str) -> Any:
    def call(self: _Spatial, inputs: Any) -> Tensor:
        return reduction(inputs, self._axes())
    call.__doc__ = doc
    return type(name, (_Spatial,), {"_rank": rank, "call": call, "__doc__": doc, "__module__": __name__})


_LARGEST, _MEAN = "The largest of each channel, [batch, channels].", "The mean of each channel, [batch, channels]."
GlobalMaxPooling1D: Any = _global("GlobalMaxPooling1D", 1, ops.reduce_max, _LARGEST)
GlobalMaxPooling2D: Any = _global("GlobalMaxPooling2D", 2, ops.reduce_max, _LARGEST)
GlobalMaxPooling3D: Any = _global("GlobalMaxPooling3D", 3, ops.reduce_max, _LARGEST)
GlobalAveragePooling1D: Any = _global("GlobalAveragePooling1D", 1, ops.reduce_mean, _MEAN)
GlobalAveragePooling2D: Any = _global("GlobalAveragePooling2D", 2, ops.reduce_mean, _MEAN)
GlobalAveragePooling3D: Any = _global("GlobalAveragePooling3D", 3, ops.reduce_mean, _MEAN)


# larger and smaller

class _UpSampling(_Spatial):
    """Each point `size` times along each axis."""

    def __init__(self, size: Any = 2, data_format: str | None = None, **options: Any) -> None:
        super().__init__(data_format, **options)
        self.size = several(self, "size", size, self._rank)

    def call(self, inputs: Any) -> Any:
        """The points repeated."""
        return enlarged(inputs, self.size, self._axes())


class UpSampling1D(_UpSampling):
    """Each time step `size` times."""

    _rank = 1


class UpSampling2D(_UpSampling):
    """Each row and column of images `size` times."""


class UpSampling3D(_UpSampling):
    """Each plane, row and column of volumes `size` times."""

    _rank = 3


def _edges(layer: Layer, name: str, given: Any, count: int) -> list[list[int]]:
    """[before, after] for each axis, from one number, one for each, or pairs."""
    if count == 1 and isinstance(given, (list, tuple)) and len(given) == 2:
        given = [given]
    pairs = [[one, one] if isinstance(one, int) else list(one) for one in several(layer, name, given, count)]
    if any(len(pair) != 2 for pair in pairs):
        raise errors.InvalidArgumentError(f"{layer.name}: {name} is {given!r}; give a number or (before, after) for each axis")
    return pairs


class _ZeroPadding(_Spatial):
    """Zeros around each axis."""

    def __init__(self, padding: Any = 1, data_format: str | None = None, **options: Any) -> None:
        super().__init__(data_format, **options)
        self.padding = _edges(self, "padding", padding, self._rank)

    def call(self, inputs: Any) -> Any:
        """The inputs with zeros around."""
        return padded(inputs, self.padding, self._axes())


class ZeroPadding1D(_ZeroPadding):
    """Zeros before and behind a sequence."""

    _rank = 1


class ZeroPadding2D(_ZeroPadding):
    """Zeros around images: a number, (height, width), or ((top, bottom), (left, right))."""


class ZeroPadding3D(_ZeroPadding):
    """Zeros around volumes."""

    _rank = 3


class _Cropping(_Spatial):
    """Takes the edges of each axis away."""

    def __init__(self, cropping: Any = 1, data_format: str | None = None, **options: Any) -> None:
        super().__init__(data_format, **options)
        self.cropping = _edges(self, "cropping", cropping, self._rank)

    def call(self, inputs: Any) -> Any:
        """What is inside."""
        inside = [slice(None)] * (self._rank + 2)
        for axis, (before, after) in zip(self._axes(), self.cropping):
            inside[axis] = slice(before, -after if after else None)
        return operator.getitem(inputs, tuple(inside))


class Cropping1D(_Cropping):
    """A sequence without its ends."""

    _rank = 1


class Cropping2D(_Cropping):
    """Images without their edges: a number, (height, width), or ((top, bottom), (left, right))."""


class Cropping3D(_Cropping):
    """Volumes without their edges."""

    _rank = 3


Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution2DTranspose, Convolution3DTranspose, SeparableConvolution2D = Conv2DTranspose, Conv3DTranspose, SeparableConv2D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalAveragePooling3D
