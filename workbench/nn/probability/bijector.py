"""Bijector: an invertible map with the logarithm of its Jacobian's determinant, which remembers what it has mapped."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.checks import assert_positive
from workbench.nn.framework import after, name_scope

__all__ = ["Bijector", "Identity"]


class _Pair:
    """What belongs together of one mapping: x, y, and the logarithm of |det dx/dy|."""

    x: Any = None
    y: Any = None
    log_det: Any = None
    held: Any = None      # by whose identity it is found


class Bijector:
    """A map whose events are the last `event_ndims` axes, a number or an int32 scalar that only the step knows.

    Subclasses give `_forward`, `_inverse` and one of the logarithms of the Jacobian's determinant,
    `_forward_log_det_jacobian(x)` or `_inverse_log_det_jacobian(y)`, one number an event, and where shapes of events change
    `_forward_event_shape`, `_inverse_event_shape` and both with `_tensor`. What the methods get by other names they get. What
    was mapped is remembered: the inverse of a result is what it was made of. With `validate_args` parameters, and what is
    mapped, are checked in every step. TypeError for numbers of another type than `dtype`, if that is given.
    """

    def __init__(self, event_ndims: Any = None, graph_parents: Sequence[Any] | None = None, is_constant_jacobian: bool = False,
                 validate_args: bool = False, dtype: Any = None, name: str | None = None) -> None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__)
        self.name = name or words.lower().lstrip("_")
        self.graph_parents, self.is_constant_jacobian = list(graph_parents or []), is_constant_jacobian
        self.validate_args, self.dtype = validate_args, None if dtype is None else as_dtype(dtype)
        self._given_ndims = event_ndims
        known = 0 if event_ndims is None else constant_value(convert(event_ndims))
        self._ndims = None if known is None else int(known)      # None where only the step knows
        self._mapped: dict[Any, _Pair] = {}

    @property
    def event_ndims(self) -> Tensor:
        """How many of the last axes are an event: int32 scalar."""
        return convert(0 if self._given_ndims is None else self._given_ndims, "int32")

    is_injective = True

    # what subclasses give
    def _forward(self, x: Tensor) -> Any:
        raise NotImplementedError("forward not implemented")

    def _inverse(self, y: Tensor) -> Any:
        raise NotImplementedError("inverse not implemented")

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        raise NotImplementedError("forward_log_det_jacobian not implemented")

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        raise NotImplementedError("inverse_log_det_jacobian not implemented")

    def _forward_event_shape(self, input_shape: Shape) -> Any:
        return input_shape

    def _forward_event_shape_tensor(self, input_shape: Tensor) -> Any:
        return input_shape

    def _inverse_event_shape(self, output_shape: Shape) -> Any:
        return output_shape

    def _inverse_event_shape_tensor(self, output_shape: Tensor) -> Any:
        return output_shape

    # what they may use
    def _above_zero(self, y: Tensor) -> Tensor:
        """y of a map all of whose results are positive."""
        if not self.validate_args:
            return y
        return after([assert_positive(y, message="Inverse transformation input must be greater than 0")], y)

    def _event_dims_tensor(self, _sample: Tensor) -> Any:
        """The axes of an event: int32 [event_ndims]."""
        return ops.range(-self.event_ndims, 0) if self._ndims is None else list(range(-self._ndims, 0))

    def _summed(self, found: Tensor) -> Tensor:
        """One number an event, of one an element."""
        if self._ndims == 0:
            return found
        return ops.reduce_sum(found, axis=self._event_dims_tensor(found))

    # what programs call
    def forward(self, x: Any, name: str = "forward", **conditions: Any) -> Any:
        """y for x."""
        with name_scope(f"{self.name}/{name}"):
            given = self._taken(x)
            pair = self._pair("x", given, conditions)
            if pair.y is None:
                self._keep(pair, conditions, x=given, y=self._forward(given, **conditions))
            return pair.y

    def inverse(self, y: Any, name: str = "inverse", **conditions: Any) -> Any:
        """x for y."""
        with name_scope(f"{self.name}/{name}"):
            given = self._taken(y)
            pair = self._pair("y", given, conditions)
            if pair.x is None:
                self._keep(pair, conditions, x=self._inverse(given, **conditions), y=given)
            return pair.x

    def forward_log_det_jacobian(self, x: Any, name: str = "forward_log_det_jacobian", **conditions: Any) -> Any:
        """log |det dy/dx|, one number an event."""
        with name_scope(f"{self.name}/{name}"):
            given = self._taken(x)
            pair = self._pair("x", given, conditions)
            if pair.log_det is None:
                try:
                    pair.log_det = _negative(self._forward_log_det_jacobian(given, **conditions))
                except NotImplementedError as error:
                    y = pair.y if pair.y is not None else _else(error, self._forward, given, conditions)
                    self._keep(pair, conditions, x=given, y=y)
                    pair.log_det = _else(error, self._inverse_log_det_jacobian, y, conditions)
            return _negative(pair.log_det)

    def inverse_log_det_jacobian(self, y: Any, name: str = "inverse_log_det_jacobian", **conditions: Any) -> Any:
        """log |det dx/dy|, one number an event."""
        with name_scope(f"{self.name}/{name}"):
            given = self._taken(y)
            pair = self._pair("y", given, conditions)
            if pair.log_det is None:
                try:
                    pair.log_det = self._inverse_log_det_jacobian(given, **conditions)
                except NotImplementedError as error:
                    x = pair.x if pair.x is not None else _else(error, self._inverse, given, conditions)
                    self._keep(pair, conditions, x=x, y=given)
                    pair.log_det = _negative(_else(error, self._forward_log_det_jacobian, x, conditions))
            return pair.log_det

    def forward_event_shape(self, input_shape: Any) -> Shape:
        """The static shape of an event of results, for that of an event of arguments."""
        return as_shape(self._forward_event_shape(as_shape(input_shape)))

    def forward_event_shape_tensor(self, input_shape: Any, name: str = "forward_event_shape_tensor") -> Tensor:
        """The same as int32 vectors."""
        with name_scope(f"{self.name}/{name}"):
            return self._forward_event_shape_tensor(convert(input_shape, "int32"))

    def inverse_event_shape(self, output_shape: Any) -> Shape:
        """The static shape of an event of arguments, for that of an event of results."""
        return as_shape(self._inverse_event_shape(as_shape(output_shape)))

    def inverse_event_shape_tensor(self, output_shape: Any, name: str = "inverse_event_shape_tensor") -> Tensor:
        """The same as int32 vectors."""
        with name_scope(f"{self.name}/{name}"):
            return self._inverse_event_shape_tensor(convert(output_shape, "int32"))

    # what was mapped
    def _taken(self, value: Any) -> Tensor:
        found = convert(value, None if hasattr(value, "dtype") else self.dtype)
        if self.dtype is not None and found.dtype is not self.dtype:
            raise errors.DtypeError(f"{self.name}: Input had dtype {found.dtype.name} but expected {self.dtype.name}; cast it")
        return found

    def _key(self, side: str, value: Any, conditions: dict[str, Any]) -> Any:
        """In a branch or loop what was mapped outside of it counts anew, and the other way round."""
        parts = value if isinstance(value, (tuple, list)) else (value,)
        return (id(get_default_graph()), side, tuple(id(part) for part in parts),
                tuple((key, id(conditions[key])) for key in sorted(conditions)))

    def _pair(self, side: str, value: Tensor, conditions: dict[str, Any]) -> _Pair:
        return self._mapped.get(self._key(side, value, conditions)) or _Pair()

    def _keep(self, pair: _Pair, conditions: dict[str, Any], x: Any, y: Any) -> None:
        pair.x, pair.y, pair.held = x, y, (get_default_graph(), conditions)
        for side, value in (("x", x), ("y", y)):
            self._mapped[self._key(side, value, conditions)] = pair


def _else(error: NotImplementedError, function: Any, value: Any, conditions: dict[str, Any]) -> Any:
    """What the other way gives; where that is not there either, the first one's error."""
    try:
        return function(value, **conditions)
    except NotImplementedError:
        raise error from None


def _negative(found: Any) -> Any:
    return tuple(-part for part in found) if isinstance(found, (tuple, list)) else -found


class Identity(Bijector):
    """y = x."""

    def __init__(self, validate_args: bool = False, event_ndims: Any = 0, name: str = "identity") -> None:
        super().__init__(event_ndims, is_constant_jacobian=True, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        return y

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return ops.zeros([], x.dtype)
