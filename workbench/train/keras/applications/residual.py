"""ResNet50: blocks of three convolutions with a shortcut (He, Zhang, Ren, Sun 2015)."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.graph import Tensor
from workbench.train.keras.applications.common import CLASSES, begin, channel_axis, check, finish, pooled
from workbench.train.keras.core_layers import Activation, Dense, Flatten
from workbench.train.keras.image_layers import AveragePooling2D, BatchNormalization, Conv2D, MaxPooling2D
from workbench.train.keras.models import Model
from workbench.train.keras.more_layers import add

__all__ = ["ResNet50"]

_STAGES = ((2, "abc", 64), (3, "abcd", 128), (4, "abcdef", 256), (5, "abc", 512))


def ResNet50(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
             pooling: str | None = None, classes: int = CLASSES) -> Model:
    """Images [224, 224, 3] to `classes`, or without the top images of 197 and more to features.

    `weights` is None, a file, or 'imagenet', a file of Keras's that lies in ~/.keras/models or WORKBENCH_DATA.
    """
    check("resnet50", weights, include_top, classes)
    image = begin("resnet50", input_tensor, input_shape, weights, 224, 197, include_top)
    x = _normalized(Conv2D(64, 7, strides=2, padding="same", name="conv1")(image), "bn_conv1")
    x = MaxPooling2D(3, strides=2)(Activation("relu")(x))
    for stage, blocks, width in _STAGES:
        for block in blocks:
            x = _block(x, width, f"{stage}{block}_branch", block == "a", 2 if block == "a" and stage > 2 else 1)
    x = AveragePooling2D(7, name="avg_pool")(x)
    x = Dense(classes, activation="softmax", name="fc1000")(Flatten()(x)) if include_top else pooled(x, pooling)
    return finish(image, x, "resnet50", weights, include_top)


def _normalized(x: Tensor, name: str) -> Tensor:
    made: Tensor = BatchNormalization(axis=channel_axis(), name=name)(x)
    return made


def _block(x: Tensor, width: int, name: str, wider: bool, step: int) -> Tensor:
    """`x`, or where the result is `wider` a convolution of it, plus three convolutions."""
    def convolved(y: Tensor, channels: int, size: int, strides: int, part: str) -> Tensor:
        y = Conv2D(channels, size, strides=strides, padding="same", name=f"res{name}{part}")(y)
        return _normalized(y, f"bn{name}{part}")
    y = Activation("relu")(convolved(x, width, 1, step, "2a"))
    y = Activation("relu")(convolved(y, width, 3, 1, "2b"))
    y = convolved(y, 4 * width, 1, 1, "2c")
    made: Tensor = Activation("relu")(add([y, convolved(x, 4 * width, 1, step, "1") if wider else x]))
    return made
