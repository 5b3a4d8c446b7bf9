"""Invertible maps with the logarithms of their Jacobians' determinants, for transformed distributions."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.checks import assert_equal, assert_non_negative, assert_positive
from workbench.nn.framework import name_scope
from workbench.nn.probability.checked import after, none_zero

__all__ = ["Affine", "Bijector", "Chain", "Exp", "Identity", "Inline", "Invert", "Permute", "PowerTransform", "Sigmoid",
           "SinhArcsinh", "Softplus"]


class Bijector:
    """A map whose events are the last `event_ndims` axes. Subclasses give `_forward`, `_inverse` and one of the logarithms of
    the Jacobian's determinant, `_forward_log_det_jacobian(x)` or `_inverse_log_det_jacobian(y)`, element by element; these
    are summed over an event. With `validate_args` parameters, and what is mapped, are checked in every step."""

    def __init__(self, event_ndims: int = 0, validate_args: bool = False, name: str | None = None) -> None:
        self.event_ndims, self.validate_args, self.name = event_ndims, validate_args, name or type(self).__name__.lower()

    def _forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError("forward not implemented")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError("inverse not implemented")

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        if type(self)._inverse_log_det_jacobian is Bijector._inverse_log_det_jacobian:
            raise NotImplementedError("log_det_jacobian not implemented")
        return -self._inverse_log_det_jacobian(self._forward(x))

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        if type(self)._forward_log_det_jacobian is Bijector._forward_log_det_jacobian:
            raise NotImplementedError("log_det_jacobian not implemented")
        return -self._forward_log_det_jacobian(self._inverse(y))

    def _above_zero(self, y: Tensor) -> Tensor:
        """y of a map all of whose results are positive."""
        if not self.validate_args:
            return y
        return after([assert_positive(y, message="Inverse transformation input must be greater than 0")], y)

    def _summed(self, found: Tensor) -> Tensor:
        return found if not self.event_ndims else ops.reduce_sum(found, axis=list(range(-self.event_ndims, 0)))

    def forward(self, x: Any, name: str = "forward") -> Tensor:
        """y for x."""
        with name_scope(f"{self.name}/{name}"):
            return self._forward(convert(x))

    def inverse(self, y: Any, name: str = "inverse") -> Tensor:
        """x for y."""
        with name_scope(f"{self.name}/{name}"):
            return self._inverse(convert(y))

    def forward_log_det_jacobian(self, x: Any, name: str = "forward_log_det_jacobian") -> Tensor:
        """log |det dy/dx|, one number an event."""
        with name_scope(f"{self.name}/{name}"):
            return self._summed(self._forward_log_det_jacobian(convert(x)))

    def inverse_log_det_jacobian(self, y: Any, name: str = "inverse_log_det_jacobian") -> Tensor:
        """log |det dx/dy|, one number an event."""
        with name_scope(f"{self.name}/{name}"):
            return self._summed(self._inverse_log_det_jacobian(convert(y)))


class Identity(Bijector):
    """y = x."""

    def __init__(self, validate_args: bool = False, event_ndims: int = 0, name: str = "identity") -> None:
        super().__init__(event_ndims, validate_args, name)

    def _forward(self, x: Tensor) -> Tensor:
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        return y

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return ops.zeros_like(x)


class Exp(Bijector):
    """y = exp(x)."""

    def __init__(self, event_ndims: int = 0, validate_args: bool = False, name: str = "exp") -> None:
        super().__init__(event_ndims, validate_args, name)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.exp(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.log(self._above_zero(y))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return x


class PowerTransform(Bijector):
    """y = (1 + x · power)^(1 / power), exp(x) for power 0. InvalidArgumentError for a power below 0."""

    def __init__(self, power: float = 0.0, event_ndims: int = 0, validate_args: bool = False,
                 name: str = "power_transform") -> None:
        if power < 0:
            raise errors.InvalidArgumentError(f"PowerTransform: power is {power}; give 0 or more")
        super().__init__(event_ndims, validate_args, name)
        self.power = power

    def _forward(self, x: Tensor) -> Tensor:
        if self.validate_args and self.power:
            x = after([assert_non_negative(1.0 + self.power * x, message="Forward transformation input must be at least "
                                           f"{-1.0 / self.power}")], x)
        return ops.exp(ops.log1p(x * self.power) / self.power if self.power else x)

    def _inverse(self, y: Tensor) -> Tensor:
        y = self._above_zero(y)
        return ops.expm1(ops.log(y) * self.power) / self.power if self.power else ops.log(y)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return (self.power - 1.0) * ops.log(self._above_zero(y))


class Sigmoid(Bijector):
    """y = 1 / (1 + exp(-x))."""

    def __init__(self, validate_args: bool = False, name: str = "sigmoid") -> None:
        super().__init__(0, validate_args, name)

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
        super().__init__(event_ndims, validate_args, name)
        self._softness = 1.0 if hinge_softness is None else hinge_softness
        if validate_args and hinge_softness is not None:
            self._softness = none_zero(convert(hinge_softness), "hinge_softness")

    def _forward(self, x: Tensor) -> Tensor:
        return self._softness * ops.softplus(x / self._softness)

    def _inverse(self, y: Tensor) -> Tensor:
        part = y / self._softness
        return self._softness * (part + ops.log(-ops.expm1(-part)))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return ops.log_sigmoid(x / self._softness)


class SinhArcsinh(Bijector):
    """y = sinh((arcsinh(x) + `skewness`) · `tailweight`), defaults 0 and 1: the identity."""

    def __init__(self, skewness: Any = None, tailweight: Any = None, event_ndims: int = 0, validate_args: bool = False,
                 name: str = "SinhArcsinh") -> None:
        super().__init__(event_ndims, validate_args, name)
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
        return log_cosh + ops.log(self.tailweight) - 0.5 * ops.log1p(ops.square(x))


class Permute(Bijector):
    """The elements of vectors in another order: y[..., i] = x[..., permutation[i]]."""

    def __init__(self, permutation: Any, validate_args: bool = False, name: str | None = None) -> None:
        super().__init__(1, validate_args, name or "permute")
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
        return ops.zeros_like(x)


class Affine(Bijector):
    """y = scale x + `shift`; scale is the sum of what is given of identity times a number, a diagonal [n], a lower triangle
    [n, n], or the identity where nothing is.

    With `event_ndims=0` x are numbers, and only `scale_identity_multiplier` is taken (InvalidArgumentError for others).
    """

    def __init__(self, shift: Any = None, scale_identity_multiplier: Any = None, scale_diag: Any = None, scale_tril: Any = None,
                 event_ndims: int = 1, validate_args: bool = False, name: str = "affine") -> None:
        super().__init__(event_ndims, validate_args, name)
        if event_ndims == 0 and (scale_diag is not None or scale_tril is not None):
            raise errors.InvalidArgumentError("Affine: event_ndims is 0 but scale_diag or scale_tril is given; give "
                                              "scale_identity_multiplier, or event_ndims=1")
        self.shift = None if shift is None else convert(shift)
        self._tril = None if scale_tril is None else ops.matrix_band_part(convert(scale_tril), -1, 0)
        parts = [None if scale_identity_multiplier is None else convert(scale_identity_multiplier),
                 None if scale_diag is None else convert(scale_diag)]
        if parts[0] is not None and event_ndims:
            parts[0] = parts[0][..., None]
        given = [part for part in parts if part is not None]
        self._diagonal = given[0] + given[1] if len(given) > 1 else given[0] if given else None
        if self._tril is not None and self._diagonal is not None:
            own = ops.matrix_diag_part(self._tril)
            self._tril, self._diagonal = ops.matrix_set_diag(self._tril, own + self._diagonal), None
        if validate_args and self._tril is not None:
            own = none_zero(ops.matrix_diag_part(self._tril), "the diagonal of the scale")
            self._tril = ops.matrix_set_diag(self._tril, own)
        elif validate_args and self._diagonal is not None:
            self._diagonal = none_zero(self._diagonal, "the diagonal of the scale")

    def _forward(self, x: Tensor) -> Tensor:
        if self._tril is not None:
            x = ops.squeeze(ops.matmul(self._tril, x[..., None]), axis=[-1])
        elif self._diagonal is not None:
            x = x * self._diagonal
        return x if self.shift is None else x + self.shift

    def _inverse(self, y: Tensor) -> Tensor:
        y = y if self.shift is None else y - self.shift
        if self._tril is not None:
            return ops.squeeze(ops.matrix_triangular_solve(self._tril, y[..., None]), axis=[-1])
        return y if self._diagonal is None else y / self._diagonal

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        diagonal = self._diagonal if self._tril is None else ops.matrix_diag_part(self._tril)
        logs = ops.zeros_like(x)
        return logs if diagonal is None else logs + ops.log(ops.abs(diagonal))


class Inline(Bijector):
    """A map of functions that are given."""

    def __init__(self, forward_fn: Callable[[Tensor], Tensor] | None = None,
                 inverse_fn: Callable[[Tensor], Tensor] | None = None,
                 inverse_log_det_jacobian_fn: Callable[[Tensor], Tensor] | None = None,
                 forward_log_det_jacobian_fn: Callable[[Tensor], Tensor] | None = None, event_ndims: int = 0,
                 validate_args: bool = False, name: str = "inline") -> None:
        super().__init__(event_ndims, validate_args, name)
        self._ways = forward_fn, inverse_fn
        self._logs = forward_log_det_jacobian_fn, inverse_log_det_jacobian_fn

    def _way(self, function: Callable[[Tensor], Tensor] | None, name: str, x: Tensor) -> Tensor:
        if function is None:
            raise NotImplementedError(f"Cannot {name} with {self.name}: it was made without the function; pass it")
        return function(x)

    def _forward(self, x: Tensor) -> Tensor:
        return self._way(self._ways[0], "forward", x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._way(self._ways[1], "inverse", y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        if self._logs[0] is None and self._logs[1] is not None:
            return -self._logs[1](self._forward(x))
        return self._way(self._logs[0], "forward_log_det_jacobian", x)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        if self._logs[1] is None and self._logs[0] is not None:
            return -self._logs[0](self._inverse(y))
        return self._way(self._logs[1], "inverse_log_det_jacobian", y)

    def _summed(self, found: Tensor) -> Tensor:
        return found      # the functions give one number an event


class Invert(Bijector):
    """The inverse of a map."""

    def __init__(self, bijector: Bijector, validate_args: bool = False, name: str | None = None) -> None:
        super().__init__(bijector.event_ndims, validate_args, name or f"invert_{bijector.name}")
        self.bijector = bijector

    def _forward(self, x: Tensor) -> Tensor:
        return self.bijector._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.bijector._forward(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return self.bijector._inverse_log_det_jacobian(x)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return self.bijector._forward_log_det_jacobian(y)

    def _summed(self, found: Tensor) -> Tensor:
        return self.bijector._summed(found)


class Chain(Bijector):
    """Maps one after the other, the last first: Chain([f, g]) is f(g(x)); an event has the most axes that one of them has."""

    def __init__(self, bijectors: Sequence[Bijector] = (), validate_args: bool = False, name: str | None = None) -> None:
        super().__init__(max((b.event_ndims for b in bijectors), default=0), validate_args,
                         name or "chain_of_" + "_of_".join(b.name for b in bijectors))
        self.bijectors = list(bijectors)

    def _forward(self, x: Tensor) -> Tensor:
        for one in reversed(self.bijectors):
            x = one._forward(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for one in self.bijectors:
            y = one._inverse(y)
        return y

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        found = ops.zeros_like(self._event(x))
        for one in reversed(self.bijectors):
            found += self._rest(one, one._summed(one._forward_log_det_jacobian(x)))
            x = one._forward(x)
        return found

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        found = ops.zeros_like(self._event(y))
        for one in self.bijectors:
            found += self._rest(one, one._summed(one._inverse_log_det_jacobian(y)))
            y = one._inverse(y)
        return found

    def _event(self, x: Tensor) -> Tensor:
        """One number an event."""
        return super()._summed(x)

    def _rest(self, one: Bijector, found: Tensor) -> Tensor:
        """What one of the maps found, summed over the axes that an event has beyond its own."""
        left = self.event_ndims - one.event_ndims
        return found if not left else ops.reduce_sum(found, axis=list(range(-left, 0)))

    def _summed(self, found: Tensor) -> Tensor:
        return found
