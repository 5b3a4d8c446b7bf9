"""Dimension: one length of a static shape, known (an int) or not, with the arithmetic of TensorFlow 1.x."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

__all__ = ["Dimension", "Length", "dimension"]


def _arithmetic(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator and its reflection over lengths: unknown when either side is."""
    apply = getattr(operator, name)

    def forward(self: Any, other: Any) -> Any:
        return _applied(apply, self.value, other)

    def reflected(self: Any, other: Any) -> Any:
        return _applied(lambda b, a: apply(a, b), self.value, other)
    return forward, reflected


def _applied(apply: Callable[[Any, Any], Any], mine: int | None, other: Any) -> Any:
    if isinstance(other, (Dimension, _Unknown)):
        other = other.value
    if other is not None and not isinstance(other, int):
        return NotImplemented if mine is None else apply(mine, other)      # tensors, arrays and floats decide themselves
    return dimension(None if mine is None or other is None else apply(mine, other))


class Length:
    """What known and unknown lengths share: `value` and arithmetic."""

    value: int | None

    __add__, __radd__ = _arithmetic("add")
    __sub__, __rsub__ = _arithmetic("sub")
    __mul__, __rmul__ = _arithmetic("mul")
    __floordiv__, __rfloordiv__ = _arithmetic("floordiv")
    __mod__, __rmod__ = _arithmetic("mod")

    def is_compatible_with(self, other: Any) -> bool:
        """Can both be the same length? Always where one is unknown."""
        mine, theirs = self.value, dimension(other).value
        return mine is None or theirs is None or mine == theirs

    def assert_is_compatible_with(self, other: Any) -> None:
        """ValueError when both are known and differ."""
        self.merge_with(other)

    def merge_with(self, other: Any) -> Any:
        """What is known from either; ValueError when they differ."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimension: {self} and {dimension(other)} differ; make them equal")
        return dimension(other) if self.value is None else self

    def __repr__(self) -> str:
        return f"Dimension({self.value})"


class Dimension(Length, int):
    """A known length: an int that also has `.value`. `Dimension(None)` is the unknown length."""

    def __new__(cls, value: Any) -> Any:
        if value is None or isinstance(value, _Unknown):
            return _UNKNOWN
        if isinstance(value, (str, bytes)) or not hasattr(value, "__int__"):
            raise TypeError(f"Dimension: {value!r} is a {type(value).__name__}; pass a whole number or None")
        if int(value) != value:
            raise ValueError(f"Dimension: Ambiguous dimension: {value}; pass a whole number")
        if int(value) < 0:
            raise ValueError(f"Dimension: {value} must be >= 0; use None for an unknown length")
        return super().__new__(cls, value)

    @property
    def value(self) -> int:      # type: ignore[override]
        """The length as a plain int."""
        return int(self)

    def __str__(self) -> str:
        return str(int(self))


class _Unknown(Length):
    """The unknown length: equal to None, smaller or greater than nothing, and different from none: it may be the same."""

    value = None

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, _Unknown)

    def __ne__(self, other: object) -> Any:
        """None, as in TensorFlow: whether it is another length cannot be told."""
        return None if other is None or isinstance(other, (int, Length)) else True

    def __hash__(self) -> int:
        return hash(None)

    def _ordered(self, other: object) -> None:
        """None, as in TensorFlow: which is larger cannot be told."""

    __lt__ = __le__ = __gt__ = __ge__ = _ordered

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "?"


_UNKNOWN = _Unknown()


def dimension(value: Any) -> Any:
    """The Dimension of an int, of None or of a Dimension."""
    return Dimension(value)
