"""Boxes and colours of images: suppression, crops, glimpses, outlines, random boxes; other colour spaces; total variation."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import name_scope

__all__ = ["crop_and_resize", "draw_bounding_boxes", "extract_glimpse", "image_gradients", "non_max_suppression",
           "non_max_suppression_padded", "rgb_to_yiq", "rgb_to_yuv", "sample_distorted_bounding_box", "total_variation",
           "yiq_to_rgb", "yuv_to_rgb"]


def non_max_suppression(boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5,
                        name: str | None = None, score_threshold: Any = float("-inf")) -> Tensor:
    """int32: the boxes [n, 4] (y1, x1, y2, x2) of the highest `scores` that overlap none kept before by more than
    `iou_threshold`, at most `max_output_size`; only scores above `score_threshold` count."""
    overlap = constant_value(threshold := convert(iou_threshold, "float32"))
    if overlap is not None and not 0 <= overlap <= 1:
        raise errors.InvalidArgumentError(f"non_max_suppression: iou_threshold is {overlap}; use 0 … 1")
    if constant_value(convert(score_threshold, "float32")) == float("-inf"):
        return ops.non_max_suppression(boxes, scores, max_output_size, threshold, name=name)
    counted = ops.reshape(ops.where(ops.greater(scores, score_threshold)), [-1])
    kept = ops.non_max_suppression(ops.gather(boxes, counted), ops.gather(scores, counted), max_output_size, threshold)
    return ops.cast(ops.gather(counted, kept), "int32", name=name)


def non_max_suppression_padded(boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5,
                               score_threshold: Any = float("-inf"), pad_to_max_output_size: bool = False,
                               name: str | None = None) -> tuple[Tensor, Tensor]:
    """(the boxes that non_max_suppression keeps, how many they are): with `pad_to_max_output_size` zeros stand behind them,
    up to `max_output_size`."""
    with name_scope(name, "non_max_suppression_padded"):
        kept = non_max_suppression(boxes, scores, max_output_size, iou_threshold, score_threshold=score_threshold)
        count = ops.size(kept)
        if pad_to_max_output_size:
            size = constant_value(convert(max_output_size, "int32"))
            kept = ops.pad(kept, [[0, convert(max_output_size, "int32") - count]])
            kept.set_shape([None if size is None else int(size)])
        return kept, count


def crop_and_resize(image: Any, boxes: Any, box_ind: Any, crop_size: Any, method: str = "bilinear",
                    extrapolation_value: float = 0, name: str | None = None) -> Tensor:
    """float32 [n, height, width, channels]: the boxes [n, 4] (y1, x1, y2, x2 of 0 … 1) of the images box_ind [n] of a batch, at
    `crop_size`; `extrapolation_value` stands outside the image."""
    if method not in ("bilinear", "nearest"):
        raise errors.InvalidArgumentError(f"crop_and_resize: method is {method!r}; use 'bilinear' or 'nearest'")
    return ops.crop_and_resize(image, boxes, box_ind, convert(crop_size, "int32"), method=method,
                               extrapolation_value=float(extrapolation_value), name=name)


def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None) -> Tensor:
    """The float images [batch, height, width, 1, 3 or 4] with the outlines of boxes [batch, n, 4] drawn in."""
    return ops.draw_bounding_boxes(images, boxes, name=name)


def extract_glimpse(input: Any, size: Any, offsets: Any, centered: bool = True, normalized: bool = True,
                    uniform_noise: bool = True, name: str | None = None) -> Tensor:
    """Windows of `size` of images [batch, height, width, channels] at `offsets` [batch, 2] (y, x), noise outside.

    `centered`: offsets count from the middle, and 1 is the border; `normalized`: they are shares of the size, else pixels.
    """
    return ops.extract_glimpse(convert(input, "float32"), convert(size, "int32"), convert(offsets, "float32"),
                               centered=centered,
                               normalized=normalized, uniform_noise=uniform_noise, name=name)


def sample_distorted_bounding_box(image_size: Any, bounding_boxes: Any, seed: int | None = None, seed2: int | None = None,
                                  min_object_covered: Any = 0.1, aspect_ratio_range: Any = None, area_range: Any = None,
                                  max_attempts: int | None = None, use_image_if_no_bounding_boxes: bool | None = None,
                                  name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(begin [3], size [3], box [1, 1, 4]) of a random part of an image: begin and size go to slice, box to
    draw_bounding_boxes.

    Its shape (width / height) and its share of the area lie in the ranges, and it covers at least `min_object_covered` of one
    of `bounding_boxes` [batch, n, 4]; after `max_attempts` (100) it is the whole image.
    """
    first, second = ops.random_seeds(seed if seed2 is None else seed2)
    return tuple(ops.distorted_box(image_size, convert(bounding_boxes, "float32"), convert(min_object_covered, "float32"),
                                   seed=first, seed2=second, ratios=tuple(aspect_ratio_range or (0.75, 1.33)),
                                   areas=tuple(area_range or (0.05, 1.0)), attempts=int(max_attempts or 100),
                                   whole=bool(use_image_if_no_bounding_boxes), name=name))


