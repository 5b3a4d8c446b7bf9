"""What every probability distribution can be asked, by the names of tf.distributions; divergences between two of them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.checks import assert_positive
from workbench.nn.framework import after, control_dependencies, name_scope

__all__ = ["FULLY_REPARAMETERIZED", "NOT_REPARAMETERIZED", "Distribution", "RegisterKL", "ReparameterizationType",
           "kl_divergence"]


class ReparameterizationType:
    """Whether samples carry gradients to the parameters."""

    def __init__(self, rep_type: str) -> None:
        self._kind = rep_type

    def __repr__(self) -> str:
        return f"<Reparameteriation Type: {self._kind}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """A batch of probability distributions: `batch_shape` of them, each over events of `event_shape`.

    Subclasses give `_draw(shape, seed)` (samples [*shape] before the event) and what they can of `_log_prob`, `_prob`,
    `_cdf`, `_log_cdf`, `_quantile`, `_entropy`, `_mean`, `_variance`, `_stddev`, `_covariance` and `_mode`. What neither a
    class nor a formula here gives raises NotImplementedError. With `validate_args` parameters are checked in every step, and
    events whose probability is asked for by what `_possible` asserts of them (of those of `cdf` unless not `_cdf_checks`);
    without `allow_nan_stats` an undefined mean, variance or mode is an InvalidArgumentError when run, not NaN.

    Classes of programs give TensorFlow's methods in place of `_draw` and the shapes: `_sample_n(n, seed)` (samples [n,
    *batch_shape, *event_shape]), `_batch_shape()`, `_event_shape()`, `_batch_shape_tensor()` and `_event_shape_tensor()`.
    """

    def __init__(self, dtype: Any, reparameterization_type: ReparameterizationType, validate_args: bool, allow_nan_stats: bool,
                 parameters: dict[str, Any] | None = None, graph_parents: Any = None, name: str | None = None) -> None:
        self.dtype, self._reparameterization_type = as_dtype(dtype), reparameterization_type
        self.validate_args, self.allow_nan_stats = validate_args, allow_nan_stats
        self._given(parameters or {})
        self.name = name or type(self).__name__
        self._graph_parents = list(graph_parents or ())

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """Do samples have gradients by the parameters?"""
        return self._reparameterization_type

    # parameters
    def _given(self, parameters: dict[str, Any]) -> None:
        """Keep what the constructor was given, for copies: its local names."""
        self.parameters = {key: value for key, value in parameters.items() if key not in ("self", "__class__")}

    def _float(self, value: Any, name: str, like: Any = None) -> Tensor:
        """A parameter as a tensor of real numbers. DtypeError for another type, or for another than that of `like`."""
        found = convert(value, None if isinstance(value, Tensor) or like is None else like.dtype)
        if found.dtype.is_integer and not isinstance(value, Tensor):
            found = convert(value, "float32")
        if not found.dtype.is_floating:
            raise errors.DtypeError(f"{type(self).__name__}: {name} is {found.dtype.name}; use float16, float32 or float64")
        if like is not None and found.dtype != like.dtype:
            raise errors.DtypeError(f"{type(self).__name__}: {name} is {found.dtype.name} but the parameter before it is "
                                    f"{like.dtype.name}; cast one of them")
        return found

    def _positive(self, value: Tensor, validate_args: bool) -> Tensor:
        return after([assert_positive(value)], value) if validate_args else value

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """The same distribution with other values for some parameters."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    # shapes
    sample_parameters: tuple[str, ...] = ()
    """The parameters whose shapes `param_shapes` tells."""

    @classmethod
    def param_shapes(cls, sample_shape: Any, name: str = "DistributionParamShapes") -> dict[str, Tensor]:
        """The shape of each parameter, int32 [rank], where a sample is to have `sample_shape`. NotImplementedError for a
        distribution that does not tell."""
        if not cls.sample_parameters:
            raise NotImplementedError(f"{cls.__name__}: param_shapes is not implemented")
        with name_scope(name):
            return dict.fromkeys(cls.sample_parameters, convert(sample_shape, "int32"))

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, Shape]:
        """The static shape of each parameter; InvalidArgumentError (a ValueError) for a `sample_shape` that is not known."""
        shapes = {}
        for key, value in cls.param_shapes(sample_shape).items():
            known = constant_value(value)
            if known is None:
                raise errors.InvalidArgumentError(f"{cls.__name__}.param_static_shapes: sample_shape {sample_shape} must be a "
                                                  "fully-defined TensorShape or constant Tensor; use param_shapes")
            shapes[key] = Shape(known.tolist())
        return shapes

    def _batch(self) -> Tensor:
        """Any tensor of the shape of the batch."""
        raise NotImplementedError("batch_shape is not implemented")

    _batch_shape: Callable[[], Any] | None = None
    _event_shape: Callable[[], Any] | None = None
    _batch_shape_tensor: Callable[[], Any] | None = None
    _event_shape_tensor: Callable[[], Any] | None = None

    @property
    def batch_shape(self) -> Shape:
        """The static shape of the batch."""
        return self._batch().shape if self._batch_shape is None else as_shape(self._batch_shape())

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The shape of the batch: int32 [rank]."""
        if self._batch_shape_tensor is not None:
            return ops.identity(convert(self._batch_shape_tensor(), "int32"), name=name)
        known = None if self._batch_shape is None else self.batch_shape
        return ops.shape(self._batch(), name=name) if known is None else ops.constant(list(known.static), "int32", name=name)

    @property
    def event_shape(self) -> Shape:
        """The static shape of one event."""
        return Shape(()) if self._event_shape is None else as_shape(self._event_shape())

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event: int32 [rank]."""
        if self._event_shape_tensor is not None:
            return ops.identity(convert(self._event_shape_tensor(), "int32"), name=name)
        return ops.constant(list(self.event_shape.static), "int32", name=name)

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """Whether an event is one number: a bool scalar."""
        return ops.equal(ops.size(self.event_shape_tensor()), 0, name=name)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """Whether the batch is one distribution: a bool scalar."""
        return ops.equal(ops.size(self.batch_shape_tensor()), 0, name=name)

    # samples
    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        if type(self)._sample_n is Distribution._sample_n:
            raise NotImplementedError("sample_n is not implemented")
        outer = shape[:ops.size(shape) - ops.size(self.batch_shape_tensor())]
        count = ops.reduce_prod(outer)
        known = constant_value(count)      # distributions of programs compare it with numbers
        found = convert(self._sample_n(count if known is None else known[()], seed))
        return ops.reshape(found, ops.concat([outer, ops.shape(found)[1:]], axis=0))

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        """Samples [n, *batch_shape, *event_shape]: distributions of programs give it, and ask others for it."""
        return self._draw(ops.concat([ops.reshape(convert(n, "int32"), [1]), self.batch_shape_tensor()], axis=0), seed)

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample", **condition_kwargs: Any) -> Tensor:
        """Random events: [*sample_shape, *batch_shape, *event_shape]."""
        with name_scope(f"{self.name}/{name}"):
            wanted = ops.reshape(ops.cast(convert(sample_shape if not isinstance(sample_shape, (list, tuple)) or sample_shape
                                                  else ops.constant([], "int32")), "int32"), [-1])
            found = self._draw(ops.concat([wanted, self.batch_shape_tensor()], axis=0), seed, **condition_kwargs)
            found.set_shape(_told(wanted) + self.batch_shape + self.event_shape)
            return found

    # probabilities
    def _ask(self, what: str, name: str, *args: Any, ways: tuple[tuple[str, Callable[..., Tensor]], ...] = (),
             conditions: dict[str, Any] | None = None) -> Tensor:
        """The answer of `_what`, or the first of other `ways` that the class knows, under conditions of its own."""
        with name_scope(f"{self.name}/{name}"):
            for source, change in ((what, lambda x: x), *ways):
                method = getattr(self, f"_{source}", None)
                if method is not None:
                    return change(method(*args, **(conditions or {})))
        raise NotImplementedError(f"{what} is not implemented")

    def _event_of(self, value: Any) -> Tensor:
        return convert(value, None if isinstance(value, Tensor) or self.dtype.is_integer else self.dtype)

    _cdf_checks = True      # does cdf take only events that can come?

    def _possible(self, x: Tensor) -> Sequence[Operation]:
        """Assertions that hold for every event x."""
        return ()

    def _asked(self, value: Any, checks: bool = True) -> Tensor:
        """The event `value` as a tensor, after what is asserted of it where that is wanted."""
        x = self._event_of(value)
        return after(self._possible(x), x) if self.validate_args and checks else x

    def log_prob(self, value: Any, name: str = "log_prob", **condition_kwargs: Any) -> Tensor:
        """The logarithm of the density, or of the probability, of `value`."""
        return self._ask("log_prob", name, self._asked(value), conditions=condition_kwargs, ways=(("prob", ops.log),))

    def prob(self, value: Any, name: str = "prob", **condition_kwargs: Any) -> Tensor:
        """The density, or the probability, of `value`."""
        return self._ask("prob", name, self._asked(value), conditions=condition_kwargs, ways=(("log_prob", ops.exp),))

    def cdf(self, value: Any, name: str = "cdf", **condition_kwargs: Any) -> Tensor:
        """The probability of an event up to `value`."""
        return self._ask("cdf", name, self._asked(value, self._cdf_checks), conditions=condition_kwargs,
                         ways=(("log_cdf", ops.exp),))

    def log_cdf(self, value: Any, name: str = "log_cdf", **condition_kwargs: Any) -> Tensor:
        """The logarithm of cdf."""
        return self._ask("log_cdf", name, self._asked(value, self._cdf_checks), conditions=condition_kwargs,
                         ways=(("cdf", ops.log),))

    def survival_function(self, value: Any, name: str = "survival_function", **condition_kwargs: Any) -> Tensor:
        """The probability of an event above `value`."""
        return self._ask("survival_function", name, self._asked(value, self._cdf_checks),
                         conditions=condition_kwargs, ways=(("cdf", lambda p: 1.0 - p),))

    def log_survival_function(self, value: Any, name: str = "log_survival_function", **condition_kwargs: Any) -> Tensor:
        """The logarithm of survival_function."""
        return self._ask("log_survival_function", name, self._asked(value, self._cdf_checks),
                         conditions=condition_kwargs, ways=(("survival_function", ops.log), ("cdf", lambda p: ops.log1p(-p))))

    def quantile(self, value: Any, name: str = "quantile") -> Tensor:
        """The number up to which the probability is `value`."""
        return self._ask("quantile", name, self._event_of(value))

    # statistics
    def entropy(self, name: str = "entropy") -> Tensor:
        """Shannon's entropy in nats."""
        return self._ask("entropy", name)

    def mean(self, name: str = "mean") -> Tensor:
        """The mean."""
        return self._ask("mean", name)

    def variance(self, name: str = "variance") -> Tensor:
        """The variance, element by element."""
        return self._ask("variance", name, ways=(("stddev", ops.square),))

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation, element by element."""
        return self._ask("stddev", name, ways=(("variance", ops.sqrt),))

    def covariance(self, name: str = "covariance") -> Tensor:
        """The covariances of the elements of an event: [*batch_shape, n, n]."""
        return self._ask("covariance", name)

    def mode(self, name: str = "mode") -> Tensor:
        """The most probable event."""
        return self._ask("mode", name)

    def _defined(self, condition: Tensor, value: Tensor, what: str) -> Tensor:
        """`value` where it is defined, NaN elsewhere; or an error where NaN is not allowed."""
        value = value + ops.zeros_like(ops.cast(condition, value.dtype))
        if self.allow_nan_stats:
            nothing = ops.fill(ops.shape(value), ops.cast(float("nan"), value.dtype))
            return ops.where(ops.logical_and(condition, ops.ones_like(value, "bool")), value, nothing)
        message = f"{self.name}.{what}: not defined for some parameters; allow_nan_stats=True gives NaN there "
        message += "(Condition x < y did not hold)"
        with control_dependencies([ops.Assert(ops.reduce_all(condition), [message])]):
            return ops.identity(value)

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Tensor:
        """The Kullback-Leibler divergence from `other` to this distribution."""
        return kl_divergence(self, other, name=name)

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} {self.name!r} batch_shape={self.batch_shape} event_shape={self.event_shape} "
                f"dtype={self.dtype.name}>")


def _told(shape: Tensor) -> Shape:
    """What the graph knows of a shape that is a tensor: int32 [rank]."""
    known, [rank] = constant_value(shape), shape.shape.as_list()
    if known is not None:
        return Shape([int(d) for d in known])
    return Shape(None) if rank is None else Shape([None] * rank)


# divergences

_DIVERGENCES: dict[tuple[type, type], Callable[..., Tensor]] = {}


class RegisterKL:
    """Decorator: the function of (a, b, name) that gives the divergence for these two classes. ValueError for a second one."""

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _DIVERGENCES:
            raise ValueError(f"KL({self._key[0].__name__} || {self._key[1].__name__}) has already been registered to: "
                             f"{_DIVERGENCES[self._key]}")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn


def kl_divergence(distribution_a: Distribution, distribution_b: Distribution, allow_nan_stats: bool = True,
                  name: str | None = None) -> Tensor:
    """The Kullback-Leibler divergence KL(a || b) in nats. NotImplementedError where no formula is registered for the two.

    Without `allow_nan_stats` a result that is NaN is an InvalidArgumentError when run.
    """
    for first in type(distribution_a).__mro__:
        for second in type(distribution_b).__mro__:
            found = _DIVERGENCES.get((first, second))
            if found is not None:
                result = found(distribution_a, distribution_b, name=name or "KullbackLeibler")
                if allow_nan_stats:
                    return result
                missing = ops.reduce_any(ops.is_nan(result))
                message = "kl_divergence: it is NaN for some parameters; allow_nan_stats=True lets it through"
                with control_dependencies([ops.Assert(ops.logical_not(missing), [message])]):
                    return ops.identity(result)
    raise NotImplementedError(
        f"No KL(distribution_a || distribution_b) registered for distribution_a type {type(distribution_a).__name__} and "
        f"distribution_b type {type(distribution_b).__name__}")
