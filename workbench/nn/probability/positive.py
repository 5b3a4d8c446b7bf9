"""Distributions near gamma and location-scale ones: chi-squared, inverse gamma, logistic; and those given through softplus."""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable
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

    sample_parameters = ("df",)

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

def _through(kind: Any, name: str, doc: str, **links: Callable[[Tensor], Tensor]) -> Any:
    """A class of this name: `kind`, whose parameters in `links` go through these functions first."""
    own = inspect.signature(kind).parameters
    defaults = {**{key: p.default for key, p in own.items()}, **dict.fromkeys(links, inspect.Parameter.empty), "name": name}
    signature = inspect.Signature([p.replace(default=defaults[key]) for key, p in own.items()])
    first = next(iter(own))

    def begin(self: Any, *args: Any, **options: Any) -> None:
        given = signature.bind(*args, **options)
        given.apply_defaults()
        values = dict(given.arguments)
        like = values[first] = self._float(values[first], first)
        for key, link in links.items():
            values[key] = link(self._float(values[key], key, like))
        kind.__init__(self, **values)
        self._given(given.arguments)
    return type(name, (kind,), {"__init__": begin, "__signature__": signature, "__doc__": doc, "__module__": __name__})


def _whole(x: Tensor) -> Tensor:
    made: Tensor = ops.floor(ops.abs(x))
    return made


NormalWithSoftplusScale: Any = _through(
    Normal, "NormalWithSoftplusScale", "Normal whose standard deviation is softplus(`scale`).", scale=ops.softplus)
LaplaceWithSoftplusScale: Any = _through(
    Laplace, "LaplaceWithSoftplusScale", "Laplace whose scale is softplus(`scale`).", scale=ops.softplus)
ExponentialWithSoftplusRate: Any = _through(
    Exponential, "ExponentialWithSoftplusRate", "Exponential whose rate is softplus(`rate`).", rate=ops.softplus)
GammaWithSoftplusConcentrationRate: Any = _through(
    Gamma, "GammaWithSoftplusConcentrationRate", "Gamma of softplus(`concentration`) and softplus(`rate`).",
    concentration=ops.softplus, rate=ops.softplus)
InverseGammaWithSoftplusConcentrationRate: Any = _through(
    InverseGamma, "InverseGammaWithSoftplusConcentrationRate",
    "InverseGamma of softplus(`concentration`) and softplus(`rate`).", concentration=ops.softplus, rate=ops.softplus)
BetaWithSoftplusConcentration: Any = _through(
    Beta, "BetaWithSoftplusConcentration", "Beta of softplus(`concentration1`) and softplus(`concentration0`).",
    concentration1=ops.softplus, concentration0=ops.softplus)
StudentTWithAbsDfSoftplusScale: Any = _through(
    StudentT, "StudentTWithAbsDfSoftplusScale",
    "StudentT with floor(|`df`|) degrees of freedom and the scale softplus(`scale`).", df=_whole, scale=ops.softplus)
Chi2WithAbsDf: Any = _through(Chi2, "Chi2WithAbsDf", "Chi2 with floor(|`df`|) degrees of freedom.", df=_whole)


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
