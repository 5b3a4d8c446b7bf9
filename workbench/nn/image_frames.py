"""Parts of images by given places and sizes: crops, frames of zeros, the middle; what an image is."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape

__all__ = ["axes_of", "central_crop", "crop_to_bounding_box", "image_of", "pad_to_bounding_box",
           "resize_image_with_crop_or_pad"]


def image_of(images: Any, where: str) -> Tensor:
    """One image [height, width, channels] or a batch of them as a tensor. ShapeError for anything else."""
    x = convert(images)
    if x.shape.rank is None and where != "resize_images":
        x = ops.of_rank(x, 3)      # as TensorFlow takes an image of which nothing is known
    if x.shape.rank not in (3, 4):
        raise errors.ShapeError(f"{where}: {x.name} has shape {x.shape} but 'image' must have either 3 or 4 dimensions. "
                                "Reshape it, or set_shape it")
    if 0 in x.shape.as_list()[-3:]:
        raise errors.ShapeError(f"{where}: all dims of 'image.shape' must be > 0, but it is {x.shape}; pass an image")
    return x


def _whole(*numbers: Any) -> Tensor:
    """Integers of any type, some of them perhaps tensors, as one vector."""
    made: Tensor = ops.stack([ops.cast(convert(number), "int32") for number in numbers])
    return made


def _dims(x: Tensor) -> list[Any]:
    """Each dimension, as a number where it is known."""
    dynamic = ops.shape(x)
    return [dynamic[i] if d is None else d for i, d in enumerate(x.shape.as_list())]


def axes_of(x: Tensor) -> tuple[int, int]:
    """Which axes are height and width."""
    rank = x.shape.rank or 3
    return rank - 3, rank - 2


def crop_to_bounding_box(image: Any, offset_height: Any, offset_width: Any, target_height: Any,
                         target_width: Any) -> Tensor:
    """The part of one image, or of each of a batch, that begins at the offsets and has the target size.

    InvalidArgumentError when it reaches beyond the image.
    """
    x = image_of(image, "crop_to_bounding_box")
    dims, (down, right) = _dims(x), axes_of(x)
    for side, offset, target, axis in (("height", offset_height, target_height, down),
                                       ("width", offset_width, target_width, right)):
        if all(isinstance(v, (int, np.integer)) for v in (offset, target, dims[axis])) and not (
                offset >= 0 and target > 0 and offset + target <= dims[axis]):
            rule = (f"offset_{side} must be >= 0" if offset < 0 else f"target_{side} must be > 0" if target <= 0 else
                    f"{side} must be >= target + offset")
            raise errors.InvalidArgumentError(f"crop_to_bounding_box: {rule}, but {side} {offset} … {offset + target} is not "
                                              f"within 0 … {dims[axis]}; choose a box inside the image")
    begin, size = [0] * len(dims), list(dims)
    begin[down], begin[right], size[down], size[right] = offset_height, offset_width, target_height, target_width
    made = ops.slice(x, _whole(*begin), _whole(*size))
    made.set_shape(Shape([d if isinstance(d, (int, np.integer)) else None for d in size]))
    return made


def pad_to_bounding_box(image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any) -> Tensor:
    """The image, or each of a batch, within zeros: it begins at the offsets, the whole has the target size.

    InvalidArgumentError when the image does not fit.
    """
    x = image_of(image, "pad_to_bounding_box")
    dims, (down, right) = _dims(x), axes_of(x)
    after_height, after_width = (_rest(target, offset, dims[axis]) for target, offset, axis in (
        (target_height, offset_height, down), (target_width, offset_width, right)))
    for rule, amount in (("offset_height must be >= 0", offset_height), ("offset_width must be >= 0", offset_width),
                         ("height must be <= target - offset", after_height),
                         ("width must be <= target - offset", after_width)):
        if isinstance(amount, (int, np.integer)) and amount < 0:
            raise errors.InvalidArgumentError(f"pad_to_bounding_box: {rule}, but {-amount} are missing; choose a target that "
                                              "holds the image")
    pads: list[list[Any]] = [[0, 0] for _ in dims]
    pads[down], pads[right] = [offset_height, after_height], [offset_width, after_width]
    made = ops.pad(x, ops.stack([_whole(*pair) for pair in pads]))
    shape: list[Any] = list(x.shape.as_list())
    shape[down], shape[right] = (t if isinstance(t, (int, np.integer)) else None for t in (target_height, target_width))
    made.set_shape(Shape(shape))
    return made


def _rest(target: Any, offset: Any, size: Any) -> Any:
    """target - offset - size; of integers of several types where some are tensors."""
    if any(isinstance(v, Tensor) for v in (target, offset, size)):
        target, offset, size = (ops.cast(convert(v), "int32") for v in (target, offset, size))
    return target - offset - size


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """The middle of the image, or of each of a batch, cropped or padded with zeros to the target size."""
    x = image_of(image, "resize_image_with_crop_or_pad")
    dims, (down, right) = _dims(x), axes_of(x)

    def larger(a: Any, b: Any) -> Any:
        return max(a, b) if all(isinstance(v, (int, np.integer)) for v in (a, b)) else ops.maximum(a, b)

    def smaller(a: Any, b: Any) -> Any:
        return -larger(-a, -b)
    for side, target in (("height", target_height), ("width", target_width)):
        if isinstance(target, (int, np.integer)) and target <= 0:
            raise errors.InvalidArgumentError(f"resize_image_with_crop_or_pad: target_{side} must be > 0, but it is {target}; "
                                              "choose a size with pixels")
    tall, wide = target_height - dims[down], target_width - dims[right]
    cropped = crop_to_bounding_box(x, larger(-tall // 2, 0), larger(-wide // 2, 0), smaller(target_height, dims[down]),
                                   smaller(target_width, dims[right]))
    return pad_to_bounding_box(cropped, larger(tall // 2, 0), larger(wide // 2, 0), target_height, target_width)


def central_crop(image: Any, central_fraction: float) -> Tensor:
    """The middle of the image [height, width, channels], or of each of a batch: this fraction of each side."""
    if not 0 < central_fraction <= 1:
        raise errors.InvalidArgumentError(f"central_crop: central_fraction is {central_fraction}; use more than 0, at most 1")
    x = image_of(image, "central_crop")
    dims, (down, right) = _dims(x), axes_of(x)

    def start(size: Any) -> Any:
        if isinstance(size, (int, np.integer)):
            return int((size - size * central_fraction) / 2)
        exact = ops.cast(size, "float64")
        return ops.cast((exact - exact * central_fraction) / 2.0, "int32")
    top, left = start(dims[down]), start(dims[right])
    return crop_to_bounding_box(x, top, left, dims[down] - 2 * top, dims[right] - 2 * left)
