"""Distributions of classes and of vectors: categorical, multinomial, Dirichlet's, normal with a diagonal covariance."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.checks import assert_equal, assert_near, assert_positive
from workbench.nn.framework import after, name_scope
from workbench.nn.linear_operators import LinearOperator
from workbench.nn.linear_operators_kinds import LinearOperatorDiag
from workbench.nn.probability.base import FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution, RegisterKL
from workbench.nn.probability.checked import counts, none_zero
from workbench.nn.probability.discrete import logits_and_probs

__all__ = ["Categorical", "Dirichlet", "Multinomial", "MultivariateNormalDiag"]


def _classes(logits: Tensor, shape: Tensor, seed: int | None) -> Tensor:
    """int64 [*shape]: classes drawn by `logits` [*batch, c], where `shape` ends in that of the batch."""
    count = ops.size(logits) // ops.shape(logits)[-1]
    rows = ops.reshape(logits, ops.stack([count, ops.shape(logits)[-1]]))
    each = ops.reduce_prod(shape) // ops.maximum(count, 1)
    # the largest of logits with Gumbel noise is a draw; the number of draws may be known to the step alone
    places = ops.stack([each, count, ops.shape(rows)[-1]])
    uniform = ops.random_uniform(places, 1e-30, 1.0, dtype=logits.dtype, seed=seed)
    return ops.reshape(ops.argmax(rows - ops.log(-ops.log(uniform)), axis=2), shape)


class _OfClasses(Distribution):
    """A distribution whose parameters `logits` have the classes along their last axis."""

    logits: Tensor

    @property
    def event_size(self) -> Tensor:
        """How many classes there are."""
        return ops.shape(self.logits)[-1]


class Categorical(_OfClasses):
    """One of several classes, with the probabilities `probs`, the softmax of `logits`, along the last axis."""

    def __init__(self, logits: Any = None, probs: Any = None, dtype: Any = "int32", validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Categorical") -> None:
        parameters = locals()
        with name_scope(name):
            self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args, several=True)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.logits, self.probs], name)

    def _batch(self) -> Tensor:
        return ops.reduce_max(self.logits, axis=-1)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return ops.cast(_classes(self.logits, shape, seed), self.dtype)

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return counts(x, "classes")

    def _log_prob(self, k: Tensor) -> Tensor:
        k = ops.cast(k, "int32")
        like = ops.zeros_like(ops.cast(k, self.logits.dtype) + self._batch())
        labels = k + ops.cast(like, "int32")
        logits = self.logits + ops.expand_dims(like, -1)
        return -ops.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)

    def _cdf(self, k: Tensor) -> Tensor:
        """The probability of the classes before k, without k itself, as TensorFlow has it."""
        k = ops.cast(k, "int32")
        like = ops.zeros_like(ops.cast(k, self.probs.dtype) + self._batch())
        before = ops.sequence_mask(k + ops.cast(like, "int32"), self.event_size, self.probs.dtype)
        return ops.reduce_sum((self.probs + ops.expand_dims(like, -1)) * before, axis=-1)

    def _entropy(self) -> Tensor:
        logs = ops.log_softmax(self.logits)
        likely = ops.exp(logs)
        return -ops.reduce_sum(ops.where(likely > 0.0, likely * logs, ops.zeros_like(logs)), axis=-1)

    def _mode(self) -> Tensor:
        return ops.cast(ops.argmax(self.logits, axis=-1), as_dtype(self.dtype))


class _Vectors(Distribution):
    """Events are vectors as long as the last axis of a parameter."""

    _parameter: Tensor

    def _batch(self) -> Tensor:
        return ops.reduce_sum(self._parameter, axis=-1)

    @property
    def event_shape(self) -> Shape:
        """The static shape of one event."""
        return self._parameter.shape[-1:]

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event: int32 [1]."""
        return ops.identity(ops.shape(self._parameter)[-1:], name=name)


