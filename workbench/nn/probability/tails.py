"""The distribution function of normal numbers and its logarithm, also far from 0."""
from __future__ import annotations

import math

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor

__all__ = ["HALF_LOG_2PI", "log_ndtr", "ndtr"]

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def ndtr(z: Tensor) -> Tensor:
    """The probability that a number of the standard normal distribution is z or less."""
    found: Tensor = 0.5 * ops.erfc(-z / math.sqrt(2))
    return found


def log_ndtr(z: Tensor) -> Tensor:
    """The logarithm of the normal distribution function, also where the function itself is 0."""
    low, high = (-20.0, 8.0) if z.dtype.name == "float64" else (-10.0, 5.0)
    tail = ops.minimum(z, low)
    squared = ops.square(tail)
    series = 1.0 - 1.0 / squared + 3.0 / ops.square(squared) - 15.0 / (squared * ops.square(squared))
    far = -0.5 * squared - ops.log(-tail) - HALF_LOG_2PI + ops.log(series)
    near = ops.log(ndtr(ops.clip_by_value(z, low, high)))
    found: Tensor = ops.where(z > high, -ndtr(-ops.maximum(z, high)), ops.where(z > low, near, far))
    return found
