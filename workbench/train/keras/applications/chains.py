"""VGG of 16 and 19 layers: convolutions of 3 × 3 in five blocks (Simonyan and Zisserman 2014)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.train.keras.applications.common import CLASSES, begin, check, finish, pooled
from workbench.train.keras.core_layers import Dense, Flatten
from workbench.train.keras.image_layers import Conv2D, MaxPooling2D
from workbench.train.keras.models import Model

__all__ = ["VGG16", "VGG19"]


def VGG16(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
          pooling: str | None = None, classes: int = CLASSES) -> Model:
    """The net of 16 layers: images [224, 224, 3] to `classes`, or without the top images of 48 and more to features.

    `weights` is None, a file, or 'imagenet', a file of Keras's that lies in ~/.keras/models or WORKBENCH_DATA.
    """
    return _vgg("vgg16", (2, 2, 3, 3, 3), include_top, weights, input_tensor, input_shape, pooling, classes)


def VGG19(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
          pooling: str | None = None, classes: int = CLASSES) -> Model:
    """The net of 19 layers; see VGG16."""
    return _vgg("vgg19", (2, 2, 4, 4, 4), include_top, weights, input_tensor, input_shape, pooling, classes)


def _vgg(name: str, blocks: Sequence[int], include_top: bool, weights: Any, input_tensor: Any, input_shape: Any,
         pooling: str | None, classes: int) -> Model:
    check(name, weights, include_top, classes)
    x = image = begin(name, input_tensor, input_shape, weights, 224, 48, include_top)
    for number, count in enumerate(blocks, 1):
        for place in range(1, count + 1):
            x = Conv2D(min(512, 32 * 2**number), 3, activation="relu", padding="same", name=f"block{number}_conv{place}")(x)
        x = MaxPooling2D(2, name=f"block{number}_pool")(x)
    if include_top:
        x = Flatten(name="flatten")(x)
        for title in ("fc1", "fc2"):
            x = Dense(4096, activation="relu", name=title)(x)
        x = Dense(classes, activation="softmax", name="predictions")(x)
    return finish(image, x if include_top else pooled(x, pooling), name, weights, include_top)
