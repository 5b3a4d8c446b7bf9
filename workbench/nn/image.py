"""Images as tensors [height, width, channels] or batches of them: size, crops, flips, colours, at random or not."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.boxes import (
    crop_and_resize,
    draw_bounding_boxes,
    extract_glimpse,
    image_gradients,
    non_max_suppression,
    non_max_suppression_padded,
    rgb_to_yiq,
    rgb_to_yuv,
    sample_distorted_bounding_box,
    total_variation,
    yiq_to_rgb,
    yuv_to_rgb,
)
from workbench.nn.image_frames import (
    axes_of,
    central_crop,
    crop_to_bounding_box,
    image_of,
    pad_to_bounding_box,
    resize_image_with_crop_or_pad,
)

__all__ = [
    "ResizeMethod", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "central_crop", "convert_image_dtype", "crop_and_resize", "crop_to_bounding_box", "decode_and_crop_jpeg",
    "decode_bmp", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "draw_bounding_boxes", "encode_jpeg",
    "encode_png", "extract_glimpse", "extract_jpeg_shape", "flip_left_right", "flip_up_down", "grayscale_to_rgb",
    "hsv_to_rgb", "image_gradients", "non_max_suppression", "non_max_suppression_padded", "pad_to_bounding_box",
    "per_image_standardization",
    "random_brightness", "random_contrast", "random_flip_left_right", "random_flip_up_down", "random_hue",
    "random_saturation", "resize_area", "resize_bicubic", "resize_bilinear", "resize_image_with_crop_or_pad",
    "resize_images", "resize_nearest_neighbor", "rgb_to_grayscale", "rgb_to_hsv", "rgb_to_yiq", "rgb_to_yuv", "rot90",
    "sample_distorted_bounding_box", "total_variation", "transpose_image", "yiq_to_rgb", "yuv_to_rgb",
]

decode_jpeg, decode_png, decode_bmp, decode_gif = ops.decode_jpeg, ops.decode_png, ops.decode_bmp, ops.decode_gif
decode_and_crop_jpeg, extract_jpeg_shape = ops.decode_and_crop_jpeg, ops.extract_jpeg_shape
encode_jpeg, encode_png = ops.encode_jpeg, ops.encode_png
rgb_to_hsv, hsv_to_rgb = ops.rgb_to_hsv, ops.hsv_to_rgb


def decode_image(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """A JPEG, PNG or BMP file (string scalar) as uint8 [height, width, channels]; `channels` is 0 (the file's), 1, 3 or
    4."""
    if channels not in (0, 1, 3, 4):
        raise errors.InvalidArgumentError(f"decode_image: channels is {channels}; use 0, 1, 3 or 4")
    return ops.decode_image(contents, channels=channels, name=name)


# size

class ResizeMethod:
    """How resize_images interpolates."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = range(4)


_METHODS = ("bilinear", "nearest", "bicubic", "area")


def resize_images(images: Any, size: Any, method: Any = ResizeMethod.BILINEAR, align_corners: bool = False,
                  preserve_aspect_ratio: bool = False) -> Tensor:
    """One image or a batch of them at `size` (height, width): float32, or the own dtype for NEAREST_NEIGHBOR.

    Images that have this size already stay as they are. Before 1.0 height and width were two arguments; that works too.
    InvalidArgumentError for an unknown method, ShapeError for another rank.
    """
    if preserve_aspect_ratio:
        raise errors.UnimplementedError("resize_images: preserve_aspect_ratio is not supported; compute the size and pass it")
    if isinstance(size, (int, np.integer)):
        size, method, align_corners = (size, method), int(align_corners), False
    if method not in range(4):
        raise errors.InvalidArgumentError(f"resize_images: method {method!r} is unknown; use one of ResizeMethod")
    x, wanted = image_of(images, "resize_images"), convert(size, "int32")
    known = constant_value(wanted)
    if known is not None and x.shape.as_list()[-3:-1] == known.tolist():
        return x
    batch = x if x.shape.rank == 4 else ops.expand_dims(x, 0)
    made = _interpolated(batch, wanted, _METHODS[method], align_corners)
    return made if x.shape.rank == 4 else ops.squeeze(made, axis=[0])


def _interpolated(images: Any, size: Any, method: str, align_corners: bool, name: str | None = None) -> Tensor:
    """float32, of images of any numbers, but the own dtype of the nearest pixels."""
    x = convert(images)
    if x.dtype == as_dtype("float64") and method != "nearest":
        return ops.cast(ops.resize(x, convert(size, "int32"), method=method, align_corners=align_corners), "float32", name=name)
    return ops.resize(x, convert(size, "int32"), method=method, align_corners=align_corners, name=name)


def resize_bilinear(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Images [n, height, width, channels] at `size` by linear interpolation: float32."""
    return _interpolated(images, size, "bilinear", align_corners, name)


def resize_nearest_neighbor(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Images [n, height, width, channels] at `size`, each pixel the nearest one: the own dtype."""
    return _interpolated(images, size, "nearest", align_corners, name)


def resize_bicubic(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Images [n, height, width, channels] at `size` by cubic interpolation: float32."""
    return _interpolated(images, size, "bicubic", align_corners, name)


def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Images [n, height, width, channels] at `size`, each pixel the mean of what it covers: float32."""
    return _interpolated(images, size, "area", align_corners, name)


# crops and pads

# flips

def flip_left_right(image: Any) -> Tensor:
    """The image, or each of a batch, mirrored left to right."""
    x = image_of(image, "flip_left_right")
    return ops.reverse(x, axis=[axes_of(x)[1]])


def flip_up_down(image: Any) -> Tensor:
    """The image, or each of a batch, upside down."""
    x = image_of(image, "flip_up_down")
    return ops.reverse(x, axis=[axes_of(x)[0]])


def transpose_image(image: Any) -> Tensor:
    """Rows and columns of the image, or of each of a batch, exchanged."""
    x = image_of(image, "transpose_image")
    return ops.transpose(x, [1, 0, 2] if x.shape.rank == 3 else [0, 2, 1, 3])


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """The image, or each of a batch, turned k (an int scalar) times by 90 degrees against the clock."""
    x = image_of(image, "rot90")
    turns = (lambda: x, lambda: transpose_image(flip_left_right(x)), lambda: flip_up_down(flip_left_right(x)),
             lambda: flip_left_right(transpose_image(x)))
    with get_default_graph().name_scope(name or "rot90"):
        if not isinstance(k, Tensor):
            return turns[k % 4]()
        turned: Tensor = ops.case([(ops.equal(k % 4, n), turns[n]) for n in (1, 2, 3)], lambda: ops.identity(x))
        return turned


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """The image mirrored left to right with probability 1/2; in a batch each on its own."""
    return _randomly(image_of(image, "random_flip_left_right"), flip_left_right, seed)


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """The image upside down with probability 1/2; in a batch each on its own."""
    return _randomly(image_of(image, "random_flip_up_down"), flip_up_down, seed)


def _randomly(x: Tensor, change: Any, seed: int | None) -> Tensor:
    if x.shape.rank == 3:
        made = ops.cond(ops.random_uniform([], seed=seed) < 0.5, lambda: change(x), lambda: ops.identity(x))
    else:
        made = ops.where(ops.random_uniform(ops.shape(x)[:1], seed=seed) < 0.5, change(x), x)
    made.set_shape(x.shape)
    return made


# colours

def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """The image in another dtype, scaled: floats lie in 0 … 1, integers in 0 … their largest value.

    `saturate` clips values before an integer type would overflow.
    """
    x, wanted = convert(image), as_dtype(dtype)
    if x.dtype is wanted:
        return x
    if not (x.dtype.is_floating or x.dtype.is_integer) or not (wanted.is_floating or wanted.is_integer):
        raise errors.DtypeError(f"convert_image_dtype: {x.dtype.name} to {wanted.name} has no meaning; use integers and "
                                "floats")
    with get_default_graph().name_scope(name or "convert_image"):
        if x.dtype.is_integer and wanted.is_integer:
            return _rescaled(x, wanted, saturate)
        if x.dtype.is_integer:
            return ops.cast(x, wanted) * (1.0 / _largest(x.dtype))
        if wanted.is_floating:
            return ops.cast(x, wanted)
        scaled = x * (_largest(wanted) + 0.5)
        return _cast(scaled, wanted, saturate)


def _largest(dtype: Any) -> int:
    return int(np.iinfo(dtype.numpy).max)


def _cast(x: Tensor, dtype: Any, saturate: bool) -> Tensor:
    if saturate:
        limits = np.iinfo(dtype.numpy)
        x = ops.clip_by_value(x, convert(float(limits.min), x.dtype), convert(float(limits.max), x.dtype))
    return ops.cast(x, dtype)


def _rescaled(x: Tensor, wanted: Any, saturate: bool) -> Tensor:
    ours, theirs = _largest(x.dtype), _largest(wanted)
    if ours > theirs:
        fewer = ops.floordiv(x, (ours + 1) // (theirs + 1))
        return _cast(ops.cast(fewer, "float64"), wanted, saturate) if saturate else ops.cast(fewer, wanted)
    return ops.cast(x, wanted) * ((theirs + 1) // (ours + 1))


def _as_floats(image: Any) -> Tensor:
    x = convert(image)
    return x if x.dtype.is_floating else convert_image_dtype(x, "float32")


def _back(result: Tensor, image: Any) -> Tensor:
    return convert_image_dtype(result, convert(image).dtype, saturate=True)


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Brightness 0.2989 red + 0.587 green + 0.114 blue: [..., 3] to [..., 1], same dtype."""
    x = convert(images)
    with get_default_graph().name_scope(name or "rgb_to_grayscale"):
        flat = _as_floats(x)
        gray = ops.reduce_sum(flat * convert(np.array([0.2989, 0.587, 0.114]).astype(flat.dtype.numpy)), axis=-1,
                              keepdims=True)
        return convert_image_dtype(gray, x.dtype)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """[..., 1] to [..., 3], each colour the brightness."""
    x = convert(images)
    return ops.concat([x, x, x], axis=-1, name=name)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """`delta` (of 0 … 1) added to every value; integers are scaled to that range, clipped and scaled back."""
    x = _as_floats(image)
    return _back(x + ops.cast(convert(delta), x.dtype), image)


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """(x - mean) · factor + mean, with the mean of each channel of each image."""
    x = _as_floats(images)
    mean = ops.reduce_mean(x, axis=[-3, -2], keepdims=True)
    return _back((x - mean) * ops.cast(convert(contrast_factor), x.dtype) + mean, images)


def adjust_gamma(image: Any, gamma: float = 1, gain: float = 1) -> Tensor:
    """gain · x ^ gamma on values scaled to 0 … 1; InvalidArgumentError for a negative gamma."""
    if isinstance(gamma, (int, float)) and gamma < 0:
        raise errors.InvalidArgumentError(f"adjust_gamma: gamma is {gamma}; use 0 or more")
    x = _as_floats(image)
    return _back(gain * ops.pow(x, ops.cast(convert(gamma), x.dtype)), image)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """The hue of RGB values turned by `delta` (-1 … 1 is once around)."""
    with get_default_graph().name_scope(name or "adjust_hue"):
        hsv = ops.rgb_to_hsv(_as_floats(image))
        hue = ops.floormod(hsv[..., :1] + ops.cast(convert(delta), hsv.dtype), convert(1.0, hsv.dtype))
        return _back(ops.hsv_to_rgb(ops.concat([hue, hsv[..., 1:]], axis=-1)), image)


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """The saturation of RGB values multiplied and clipped to 0 … 1."""
    with get_default_graph().name_scope(name or "adjust_saturation"):
        hsv = ops.rgb_to_hsv(_as_floats(image))
        factor = ops.cast(convert(saturation_factor), hsv.dtype)
        saturation = ops.clip_by_value(hsv[..., 1:2] * factor, convert(0.0, hsv.dtype), convert(1.0, hsv.dtype))
        return _back(ops.hsv_to_rgb(ops.concat([hsv[..., :1], saturation, hsv[..., 2:]], axis=-1)), image)


def _draw(where: str, low: float, high: float, least: float, seed: int | None) -> Tensor:
    if not least <= low <= high or (low == high and where != "random_brightness"):
        raise errors.InvalidArgumentError(f"{where}: the range is {low} … {high}; the first must be smaller"
                                          + (f" and {least:g} or more" if least == 0 else ""))
    return ops.random_uniform([], low, high, seed=seed)


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """adjust_brightness by a number drawn from -max_delta … max_delta."""
    return adjust_brightness(image, _draw("random_brightness", -max_delta, max_delta, -np.inf, seed))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """adjust_contrast by a factor drawn from lower … upper."""
    return adjust_contrast(image, _draw("random_contrast", lower, upper, 0, seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """adjust_hue by a number drawn from -max_delta … max_delta; at most 0.5."""
    if not 0 <= max_delta <= 0.5:
        raise errors.InvalidArgumentError(f"random_hue: max_delta is {max_delta}; use 0 … 0.5")
    return adjust_hue(image, ops.random_uniform([], -max_delta, max_delta, seed=seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """adjust_saturation by a factor drawn from lower … upper."""
    return adjust_saturation(image, _draw("random_saturation", lower, upper, 0, seed))


def per_image_standardization(image: Any) -> Tensor:
    """float32: (x - mean) / max(standard deviation, 1/√n) over the n values of each image, so that none is amplified
    without bound."""
    x = ops.cast(image_of(image, "per_image_standardization"), "float32")
    count = ops.cast(ops.reduce_prod(ops.shape(x)[-3:]), "float32")
    mean = ops.reduce_mean(x, axis=[-3, -2, -1], keepdims=True)
    variance = ops.relu(ops.reduce_mean(ops.square(x), axis=[-3, -2, -1], keepdims=True) - ops.square(mean))
    return (x - mean) / ops.maximum(ops.sqrt(variance), ops.rsqrt(count))
