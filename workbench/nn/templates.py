"""make_template: a function that makes its variables once and shares them from then on."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.nn.scopes import VariableScope, variable_scope
from workbench.nn.variables import GraphKeys, Variable, root_graph

__all__ = ["Template", "make_template"]


def make_template(name_: str, func_: Callable[..., Any], create_scope_now_: bool = False, unique_name_: str | None = None,
                  custom_getter_: Any = None, **kwargs: Any) -> Template:
    """`func_` with these arguments, whose variables are made by its first call and shared by all later ones.

    They live in the variable scope `unique_name_`, else `name_` made unique where it is first called (or now).
    """
    return Template(name_, functools.partial(func_, **kwargs) if kwargs else func_, create_scope_now_, unique_name_,
                    custom_getter_)


class Template:
    """A function and the variable scope of its own; see make_template."""

    def __init__(self, name: str, function: Callable[..., Any], now: bool, unique: str | None, custom_getter: Any) -> None:
        if name is None:
            raise errors.InvalidArgumentError("make_template: name cannot be None; pass one")
        self._name, self._function, self._unique, self._getter = name, function, unique, custom_getter
        self._called = False
        self.variable_scope: VariableScope | None = None
        if now:
            self._open()

    def _open(self) -> VariableScope:
        with variable_scope(self._unique, self._name, custom_getter=self._getter) as scope:
            self.variable_scope = scope
        return scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns; InvalidArgumentError where a later call needs a variable that is not there."""
        scope = self.variable_scope or self._open()
        reuse = True if self._called else None
        with variable_scope(scope, reuse=reuse):
            before = len(root_graph().get_collection(GraphKeys.GLOBAL_VARIABLES))
            result = self._function(*args, **kwargs)
        self._called = self._called or len(root_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)) > before
        return result

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def variable_scope_name(self) -> str | None:
        """The name of its scope, None before the first call."""
        return None if self.variable_scope is None else self.variable_scope.name

    @property
    def var_scope(self) -> VariableScope | None:
        """Its scope, by its older name."""
        return self.variable_scope

    @property
    def variables(self) -> list[Variable]:
        """Its variables."""
        return [] if self.variable_scope is None else self.variable_scope.global_variables()

    global_variables = variables

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those that optimizers change."""
        return [] if self.variable_scope is None else self.variable_scope.trainable_variables()
