"""Distributions near gamma and location-scale ones: chi-squared, inverse gamma, logistic; and those given through softplus."""
from __future__ import annotations

import math
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import name_scope
from workbench.nn.probability.discrete import Bernoulli
from workbench.nn.probability.scalar import (
    Beta,
    Exponential,
    Gamma,
    Laplace,
    Normal,
    StudentT,
    _LocationScale,
    _ShapeRate,
    _tiny,
)
from workbench.nn.probability.vector import MultivariateNormalDiag

__all__ = ["BernoulliWithSigmoidProbs", "BetaWithSoftplusConcentration", "Chi2", "Chi2WithAbsDf", "ExponentialWithSoftplusRate",
           "GammaWithSoftplusConcentrationRate", "InverseGamma", "InverseGammaWithSoftplusConcentrationRate",
           "LaplaceWithSoftplusScale", "Logistic", "MultivariateNormalDiagWithSoftplusScale", "NormalWithSoftplusScale",
           "StudentTWithAbsDfSoftplusScale"]


class Logistic(_LocationScale):
    """The logistic distribution around `loc`: its distribution function is the sigmoid of (x - loc) / scale."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Logistic") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, locals())

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return self._quantile(ops.random_uniform(shape, _tiny(self.dtype), 1.0, dtype=self.dtype, seed=seed))

    def _log_prob(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return -z - 2.0 * ops.softplus(-z) - ops.log(self.scale)

    def _cdf(self, x: Tensor) -> Tensor:
        return ops.sigmoid(self._z(x))

    def _log_cdf(self, x: Tensor) -> Tensor:
        return -ops.softplus(-self._z(x))

    def _survival_function(self, x: Tensor) -> Tensor:
        return ops.sigmoid(-self._z(x))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        return -ops.softplus(self._z(x))

    def _quantile(self, p: Tensor) -> Tensor:
        return self.loc + self.scale * (ops.log(p) - ops.log1p(-p))

    def _entropy(self) -> Tensor:
        return 2.0 + ops.log(self.scale + ops.zeros_like(self.loc))

    def _stddev(self) -> Tensor:
        return math.pi / math.sqrt(3) * (self.scale + ops.zeros_like(self.loc))


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers."""

    def __init__(self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2") -> None:
        parameters = locals()
        with name_scope(name):
            self.df = self._float(df, "df")
        super().__init__(0.5 * self.df, ops.fill(ops.shape(self.df), ops.cast(0.5, self.df.dtype)), validate_args,
                         allow_nan_stats, name)
        self._given(parameters)


class InverseGamma(_ShapeRate):
    """The inverse of a number with the gamma distribution of shape `concentration` and inverse scale `rate`."""

    def __init__(self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "InverseGamma") -> None:
        super().__init__(concentration, rate, validate_args, allow_nan_stats, name, locals())

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return 1.0 / super()._draw(shape, seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        c = self.concentration
        return c * ops.log(self.rate) - ops.lgamma(c) - (c + 1.0) * ops.log(x) - self.rate / x

    def _cdf(self, x: Tensor) -> Tensor:
        place = self.rate / x
        return ops.igammac(self.concentration + ops.zeros_like(place), place + ops.zeros_like(self.concentration))

    def _entropy(self) -> Tensor:
        c = self.concentration
        return c + ops.log(self.rate) + ops.lgamma(c) - (1.0 + c) * ops.digamma(c)

    def _mean(self) -> Tensor:
        more = self.concentration + ops.zeros_like(self.rate)
        return self._defined(more > 1.0, self.rate / ops.where(more > 1.0, more - 1.0, ops.ones_like(more)), "mean")

    def _variance(self) -> Tensor:
        c = self.concentration + ops.zeros_like(self.rate)
        safe = ops.where(c > 2.0, c, 3.0 * ops.ones_like(c))
        return self._defined(c > 2.0, ops.square(self.rate / (safe - 1.0)) / (safe - 2.0), "variance")

    def _mode(self) -> Tensor:
        return self.rate / (1.0 + self.concentration)


# parameters through softplus or the absolute value, so that any number will do

class NormalWithSoftplusScale(Normal):
    """Normal whose standard deviation is softplus(`scale`)."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "NormalWithSoftplusScale") -> None:
        parameters = locals()
        first = self._float(loc, "loc")
        super().__init__(first, ops.softplus(self._float(scale, "scale", first)), validate_args, allow_nan_stats, name)
        self._given(parameters)


class LaplaceWithSoftplusScale(Laplace):
    """Laplace whose scale is softplus(`scale`)."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "LaplaceWithSoftplusScale") -> None:
        parameters = locals()
        first = self._float(loc, "loc")
        super().__init__(first, ops.softplus(self._float(scale, "scale", first)), validate_args, allow_nan_stats, name)
        self._given(parameters)


class ExponentialWithSoftplusRate(Exponential):
    """Exponential whose rate is softplus(`rate`)."""

    def __init__(self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "ExponentialWithSoftplusRate") -> None:
        parameters = locals()
        super().__init__(ops.softplus(self._float(rate, "rate")), validate_args, allow_nan_stats, name)
        self._given(parameters)


class GammaWithSoftplusConcentrationRate(Gamma):
    """Gamma of softplus(`concentration`) and softplus(`rate`)."""

    def __init__(self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "GammaWithSoftplusConcentrationRate") -> None:
        parameters = locals()
        first = self._float(concentration, "concentration")
        super().__init__(ops.softplus(first), ops.softplus(self._float(rate, "rate", first)), validate_args, allow_nan_stats,
                         name)
        self._given(parameters)


class InverseGammaWithSoftplusConcentrationRate(InverseGamma):
    """InverseGamma of softplus(`concentration`) and softplus(`rate`)."""

    def __init__(self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "InverseGammaWithSoftplusConcentrationRate") -> None:
        parameters = locals()
        first = self._float(concentration, "concentration")
        super().__init__(ops.softplus(first), ops.softplus(self._float(rate, "rate", first)), validate_args, allow_nan_stats,
                         name)
        self._given(parameters)


class BetaWithSoftplusConcentration(Beta):
    """Beta of softplus(`concentration1`) and softplus(`concentration0`)."""

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "BetaWithSoftplusConcentration") -> None:
        parameters = locals()
        first = self._float(concentration1, "concentration1")
        super().__init__(ops.softplus(first), ops.softplus(self._float(concentration0, "concentration0", first)), validate_args,
                         allow_nan_stats, name)
        self._given(parameters)


class StudentTWithAbsDfSoftplusScale(StudentT):
    """StudentT with floor(|`df`|) degrees of freedom and the scale softplus(`scale`)."""

    def __init__(self, df: Any, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "StudentTWithAbsDfSoftplusScale") -> None:
        parameters = locals()
        first = self._float(df, "df")
        super().__init__(ops.floor(ops.abs(first)), loc, ops.softplus(self._float(scale, "scale", first)), validate_args,
                         allow_nan_stats, name)
        self._given(parameters)


class Chi2WithAbsDf(Chi2):
    """Chi2 with floor(|`df`|) degrees of freedom."""

    def __init__(self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2WithAbsDf") -> None:
        parameters = locals()
        super().__init__(ops.floor(ops.abs(self._float(df, "df"))), validate_args, allow_nan_stats, name)
        self._given(parameters)


class BernoulliWithSigmoidProbs(Bernoulli):
    """Bernoulli whose probabilities are the sigmoid of `logits`."""

    def __init__(self, logits: Any = None, dtype: Any = "int32", validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "BernoulliWithSigmoidProbs") -> None:
        parameters = locals()
        super().__init__(None, ops.sigmoid(self._float(logits, "logits")), dtype, validate_args, allow_nan_stats, name)
        self._given(parameters)


class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """MultivariateNormalDiag whose standard deviations are softplus(`scale_diag`)."""

    def __init__(self, loc: Any, scale_diag: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalDiagWithSoftplusScale") -> None:
        parameters = locals()
        super().__init__(loc, ops.softplus(self._float(scale_diag, "scale_diag")), None, validate_args, allow_nan_stats, name)
        self._given(parameters)
