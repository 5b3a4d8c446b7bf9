"""Distributions of counts: Poisson's, binomial, negative binomial, geometric, Dirichlet-multinomial; and of one value alone."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.checks import assert_less_equal, assert_non_negative, assert_positive
from workbench.nn.framework import after, name_scope
from workbench.nn.probability.base import FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution
from workbench.nn.probability.checked import counts
from workbench.nn.probability.discrete import logits_and_probs
from workbench.nn.probability.scalar import _tiny, _TwoParameters
from workbench.nn.probability.vector import Dirichlet, _classes, _Counted, _Vectors

__all__ = ["Binomial", "Deterministic", "DirichletMultinomial", "Geometric", "NegativeBinomial", "Poisson",
           "VectorDeterministic"]


class _Counts(Distribution):
    """Events are numbers of times."""

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return counts(x, "counts")


class Poisson(_Counts):
    """How many events come where `rate` = exp(`log_rate`) are expected. ValueError unless one of them is given."""

    def __init__(self, rate: Any = None, log_rate: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Poisson") -> None:
        parameters = locals()
        if (rate is None) == (log_rate is None):
            raise ValueError("Must specify exactly one of `rate` and `log_rate`.")
        with name_scope(name):
            if rate is not None:
                self.rate = self._positive(self._float(rate, "rate"), validate_args)
                self.log_rate = ops.log(self.rate)
            else:
                self.log_rate = self._float(log_rate, "log_rate")
                self.rate = ops.exp(self.log_rate)
        super().__init__(self.rate.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.rate, self.log_rate], name)

    def _batch(self) -> Tensor:
        return self.rate

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return ops.random_poisson(ops.zeros(shape, self.dtype) + self.rate, [], dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        return x * self.log_rate - self.rate - ops.lgamma(x + 1.0)

    def _cdf(self, x: Tensor) -> Tensor:
        count = ops.floor(x) + 1.0 + ops.zeros_like(self.rate)
        return ops.igammac(count, self.rate + ops.zeros_like(count))

    def _mean(self) -> Tensor:
        return ops.identity(self.rate)

    _variance = _mean

    def _mode(self) -> Tensor:
        return ops.floor(self.rate)


class Geometric(_Counts):
    """How often an event of the probability `probs`, the sigmoid of `logits`, fails to come before it comes."""

    def __init__(self, logits: Any = None, probs: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Geometric") -> None:
        parameters = locals()
        with name_scope(name):
            self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args)
            self.probs = self._positive(self.probs, validate_args)
        super().__init__(self.probs.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.logits, self.probs], name)

    def _batch(self) -> Tensor:
        return self.probs

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        uniform = ops.random_uniform(shape, _tiny(self.dtype), 1.0, dtype=self.dtype, seed=seed)
        return ops.floor(ops.log(uniform) / ops.log1p(-self.probs))

    def _log_prob(self, x: Tensor) -> Tensor:
        never = x + ops.zeros_like(self.probs) > 0.0      # fails at all: of a sure event the logarithm is no number
        fails = ops.where(never, self.probs + ops.zeros_like(x), ops.zeros_like(x + self.probs))
        return x * ops.log1p(-fails) + ops.log(self.probs)

    def _cdf(self, x: Tensor) -> Tensor:
        found = -ops.expm1((ops.floor(x) + 1.0) * ops.log1p(-self.probs))
        return ops.where(x + ops.zeros_like(found) < 0.0, ops.zeros_like(found), found)

    def _entropy(self) -> Tensor:
        fails = 1.0 - self.probs
        return -(fails * ops.log1p(-self.probs) + self.probs * ops.log(self.probs)) / self.probs

    def _mean(self) -> Tensor:
        return (1.0 - self.probs) / self.probs

    def _variance(self) -> Tensor:
        return (1.0 - self.probs) / ops.square(self.probs)

    def _mode(self) -> Tensor:
        return ops.zeros_like(self.probs)


class _Trials(_Counts, _TwoParameters):
    """Counts of `total_count` trials with the probability `probs`, the sigmoid of `logits`, each."""

    def __init__(self, total_count: Any, logits: Any, probs: Any, validate_args: bool, allow_nan_stats: bool, name: str,
                 parameters: dict[str, Any]) -> None:
        with name_scope(name):
            self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args)
            total = self._float(total_count, "total_count", self.probs)
            self.total_count = after(self._allowed(total), total) if validate_args else total
            self._first, self._second = self.total_count, self.probs
        super().__init__(self.probs.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.total_count, self.logits, self.probs], name)

    def _allowed(self, total_count: Tensor) -> Sequence[Operation]:
        """Assertions that hold for every `total_count`."""
        raise NotImplementedError(f"{type(self).__name__}: what total_count may be is missing; define _allowed")


class Binomial(_Trials):
    """How many of `total_count` trials succeed, each with the probability `probs`, the sigmoid of `logits`."""

    def __init__(self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Binomial") -> None:
        super().__init__(total_count, logits, probs, validate_args, allow_nan_stats, name, locals())

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        most = ops.cast(ops.reduce_max(self.total_count), "int32")
        tries = ops.concat([ops.stack([most]), shape], axis=0)
        hit = ops.random_uniform(tries, dtype=self.dtype, seed=seed) < self.probs
        number = ops.reshape(ops.range(most), ops.concat([ops.stack([most]), ops.ones_like(shape)], axis=0))
        asked = ops.cast(number, self.dtype) < self.total_count + ops.zeros(shape, self.dtype)
        return ops.reduce_sum(ops.cast(ops.logical_and(hit, asked), self.dtype), axis=0)

    def _allowed(self, total_count: Tensor) -> Sequence[Operation]:
        return counts(total_count, "total_count")

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        like = ops.zeros_like(x)
        return [*super()._possible(x), assert_less_equal(x + ops.zeros_like(self.total_count), self.total_count + like,
                                                         message="counts must be total_count or less")]

    def _log_prob(self, counts: Tensor) -> Tensor:
        n = self.total_count
        ways = ops.lgamma(n + 1.0) - ops.lgamma(counts + 1.0) - ops.lgamma(n - counts + 1.0)
        return ways + counts * ops.log(self.probs) + (n - counts) * ops.log1p(-self.probs)

    def _cdf(self, counts: Tensor) -> Tensor:
        full = counts + ops.zeros_like(self._batch())
        below = ops.floor(ops.minimum(full, self.total_count - 1.0))
        like = ops.zeros_like(full)
        found = ops.betainc(self.total_count - below, below + 1.0, 1.0 - self.probs + like)
        return ops.where(full >= self.total_count + like, ops.ones_like(full), found)

    def _mean(self) -> Tensor:
        return self.total_count * self.probs

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Tensor:
        return ops.floor((1.0 + self.total_count) * self.probs)


class NegativeBinomial(_Trials):
    """How many trials succeed, each with the probability `probs`, the sigmoid of `logits`, before `total_count` fail."""

    def __init__(self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "NegativeBinomial") -> None:
        super().__init__(total_count, logits, probs, validate_args, allow_nan_stats, name, locals())

    def _allowed(self, total_count: Tensor) -> Sequence[Operation]:
        return [assert_positive(total_count, message="total_count must be positive")]

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.zeros(shape, self.dtype)
        rate = ops.random_gamma([], full + self.total_count, full + ops.exp(-self.logits), dtype=self.dtype, seed=seed)
        return ops.random_poisson(rate, [], dtype=self.dtype, seed=None if seed is None else seed + 1)

    def _log_prob(self, x: Tensor) -> Tensor:
        n = self.total_count
        ways = ops.lgamma(n + x) - ops.lgamma(1.0 + x) - ops.lgamma(n)
        return ways + n * ops.log_sigmoid(-self.logits) + x * ops.log_sigmoid(self.logits)

    def _cdf(self, x: Tensor) -> Tensor:
        like = ops.zeros_like(x + self._batch())
        return ops.betainc(self.total_count + like, 1.0 + ops.floor(x) + like, ops.sigmoid(-self.logits) + like)

    def _mean(self) -> Tensor:
        return self.total_count * ops.exp(self.logits)

    def _variance(self) -> Tensor:
        return self._mean() / ops.sigmoid(-self.logits)

    def _mode(self) -> Tensor:
        found = ops.floor((self.total_count - 1.0) * ops.exp(self.logits))
        return ops.maximum(found, 0.0)


class DirichletMultinomial(_Counted):
    """How often each class comes among `total_count` draws, whose probabilities are drawn from Dirichlet(`concentration`)."""

    def __init__(self, total_count: Any, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "DirichletMultinomial") -> None:
        parameters = locals()
        with name_scope(name):
            self.concentration = self._positive(self._float(concentration, "concentration"), validate_args)
            self.total_count = self._total(total_count, self.concentration, validate_args)
            self.total_concentration = ops.reduce_sum(self.concentration, axis=-1)
            self._parameter = self.total_count[..., None] * self.concentration / self.total_concentration[..., None]
        super().__init__(self.concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.total_count, self.concentration], name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.concat([shape, self.event_shape_tensor()], axis=0)
        probs = Dirichlet(self.concentration + ops.zeros_like(self._parameter))._draw(shape, seed)
        counts = ops.cast(self.total_count, "int32") + ops.zeros(shape, "int32")
        most = ops.reduce_max(counts)
        drawn = _classes(ops.log(ops.reshape(probs, full)), ops.concat([ops.stack([most]), shape], axis=0),
                         None if seed is None else seed + 1)
        number = ops.reshape(ops.range(most), ops.concat([ops.stack([most]), ops.ones_like(shape)], axis=0))
        asked = ops.cast(number < counts, self.dtype)
        return ops.reduce_sum(ops.one_hot(drawn, ops.shape(self.concentration)[-1], dtype=self.dtype) * asked[..., None],
                              axis=0)

    def _log_prob(self, counts: Tensor) -> Tensor:
        ways = ops.lgamma(self.total_count + 1.0) - ops.reduce_sum(ops.lgamma(counts + 1.0), axis=-1)
        both = ops.reduce_sum(ops.lgamma(self.concentration + counts) - ops.lgamma(self.concentration), axis=-1)
        whole = self.total_concentration
        return ways + both + ops.lgamma(whole) - ops.lgamma(whole + self.total_count)

    def _mean(self) -> Tensor:
        return ops.identity(self._parameter)

    def _spread(self) -> Tensor:
        whole = self.total_concentration
        return ((self.total_count + whole) / (1.0 + whole))[..., None]

    def _shares(self) -> Tensor:
        return self.concentration / self.total_concentration[..., None]

    def _variance(self) -> Tensor:
        return self._parameter * (1.0 - self._shares()) * self._spread()

    def _covariance(self) -> Tensor:
        outer = -self._parameter[..., :, None] * self._shares()[..., None, :]
        return ops.matrix_set_diag(outer * self._spread()[..., None], self._variance())


class Deterministic(Distribution):
    """The value `loc` alone; what differs from it by at most `atol` + `rtol` · |loc| counts as it."""

    def __init__(self, loc: Any, atol: Any = None, rtol: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Deterministic") -> None:
        parameters = locals()
        with name_scope(name):
            self.loc = convert(loc)
            self.atol, self.rtol = (convert(0 if value is None else value, self.loc.dtype) for value in (atol, rtol))
            if validate_args:
                self.atol, self.rtol = (after([assert_non_negative(slack)], slack) for slack in (self.atol, self.rtol))
            self._slack = self.atol + self.rtol * ops.abs(self.loc)
        super().__init__(self.loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [self.loc], name)

    def _batch(self) -> Tensor:
        return self.loc

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return ops.zeros(shape, self.dtype) + self.loc

    def _prob(self, x: Tensor) -> Tensor:
        near = ops.abs(x - self.loc) <= self._slack
        return ops.cast(near, self.dtype if self.dtype.is_floating else "float32")

    def _cdf(self, x: Tensor) -> Tensor:
        return ops.cast(x >= self.loc - self._slack, self.dtype if self.dtype.is_floating else "float32")

    def _entropy(self) -> Tensor:
        return ops.zeros_like(self._batch())

    _variance = _stddev = _entropy

    def _mean(self) -> Tensor:
        return ops.identity(self.loc)

    _mode = _mean


class VectorDeterministic(_Vectors, Deterministic):
    """The vector `loc` [..., n] alone; otherwise as Deterministic."""

    def __init__(self, loc: Any, atol: Any = None, rtol: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "VectorDeterministic") -> None:
        parameters = locals()
        super().__init__(loc, atol, rtol, validate_args, allow_nan_stats, name)
        self._parameter = self.loc
        self._given(parameters)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return super()._draw(ops.concat([shape, self.event_shape_tensor()], axis=0), seed)

    def _prob(self, x: Tensor) -> Tensor:
        return ops.reduce_prod(super()._prob(x), axis=-1)

    _cdf = None      # type: ignore[assignment]      # vectors have no order

    def _variance(self) -> Tensor:
        return ops.zeros_like(self.loc)

    _stddev = _variance
