"""Invertible maps of numbers and vectors, and maps of maps, for transformed distributions."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.checks import assert_equal, assert_less_equal, assert_non_negative, assert_positive
from workbench.nn.framework import after
from workbench.nn.probability.bijector import Bijector, Identity
from workbench.nn.probability.checked import none_zero

__all__ = ["Bijector", "Chain", "Exp", "Identity", "Inline", "Invert", "Permute", "PowerTransform", "Sigmoid", "SinhArcsinh",
           "Softplus", "Weibull"]


def over(found: Tensor, one: Bijector, given: Tensor, left: int) -> Tensor:
    """What `one` found of `given`, perhaps one number for all, summed over the last `left` axes that its events have not."""
    if left <= 0:
        return found
    each = found + ops.zeros_like(one._summed(given))
    total: Tensor = ops.reduce_sum(each, axis=list(range(-left, 0)))
    return total


class Exp(Bijector):
    """y = exp(x)."""

    def __init__(self, event_ndims: int = 0, validate_args: bool = False, name: str = "exp") -> None:
        super().__init__(event_ndims, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.exp(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.log(self._above_zero(y))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return self._summed(x)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return -self._summed(ops.log(self._above_zero(y)))


class PowerTransform(Bijector):
    """y = (1 + x · power)^(1 / power), exp(x) for power 0. InvalidArgumentError for a power below 0."""

    def __init__(self, power: float = 0.0, event_ndims: int = 0, validate_args: bool = False,
                 name: str = "power_transform") -> None:
        if power < 0:
            raise errors.InvalidArgumentError(f"PowerTransform: power is {power}; give 0 or more")
        super().__init__(event_ndims, validate_args=validate_args, name=name)
        self.power = power

    def _forward(self, x: Tensor) -> Tensor:
        x = self._possible(x)
        return ops.exp(ops.log1p(x * self.power) / self.power if self.power else x)

    def _inverse(self, y: Tensor) -> Tensor:
        y = self._above_zero(y)
        return ops.expm1(ops.log(y) * self.power) / self.power if self.power else ops.log(y)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return self._summed((self.power - 1.0) * ops.log(self._above_zero(y)))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        x = self._possible(x)
        return self._summed(x if not self.power else (1.0 / self.power - 1.0) * ops.log1p(x * self.power))

    def _possible(self, x: Tensor) -> Tensor:
        if not self.validate_args or not self.power:
            return x
        return after([assert_non_negative(1.0 + self.power * x, message="Forward transformation input must be at least "
                                          f"{-1.0 / self.power}")], x)


class Sigmoid(Bijector):
    """y = 1 / (1 + exp(-x))."""

    def __init__(self, validate_args: bool = False, name: str = "sigmoid") -> None:
        super().__init__(0, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.log(y) - ops.log1p(-y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return -ops.softplus(-x) - ops.softplus(x)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return -ops.log1p(-y) - ops.log(y)


class Softplus(Bijector):
    """y = s · log(1 + exp(x / s)) with s = `hinge_softness` (1)."""

    def __init__(self, event_ndims: int = 0, hinge_softness: Any = None, validate_args: bool = False,
                 name: str = "softplus") -> None:
        super().__init__(event_ndims, validate_args=validate_args, name=name)
        self._softness = 1.0 if hinge_softness is None else hinge_softness
        if validate_args and hinge_softness is not None:
            self._softness = none_zero(convert(hinge_softness), "hinge_softness")

    def _forward(self, x: Tensor) -> Tensor:
        return self._softness * ops.softplus(x / self._softness)

    def _inverse(self, y: Tensor) -> Tensor:
        part = y / self._softness
        return self._softness * (part + ops.log(-ops.expm1(-part)))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return self._summed(ops.log_sigmoid(x / self._softness))

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return -self._summed(ops.log(-ops.expm1(-y / self._softness)))


class Weibull(Bijector):
    """The Weibull distribution's function: y = 1 - exp(-(x / `scale`) ** `concentration`), of x from 0 on."""

    def __init__(self, scale: Any = 1.0, concentration: Any = 1.0, event_ndims: int = 0, validate_args: bool = False,
                 name: str = "weibull") -> None:
        super().__init__(event_ndims, validate_args=validate_args, name=name)
        self.scale = convert(scale)
        self.concentration = convert(concentration, self.scale.dtype)
        if validate_args:
            self.scale, self.concentration = (
                after([assert_positive(x, message=f"Argument {what} was not positive")], x)
                for what, x in (("scale", self.scale), ("concentration", self.concentration)))

    def _possible(self, x: Tensor) -> Tensor:
        return x if not self.validate_args else after(
            [assert_non_negative(x, message="Forward transformation input must be at least 0.")], x)

    def _share(self, y: Tensor) -> Tensor:
        return y if not self.validate_args else after([
            assert_non_negative(y, message="Inverse transformation input must be greater than 0."),
            assert_less_equal(y, ops.ones_like(y), message="Inverse transformation input must be less than or equal to 1.")], y)

    def _forward(self, x: Tensor) -> Tensor:
        return -ops.expm1(-((self._possible(x) / self.scale) ** self.concentration))

    def _inverse(self, y: Tensor) -> Tensor:
        return self.scale * (-ops.log1p(-self._share(y))) ** (1 / self.concentration)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        x, shape = self._possible(x), self.concentration
        return self._summed(-(x / self.scale) ** shape + (shape - 1.0) * ops.log(x) + ops.log(shape)
                            - shape * ops.log(self.scale))

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        turned = -ops.log1p(-self._share(y))
        return self._summed(turned + (1.0 / self.concentration - 1.0) * ops.log(turned)
                            + ops.log(self.scale / self.concentration))


