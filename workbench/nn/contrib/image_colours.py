"""Colours of images turned and scaled in the space YIQ, as tf.contrib.image's distort_image_ops."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.image import convert_image_dtype

__all__ = ["adjust_hsv_in_yiq", "random_hsv_in_yiq"]

_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
_BACK = np.linalg.inv(_TO_YIQ)


def adjust_hsv_in_yiq(image: Any, delta_hue: Any = 0, scale_saturation: Any = 1, scale_value: Any = 1, name: str | None = None,
                      ) -> Tensor:
    """RGB images [..., 3] whose hue is turned by `delta_hue` radians in YIQ, the colour scaled by `scale_saturation` and all of
    it by `scale_value`: scalars. The dtype stays; integers are taken as shares of their largest number. ShapeError for another
    last axis.
    """
    with get_default_graph().name_scope(name or "adjust_hsv_in_yiq"):
        given = convert(image)
        if given.shape.rank is not None and (given.shape.rank < 3 or given.shape[-1] not in (3, None)):
            raise errors.ShapeError(f"adjust_hsv_in_yiq: image has shape {given.shape}; its last axis must be of size 3, red, "
                                    "green and blue, behind at least two others (Shape must be at least rank 3)")
        shares = convert_image_dtype(given, "float32")
        hue, saturation, value = (ops.cast(convert(one), "float32") for one in (delta_hue, scale_saturation, scale_value))
        grey, along, across = (_part(weights) for weights in ((1, 0, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 0, 1, -1)))
        map_ = value * (grey + saturation * (ops.cos(hue) * along + ops.sin(hue) * across))
        turned = ops.reshape(ops.matmul(ops.reshape(shares, [-1, 3]), map_, transpose_b=True), ops.shape(shares))
        turned.set_shape(shares.shape)
        found: Tensor = convert_image_dtype(turned, given.dtype)
        return found


def _part(weights: tuple[int, ...]) -> np.ndarray:
    """float32 [3, 3]: a map of YIQ with these entries (Y from Y; I from I, Q from Q; Q from I, I from Q), as one of RGB."""
    luma, in_phase, quadrature, up, down = weights
    return (_BACK @ np.array([[luma, 0, 0], [0, in_phase, down], [0, up, quadrature]]) @ _TO_YIQ).astype(np.float32)


def random_hsv_in_yiq(image: Any, max_delta_hue: Any = 0, lower_saturation: Any = 1, upper_saturation: Any = 1,
                      lower_value: Any = 1, upper_value: Any = 1, seed: int | None = None) -> Tensor:
    """adjust_hsv_in_yiq by a hue from [-max_delta_hue, max_delta_hue) and by scales between the given ones, the same for all
    images. ValueError where a bound is below 0 or a lower one above the upper."""
    if max_delta_hue < 0 or lower_saturation < 0 or lower_value < 0:
        raise ValueError(f"random_hsv_in_yiq: max_delta_hue {max_delta_hue}, lower_saturation {lower_saturation} and "
                         f"lower_value {lower_value} must be non-negative")
    if lower_saturation > upper_saturation or lower_value > upper_value:
        raise ValueError(f"random_hsv_in_yiq: lower_saturation must be < upper_saturation ({lower_saturation}, "
                         f"{upper_saturation}) and lower_value < upper_value ({lower_value}, {upper_value})")

    def between(low: Any, high: Any) -> Any:
        return low if low == high else ops.random_uniform([], low, high, seed=seed)
    return adjust_hsv_in_yiq(image, between(-max_delta_hue, max_delta_hue), between(lower_saturation, upper_saturation),
                             between(lower_value, upper_value))
