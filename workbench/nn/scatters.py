"""Parts of variables changed: rows set, added to, multiplied, divided and bounded, elements and slices by index vectors."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import convert
from workbench.core.graph.graph import Tensor
from workbench.nn.variables import Variable, changeable

__all__ = ["scatter_add", "scatter_div", "scatter_max", "scatter_min", "scatter_mul", "scatter_nd_add", "scatter_nd_sub",
           "scatter_nd_update", "scatter_sub", "scatter_update"]


def scatter_add(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Add updates[i] to row indices[i] of a variable; indices are ints [n], updates [n, row]; repeated indices add
    up. Gives the new value."""
    return changeable(ref)._use("scatter_add", indices, convert(updates, ref.dtype), name=name)


def scatter_sub(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Subtract updates[i] from row indices[i] of a variable, as scatter_add adds them. Gives the new value."""
    return changeable(ref)._use("scatter_sub", indices, convert(updates, ref.dtype), name=name)


def scatter_update(ref: Variable, indices: Any, updates: Any, use_locking: bool = True,
                   name: str | None = None) -> Tensor:
    """Set row indices[i] of a variable to updates[i]; indices are ints [n], updates [n, row]. Gives the new value."""
    return changeable(ref)._use("scatter_update", indices, convert(updates, ref.dtype), name=name)


def scatter_mul(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Multiply row indices[i] of a variable by updates[i]; repeated indices multiply again. Gives the new value."""
    return changeable(ref)._use("scatter_mul", indices, convert(updates, ref.dtype), name=name)


def scatter_div(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Divide row indices[i] of a variable by updates[i]; repeated indices divide again. Gives the new value."""
    return changeable(ref)._use("scatter_div", indices, convert(updates, ref.dtype), name=name)


def scatter_min(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Lower row indices[i] of a variable to updates[i] where that is less. Gives the new value."""
    return changeable(ref)._use("scatter_min", indices, convert(updates, ref.dtype), name=name)


def scatter_max(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Raise row indices[i] of a variable to updates[i] where that is more. Gives the new value."""
    return changeable(ref)._use("scatter_max", indices, convert(updates, ref.dtype), name=name)


def scatter_nd_add(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Add updates [..., rest] to the slices of a variable at index vectors [..., d]; repeated ones add up. Gives the new
    value."""
    return changeable(ref)._use("scatter_nd_add", indices, convert(updates, ref.dtype), name=name)


def scatter_nd_sub(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Subtract updates from the slices of a variable at index vectors, as scatter_nd_add adds them. Gives the new value."""
    return changeable(ref)._use("scatter_nd_sub", indices, convert(updates, ref.dtype), name=name)


def scatter_nd_update(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Set the slices of a variable at index vectors [..., d] to updates [..., rest]. Gives the new value."""
    return changeable(ref)._use("scatter_nd_update", indices, convert(updates, ref.dtype), name=name)