def _log_root(x: Tensor) -> Tensor:
    """log √(1 + x²), which is log |x| where x² might be too large a number."""
    large = ops.abs(x) > float(np.finfo(x.dtype.numpy).eps) ** -0.5
    near, far = (ops.where(which, ops.ones_like(x), x) for which in (large, ops.logical_not(large)))
    found: Tensor = ops.where(large, ops.log(ops.abs(far)), 0.5 * ops.log1p(ops.square(near)))
    return found


class SinhArcsinh(Bijector):
    """y = sinh((arcsinh(x) + `skewness`) · `tailweight`), defaults 0 and 1: the identity."""

    def __init__(self, skewness: Any = None, tailweight: Any = None, event_ndims: int = 0, validate_args: bool = False,
                 name: str = "sinh_arcsinh") -> None:
        super().__init__(event_ndims, validate_args=validate_args, name=name)
        self.skewness = convert(0.0 if skewness is None else skewness)
        self.tailweight = convert(1.0 if tailweight is None else tailweight, self.skewness.dtype)
        if validate_args:
            self.tailweight = after([assert_positive(self.tailweight, message="Argument tailweight was not positive")],
                                    self.tailweight)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.sinh((ops.asinh(x) + self.skewness) * self.tailweight)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.sinh(ops.asinh(y) / self.tailweight - self.skewness)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        turned = ops.abs((ops.asinh(x) + self.skewness) * self.tailweight)
        log_cosh = turned + ops.log1p(ops.exp(-2.0 * turned)) - 0.6931471805599453
        return self._summed(log_cosh + ops.log(self.tailweight) - _log_root(x))