class _Counted(_Vectors):
    """Events are how often each class comes among `total_count` draws."""

    total_count: Tensor

    def _total(self, total_count: Any, like: Tensor, validate_args: bool) -> Tensor:
        found = self._float(total_count, "total_count", like)
        return after(counts(found, "total_count"), found) if validate_args else found

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return [*counts(x, "counts"), assert_equal(ops.reduce_sum(x, axis=-1), self.total_count,
                                                   message="counts must sum to `self.total_count`")]


class Multinomial(_Counted):
    """How often each class comes among `total_count` draws with the probabilities `probs`, the softmax of `logits`."""

    def __init__(self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Multinomial") -> None:
        parameters = locals()
        with name_scope(name):
            self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args, several=True)
            self.total_count = self._total(total_count, self.logits, validate_args)
            self._parameter = self.total_count[..., None] * self.probs
        super().__init__(self.probs.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.total_count, self.logits, self.probs], name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        counts = ops.cast(self.total_count, "int32")
        most = ops.reduce_max(counts)
        logits = self.logits + ops.zeros_like(self._parameter)
        drawn = _classes(logits, ops.concat([ops.stack([most]), shape], axis=0), seed)
        number = ops.reshape(ops.range(most), ops.concat([ops.stack([most]), ops.ones_like(shape)], axis=0))
        asked = ops.cast(number < counts + ops.zeros(shape, "int32"), self.dtype)
        return ops.reduce_sum(ops.one_hot(drawn, ops.shape(self.probs)[-1], dtype=self.dtype) * asked[..., None], axis=0)

    def _log_prob(self, counts: Tensor) -> Tensor:
        ways = ops.lgamma(self.total_count + 1.0) - ops.reduce_sum(ops.lgamma(counts + 1.0), axis=-1)
        return ways + ops.reduce_sum(counts * ops.log_softmax(self.logits), axis=-1)

    def _mean(self) -> Tensor:
        return ops.identity(self._parameter)

    def _variance(self) -> Tensor:
        return self._parameter * (1.0 - self.probs)

    def _covariance(self) -> Tensor:
        outer = -self._parameter[..., :, None] * self.probs[..., None, :]
        return ops.matrix_set_diag(outer, self._variance())


class Dirichlet(_Vectors):
    """Probabilities of several classes, in proportion to the product of x_i^(concentration_i - 1)."""

    def __init__(self, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Dirichlet") -> None:
        parameters = locals()
        with name_scope(name):
            self.concentration = self._parameter = self._positive(self._float(concentration, "concentration"), validate_args)
            self.total_concentration = ops.reduce_sum(self.concentration, axis=-1)
        super().__init__(self.concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.concentration, self.total_concentration], name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.zeros(ops.concat([shape, self.event_shape_tensor()], axis=0), self.dtype) + self.concentration
        drawn = ops.random_gamma([], full, dtype=self.dtype, seed=seed)
        return drawn / ops.reduce_sum(drawn, axis=-1, keepdims=True)

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return [assert_positive(x, message="samples must be positive"),
                assert_near(ops.reduce_sum(x, axis=-1), ops.ones_like(x[..., 0]), message="samples must sum to 1")]

    def _log_beta(self) -> Tensor:
        return ops.reduce_sum(ops.lgamma(self.concentration), axis=-1) - ops.lgamma(self.total_concentration)

    def _log_prob(self, x: Tensor) -> Tensor:
        return ops.reduce_sum((self.concentration - 1.0) * ops.log(x), axis=-1) - self._log_beta()

    def _entropy(self) -> Tensor:
        classes = ops.cast(ops.shape(self.concentration)[-1], self.dtype)
        spread = (self.total_concentration - classes) * ops.digamma(self.total_concentration)
        return self._log_beta() + spread - ops.reduce_sum((self.concentration - 1.0) * ops.digamma(self.concentration), axis=-1)

    def _mean(self) -> Tensor:
        return self.concentration / self.total_concentration[..., None]

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self.total_concentration[..., None])

    def _covariance(self) -> Tensor:
        scaled = self._mean() / (1.0 + self.total_concentration[..., None])
        return ops.matrix_set_diag(-scaled[..., :, None] * self._mean()[..., None, :], self._variance())

    def _mode(self) -> Tensor:
        classes = ops.cast(ops.shape(self.concentration)[-1], self.dtype)
        found = (self.concentration - 1.0) / (self.total_concentration[..., None] - classes)
        defined = ops.reduce_all(self.concentration > 1.0, axis=-1, keepdims=True)
        return self._defined(defined, found, "mode")


