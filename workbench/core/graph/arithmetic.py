"""The operators of tensors: declared here for readers and type checkers, given their meaning where graphs are built."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
