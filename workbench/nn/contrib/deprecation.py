"""Marks of functions, arguments and values that will go: a warning where they are used, a notice in the documentation."""
from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench import errors

__all__ = ["deprecated", "deprecated_arg_values", "deprecated_args", "silence"]

Decorator = Callable[[Any], Any]
logger = logging.getLogger("workbench")
_silent = [0]


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """No such warnings below."""
    _silent[0] += 1
    try:
        yield
    finally:
        _silent[0] -= 1


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Decorator:
    """Decorator: the first call is a warning, or each, with the date (YYYY-MM-DD) after which the function may go, and what to
    use instead; its documentation says so too. InvalidArgumentErrors for another date and without instructions."""
    when = _checked(date, instructions)

    def mark(function: Any) -> Any:
        _callable(function)
        said = _Said(function, when, instructions, warn_once)

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            said.warn("%s (from %s) is deprecated and will be removed", "")
            return function(*args, **options)
        call.__doc__ = _noticed(function, "DEPRECATED FUNCTION", "(deprecated)",
                                "THIS FUNCTION IS DEPRECATED. It will be removed " + when, instructions)
        return call
    return mark


def deprecated_args(date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any,
                    warn_once: bool = True) -> Decorator:
    """As deprecated, for arguments by name, or (name, [a value that is no use of it]): who gives one is warned.

    InvalidArgumentErrors without names, and for names that the function does not have.
    """
    when = _checked(date, instructions)
    fine = {name: allowed for name, *allowed in (
        (one,) if isinstance(one, str) else (one[0], *_values(one)) for one in deprecated_arg_names_or_tuples)}
    if not fine:
        raise errors.InvalidArgumentError("deprecated_args: Specify which argument is deprecated.")

    def used(given: Mapping[str, Any], _: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [(name, name) for name, allowed in fine.items() if name in given and not any(
            given[name] is one or given[name] == one for one in allowed)]
    return _of_arguments(when, instructions, list(fine), used, warn_once)


def deprecated_arg_values(date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any) -> Decorator:
    """As deprecated, for values of arguments, whether given or by default."""
    when = _checked(date, instructions)
    if not deprecated_kwargs:
        raise errors.InvalidArgumentError("deprecated_arg_values: Specify which argument values are deprecated.")

    def used(_: Mapping[str, Any], whole: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [(name, f"{name}={value}") for name, value in deprecated_kwargs.items()
                if name in whole and whole[name] == value]
    return _of_arguments(when, instructions, list(deprecated_kwargs), used, warn_once)


def _of_arguments(when: str, instructions: str, names: list[str], used: Callable[..., list[tuple[str, str]]],
                  warn_once: bool) -> Decorator:
    def mark(function: Any) -> Any:
        _callable(function)
        signature, said = inspect.signature(function), _Said(function, when, instructions, warn_once)
        unknown = [name for name in names if name not in signature.parameters]
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            raise errors.InvalidArgumentError("deprecated_args: The following deprecated arguments are not present in the "
                                              f"function signature: {unknown}. Found next arguments: "
                                              f"{[*signature.parameters]}.")

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options)
            given = dict(bound.arguments)
            bound.apply_defaults()
            for key, shown in used(given, bound.arguments):
                said.warn(f"calling %s (from %s) with {shown.replace('%', '%%')} is deprecated and will be removed", key)
            return function(*args, **options)
        call.__doc__ = _noticed(function, "DEPRECATED FUNCTION ARGUMENTS", "(deprecated arguments)",
                                "SOME ARGUMENTS ARE DEPRECATED. They will be removed " + when, instructions)
        return call
    return mark


class _Said:
    """The warnings of one function: each once, unless every use is told of."""

    def __init__(self, function: Any, when: str, instructions: str, once: bool) -> None:
        self._function, self._when, self._instructions, self._once = function, when, instructions, once
        self._said: set[str] = set()

    def warn(self, text: str, key: str) -> None:
        """Log `text` with the function's name and module, and where it was called, two frames above."""
        if _silent[0] or (self._once and key in self._said):
            return
        self._said.add(key)
        frame, function = sys._getframe(2), self._function
        logger.warning(f"From %s: {text} %s\nInstructions for updating:\n%s", f"{frame.f_code.co_filename}:{frame.f_lineno}",
                       _title(function), function.__module__, self._when, self._instructions)


def _title(function: Any) -> str:
    return str(function.__qualname__).rpartition("<locals>.")[2]


def _values(one: Any) -> list[Any]:
    if not isinstance(one[1], list):
        raise errors.InvalidArgumentError(f"deprecated_args: {one!r} names values that are no use of an argument; pass them as "
                                          "a list")
    return list(one[1])


def _checked(date: str | None, instructions: str) -> str:
    """When it will go, as a warning says it."""
    if date is not None and not re.match(r"20\d\d-[01]\d-[0123]\d", date):
        raise errors.InvalidArgumentError(f"deprecated: Date must be YYYY-MM-DD.; it is {date!r}")
    if not instructions:
        raise errors.InvalidArgumentError("deprecated: Don't deprecate things without conversion instructions!; say what to "
                                          "use instead")
    return "in a future version." if date is None else f"after {date}."


def _callable(function: Any) -> None:
    if not callable(function):
        raise errors.InvalidArgumentError(f"deprecated: {function!r} is not a function. If this is a property, make sure "
                                          "@property appears before @deprecated in your source code")


def _noticed(function: Any, empty: str, suffix: str, notice: str, instructions: str) -> str:
    """The documentation with a notice behind its first line."""
    lines = inspect.cleandoc(function.__doc__).splitlines() if function.__doc__ else []
    first, rest = (f"{lines[0]} {suffix}", lines[1:]) if lines else (empty, [])
    gap = [""] if rest and rest[0].strip() else []
    return "\n".join([first, "", notice, "Instructions for updating:", instructions, *gap, *rest])
