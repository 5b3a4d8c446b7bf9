"""Distributions made of others: transformed, independent, mixed, rounded."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.probability.base import NOT_REPARAMETERIZED, Distribution, RegisterKL, kl_divergence
from workbench.nn.probability.bijector import Bijector, Identity
from workbench.nn.probability.bijectors import over
from workbench.nn.probability.vector import Categorical

__all__ = ["Independent", "Mixture", "MixtureSameFamily", "QuantizedDistribution", "TransformedDistribution"]


class _Around(Distribution):
    """A distribution around another one, with its shapes."""

    distribution: Distribution

    def _batch(self) -> Tensor:
        return self.distribution._batch()

    @property
    def event_shape(self) -> Shape:
        """The static shape of one event."""
        return self.distribution.event_shape

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event: int32 [rank]."""
        return self.distribution.event_shape_tensor(name)


class TransformedDistribution(_Around):
    """What `bijector` (default: the identity) makes of the events of `distribution`.

    `batch_shape` and `event_shape` make as many independent events of a distribution of one number. Mean and entropy are
    given where the Jacobian does not depend on the event, as for Affine.
    """

    def __init__(self, distribution: Distribution, bijector: Bijector | None = None, batch_shape: Any = None,
                 event_shape: Any = None, validate_args: bool = False, name: str | None = None) -> None:
        parameters = locals()
        self.distribution, self.bijector = distribution, bijector or Identity()
        self._more, self._event = (None if given is None else [int(d) for d in as_shape(given).static]
                                   for given in (batch_shape, event_shape))
        alone = not distribution.batch_shape.rank and not distribution.event_shape.rank
        if not alone and (self._more is not None or self._event is not None):
            raise errors.InvalidArgumentError(
                f"TransformedDistribution: batch_shape is {self._more} and event_shape {self._event} but the distribution has "
                f"{distribution.batch_shape} and {distribution.event_shape}; give them for a distribution of one number alone "
                "(base distribution not scalar)")
        super().__init__(distribution.dtype, distribution.reparameterization_type, validate_args,
                         distribution.allow_nan_stats, parameters, distribution._graph_parents,
                         name or f"{self.bijector.name}{distribution.name}")

    def _batch(self) -> Tensor:
        found = super()._batch()
        return found if self._more is None else ops.zeros(self._more, found.dtype) + found

    @property
    def event_shape(self) -> Shape:
        """The static shape of one event."""
        return self.bijector.forward_event_shape(super().event_shape if self._event is None else Shape(self._event))

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event: int32 [rank]."""
        before = super().event_shape_tensor(name) if self._event is None else ops.constant(self._event, "int32", name=name)
        return self.bijector.forward_event_shape_tensor(before)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = shape if self._event is None else ops.concat([shape, ops.constant(self._event, "int32")], axis=0)
        return self.bijector.forward(self.distribution._draw(full, seed))

    def _turned(self, found: Tensor, y: Tensor) -> Tensor:
        """log |det dx/dy| as the bijector `found` it, one number an event."""
        return over(found, self.bijector, y, self._rank() - (self.bijector._ndims or 0))

    def _base_rank(self) -> int:
        return (self.distribution.event_shape.rank or 0) if self._event is None else len(self._event)

    def _rank(self) -> int:
        return max(self._base_rank(), self.bijector._ndims or 0)

    def _log_prob(self, y: Tensor) -> Tensor:
        x, turned = self.bijector.inverse(y), self.bijector.inverse_log_det_jacobian(y)
        if self.bijector.is_injective:
            return self._log_prob_from(x, turned, y)
        ways = [self._log_prob_from(*way, y) for way in zip(x, turned)]
        return ops.reduce_logsumexp(ops.stack(ways), axis=0)

    def _log_prob_from(self, x: Tensor, turned: Tensor, y: Tensor) -> Tensor:
        """Of the x that may have become y."""
        inner = self.distribution.log_prob(x)
        outside = self._rank() - (self.distribution.event_shape.rank or 0)
        if outside > 0:
            inner = ops.reduce_sum(inner, axis=list(range(-outside, 0)))
        return inner + self._turned(turned, y)

    def _constant(self, what: str) -> None:
        if not self.bijector.is_constant_jacobian:
            raise NotImplementedError(f"{what} is not implemented for a bijector whose Jacobian depends on the event")

    def _mean(self) -> Tensor:
        self._constant("mean")
        base = self.distribution.mean()
        if self._more is not None or self._event is not None:
            base += ops.zeros(ops.concat([self.batch_shape_tensor(), self._event or []], 0), base.dtype)
        return self.bijector.forward(base)

    def _entropy(self) -> Tensor:
        self._constant("entropy")
        y = ops.zeros(ops.concat([self.batch_shape_tensor(), self.event_shape_tensor()], 0), self.dtype)
        turned = self._turned(self.bijector.inverse_log_det_jacobian(y), y)
        return self.distribution.entropy() * math.prod(self._event or [1]) - turned

    def _scalar(self, what: str) -> None:
        if self._rank() or not self.bijector.is_injective:
            raise NotImplementedError(f"{what} is not implemented when overriding event_shape, for vectors, or where several "
                                      "events become one")

    def _cdf(self, y: Tensor) -> Tensor:
        self._scalar("cdf")
        return self.distribution.cdf(self.bijector.inverse(y))

    def _survival_function(self, y: Tensor) -> Tensor:
        self._scalar("survival_function")
        return self.distribution.survival_function(self.bijector.inverse(y))

    def _quantile(self, p: Tensor) -> Tensor:
        self._scalar("quantile")
        return self.bijector.forward(self.distribution.quantile(p))


class Independent(_Around):
    """The last `reduce_batch_ndims` axes of the batch of `distribution` as part of an event."""

    def __init__(self, distribution: Distribution, reduce_batch_ndims: int = 1, validate_args: bool = False,
                 name: str | None = None) -> None:
        parameters = locals()
        rank = distribution.batch_shape.rank
        if rank is not None and rank < reduce_batch_ndims:
            raise errors.InvalidArgumentError(f"Independent: reduce_batch_ndims is {reduce_batch_ndims} but the batch has "
                                              f"{rank} axes; take as many at most")
        self.distribution, self._count = distribution, reduce_batch_ndims
        super().__init__(distribution.dtype, distribution.reparameterization_type, validate_args,
                         distribution.allow_nan_stats, parameters, distribution._graph_parents,
                         name or f"Independent{distribution.name}")

    def _sum(self, found: Tensor) -> Tensor:
        return found if not self._count else ops.reduce_sum(found, axis=list(range(-self._count, 0)))

    def _batch(self) -> Tensor:
        return self._sum(self.distribution._batch())

    @property
    def event_shape(self) -> Shape:
        """The static shape of one event."""
        whole = self.distribution.batch_shape
        inner = self.distribution.event_shape
        return Shape(None) if whole.rank is None else whole[whole.rank - self._count:] + inner

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event: int32 [rank]."""
        whole = self.distribution.batch_shape_tensor()
        return ops.concat([whole[ops.size(whole) - self._count:], self.distribution.event_shape_tensor()], axis=0, name=name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        whole = self.distribution.batch_shape_tensor()
        return self.distribution._draw(ops.concat([shape, whole[ops.size(whole) - self._count:]], axis=0), seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._sum(self.distribution.log_prob(x))

    def _entropy(self) -> Tensor:
        return self._sum(self.distribution.entropy())

    def _mean(self) -> Tensor:
        return self.distribution.mean()

    def _variance(self) -> Tensor:
        return self.distribution.variance()

    def _stddev(self) -> Tensor:
        return self.distribution.stddev()

    def _mode(self) -> Tensor:
        return self.distribution.mode()


@RegisterKL(Independent, Independent)
def _independent(a: Independent, b: Independent, name: str | None = None) -> Tensor:
    return ops.identity(a._sum(kl_divergence(a.distribution, b.distribution)), name=name)


class _Mixed(Distribution):
    """Each event from one of several components, drawn by `chosen`; `_each` gives an answer of all, along a new axis before
    those of an event."""

    def __init__(self, chosen: Categorical, like: Distribution, kind: Any, validate_args: bool, allow_nan_stats: bool,
                 name: str, parameters: dict[str, Any]) -> None:
        self._chosen, self._event = chosen, like.event_shape
        self._event_tensor = like.event_shape_tensor()
        super().__init__(like.dtype, kind, validate_args, allow_nan_stats, parameters, chosen._graph_parents, name)

    @property
    def event_shape(self) -> Shape:
        """The static shape of one event."""
        return self._event

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event: int32 [rank]."""
        return ops.identity(self._event_tensor, name=name)

    def _each(self, what: str, *args: Any) -> Tensor:
        raise NotImplementedError(f"{what} is not implemented")

    def _weighted(self, found: Tensor, weights: Tensor, event: int) -> Tensor:
        """The sum over the components, which stand before `event` axes."""
        for _ in range(event):
            weights = weights[..., None]
        return ops.reduce_sum(weights * found, axis=-1 - event)

    def _rank(self) -> int:
        return self._event.rank or 0

    def _log_prob(self, x: Tensor) -> Tensor:
        return ops.reduce_logsumexp(self._each("log_prob", x) + ops.log_softmax(self._chosen.logits), axis=-1)

    def _cdf(self, x: Tensor) -> Tensor:
        return self._weighted(self._each("cdf", x), ops.softmax(self._chosen.logits), 0)

    def _mean(self) -> Tensor:
        return self._weighted(self._each("mean"), ops.softmax(self._chosen.logits), self._rank())

    def _variance(self) -> Tensor:
        shares, means = ops.softmax(self._chosen.logits), self._each("mean")
        apart = means - ops.expand_dims(self._mean(), -1 - self._rank())
        return self._weighted(self._each("variance") + ops.square(apart), shares, self._rank())

    def _picked(self, drawn: Tensor, shape: Tensor, count: Any, seed: int | None) -> Tensor:
        """Of `drawn`, one of every component for each event, those of the components that are chosen."""
        number = self._chosen._draw(shape, None if seed is None else seed + 1)
        mask = ops.one_hot(number, count, dtype=self.dtype)
        return self._weighted(drawn, mask, self._rank())

    def entropy_lower_bound(self, name: str = "entropy_lower_bound") -> Tensor:
        """The mean of the entropies of the components: the entropy of the mixture is no less (concavity)."""
        return ops.identity(self._weighted(self._each("entropy"), ops.softmax(self._chosen.logits), 0), name=name)


class Mixture(_Mixed):
    """Each event from one of `components`, distributions of one shape; `cat` draws which. TypeError, ValueError for others."""

    def __init__(self, cat: Categorical, components: Sequence[Distribution], validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Mixture") -> None:
        parameters = locals()
        if not isinstance(cat, Categorical):
            raise TypeError(f"cat must be a Categorical distribution, but saw: {cat}")
        if not components:
            raise ValueError("components must be a non-empty list or tuple")
        for one in components:
            if not isinstance(one, Distribution):
                raise TypeError(f"all entries in components must be Distribution instances but saw: {one}")
            if one.dtype != components[0].dtype:
                raise TypeError(f"All components must have the same dtype, but {components[0]} and {one}")
            if not one.event_shape.compatible(components[0].event_shape):
                raise ValueError(f"All components must have the same event shape, but {components[0]} and {one}")
        size = cat.logits.shape.as_list()[-1] if cat.logits.shape.rank else None
        if size is not None and size != len(components):
            raise ValueError(f"cat.num_classes is {size} but there are {len(components)} components; give one for each class "
                             "(cat.num_classes != len(components))")
        self.cat, self.components, self.num_components = cat, tuple(components), len(components)
        super().__init__(cat, components[0], NOT_REPARAMETERIZED, validate_args, allow_nan_stats, name, parameters)

    def _batch(self) -> Tensor:
        return self.components[0]._batch()

    def _each(self, what: str, *args: Any) -> Tensor:
        found = [getattr(one, what)(*args) for one in self.components]
        event = self._rank() if what in ("mean", "variance") else 0
        full = found[0]
        for one in found[1:]:
            full = full + ops.zeros_like(one)
        return ops.stack([one + ops.zeros_like(full) for one in found], axis=-1 - event)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        drawn = [one._draw(shape, None if seed is None else seed + 2 + number) for number, one in enumerate(self.components)]
        return self._picked(ops.stack(drawn, axis=-1 - self._rank()), shape, self.num_components, seed)


class MixtureSameFamily(_Mixed):
    """Each event from one of the distributions along the last axis of a batch; `mixture_distribution` draws which."""

    def __init__(self, mixture_distribution: Categorical, components_distribution: Distribution, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "MixtureSameFamily") -> None:
        parameters = locals()
        given, wanted = (s.as_list()[-1] if s.rank else None for s in (
            mixture_distribution.logits.shape, components_distribution.batch_shape))
        if None not in (given, wanted) and given != wanted:
            raise ValueError(f"`mixture_distribution components` ({given}) does not equal "
                             f"`components_distribution.batch_shape[-1]` ({wanted})")
        self.mixture_distribution, self.components_distribution = mixture_distribution, components_distribution
        super().__init__(mixture_distribution, components_distribution, NOT_REPARAMETERIZED, validate_args, allow_nan_stats,
                         name, parameters)

    def _batch(self) -> Tensor:
        return ops.reduce_sum(self.components_distribution._batch(), axis=-1)

    def _each(self, what: str, *args: Any) -> Tensor:
        spread = [ops.expand_dims(convert(x), -1 - self._rank()) for x in args]
        return getattr(self.components_distribution, what)(*spread)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        count = self.components_distribution.batch_shape_tensor()[-1:]
        drawn = self.components_distribution._draw(ops.concat([shape, count], axis=0), seed)
        return self._picked(drawn, shape, count[0], seed)


class QuantizedDistribution(_Around):
    """`distribution` rounded up to whole numbers, from `low` to `high` where these are given; its distribution function is
    needed."""

    def __init__(self, distribution: Distribution, low: Any = None, high: Any = None, validate_args: bool = False,
                 name: str = "QuantizedDistribution") -> None:
        parameters = locals()
        self.distribution = distribution
        self._low, self._high = (None if end is None else convert(end, distribution.dtype) for end in (low, high))
        super().__init__(distribution.dtype, NOT_REPARAMETERIZED, validate_args, distribution.allow_nan_stats, parameters,
                         distribution._graph_parents, name)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        found = ops.ceil(self.distribution._draw(shape, seed))
        found = found if self._low is None else ops.maximum(found, self._low)
        return found if self._high is None else ops.minimum(found, self._high)

    def _cdf(self, y: Tensor) -> Tensor:
        whole = ops.floor(y)
        found = self.distribution.cdf(whole)
        if self._low is not None:
            found = ops.where(whole + ops.zeros_like(found) < self._low, ops.zeros_like(found), found)
        if self._high is not None:
            found = ops.where(whole + ops.zeros_like(found) >= self._high, ops.ones_like(found), found)
        return found

    def _prob(self, y: Tensor) -> Tensor:
        return self._cdf(y) - self._cdf(y - 1.0)