class MultivariateNormalDiag(_Vectors):
    """Vectors of independent normal numbers: mean `loc`, standard deviations `scale_diag` + `scale_identity_multiplier`."""

    def __init__(self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True, name: str = "MultivariateNormalDiag") -> None:
        parameters = locals()
        if loc is None and scale_diag is None:
            raise ValueError("MultivariateNormalDiag: loc and scale_diag are both None; one of them must say how long an event "
                             "is")
        with name_scope(name):
            self.loc = self._float(loc if loc is not None else ops.zeros_like(self._float(scale_diag, "scale_diag")), "loc")
            self._scale = ops.zeros_like(self.loc)
            if scale_diag is not None:
                self._scale = self._scale + self._float(scale_diag, "scale_diag", self.loc)
            if scale_identity_multiplier is not None:
                factor = self._float(scale_identity_multiplier, "scale_identity_multiplier", self.loc)
                self._scale = self._scale + factor[..., None]
            if scale_diag is None and scale_identity_multiplier is None:
                self._scale = ops.ones_like(self.loc)
            if validate_args:
                self._scale = none_zero(self._scale, "the diagonal of the scale")
            self._parameter = self.loc + ops.zeros_like(self._scale)
        super().__init__(self.loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.loc, self._scale], name)

    @property
    def scale(self) -> LinearOperator:
        """The diagonal that standard normal numbers are multiplied by, as an operator."""
        return LinearOperatorDiag(self._scale)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.concat([shape, self.event_shape_tensor()], axis=0)
        return self.loc + self._scale * ops.random_normal(full, dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        z = (x - self.loc) / self._scale
        logs = ops.log(ops.abs(self._scale)) + 0.5 * math.log(2 * math.pi)
        return ops.reduce_sum(-0.5 * ops.square(z) - logs, axis=-1)

    def _entropy(self) -> Tensor:
        full = ops.log(ops.abs(self._scale)) + ops.zeros_like(self._parameter)
        return ops.reduce_sum(full + 0.5 * (1.0 + math.log(2 * math.pi)), axis=-1)

    def _mean(self) -> Tensor:
        return ops.identity(self._parameter)

    _mode = _mean

    def _stddev(self) -> Tensor:
        return ops.abs(self._scale) + ops.zeros_like(self._parameter)

    def _covariance(self) -> Tensor:
        return ops.matrix_diag(self._variance())

    def _variance(self) -> Tensor:
        return ops.square(self._stddev())


# divergences

@RegisterKL(Categorical, Categorical)
def _categorical(a: Categorical, b: Categorical, name: str | None = None) -> Tensor:
    logs = ops.log_softmax(a.logits)
    return ops.reduce_sum(ops.softmax(a.logits) * (logs - ops.log_softmax(b.logits)), axis=-1, name=name)


@RegisterKL(Dirichlet, Dirichlet)
def _dirichlet(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Tensor:
    digammas = ops.digamma(a.concentration) - ops.digamma(a.total_concentration)[..., None]
    apart = ops.reduce_sum((a.concentration - b.concentration) * digammas, axis=-1)
    return ops.add(apart, b._log_beta() - a._log_beta(), name=name)


@RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)
def _normals(a: MultivariateNormalDiag, b: MultivariateNormalDiag, name: str | None = None) -> Tensor:
    ratio = ops.square(a._scale / b._scale)
    apart = ops.square((a.loc - b.loc) / b._scale)
    return ops.reduce_sum(0.5 * (apart + ratio - 1.0 - ops.log(ratio)), axis=-1, name=name)
