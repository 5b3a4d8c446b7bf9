"""Distributions with skewed and heavier or lighter tails by sinh and arcsinh, and those that take conditions."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import name_scope
from workbench.nn.probability import bijectors
from workbench.nn.probability.base import Distribution
from workbench.nn.probability.made import TransformedDistribution
from workbench.nn.probability.scalar import Normal
from workbench.nn.probability.vector import MultivariateNormalDiag

__all__ = ["ConditionalDistribution", "SinhArcsinh", "VectorSinhArcsinhDiag"]


class _Tailed(bijectors.Bijector):
    """y = loc + scale · F(x) · 2 / F₀(2): F is SinhArcsinh, F₀ the same without skewness, so that as much lies beyond 2 · scale
    as before."""

    def __init__(self, loc: Tensor, scale: Tensor, skewness: Tensor, tailweight: Tensor, event_ndims: int,
                 validate_args: bool) -> None:
        super().__init__(event_ndims, validate_args=validate_args, name="sinh_arcsinh")
        self._inner = bijectors.SinhArcsinh(skewness, tailweight, 0, validate_args)
        two = ops.constant(2.0, loc.dtype)
        self._loc, self._factor = loc, 2.0 * scale / ops.sinh(ops.asinh(two) * tailweight)

    def _forward(self, x: Tensor) -> Tensor:
        return self._loc + self._factor * self._inner._forward(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._inner._inverse((y - self._loc) / self._factor)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return self._summed(self._inner._forward_log_det_jacobian(x) + ops.log(ops.abs(self._factor)))


class _Skewed(TransformedDistribution):
    """Numbers of a distribution, by default the standard normal one, through _Tailed."""

    def _made(self, loc: Tensor, scale: Tensor, skewness: Any, tailweight: Any, distribution: Distribution | None,
              event_shape: Any, validate_args: bool, allow_nan_stats: bool, name: str) -> None:
        """Events are numbers, or vectors of `event_shape`."""
        self.loc = loc
        self.skewness = self._float(0.0 if skewness is None else skewness, "skewness", loc)
        self.tailweight = self._float(1.0 if tailweight is None else tailweight, "tailweight", loc)
        base = distribution or Normal(ops.zeros([], loc.dtype), ops.ones([], loc.dtype), allow_nan_stats=allow_nan_stats)
        tailed = _Tailed(loc, scale, self.skewness, self.tailweight, 0 if event_shape is None else 1, validate_args)
        super().__init__(base, tailed, None, event_shape, validate_args, name)


class SinhArcsinh(_Skewed):
    """`loc` + `scale` · F(z) · 2 / F₀(2) of numbers z of `distribution` (default: standard normal), with
    F(z) = sinh((arcsinh(z) + `skewness`) · `tailweight`) and F₀ that without skewness (Jones and Pewsey 2009).

    Positive skewness makes large numbers more likely, a tailweight above 1 those far away.
    """

    def __init__(self, loc: Any, scale: Any, skewness: Any = None, tailweight: Any = None,
                 distribution: Distribution | None = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "SinhArcsinh") -> None:
        parameters = locals()
        with name_scope(name):
            given = self._float(loc, "loc")
            self.scale = self._float(scale, "scale", given)
            self._made(given, self.scale, skewness, tailweight, distribution, None, validate_args, allow_nan_stats, name)
            self._whole = ops.zeros_like(self.loc + self.scale + self.skewness + self.tailweight)
        self._given(parameters)

    def _batch(self) -> Tensor:
        return self._whole


class VectorSinhArcsinhDiag(_Skewed):
    """Vectors of independent numbers of SinhArcsinh: `loc` [..., n], scales `scale_diag` + `scale_identity_multiplier`,
    `skewness` and `tailweight` of a number or a vector. ValueError where nothing tells n."""

    def __init__(self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None, skewness: Any = None,
                 tailweight: Any = None, distribution: Distribution | None = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "MultivariateNormalLinearOperator") -> None:
        parameters = locals()
        with name_scope(name):
            shaped = MultivariateNormalDiag(loc, scale_diag, scale_identity_multiplier)      # it knows what is given
            self.scale_diag = shaped._scale
            self._made(shaped.loc, self.scale_diag, skewness, tailweight, distribution, shaped.event_shape, validate_args,
                       allow_nan_stats, name)
        self._given(parameters)

    def _batch(self) -> Tensor:
        return ops.reduce_sum(self.loc + ops.zeros_like(self.scale_diag), axis=-1)


class ConditionalDistribution(Distribution):
    """A distribution that takes further arguments by name wherever it is asked for samples or about values: its own `_draw`,
    `_log_prob` and so on get them."""
