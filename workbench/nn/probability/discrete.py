"""Distributions that are given by logits or probabilities: what these have in common, and Bernoulli's."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.checks import assert_less_equal
from workbench.nn.framework import after, name_scope
from workbench.nn.probability.base import NOT_REPARAMETERIZED, Distribution, RegisterKL
from workbench.nn.probability.checked import counts, shares

__all__ = ["Bernoulli", "logits_and_probs"]


def logits_and_probs(owner: Distribution, logits: Any, probs: Any, validate_args: bool,
                     several: bool = False) -> tuple[Tensor, Tensor]:
    """Both from the one that is given; of one class against another, or of `several` along the last axis. ValueError for
    none or two; with `validate_args` InvalidArgumentError in the step for `probs` that are no probabilities."""
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")
    if logits is not None:
        given = owner._float(logits, "logits")
        return given, ops.softmax(given) if several else ops.sigmoid(given)
    given = owner._float(probs, "probs")
    if validate_args:
        given = after(shares(given, several), given)
    return ops.log(given) if several else ops.log(given) - ops.log1p(-given), given


class Bernoulli(Distribution):
    """1 with the probability `probs`, the sigmoid of `logits`, else 0."""

    sample_parameters = ("logits",)

    def __init__(self, logits: Any = None, probs: Any = None, dtype: Any = "int32", validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Bernoulli") -> None:
        parameters = locals()
        with name_scope(name):
            self.logits, self.probs = logits_and_probs(self, logits, probs, validate_args)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.logits, self.probs], name)

    def _batch(self) -> Tensor:
        return self.logits

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        return ops.cast(ops.random_uniform(shape, dtype=self.probs.dtype, seed=seed) < self.probs, self.dtype)

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        return [*counts(x, "events"), assert_less_equal(x, ops.ones_like(x), message="events must be 0 or 1")]

    def _log_prob(self, event: Tensor) -> Tensor:
        wanted = ops.cast(event, self.logits.dtype)
        like = ops.zeros_like(wanted + self.logits)
        return -ops.sigmoid_cross_entropy_with_logits(labels=wanted + like, logits=self.logits + like)

    def _entropy(self) -> Tensor:
        return -self.logits * (ops.sigmoid(self.logits) - 1.0) + ops.softplus(-self.logits)

    def _mean(self) -> Tensor:
        return ops.identity(self.probs)

    def _variance(self) -> Tensor:
        return self.probs * (1.0 - self.probs)

    def _mode(self) -> Tensor:
        return ops.cast(self.probs > 0.5, as_dtype(self.dtype))


@RegisterKL(Bernoulli, Bernoulli)
def _bernoulli(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Tensor:
    yes = ops.softplus(-b.logits) - ops.softplus(-a.logits)
    no = ops.softplus(b.logits) - ops.softplus(a.logits)
    return ops.add(ops.sigmoid(a.logits) * yes, ops.sigmoid(-a.logits) * no, name=name)
