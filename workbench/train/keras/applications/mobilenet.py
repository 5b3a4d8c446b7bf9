"""MobileNet: convolutions of each channel by itself, between those of single points (Howard et al. 2017)."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import as_shape
from workbench.train.keras import activations, backend
from workbench.train.keras.applications.common import CLASSES, IMAGENET, begin, channels_last, check, finish, pooled
from workbench.train.keras.base import Layer
from workbench.train.keras.core_layers import Activation, Dropout, Reshape, keep, kept
from workbench.train.keras.image_layers import BatchNormalization, Conv2D, GlobalAveragePooling2D, several
from workbench.train.keras.models import Model

__all__ = ["DepthwiseConv2D", "MobileNet", "relu6"]

_WIDTHS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
_SMALLER = (2, 4, 6, 12)      # blocks with steps of 2
_SIDES, _ALPHAS = (128, 160, 192, 224), {1.0: "1_0", 0.75: "7_5", 0.5: "5_0", 0.25: "2_5"}      # there are weights of these


def relu6(x: Any) -> Tensor:
    """x, but not below 0 and not above 6."""
    made: Tensor = ops.relu6(x)
    return made


class DepthwiseConv2D(Layer):
    """`depth_multiplier` convolutions of each channel by itself, with a bias and an activation."""

    def __init__(self, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1,
                 data_format: str | None = None, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 depthwise_constraint: Any = None, bias_constraint: Any = None, **options: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **options)
        self.kernel_size, self.strides = several(self, "kernel_size", kernel_size, 2), several(self, "strides", strides, 2)
        self.padding, self.data_format = padding.lower(), backend.layout(data_format)
        self.depth_multiplier, self.use_bias, self.activation = depth_multiplier, use_bias, activations.get(activation)
        keep(self, depthwise_initializer=depthwise_initializer, bias_initializer=bias_initializer,
             depthwise_regularizer=depthwise_regularizer, bias_regularizer=bias_regularizer,
             depthwise_constraint=depthwise_constraint, bias_constraint=bias_constraint)

    def build(self, input_shape: Any) -> None:
        """Make kernel [height, width, channels, depth_multiplier] and bias. InvalidArgumentError without known channels."""
        shape = as_shape(input_shape).as_list()
        channels = shape[1 if self.data_format == "channels_first" else -1] if len(shape) == 4 else None
        if channels is None:
            raise errors.InvalidArgumentError(f"{self.name}: Inputs to `DepthwiseConv2D` should have rank 4 and defined "
                                              f"channels. Received input shape: {tuple(shape)}")
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", [*self.kernel_size, channels, self.depth_multiplier], **kept(self, "depthwise"))
        self.bias = self.add_weight("bias", [channels * self.depth_multiplier], **kept(self, "bias")) if self.use_bias else None
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """The convolutions."""
        first = self.data_format == "channels_first"
        x = ops.transpose(inputs, [0, 2, 3, 1]) if first else inputs
        found = ops.depthwise_conv2d(x, self.depthwise_kernel.value(), [1, *self.strides, 1], self.padding.upper())
        found = found if self.bias is None else found + self.bias
        found = ops.transpose(found, [0, 3, 1, 2]) if first else found
        return found if self.activation is None else self.activation(found)


def MobileNet(input_shape: Any = None, alpha: float = 1.0, depth_multiplier: int = 1, dropout: float = 1e-3,
              include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, pooling: str | None = None,
              classes: int = CLASSES) -> Model:
    """Images of 32 and more with channels last, by default [224, 224, 3], to `classes`, or without the top to features; its
    layers have `alpha` times the channels.

    `weights` is None, a file, or 'imagenet', a file of Keras's that lies in ~/.keras/models or WORKBENCH_DATA.
    """
    check("mobilenet", weights, include_top, classes)
    with channels_last("mobilenet"):
        side = input_shape[0] if input_shape and input_shape[0] == input_shape[1] and input_shape[0] in _SIDES else 224
        image = begin("mobilenet", input_tensor, input_shape, weights, side, 32, include_top)
        rows = image.shape.as_list()[1]
        if weights == IMAGENET and (depth_multiplier != 1 or alpha not in _ALPHAS or rows not in _SIDES):
            raise errors.InvalidArgumentError(f"mobilenet: there are imagenet weights of depth_multiplier 1, alpha {[*_ALPHAS]}"
                                              f" and images of {_SIDES}, but not of {depth_multiplier}, {alpha} and {rows}")
        x = _after(Conv2D(int(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="conv1")(image), "conv1")
        for block, width in enumerate(_WIDTHS, 1):
            x = _block(x, int(width * alpha), depth_multiplier, 2 if block in _SMALLER else 1, block)
        x = _classes(x, int(1024 * alpha), dropout, classes) if include_top else pooled(x, pooling)
        return finish(image, x, f"mobilenet_{alpha:.2f}_{rows}", weights, include_top,
                      f"mobilenet_{_ALPHAS.get(alpha)}_{rows}_tf{'' if include_top else '_no_top'}.h5")


def _after(x: Tensor, name: str) -> Tensor:
    made: Tensor = Activation(relu6, name=f"{name}_relu")(BatchNormalization(axis=-1, name=f"{name}_bn")(x))
    return made


def _block(x: Tensor, width: int, multiplier: int, step: int, number: int) -> Tensor:
    x = _after(DepthwiseConv2D(3, strides=step, padding="same", depth_multiplier=multiplier, use_bias=False,
                               name=f"conv_dw_{number}")(x), f"conv_dw_{number}")
    return _after(Conv2D(width, 1, padding="same", use_bias=False, name=f"conv_pw_{number}")(x), f"conv_pw_{number}")


def _classes(x: Tensor, width: int, dropout: float, classes: int) -> Tensor:
    x = Dropout(dropout, name="dropout")(Reshape((1, 1, width), name="reshape_1")(GlobalAveragePooling2D()(x)))
    x = Activation("softmax", name="act_softmax")(Conv2D(classes, 1, padding="same", name="conv_preds")(x))
    made: Tensor = Reshape((classes,), name="reshape_2")(x)
    return made
