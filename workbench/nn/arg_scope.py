"""arg_scope: defaults for arguments of layers, for all calls below a `with`."""
from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench import errors

__all__ = ["add_arg_scope", "arg_scope", "arg_scoped_arguments", "current_arg_scope", "has_arg_scope"]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[dict[Any, dict[str, Any]]] = [{}]


_stack = _Stack()


def _key(function: Any) -> Any:
    return getattr(function, "_arg_scope_key", function)


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the function takes defaults from arg_scope; an argument given in the call wins."""
    @functools.wraps(func)
    def call(*args: Any, **options: Any) -> Any:
        return func(*args, **{**_stack.scopes[-1].get(key, {}), **options})
    key = f"{func.__module__}.{func.__qualname__}"
    call._arg_scope_key = key      # type: ignore[attr-defined]
    return call


def has_arg_scope(func: Any) -> bool:
    """Does the function take defaults from arg_scope?"""
    return hasattr(func, "_arg_scope_key")


def arg_scoped_arguments(func: Any) -> tuple[str, ...]:
    """The arguments that can be given defaults, those with a default of their own."""
    code = getattr(func, "__wrapped__", func)
    return tuple(code.__code__.co_varnames[code.__code__.co_argcount - len(code.__defaults__ or ()):code.__code__.co_argcount])


def current_arg_scope() -> dict[Any, dict[str, Any]]:
    """The scope in force, to be entered again by arg_scope."""
    return _stack.scopes[-1]


@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[dict[Any, dict[str, Any]]]:
    """Calls of these functions below get these arguments unless they give their own; inner scopes add to outer ones.

    A scope that was entered before (what `as` gives) is entered again as it was. InvalidArgumentErrors (ValueErrors) for
    functions without add_arg_scope, and for arguments beside a scope.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise errors.InvalidArgumentError("arg_scope: When attempting to re-use a scope by suppling a dictionary, kwargs "
                                              f"must be empty; {sorted(kwargs)} are given")
        new = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
        new = {key: dict(found) for key, found in _stack.scopes[-1].items()}
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                raise errors.InvalidArgumentError(f"arg_scope: {getattr(function, '__name__', function)} is not decorated with "
                                                  "@add_arg_scope; decorate it")
            new.setdefault(_key(function), {}).update(kwargs)
    _stack.scopes.append(new)
    try:
        yield new
    finally:
        _stack.scopes.pop()
