"""Distributions of one real number: normal, uniform, exponential, gamma, beta, Laplace, Student's t."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.checks import assert_less, assert_positive
from workbench.nn.framework import name_scope
from workbench.nn.probability.base import FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution, RegisterKL
from workbench.nn.probability.tails import HALF_LOG_2PI, log_ndtr, ndtr

__all__ = ["Beta", "Exponential", "Gamma", "Laplace", "Normal", "StudentT", "Uniform"]


def _tiny(dtype: Any) -> float:
    """The smallest number above 0 whose logarithm is finite."""
    return {"float16": 6.2e-5, "float64": 2.3e-308}.get(dtype.name, 1.2e-38)


class _TwoParameters(Distribution):
    """A batch of the shape that two parameters have together."""

    _first: Tensor
    _second: Tensor

    def _batch(self) -> Tensor:
        return self._first + ops.zeros_like(self._second)


class _LocationScale(_TwoParameters):
    """`loc` + `scale` times a fixed distribution."""

    sample_parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool, allow_nan_stats: bool, name: str,
                 parameters: dict[str, Any]) -> None:
        with name_scope(name):
            self.loc = self._first = self._float(loc, "loc")
            self.scale = self._second = self._positive(self._float(scale, "scale", self.loc), validate_args)
        super().__init__(self.loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.loc, self.scale], name)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def _mean(self) -> Tensor:
        return self.loc + ops.zeros_like(self.scale)

    _mode = _mean


class Normal(_LocationScale):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Normal") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, locals())

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return ops.random_normal(shape, dtype=self.dtype, seed=seed) * self.scale + self.loc

    def _log_prob(self, x: Tensor) -> Tensor:
        return -0.5 * ops.square(self._z(x)) - (HALF_LOG_2PI + ops.log(self.scale))

    def _cdf(self, x: Tensor) -> Tensor:
        return ndtr(self._z(x))

    def _log_cdf(self, x: Tensor) -> Tensor:
        return log_ndtr(self._z(x))

    def _survival_function(self, x: Tensor) -> Tensor:
        return ndtr(-self._z(x))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        return log_ndtr(-self._z(x))

    def _quantile(self, p: Tensor) -> Tensor:
        return ops.ndtri(p) * self.scale + self.loc

    def _entropy(self) -> Tensor:
        return 0.5 + HALF_LOG_2PI + ops.log(self.scale + ops.zeros_like(self.loc))

    def _stddev(self) -> Tensor:
        return self.scale + ops.zeros_like(self.loc)


class Laplace(_LocationScale):
    """Laplace's distribution around `loc`: absolute distances have the mean `scale`."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Laplace") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, locals())

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        side = ops.random_uniform(shape, -1.0 + 1e-7, 1.0, dtype=self.dtype, seed=seed)
        return self.loc - self.scale * ops.sign(side) * ops.log1p(-ops.abs(side))

    def _log_prob(self, x: Tensor) -> Tensor:
        return -ops.abs(self._z(x)) - math.log(2) - ops.log(self.scale)

    def _cdf(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return 0.5 - 0.5 * ops.sign(z) * ops.expm1(-ops.abs(z))

    def _log_cdf(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return ops.where(z <= 0.0, z - math.log(2), ops.log1p(-0.5 * ops.exp(-ops.abs(z))))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return ops.where(z >= 0.0, -z - math.log(2), ops.log1p(-0.5 * ops.exp(-ops.abs(z))))

    def _entropy(self) -> Tensor:
        return math.log(2) + 1.0 + ops.log(self.scale + ops.zeros_like(self.loc))

    def _stddev(self) -> Tensor:
        return math.sqrt(2) * (self.scale + ops.zeros_like(self.loc))


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, moved by `loc` and stretched by `scale`."""

    sample_parameters = ("df", "loc", "scale")

    def __init__(self, df: Any, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "StudentT") -> None:
        parameters = locals()
        with name_scope(name):
            self.df = self._positive(self._float(df, "df"), validate_args)
            self.loc, self.scale = self._float(loc, "loc", self.df), self._float(scale, "scale", self.df)
        super().__init__(self.df.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.df, self.loc, self.scale], name)

    def _batch(self) -> Tensor:
        return self.df + ops.zeros_like(self.loc) + ops.zeros_like(self.scale)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        normal = ops.random_normal(shape, dtype=self.dtype, seed=seed)
        df = ops.zeros(shape, self.dtype) + self.df
        squares = ops.random_gamma([], 0.5 * df, 0.5, dtype=self.dtype, seed=None if seed is None else seed + 1)
        return normal * ops.rsqrt(squares / df) * self.scale + self.loc

    def _log_prob(self, x: Tensor) -> Tensor:
        y = (x - self.loc) / self.scale
        half = 0.5 * (self.df + 1.0)
        return -half * ops.log1p(ops.square(y) / self.df) - self._log_normalization()

    def _log_normalization(self) -> Tensor:
        return (ops.log(ops.abs(self.scale)) + 0.5 * ops.log(self.df) + 0.5 * math.log(math.pi) + ops.lgamma(0.5 * self.df)
                - ops.lgamma(0.5 * (self.df + 1.0)))

    def _cdf(self, x: Tensor) -> Tensor:
        y = (x - self.loc) / ops.abs(self.scale)
        place = self.df / (ops.square(y) + self.df)
        like = ops.zeros_like(place)
        tail = 0.5 * ops.betainc(0.5 * self.df + like, 0.5 + like, place)
        return ops.where(y < 0.0, tail, 1.0 - tail)

    def _entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1.0)
        beta = ops.lgamma(half) + 0.5 * math.log(math.pi) - ops.lgamma(more)
        found = ops.log(ops.abs(self.scale)) + 0.5 * ops.log(self.df) + beta + more * (ops.digamma(more) - ops.digamma(half))
        return found + ops.zeros_like(self.loc)

    def _mean(self) -> Tensor:
        found = self.loc + ops.zeros_like(self.df) + ops.zeros_like(self.scale)
        return self._defined(self.df + ops.zeros_like(found) > 1.0, found, "mean")

    def _variance(self) -> Tensor:
        df = self._batch()
        safe = ops.where(df > 2.0, df - 2.0, ops.ones_like(df))
        finite = ops.square(self.scale) * df / safe
        infinite = ops.fill(ops.shape(df), ops.cast(float("inf"), self.dtype))
        return self._defined(df > 1.0, ops.where(df > 2.0, finite, infinite), "variance")

    def _mode(self) -> Tensor:
        return self.loc + ops.zeros_like(self._batch())


class Uniform(_TwoParameters):
    """Numbers in [low, high), all alike."""

    sample_parameters = ("low", "high")

    def __init__(self, low: Any = 0.0, high: Any = 1.0, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Uniform") -> None:
        parameters = locals()
        with name_scope(name):
            self.low = self._first = self._float(low, "low")
            self.high = self._second = self._float(high, "high", self.low)
            if validate_args:
                self.high = self._second = self.low + self._positive(self.high - self.low, True)
        super().__init__(self.low.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.low, self.high], name)

    def range(self, name: str = "range") -> Tensor:
        """high - low."""
        return ops.subtract(self.high, self.low, name=name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return self.low + self.range() * ops.random_uniform(shape, dtype=self.dtype, seed=seed)

    def _prob(self, x: Tensor) -> Tensor:
        x = x + ops.zeros_like(self._batch())
        inside = ops.logical_and(x >= self.low, x < self.high)
        density = ops.ones_like(x) / self.range()
        return ops.where(ops.is_nan(x), x, ops.where(inside, density, ops.zeros_like(x)))

    def _cdf(self, x: Tensor) -> Tensor:
        return ops.clip_by_value((x - self.low) / self.range(), 0.0, 1.0)

    def _quantile(self, p: Tensor) -> Tensor:
        return self.low + self.range() * p

    def _entropy(self) -> Tensor:
        return ops.log(self.range())

    def _mean(self) -> Tensor:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Tensor:
        return ops.square(self.range()) / 12.0


class _ShapeRate(_TwoParameters):
    """Made of a number with the gamma distribution of shape `concentration` and inverse scale `rate`."""

    sample_parameters: tuple[str, ...] = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool, allow_nan_stats: bool, name: str,
                 parameters: dict[str, Any]) -> None:
        with name_scope(name):
            self.concentration = self._first = self._positive(self._float(concentration, "concentration"), validate_args)
            self.rate = self._second = self._positive(self._float(rate, "rate", self.concentration), validate_args)
        super().__init__(self.concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.concentration, self.rate], name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.zeros(shape, self.dtype)
        return ops.random_gamma([], full + self.concentration, full + self.rate, dtype=self.dtype, seed=seed)


    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return [assert_positive(x, message="samples must be positive")]


class Gamma(_ShapeRate):
    """The gamma distribution of shape `concentration` and inverse scale `rate`."""

    def __init__(self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Gamma") -> None:
        super().__init__(concentration, rate, validate_args, allow_nan_stats, name, locals())

    def _log_prob(self, x: Tensor) -> Tensor:
        c = self.concentration
        return (c - 1.0) * ops.log(x) - self.rate * x - (ops.lgamma(c) - c * ops.log(self.rate))

    def _cdf(self, x: Tensor) -> Tensor:
        place = self.rate * x
        return ops.igamma(self.concentration + ops.zeros_like(place), place + ops.zeros_like(self.concentration))

    def _entropy(self) -> Tensor:
        c = self.concentration
        return c - ops.log(self.rate) + ops.lgamma(c) + (1.0 - c) * ops.digamma(c)

    def _mean(self) -> Tensor:
        return self.concentration / self.rate

    def _variance(self) -> Tensor:
        return self.concentration / ops.square(self.rate)

    def _mode(self) -> Tensor:
        found = (self.concentration - 1.0) / self.rate
        return self._defined(self._batch() > 1.0, found, "mode")


class Exponential(Gamma):
    """Waiting times of a process with `rate` events a unit of time."""

    sample_parameters = ("rate",)

    def __init__(self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential") -> None:
        parameters = locals()
        with name_scope(name):
            given = self._float(rate, "rate")
        super().__init__(ops.ones_like(given), given, validate_args, allow_nan_stats, name)
        self._given(parameters)
        self._reparameterization_type = FULLY_REPARAMETERIZED

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return -ops.log(ops.random_uniform(shape, _tiny(self.dtype), 1.0, dtype=self.dtype, seed=seed)) / self.rate

    def _log_prob(self, x: Tensor) -> Tensor:
        return ops.log(self.rate) - self.rate * x

    def _cdf(self, x: Tensor) -> Tensor:
        return -ops.expm1(-self.rate * x)

    def _log_survival_function(self, x: Tensor) -> Tensor:
        return -self.rate * x

    def _quantile(self, p: Tensor) -> Tensor:
        return -ops.log1p(-p) / self.rate

    def _mode(self) -> Tensor:
        return ops.zeros_like(self.rate)


class Beta(_TwoParameters):
    """The beta distribution over (0, 1), in proportion to x^(concentration1 - 1) (1 - x)^(concentration0 - 1)."""

    sample_parameters = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any = None, concentration0: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Beta") -> None:
        parameters = locals()
        with name_scope(name):
            ones = [1.0 if c is None else c for c in (concentration1, concentration0)]
            self.concentration1 = self._first = self._positive(self._float(ones[0], "concentration1"), validate_args)
            self.concentration0 = self._second = self._positive(
                self._float(ones[1], "concentration0", self.concentration1), validate_args)
        super().__init__(self.concentration1.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.concentration1, self.concentration0], name)

    @property
    def total_concentration(self) -> Tensor:
        """concentration1 + concentration0."""
        return self.concentration1 + self.concentration0

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.zeros(shape, self.dtype)
        one = ops.random_gamma([], full + self.concentration1, dtype=self.dtype, seed=seed)
        other = ops.random_gamma([], full + self.concentration0, dtype=self.dtype, seed=None if seed is None else seed + 1)
        return one / (one + other)

    _cdf_checks = False      # it is 0 and 1 at the ends, where there is no density

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return [assert_positive(x, message="samples must be positive"),
                assert_less(x, ops.ones_like(x), message="samples must be less than 1")]

    def _log_beta(self) -> Tensor:
        return ops.lgamma(self.concentration1) + ops.lgamma(self.concentration0) - ops.lgamma(self.total_concentration)

    def _log_prob(self, x: Tensor) -> Tensor:
        return (self.concentration1 - 1.0) * ops.log(x) + (self.concentration0 - 1.0) * ops.log1p(-x) - self._log_beta()

    def _cdf(self, x: Tensor) -> Tensor:
        like = ops.zeros_like(x + self._batch())
        return ops.betainc(self.concentration1 + like, self.concentration0 + like, x + like)

    def _entropy(self) -> Tensor:
        one, other, total = self.concentration1, self.concentration0, self.total_concentration
        return (self._log_beta() - (one - 1.0) * ops.digamma(one) - (other - 1.0) * ops.digamma(other)
                + (total - 2.0) * ops.digamma(total))

    def _mean(self) -> Tensor:
        return self.concentration1 / self.total_concentration

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self.total_concentration)

    def _mode(self) -> Tensor:
        full = ops.zeros_like(self.total_concentration)
        defined = ops.logical_and(self.concentration1 + full > 1.0, self.concentration0 + full > 1.0)
        return self._defined(defined, (self.concentration1 - 1.0) / (self.total_concentration - 2.0), "mode")


# divergences

@RegisterKL(Normal, Normal)
def _normal(a: Normal, b: Normal, name: str | None = None) -> Tensor:
    ratio = ops.square(a.scale / b.scale)
    return ops.add(ops.square(a.loc - b.loc) / (2.0 * ops.square(b.scale)), 0.5 * (ratio - 1.0 - ops.log(ratio)), name=name)


@RegisterKL(Gamma, Gamma)
def _gamma(a: Gamma, b: Gamma, name: str | None = None) -> Tensor:
    p, q = a.concentration, b.concentration
    return ops.add((p - q) * ops.digamma(p) + ops.lgamma(q) - ops.lgamma(p) + q * ops.log(a.rate) - q * ops.log(b.rate),
                   p * (b.rate / a.rate - 1.0), name=name)


@RegisterKL(Beta, Beta)
def _beta(a: Beta, b: Beta, name: str | None = None) -> Tensor:
    one, other = a.concentration1 - b.concentration1, a.concentration0 - b.concentration0
    return ops.add(b._log_beta() - a._log_beta() + one * ops.digamma(a.concentration1) + other * ops.digamma(a.concentration0),
                   -(one + other) * ops.digamma(a.total_concentration), name=name)
