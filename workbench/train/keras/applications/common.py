"""What the nets share: the shape of their images, how they end, weights from files, images prepared, predictions read."""
from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.settings import settings
from workbench.train.keras import backend
from workbench.train.keras.backend_ops import is_keras_tensor
from workbench.train.keras.base import Input
from workbench.train.keras.core_layers import Dense
from workbench.train.keras.image_layers import GlobalAveragePooling2D, GlobalMaxPooling2D
from workbench.train.keras.models import Model

__all__ = ["CLASSES", "begin", "channel_axis", "channels_last", "check", "decode_predictions", "finish", "pooled",
           "preprocess_by_means", "preprocess_to_one", "with_classes"]

CLASSES = 1000      # of ImageNet
_BLUE_GREEN_RED = (103.939, 116.779, 123.68)      # means of ImageNet
IMAGENET = "imagenet"


def channel_axis() -> int:
    """Where channels stand among the axes of a batch."""
    return 1 if backend.image_data_format() == "channels_first" else 3


@contextlib.contextmanager
def channels_last(name: str) -> Iterator[None]:
    """For a net that is made with channels last alone; a warning where the program has set otherwise."""
    before = backend.image_data_format()
    if before != "channels_last":
        warnings.warn(f"{name}: it has channels last alone: its images are [height, width, channels] although "
                      "image_data_format is 'channels_first'", stacklevel=4)
    backend.set_image_data_format("channels_last")
    try:
        yield
    finally:
        backend.set_image_data_format(before)


def check(where: str, weights: Any, include_top: bool, classes: int) -> None:
    """InvalidArgumentErrors for weights that are neither None, 'imagenet' nor a file, and for ImageNet's with other classes."""
    if weights not in (None, IMAGENET) and not os.path.exists(weights):
        raise errors.InvalidArgumentError(f"{where}: The `weights` argument should be either `None` (random initialization) or "
                                          f"`imagenet` (pre-training on ImageNet) or the path of a file; {weights!r} is none")
    if weights == IMAGENET and include_top and classes != CLASSES:
        raise errors.InvalidArgumentError(f"{where}: If using `weights` as imagenet with `include_top` as true, `classes` "
                                          f"should be {CLASSES}; it is {classes}")


def begin(where: str, input_tensor: Any, input_shape: Any, weights: Any, size: int, smallest: int, flat: bool) -> Tensor:
    """The images that a net begins with: of `size` where nothing is said and the net needs to know (`flat`), at least
    `smallest`. InvalidArgumentErrors for other shapes."""
    shape = _shape(where, input_shape, weights, size, smallest, flat)
    if input_tensor is None:
        return Input(shape)
    return input_tensor if is_keras_tensor(input_tensor) else Input(shape, tensor=input_tensor)


def _shape(where: str, given: Any, weights: Any, size: int, smallest: int, flat: bool) -> tuple[int | None, ...]:
    place = 0 if channel_axis() == 1 else 2

    def image(length: int | None, channels: int) -> tuple[int | None, ...]:
        return tuple(channels if axis == place else length for axis in range(3))
    found = tuple(given) if given else image(size if flat else None, 3)
    sides = [length for axis, length in enumerate(found) if axis != place]
    if len(found) != 3:
        raise errors.InvalidArgumentError(f"{where}: `input_shape` must be a tuple of three integers.; it is {found}")
    if weights == IMAGENET and (found[place] != 3 or (flat and found != image(size, 3))):
        raise errors.InvalidArgumentError(f"{where}: When setting `include_top=True` and loading `imagenet` weights, "
                                          f"`input_shape` should be {image(size, 3)}, and else have 3 channels; it is {found}")
    if any(length is not None and length < smallest for length in sides):
        raise errors.InvalidArgumentError(f"{where}: Input size must be at least {smallest}x{smallest}; got "
                                          f"`input_shape={found}`")
    if flat and None in found:
        raise errors.InvalidArgumentError(f"{where}: If `include_top` is True, you should specify a static `input_shape`. Got "
                                          f"`input_shape={found}`")
    return found


def pooled(x: Tensor, pooling: str | None) -> Tensor:
    """The features without a top: [batch, height, width, channels], or their mean ("avg") or largest ("max") over space."""
    made = {"avg": GlobalAveragePooling2D, "max": GlobalMaxPooling2D}.get(pooling or "")
    return x if made is None else made()(x)


def with_classes(x: Tensor, include_top: bool, pooling: str | None, classes: int) -> Tensor:
    """The top of Inception and Xception: the mean over space, and a layer of classes."""
    if not include_top:
        return pooled(x, pooling)
    made: Tensor = Dense(classes, activation="softmax", name="predictions")(GlobalAveragePooling2D(name="avg_pool")(x))
    return made


def finish(image: Tensor, x: Tensor, name: str, weights: Any, include_top: bool, files: str = "") -> Model:
    """The model from image to `x`, with the weights of a file; 'imagenet' is the one that Keras calls `files`…h5."""
    model = Model(image, x, name=name)
    if weights == IMAGENET:
        title = files or f"{name}_weights_tf_dim_ordering_tf_kernels{{}}.h5"
        weights = _found(title.format("" if include_top else "_notop"))
    if weights is not None:
        model.load_weights(weights)
    return model


def _found(name: str) -> Path:
    """A file of Keras's models that is there. UnavailableError where it is not: nothing is downloaded."""
    places = [*([] if settings.data is None else [settings.data]), Path(os.path.expanduser("~/.keras/models"))]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise errors.UnavailableError(f"keras: {name} is not in {' or '.join(map(str, places))}; put it there, or pass "
                                  "weights=None or the path of a file")


# images and classes

def preprocess_by_means(x: Any, data_format: str | None = None) -> Any:
    """Images [..., 3] of 0 to 255 as VGG's and ResNet's weights want them: blue, green, red, less the means of ImageNet."""
    axis = -3 if backend.layout(data_format) == "channels_first" else -1
    flipped = np.flip(x, axis)
    kind = flipped.dtype if flipped.dtype.kind == "f" else np.float64
    return flipped - np.reshape(np.asarray(_BLUE_GREEN_RED, kind), [3, 1, 1] if axis == -3 else [3])


def preprocess_to_one(x: Any) -> Any:
    """Images of 0 to 255 as numbers of -1 to 1, in their place."""
    x /= 255.0
    x -= 0.5
    x *= 2.0
    return x


def decode_predictions(preds: Any, top: int = 5) -> list[list[tuple[str, str, float]]]:
    """For each row of [n, 1000] the `top` classes, the likeliest first: (identifier, word, score).

    Their words are in Keras's file imagenet_class_index.json. InvalidArgumentError for another shape.
    """
    if preds.ndim != 2 or preds.shape[1] != CLASSES:
        raise errors.InvalidArgumentError("decode_predictions: `decode_predictions` expects a batch of predictions (i.e. a 2D "
                                          f"array of shape (samples, {CLASSES})). Found array with shape: {preds.shape}")
    words = json.loads(_found("imagenet_class_index.json").read_text())
    return [[(*words[str(place)], row[place]) for place in np.argsort(row)[::-1][:top]] for row in preds]


