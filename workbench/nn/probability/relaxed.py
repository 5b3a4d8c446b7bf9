"""Classes as vectors with a single 1, and their relaxations that carry gradients (Maddison et al., Jang et al. 2016)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.checks import assert_near, assert_non_positive
from workbench.nn.framework import name_scope
from workbench.nn.probability.base import FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, RegisterKL, kl_divergence
from workbench.nn.probability.bijectors import Exp, Sigmoid
from workbench.nn.probability.discrete import logits_and_probs
from workbench.nn.probability.made import TransformedDistribution
from workbench.nn.probability.positive import Logistic
from workbench.nn.probability.vector import Categorical, _classes, _OfClasses, _Vectors

__all__ = ["ExpRelaxedOneHotCategorical", "OneHotCategorical", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class OneHotCategorical(_OfClasses, _Vectors):
    """A vector with a 1 for one of several classes, 0 for the others; `probs` or `logits` [..., classes] as Categorical's."""

    def __init__(self, logits: Any = None, probs: Any = None, dtype: Any = "int32", validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "OneHotCategorical") -> None:
        parameters = locals()
        with name_scope(name):
            self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args, several=True)
            self._parameter = self.logits
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.logits, self.probs], name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        drawn = _classes(self.logits, shape, seed)
        return ops.one_hot(drawn, self.event_size, dtype=self.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        chosen = ops.cast(x, self.logits.dtype) * ops.log_softmax(self.logits)
        return ops.reduce_sum(ops.where(ops.is_nan(chosen), ops.zeros_like(chosen), chosen), axis=-1)

    def _entropy(self) -> Tensor:
        return Categorical(self.logits)._entropy()

    def _mean(self) -> Tensor:
        return ops.softmax(self.logits)

    def _mode(self) -> Tensor:
        return ops.one_hot(ops.argmax(self.logits, axis=-1), self.event_size, dtype=self.dtype)

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean())

    def _covariance(self) -> Tensor:
        return ops.matrix_set_diag(-self._mean()[..., :, None] * self._mean()[..., None, :], self._variance())


@RegisterKL(OneHotCategorical, OneHotCategorical)
def _one_hot(a: OneHotCategorical, b: OneHotCategorical, name: str | None = None) -> Tensor:
    return kl_divergence(Categorical(a.logits), Categorical(b.logits), name=name)


class ExpRelaxedOneHotCategorical(_OfClasses, _Vectors):
    """Logarithms of what RelaxedOneHotCategorical draws."""

    def __init__(self, temperature: Any, logits: Any = None, probs: Any = None, dtype: Any = "float32",
                 validate_args: bool = False, allow_nan_stats: bool = True, name: str = "ExpRelaxedOneHotCategorical") -> None:
        parameters = locals()
        with name_scope(name):
            self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args, several=True)
            self.temperature = self._positive(self._float(temperature, "temperature", self.logits), validate_args)
            self._parameter = self.logits + ops.zeros_like(self.temperature)[..., None]
        super().__init__(dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.logits, self.probs, self.temperature], name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.concat([shape, self.event_shape_tensor()], axis=0)
        uniform = ops.random_uniform(full, 1e-30, 1.0, dtype=self.logits.dtype, seed=seed)
        noisy = (self.logits - ops.log(-ops.log(uniform))) / self.temperature[..., None]
        return ops.cast(ops.log_softmax(noisy), self.dtype)

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return [assert_non_positive(x, message="samples must be 0 or less"),
                assert_near(ops.exp(ops.reduce_logsumexp(x, axis=-1)), ops.ones_like(x[..., 0]),
                            message="the exponentials of samples must sum to 1")]

    def _log_prob(self, x: Tensor) -> Tensor:
        size = ops.cast(self.event_size, self.logits.dtype)
        constant = ops.lgamma(size) + (size - 1.0) * ops.log(self.temperature)
        chances = ops.log_softmax(self.logits - x * self.temperature[..., None])
        return ops.reduce_sum(chances, axis=-1) + constant


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points between the vectors with a single 1, nearer to them the lower the `temperature`."""

    def __init__(self, temperature: Any, logits: Any = None, probs: Any = None, dtype: Any = "float32",
                 validate_args: bool = False, allow_nan_stats: bool = True, name: str = "RelaxedOneHotCategorical") -> None:
        parameters = locals()
        inner = ExpRelaxedOneHotCategorical(temperature, logits, probs, dtype, validate_args, allow_nan_stats)
        super().__init__(inner, Exp(event_ndims=1), validate_args=validate_args, name=name)
        self._given(parameters)
        self.temperature, self.logits, self.probs, self.event_size = (inner.temperature, inner.logits, inner.probs,
                                                                      inner.event_size)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, nearer to them the lower the `temperature`."""

    sample_parameters = ("logits",)

    def __init__(self, temperature: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "RelaxedBernoulli") -> None:
        parameters = locals()
        self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args)
        self.temperature = convert(temperature, self.logits.dtype)
        inner = Logistic(self.logits / self.temperature, 1.0 / self.temperature + ops.zeros_like(self.logits), validate_args,
                         allow_nan_stats)
        super().__init__(inner, Sigmoid(), validate_args=validate_args, name=name)
        self._given(parameters)
