"""Who may keep, alias and overwrite which array: the rules of docs/ownership.md, as code generation asks them."""
from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from workbench.core.compile.values import Constant, Handle, Local, Packed, Value

__all__ = ["handed_over", "in_list", "kept", "own", "to_caller", "to_segment"]


# which value has to be copied on its way; each rule is asked about one value of a plan

def to_caller(value: Value) -> bool:
    """A fetch belongs to the caller: everything is copied but a new array that nothing else refers to."""
    return value.array and not (isinstance(value, Local) and value.fresh and not value.roots)


def to_segment(value: Value) -> bool:
    """Another segment may run after the arena has been written again; all else stays as it is for the step."""
    return value.array and bool(value.roots)


def in_list(value: Value) -> bool:
    """A list lives for the step and refers to its elements."""
    return to_segment(value)


def kept(value: Value) -> bool:
    """Must an operation that keeps this value beyond the step copy it? Only constants, which are never written, are shared."""
    return value.array and not isinstance(value, Constant | Packed | Handle)


def own(array: Any) -> Any:
    """`array`, or a copy, for a caller that keeps it; decided at run time."""
    return array.copy() if isinstance(array, np.ndarray) and array.flags.writeable else array


def handed_over(array: Any) -> Any:
    """`array` for the caller, at run time: itself where the step's local is all that refers to it, else a copy."""
    alone = array.base is None and array.flags.owndata and sys.getrefcount(array) <= _ALONE
    return array if alone and not weakref.getweakrefcount(array) else array.copy()


def _references(array: Any) -> int:
    return sys.getrefcount(array)


def _of_one_local() -> int:
    """What a function counts of an array to which a local of its caller refers, and nothing else."""
    array = np.empty(0)
    return _references(array)


_ALONE = _of_one_local()
