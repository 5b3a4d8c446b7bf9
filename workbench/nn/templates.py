"""make_template: a function that makes its variables once and shares them from then on."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.subgraph import root_graph
from workbench.nn.pure_scopes import scope_for_later
from workbench.nn.scopes import VariableScope, variable_scope
from workbench.nn.variables import GraphKeys, Variable

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
        self.variable_scope: VariableScope | None = scope_for_later(unique, name, custom_getter) if now else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns; InvalidArgumentError where a later call needs a variable that is not there, or makes one
        to be trained."""
        where = (variable_scope(self._unique, self._name, custom_getter=self._getter) if self.variable_scope is None else
                 variable_scope(self.variable_scope, reuse=True if self._called else None))
        keys = GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES
        with where as scope:
            self.variable_scope = self.variable_scope or scope
            before = [len(root_graph().get_collection(key)) for key in keys]
            result = self._function(*args, **kwargs)
        made, trained = (len(root_graph().get_collection(key)) - count for key, count in zip(keys, before))
        if self._called and trained:
            found = root_graph().get_collection(keys[1])[-trained:]
            raise errors.InvalidArgumentError(f"make_template: {self._name!r}: New variable created when calling a template "
                                              "after the first time, perhaps you used tf.Variable when you meant "
                                              f"tf.get_variable: {found}")
        self._called = self._called or made > 0
        return result

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def variable_scope_name(self) -> str | None:
        """The name of its scope with "/" behind it, None before the first call."""
        return None if self.variable_scope is None else self.variable_scope.name + "/"

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
    def local_variables(self) -> list[Variable]:
        """Those of this process alone."""
        return [] if self.variable_scope is None else self.variable_scope.local_variables()

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those that optimizers change."""
        return [] if self.variable_scope is None else self.variable_scope.trainable_variables()
