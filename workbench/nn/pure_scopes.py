"""Scopes for the names of variables alone: operations keep the scope of names that they are in."""
from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from workbench.nn.scopes import VariableScope, chained, entered, get_variable_scope, in_force, opened

__all__ = ["pure_variable_scope", "scope_for_later"]


@contextlib.contextmanager
def pure_variable_scope(name_or_scope: str | VariableScope, reuse: Any = None, initializer: Any = None, regularizer: Any = None,
                        caching_device: Any = None, partitioner: Any = None, custom_getter: Any = None,
                        old_name_scope: str | None = None, dtype: Any = None, use_resource: Any = None,
                        constraint: Any = None) -> Iterator[VariableScope]:
    """variable_scope for the names of variables alone: operations keep the scope of names that they are in. `old_name_scope` is
    told as the scope's `original_name_scope`."""
    again = isinstance(name_or_scope, VariableScope)
    wanted = name_or_scope if isinstance(name_or_scope, VariableScope) else opened(name_or_scope, name_or_scope)
    scope = entered(wanted, reuse, initializer, regularizer, caching_device, partitioner, custom_getter, dtype, use_resource,
                    constraint)
    scope.original_name_scope = old_name_scope or scope.original_name_scope or scope.name
    with in_force(scope, again):
        yield scope


def scope_for_later(name: str | None, default_name: str, custom_getter: Any = None) -> VariableScope:
    """What variable_scope would enter here, for somebody who enters it later: no name scope is taken for it."""
    scope = copy.copy(get_variable_scope())
    scope.name, scope.original_name_scope = opened(name, default_name), default_name if name is None else name
    scope.custom_getter = chained(custom_getter, scope.custom_getter)
    return scope
