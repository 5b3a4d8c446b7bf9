"""Xception: separable convolutions with shortcuts (Chollet 2016)."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.graph import Tensor
from workbench.train.keras.applications.common import CLASSES, begin, channels_last, check, finish, with_classes
from workbench.train.keras.core_layers import Activation
from workbench.train.keras.image_layers import BatchNormalization, Conv2D, MaxPooling2D, SeparableConv2D
from workbench.train.keras.models import Model
from workbench.train.keras.more_layers import add

__all__ = ["Xception"]


def Xception(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
             pooling: str | None = None, classes: int = CLASSES) -> Model:
    """Images of 71 and more with channels last, by default [299, 299, 3], to `classes`, or without the top to features.

    `weights` is None, a file, or 'imagenet', a file of Keras's that lies in ~/.keras/models or WORKBENCH_DATA.
    """
    check("xception", weights, include_top, classes)
    with channels_last("xception"):
        image = begin("xception", input_tensor, input_shape, weights, 299, 71, False)
        x = _plain(_plain(image, 32, 2, "block1_conv1"), 64, 1, "block1_conv2")
        x = _narrower(x, 2, 128, 128, first=False)
        x = _narrower(_narrower(x, 3, 256, 256), 4, 728, 728)
        for block in range(5, 13):
            y = x
            for place in (1, 2, 3):
                y = _separable(Activation("relu", name=f"block{block}_sepconv{place}_act")(y), 728, block, place)
            x = add([y, x])
        x = _narrower(x, 13, 728, 1024)
        for place, width in ((1, 1536), (2, 2048)):
            x = Activation("relu", name=f"block14_sepconv{place}_act")(_separable(x, width, 14, place))
        return finish(image, with_classes(x, include_top, pooling, classes), "xception", weights, include_top)


def _plain(x: Tensor, channels: int, step: int, name: str) -> Tensor:
    x = Conv2D(channels, 3, strides=step, use_bias=False, name=name)(x)
    made: Tensor = Activation("relu", name=f"{name}_act")(BatchNormalization(name=f"{name}_bn")(x))
    return made


def _separable(x: Tensor, channels: int, block: int, place: int) -> Tensor:
    name = f"block{block}_sepconv{place}"
    made: Tensor = BatchNormalization(name=f"{name}_bn")(
        SeparableConv2D(channels, 3, padding="same", use_bias=False, name=name)(x))
    return made


def _narrower(x: Tensor, block: int, first_width: int, width: int, first: bool = True) -> Tensor:
    """Two separable convolutions and pooling, plus a convolution of `x`; `first` says whether they begin with an activation."""
    shortcut = BatchNormalization()(Conv2D(width, 1, strides=2, padding="same", use_bias=False)(x))
    y = Activation("relu", name=f"block{block}_sepconv1_act")(x) if first else x
    y = Activation("relu", name=f"block{block}_sepconv2_act")(_separable(y, first_width, block, 1))
    y = MaxPooling2D(3, strides=2, padding="same", name=f"block{block}_pool")(_separable(y, width, block, 2))
    made: Tensor = add([y, shortcut])
    return made
