"""How alike images are, where their edges lie, and resizing that keeps their proportions."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn import image as images

__all__ = ["psnr", "resize_image_with_pad", "sobel_edges", "ssim", "ssim_multiscale"]

SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""The weights of five scales. Source: Wang et al. 2003, table 1."""


def _pair(a: Any, b: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both images and the largest value as float32; ShapeError unless the shapes agree in height, width and channels."""
    first, second = convert(a), convert(b)
    if first.shape.rank is not None and second.shape.rank is not None:
        if min(first.shape.rank, second.shape.rank) < 3:
            raise errors.ShapeError(f"images of shapes {first.shape} and {second.shape}; give [..., height, width, channels]")
        first.shape[-3:].merge(second.shape[-3:], "images to compare")
    largest = images.convert_image_dtype(ops.cast(convert(max_val), first.dtype), "float32")
    return images.convert_image_dtype(first, "float32"), images.convert_image_dtype(second, "float32"), largest


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Peak signal-to-noise ratio in decibel of images [..., h, w, c] whose values reach up to `max_val`: float32 [...]."""
    first, second, largest = _pair(a, b, max_val)
    error = ops.reduce_mean(ops.squared_difference(first, second), axis=[-3, -2, -1])
    found: Tensor = ops.subtract(20.0 * ops.log(largest) / np.float32(np.log(10.0)),
                                 np.float32(10.0 / np.log(10.0)) * ops.log(error), name=name)
    return found


def _window(size: int, sigma: float) -> Any:
    """A Gaussian [size, size, 1, 1] whose sum is 1."""
    line = -0.5 * np.square(np.arange(size, dtype=np.float32) - (size - 1) / 2.0) / sigma ** 2
    weights = np.exp(line[:, None] + line[None])
    return (weights / weights.sum()).astype(np.float32)[:, :, None, None]


def _blurred(x: Tensor, kernel: Any) -> Tensor:
    """Images [n, h, w, c], each channel under the window: [n, h', w', c]."""
    channels = ops.tile(convert(kernel), ops.stack([1, 1, ops.shape(x)[3], 1]))
    return ops.depthwise_conv2d(x, channels, [1, 1, 1, 1], "VALID")


def _likeness(a: Tensor, b: Tensor, largest: Tensor, size: int, sigma: float, k1: float, k2: float) -> tuple[Tensor, Tensor]:
    """(structural similarity, its part of contrast and structure) by channel: float32 [..., c] each."""
    inner = ops.shape(a)[-3:]
    x, y = (ops.reshape(t, ops.concat([[-1], inner], axis=0)) for t in (a, b))
    kernel = _window(size, sigma)
    c1, c2 = ops.square(k1 * largest), ops.square(k2 * largest)
    mean_x, mean_y = _blurred(x, kernel), _blurred(y, kernel)
    product, squares = 2.0 * mean_x * mean_y, ops.square(mean_x) + ops.square(mean_y)
    light = (product + c1) / (squares + c1)
    crossed = 2.0 * _blurred(x * y, kernel)
    structure = (crossed - product + c2) / (_blurred(ops.square(x) + ops.square(y), kernel) - squares + c2)
    outer = ops.concat([ops.shape(a)[:-3], ops.shape(a)[-1:]], axis=0)
    whole, part = (ops.reshape(ops.reduce_mean(t, axis=[1, 2]), outer) for t in (light * structure, structure))
    return whole, part


def ssim(img1: Any, img2: Any, max_val: Any, filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01,
         k2: float = 0.03) -> Tensor:
    """Structural similarity, 1 for equal images, of images [..., h, w, c] whose values reach up to `max_val`: float32 [...],
    the mean over channels. Source: Wang et al. 2004."""
    first, second, largest = _pair(img1, img2, max_val)
    whole, _ = _likeness(first, second, largest, filter_size, filter_sigma, k1, k2)
    return ops.reduce_mean(whole, axis=[-1])


def ssim_multiscale(img1: Any, img2: Any, max_val: Any, power_factors: Any = SCALES, filter_size: int = 11,
                    filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03) -> Tensor:
    """Structural similarity over scales, each of half the size of the one before, as powers of a product: float32 [...].
    Images have an even size at each scale but the last, and at least `filter_size` there. Source: Wang et al. 2003."""
    first, second, largest = _pair(img1, img2, max_val)
    found = list[Tensor]()
    for number in range(len(power_factors)):
        if number:
            first, second = _halved(first), _halved(second)
        whole, part = _likeness(first, second, largest, filter_size, filter_sigma, k1, k2)
        found.append(ops.relu(whole if number == len(power_factors) - 1 else part))
    powers = ops.pow(ops.stack(found, axis=-1), convert(list(power_factors), "float32"))
    return ops.reduce_mean(ops.reduce_prod(powers, axis=[-1]), axis=[-1])


def _halved(x: Tensor) -> Tensor:
    flat = ops.reshape(x, ops.concat([[-1], ops.shape(x)[-3:]], axis=0))
    half = ops.avg_pool(flat, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return ops.reshape(half, ops.concat([ops.shape(x)[:-3], ops.shape(half)[1:]], axis=0))


def sobel_edges(image: Any) -> Tensor:
    """Differences along the height and along the width [n, h, w, c, 2] of float images [n, h, w, c], over 3 × 3 pixels that
    are mirrored at the border. Source: Sobel & Feldman 1968."""
    x = convert(image)
    down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], np.float32)
    kernels = ops.cast(np.stack([down, down.T], axis=-1)[:, :, None], x.dtype)
    channels = ops.shape(x)[3]
    padded = ops.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    found = ops.depthwise_conv2d(padded, ops.tile(kernels, ops.stack([1, 1, channels, 1])), [1, 1, 1, 1], "VALID")
    result: Tensor = ops.reshape(found, ops.concat([ops.shape(x), [2]], axis=0))
    result.set_shape([*x.shape.as_list(), 2] if x.shape.rank is not None else None)
    return result


def resize_image_with_pad(image: Any, target_height: Any, target_width: Any,
                          method: Any = images.ResizeMethod.BILINEAR) -> Tensor:
    """The image [h, w, c], or images [n, h, w, c], as large as fits into the target with their proportions, zeros around."""
    x = convert(image)
    single = x.shape.rank == 3
    x = ops.expand_dims(x, 0) if single else x
    sizes = ops.cast(ops.shape(x)[1:3], "float64")
    target = ops.stack([ops.cast(convert(target_height), "int32"), ops.cast(convert(target_width), "int32")])
    ratio = ops.reduce_max(sizes / ops.cast(target, "float64"))
    inner = ops.cast(ops.floor(sizes / ratio), "int32")
    before = ops.maximum(0, ops.cast(ops.floor((ops.cast(target, "float64") - sizes / ratio) / 2.0), "int32"))
    resized = images.resize_images(x, inner, method)
    found: Tensor = images.pad_to_bounding_box(resized, before[0], before[1], target[0], target[1])
    return ops.squeeze(found, axis=[0]) if single else found