class Permute(Bijector):
    """The elements of vectors in another order: y[..., i] = x[..., permutation[i]]."""

    def __init__(self, permutation: Any, validate_args: bool = False, name: str | None = None) -> None:
        super().__init__(1, is_constant_jacobian=True, validate_args=validate_args, name=name or "permute")
        self.permutation = convert(permutation)
        if validate_args:
            places = ops.range(ops.shape(self.permutation)[-1])
            turned = ops.cast(ops.top_k(-self.permutation, ops.size(places))[0], places.dtype)
            self.permutation = after([assert_equal(-turned, places, message="Permutation over `d` must contain exactly one of "
                                                   "each of `{0, 1, ..., d}`")], self.permutation)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.gather(x, self.permutation, axis=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.gather(y, ops.invert_permutation(self.permutation), axis=-1)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return ops.zeros([], x.dtype)


class Inline(Bijector):
    """A map of functions that are given."""

    def __init__(self, forward_fn: Callable[[Tensor], Tensor] | None = None,
                 inverse_fn: Callable[[Tensor], Tensor] | None = None,
                 inverse_log_det_jacobian_fn: Callable[[Tensor], Tensor] | None = None,
                 forward_log_det_jacobian_fn: Callable[[Tensor], Tensor] | None = None, event_ndims: int = 0,
                 validate_args: bool = False, name: str = "inline", forward_event_shape_fn: Any = None,
                 forward_event_shape_tensor_fn: Any = None, inverse_event_shape_fn: Any = None,
                 inverse_event_shape_tensor_fn: Any = None, is_constant_jacobian: bool = False) -> None:
        super().__init__(event_ndims, None, is_constant_jacobian, validate_args, name=name)
        for title, function in (("_forward_event_shape", forward_event_shape_fn),
                                ("_forward_event_shape_tensor", forward_event_shape_tensor_fn),
                                ("_inverse_event_shape", inverse_event_shape_fn),
                                ("_inverse_event_shape_tensor", inverse_event_shape_tensor_fn)):
            if function is not None:
                setattr(self, title, function)
        self._ways = forward_fn, inverse_fn
        self._logs = forward_log_det_jacobian_fn, inverse_log_det_jacobian_fn

    def _way(self, function: Callable[..., Tensor] | None, name: str, x: Tensor, conditions: dict[str, Any]) -> Tensor:
        if function is None:
            raise NotImplementedError(f"Cannot {name} with {self.name}: it was made without the function; pass it")
        return function(x, **conditions)

    def _forward(self, x: Tensor, **conditions: Any) -> Tensor:
        return self._way(self._ways[0], "forward", x, conditions)

    def _inverse(self, y: Tensor, **conditions: Any) -> Tensor:
        return self._way(self._ways[1], "inverse", y, conditions)

    def _forward_log_det_jacobian(self, x: Tensor, **conditions: Any) -> Tensor:
        return self._way(self._logs[0], "forward_log_det_jacobian", x, conditions)

    def _inverse_log_det_jacobian(self, y: Tensor, **conditions: Any) -> Tensor:
        return self._way(self._logs[1], "inverse_log_det_jacobian", y, conditions)


class Invert(Bijector):
    """The inverse of a map."""

    def __init__(self, bijector: Bijector, validate_args: bool = False, name: str | None = None) -> None:
        super().__init__(bijector._given_ndims, bijector.graph_parents, bijector.is_constant_jacobian, validate_args,
                         bijector.dtype, name or f"invert_{bijector.name}")
        self.bijector = bijector

    def _forward(self, x: Tensor, **conditions: Any) -> Any:
        return self.bijector.inverse(x, **conditions)

    def _inverse(self, y: Tensor, **conditions: Any) -> Any:
        return self.bijector.forward(y, **conditions)

    def _forward_log_det_jacobian(self, x: Tensor, **conditions: Any) -> Any:
        return self.bijector.inverse_log_det_jacobian(x, **conditions)

    def _inverse_log_det_jacobian(self, y: Tensor, **conditions: Any) -> Any:
        return self.bijector.forward_log_det_jacobian(y, **conditions)

    def _forward_event_shape(self, input_shape: Shape) -> Shape:
        return self.bijector.inverse_event_shape(input_shape)

    def _forward_event_shape_tensor(self, input_shape: Tensor) -> Tensor:
        return self.bijector.inverse_event_shape_tensor(input_shape)

    def _inverse_event_shape(self, output_shape: Shape) -> Shape:
        return self.bijector.forward_event_shape(output_shape)

    def _inverse_event_shape_tensor(self, output_shape: Tensor) -> Tensor:
        return self.bijector.forward_event_shape_tensor(output_shape)


class Chain(Bijector):
    """Maps one after the other, the last first: Chain([f, g]) is f(g(x)); an event has the most axes that one of them has.

    What the methods get by the name of a map goes to it. ValueError where the numbers of axes of events are not known.
    """

    def __init__(self, bijectors: Sequence[Bijector] = (), validate_args: bool = False, name: str | None = None) -> None:
        ndims = [b._ndims for b in bijectors if b._ndims is not None]
        if len(ndims) != len(bijectors):
            raise ValueError("Chain: event_ndims must be known while the graph is built; give numbers")
        super().__init__(max(ndims, default=0), [part for b in bijectors for part in b.graph_parents],
                         all(b.is_constant_jacobian for b in bijectors), validate_args, name=name or (
            "chain_of_" + "_of_".join(b.name for b in bijectors) if bijectors else "identity"))
        self.bijectors = list(bijectors)

    def _forward(self, x: Tensor, **conditions: Any) -> Any:
        for one in reversed(self.bijectors):
            x = one.forward(x, **conditions.get(one.name, {}))
        return x

    def _inverse(self, y: Tensor, **conditions: Any) -> Any:
        for one in self.bijectors:
            y = one.inverse(y, **conditions.get(one.name, {}))
        return y

    def _forward_log_det_jacobian(self, x: Tensor, **conditions: Any) -> Any:
        found = ops.zeros([], x.dtype)
        for one in reversed(self.bijectors):
            own = conditions.get(one.name, {})
            found += self._rest(one, x, one.forward_log_det_jacobian(x, **own))
            x = one.forward(x, **own)
        return found

    def _inverse_log_det_jacobian(self, y: Tensor, **conditions: Any) -> Any:
        found = ops.zeros([], y.dtype)
        for one in self.bijectors:
            own = conditions.get(one.name, {})
            found += self._rest(one, y, one.inverse_log_det_jacobian(y, **own))
            y = one.inverse(y, **own)
        return found

    def _rest(self, one: Bijector, given: Tensor, found: Tensor) -> Tensor:
        """What one of the maps found, summed over the axes that an event has beyond its own."""
        return over(found, one, given, (self._ndims or 0) - (one._ndims or 0))

    def _forward_event_shape(self, input_shape: Shape) -> Shape:
        for one in reversed(self.bijectors):
            input_shape = one.forward_event_shape(input_shape)
        return input_shape

    def _forward_event_shape_tensor(self, input_shape: Tensor) -> Tensor:
        for one in reversed(self.bijectors):
            input_shape = one.forward_event_shape_tensor(input_shape)
        return input_shape

    def _inverse_event_shape(self, output_shape: Shape) -> Shape:
        for one in self.bijectors:
            output_shape = one.inverse_event_shape(output_shape)
        return output_shape

    def _inverse_event_shape_tensor(self, output_shape: Tensor) -> Tensor:
        for one in self.bijectors:
            output_shape = one.inverse_event_shape_tensor(output_shape)
        return output_shape
