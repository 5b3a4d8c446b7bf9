"""Slots: variables beside a variable or tensor, such as an optimizer's moments, on its device and named after it."""
from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.shape import as_shape
from workbench.core.graph.subgraph import root_graph
from workbench.nn.initializers import Zeros
from workbench.nn.scopes import get_variable_scope
from workbench.nn.variables import Variable, near

__all__ = ["create_slot", "create_slot_with_initializer", "create_zeros_slot", "slot_name"]


def slot_name(primary: Any, name: str) -> str:
    """What a slot `name` of `primary` is called: the variable scope in force, the name of `primary`, `name`."""
    scope = get_variable_scope().name
    return f"{scope and scope + '/'}{primary.op.name}/{name}"


def create_slot(primary: Any, val: Any, name: str, colocate_with_primary: bool = True) -> Variable:
    """The variable `name` beside `primary`, a variable or tensor, that begins as `val`, a value or a function of it."""
    with root_graph().name_scope(None), near(primary) if colocate_with_primary else contextlib.nullcontext():
        made = Variable(val, trainable=False, name=slot_name(primary, name))
    part = getattr(primary, "_save_slice_info", None)
    if part is not None and made.shape == primary.shape:      # a part of the slot of the whole
        made._set_save_slice_info(replace(part, full_name=made.op.name.replace(primary.op.name, part.full_name, 1)))
    return made


def create_slot_with_initializer(primary: Any, initializer: Any, shape: Any, dtype: Any, name: str,
                                 colocate_with_primary: bool = True) -> Variable:
    """The variable `name` beside `primary` that begins as `initializer` makes it of a shape and a dtype."""
    return create_slot(primary, lambda: initializer(list(as_shape(shape).static), dtype), name, colocate_with_primary)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Variable:
    """The variable `name` beside `primary`, of its shape, that begins as zeros of `dtype` (its own)."""
    if primary.shape.known:
        return create_slot_with_initializer(primary, Zeros(), primary.shape, dtype or primary.dtype, name,
                                            colocate_with_primary)
    like = primary.initial_value if isinstance(primary, Variable) else primary
    return create_slot(primary, ops.zeros_like(like, dtype=dtype), name, colocate_with_primary)
