"""Whether an argument of a kernel holds a NaN or an infinity: one reading of it."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.settings import settings

__all__ = ["finite", "floats"]


def floats(array: Any, count: int) -> Any:
    """The first `count` float32 elements of a contiguous argument, whatever follows them."""
    return array.reshape(-1).view(np.uint8)[:4 * count].view(np.float32)


def finite(array: Any, count: int) -> bool:
    """Whether the first `count` float32 elements are finite; squares that overflow their sum count as not finite."""
    values = floats(array, count)
    if settings.deterministic:      # where sums of squares overflow depends on their order
        return bool(np.isfinite(values).all())
    return math.isfinite(np.dot(values, values))