# colours: each row is one of the new colours in terms of red, green and blue

_YIQ = np.array([[0.299, 0.587, 0.114], [0.59590059, -0.27455667, -0.32134392], [0.2115, -0.52273617, 0.31119955]])
_YUV = np.array([[0.299, 0.587, 0.114], [-0.14714119, -0.28886916, 0.43601035], [0.61497538, -0.51496512, -0.10001026]])
_FROM_YIQ = np.array([[1, 0.95598634, 0.6208248], [1, -0.27201283, -0.64720424], [1, -1.10674021, 1.70423049]])
_FROM_YUV = np.array([[1, 0, 1.13988303], [1, -0.394642334, -0.58062185], [1, 2.03206185, 0]])


def _turned(images: Any, matrix: Any, name: str | None) -> Tensor:
    x = convert(images)
    return ops.tensordot(x, convert(matrix.T.astype(x.dtype.numpy)), axes=1, name=name)


def rgb_to_yiq(images: Any, name: str | None = None) -> Tensor:
    """Red, green, blue of 0 … 1 (last axis) to brightness and two differences of colour, as in NTSC."""
    return _turned(images, _YIQ, name)


def yiq_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """The inverse of rgb_to_yiq."""
    return _turned(images, _FROM_YIQ, name)


def rgb_to_yuv(images: Any, name: str | None = None) -> Tensor:
    """Red, green, blue of 0 … 1 (last axis) to brightness and two differences of colour, as in PAL."""
    return _turned(images, _YUV, name)


def yuv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """The inverse of rgb_to_yuv."""
    return _turned(images, _FROM_YUV, name)


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sum of the differences between neighbouring pixels: a scalar of an image, [batch] of a batch."""
    x = convert(images)
    if x.shape.rank not in (3, 4):
        raise errors.ShapeError(f"total_variation: images have shape {x.shape}; use rank 3 or 4")
    axes = list(range(x.shape.rank - 3, x.shape.rank))
    down, across = x[..., 1:, :, :] - x[..., :-1, :, :], x[..., :, 1:, :] - x[..., :, :-1, :]
    return ops.add(ops.reduce_sum(ops.abs(down), axis=axes), ops.reduce_sum(ops.abs(across), axis=axes), name=name)


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """(dy, dx) of images [batch, height, width, channels]: each pixel's difference to the next one, 0 at the last."""
    x = convert(image)
    if x.shape.rank != 4:
        raise errors.ShapeError(f"image_gradients: image has shape {x.shape}; use rank 4")
    down, across = x[:, 1:] - x[:, :-1], x[:, :, 1:] - x[:, :, :-1]
    return ops.pad(down, [[0, 0], [0, 1], [0, 0], [0, 0]]), ops.pad(across, [[0, 0], [0, 0], [0, 1], [0, 0]])
