"""Renormalized batches: what moving averages would have made of a batch, used while training too (Ioffe 2017)."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import control_dependencies
from workbench.nn.initializers import Zeros
from workbench.nn.scopes import get_variable
from workbench.nn.variables import Variable

__all__ = ["Renorm"]


class Renorm:
    """The moving averages of mean and standard deviation […], which begin as those of the first batch.

    `clipping` {"rmin", "rmax", "dmax"} bounds the correction, `momentum` is that of the averages. ValueError for other keys.
    """

    def __init__(self, shape: Sequence[int], dtype: DType, clipping: Mapping[str, Any] | None, momentum: float,
                 epsilon: float) -> None:
        self.clipping = dict(clipping or {})
        if unknown := set(self.clipping) - {"rmin", "rmax", "dmax"}:
            raise errors.InvalidArgumentError(f"renorm_clipping: it contains keys not in {{'rmax', 'rmin', 'dmax'}}: "
                                              f"{', '.join(map(repr, sorted(unknown)))}; leave them out")
        self.momentum, self.epsilon = momentum, epsilon

        def zeros(name: str, lengths: Sequence[int]) -> Variable:
            return get_variable(name, lengths, dtype, Zeros(), trainable=False)
        self.mean, self.mean_weight = zeros("renorm_mean", shape), zeros("renorm_mean_weight", [])
        self.deviation, self.deviation_weight = zeros("renorm_stddev", shape), zeros("renorm_stddev_weight", [])

    def corrected(self, mean: Tensor, variance: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """((r, d), (mean, variance) for the moving averages), by the averages before this step, which take the batch in."""
        deviation = ops.sqrt(variance + self.epsilon)
        usual_mean = self.mean.value() + (1.0 - self.mean_weight.value()) * mean
        usual_deviation = self.deviation.value() + (1.0 - self.deviation_weight.value()) * deviation
        factor, shift = deviation / usual_deviation, (mean - usual_mean) / usual_deviation
        with control_dependencies([factor, shift]):
            new_mean = self._moved(self.mean, self.mean_weight, mean)
            new_deviation = self._moved(self.deviation, self.deviation_weight, deviation)
        factor, shift = self._clipped(factor, shift)
        return ((ops.stop_gradient(factor), ops.stop_gradient(shift)),
                (new_mean, ops.square(new_deviation) - self.epsilon))

    def nothing(self) -> tuple[Tensor, Tensor]:
        """The correction that changes nothing."""
        return ops.ones_like(self.mean.value()), ops.zeros_like(self.mean.value())

    def _clipped(self, factor: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        low, high, most = (self.clipping.get(key) for key in ("rmin", "rmax", "dmax"))
        if low is not None:
            factor = ops.maximum(factor, low)
        if high is not None:
            factor = ops.minimum(factor, high)
        if most is not None:
            shift = ops.minimum(ops.maximum(shift, -most), most)
        return factor, shift

    def _moved(self, average: Variable, weight: Variable, value: Tensor) -> Tensor:
        """The average with this value in it, over its weight, which is less than 1 while it remembers its beginning at 0."""
        step = 1.0 - self.momentum
        made = average.assign_add((value - average.value()) * step)
        found: Tensor = made / weight.assign_add((1.0 - weight.value()) * step)
        return found
