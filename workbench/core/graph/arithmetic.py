"""The operators of tensors: declared here for readers and type checkers, given their meaning where graphs are built."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors

__all__ = ["Arithmetic"]


class Arithmetic:
    """What `workbench/core/graph/build.py` fills in."""

    __slots__ = ()
    __getitem__: Callable[..., Any]
    __add__: Callable[..., Any]
    __radd__: Callable[..., Any]
    __sub__: Callable[..., Any]
    __rsub__: Callable[..., Any]
    __mul__: Callable[..., Any]
    __rmul__: Callable[..., Any]
    __truediv__: Callable[..., Any]
    __rtruediv__: Callable[..., Any]
    __floordiv__: Callable[..., Any]
    __mod__: Callable[..., Any]
    __pow__: Callable[..., Any]
    __rpow__: Callable[..., Any]
    __matmul__: Callable[..., Any]
    __neg__: Callable[..., Any]
    __abs__: Callable[..., Any]
    __lt__: Callable[..., Any]
    __le__: Callable[..., Any]
    __gt__: Callable[..., Any]
    __ge__: Callable[..., Any]

    def __float__(self) -> float:
        raise self._without_value("float")

    def __int__(self) -> int:
        raise self._without_value("int")

    def _without_value(self, word: str) -> errors.DtypeError:
        """NumPy's conversions to numbers come here too."""
        return errors.DtypeError(f"{word}: {self!r} has no value while the graph is built; use the operations of workbench on "
                                 "it, or Session.run it first")
