"""InceptionV3: blocks of convolutions side by side (Szegedy, Vanhoucke, Ioffe, Shlens, Wojna 2015)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.graph.graph import Tensor
from workbench.train.keras.applications.common import CLASSES, begin, channel_axis, check, finish, with_classes
from workbench.train.keras.core_layers import Activation
from workbench.train.keras.image_layers import AveragePooling2D, BatchNormalization, Conv2D, MaxPooling2D
from workbench.train.keras.models import Model
from workbench.train.keras.more_layers import concatenate

__all__ = ["InceptionV3"]

Steps = Sequence[tuple[int, int, int]]      # channels, height and width of each convolution


def InceptionV3(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
                pooling: str | None = None, classes: int = CLASSES) -> Model:
    """Images of 139 and more, by default [299, 299, 3], to `classes`, or without the top to features.

    `weights` is None, a file, or 'imagenet', a file of Keras's that lies in ~/.keras/models or WORKBENCH_DATA.
    """
    check("inception_v3", weights, include_top, classes)
    image = begin("inception_v3", input_tensor, input_shape, weights, 299, 139, False)
    x = _convolved(_convolved(image, 32, 3, 3, 2, "valid"), 32, 3, 3, 1, "valid")
    x = MaxPooling2D(3, strides=2)(_convolved(x, 64, 3, 3))
    x = _convolved(_convolved(x, 80, 1, 1, 1, "valid"), 192, 3, 3, 1, "valid")
    x = _blocks(MaxPooling2D(3, strides=2)(x))
    return finish(image, with_classes(x, include_top, pooling, classes), "inception_v3", weights, include_top)


def _blocks(x: Tensor) -> Tensor:
    """mixed0 to mixed10."""
    for number, width in enumerate((32, 64, 64)):
        x = _joined([*_branches(x, [(64, 1, 1)], [(48, 1, 1), (64, 5, 5)], [(64, 1, 1), (96, 3, 3), (96, 3, 3)]),
                     _averaged(x, width)], f"mixed{number}")
    x = _joined([_convolved(x, 384, 3, 3, 2, "valid"), _smaller(x, [(64, 1, 1), (96, 3, 3)], 96), _largest(x)], "mixed3")
    for number, width in enumerate((128, 160, 160, 192), 4):
        long = [(width, 1, 1), (width, 7, 1), (width, 1, 7), (width, 7, 1), (192, 1, 7)]
        x = _joined([*_branches(x, [(192, 1, 1)], [(width, 1, 1), (width, 1, 7), (192, 7, 1)], long), _averaged(x, 192)],
                    f"mixed{number}")
    x = _joined([_smaller(x, [(192, 1, 1)], 320), _smaller(x, [(192, 1, 1), (192, 1, 7), (192, 7, 1)], 192), _largest(x)],
                "mixed8")
    for number in (9, 10):
        first, = _branches(x, [(320, 1, 1)])
        second = _joined(_branches(_convolved(x, 384, 1, 1), [(384, 1, 3)], [(384, 3, 1)]), f"mixed9_{number - 9}")
        third = _joined(_branches(_convolved(_convolved(x, 448, 1, 1), 384, 3, 3), [(384, 1, 3)], [(384, 3, 1)]))
        x = _joined([first, second, third, _averaged(x, 192)], f"mixed{number}")
    return x


def _convolved(x: Tensor, channels: int, height: int, width: int, step: int = 1, padding: str = "same") -> Tensor:
    x = Conv2D(channels, (height, width), strides=step, padding=padding, use_bias=False)(x)
    made: Tensor = Activation("relu")(BatchNormalization(axis=channel_axis(), scale=False)(x))
    return made


def _branches(x: Tensor, *branches: Steps) -> list[Tensor]:
    """Convolutions one after the other, several such chains side by side."""
    ends = []
    for steps in branches:
        y = x
        for step in steps:
            y = _convolved(y, *step)
        ends.append(y)
    return ends


def _smaller(x: Tensor, steps: Steps, channels: int) -> Tensor:
    return _convolved(_branches(x, steps)[0], channels, 3, 3, 2, "valid")


def _averaged(x: Tensor, channels: int) -> Tensor:
    return _convolved(AveragePooling2D(3, strides=1, padding="same")(x), channels, 1, 1)


def _largest(x: Tensor) -> Tensor:
    made: Tensor = MaxPooling2D(3, strides=2)(x)
    return made


def _joined(parts: list[Tensor], name: str | None = None) -> Tensor:
    made: Tensor = concatenate(parts, axis=channel_axis(), name=name)
    return made
