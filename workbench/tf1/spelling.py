"""TensorFlow's own words for the parameters of a function: their names and their order, by position or by keyword."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from workbench.tf1.missing import Namespace

__all__ = ["first", "names_of", "overlay", "predictions_first", "renamed", "spelled"]

_ABSENT: Any = inspect.Parameter.empty


def spelled(function: Callable[..., Any], words: str, **defaults: Any) -> Callable[..., Any]:
    """`function` called by TensorFlow's parameters.

    `words` lists them in TensorFlow's order: `axis` is ours too, `input=x` is called x by us, `?name` is taken and means
    nothing here that could be different (a hint without effect on values). Where two stand for one of ours, the first that
    is not None counts. `defaults` are TensorFlow's where ours differ. A required argument that is missing is ours to name.
    """
    pairs = []
    for word in words.split():
        theirs, _, ours = word.partition("=")
        pairs.append((theirs.lstrip("?"), "" if word.startswith("?") else ours or theirs))
    known = inspect.signature(function).parameters
    if unknown := [ours for _, ours in pairs if ours and ours not in known
                   and not any(p.kind is p.VAR_KEYWORD for p in known.values())]:
        raise TypeError(f"spelled: {getattr(function, '__name__', function)} has no parameter {', '.join(unknown)}; its own "
                        f"are {', '.join(known)}")
    needed = {p.name for p in inspect.signature(function).parameters.values() if p.default is _ABSENT}
    shared = {ours for _, ours in pairs if [o for _, o in pairs].count(ours) > 1}
    signature = inspect.Signature(_ordered([inspect.Parameter(
        theirs, inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=defaults.get(theirs, _ABSENT if ours in needed - shared else None)) for theirs, ours in pairs]))

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        bound = signature.bind_partial(*args, **options).arguments
        given: dict[str, Any] = {}
        for theirs, ours in pairs:
            value = bound.get(theirs, defaults.get(theirs, _ABSENT))
            if ours and value is not _ABSENT and (value is not None or ours not in shared) and given.get(ours) is None:
                given[ours] = value
        return function(**given)

    call.__signature__ = signature      # type: ignore[attr-defined]
    return call


def _ordered(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """A parameter behind an optional one is optional for Python; whether it was given is asked by the function itself."""
    optional = False
    result = []
    for parameter in parameters:
        optional = optional or parameter.default is not _ABSENT
        result.append(parameter.replace(default=None) if optional and parameter.default is _ABSENT else parameter)
    return result


def renamed(function: Any, first: str = "", **names: str) -> Any:
    """`function` that also takes TensorFlow's keywords: `first` for its first argument, and old=new ones."""
    def call(*args: Any, **options: Any) -> Any:
        for old, new in names.items():
            if old in options:
                options[new] = options.pop(old)
        if first and first in options:
            args = (options.pop(first), *args)
        return function(*args, **options)
    call.__name__ = call.__qualname__ = getattr(function, "__name__", first)
    call.__doc__ = function.__doc__
    return call


def first(function: Any, old: str) -> Any:
    """`function` that also takes its first argument by TensorFlow's name of it."""
    return renamed(function, old)


def predictions_first(metric: Any) -> Any:
    """A metric that takes (predictions, labels, weights) by position, as before 1.0."""
    def call(predictions: Any, labels: Any, *more: Any, **options: Any) -> Any:
        return metric(labels, predictions, *more, **options)
    call.__doc__ = metric.__doc__
    return call


def names_of(*modules: Any) -> dict[str, Any]:
    """What modules offer, by name."""
    return {name: getattr(module, name) for module in modules for name in module.__all__}


def overlay(module: Any, **more: Any) -> Any:
    """The names of a module as a namespace, with others added or replaced."""
    found = Namespace(**names_of(module))
    vars(found).update(more)
    return found
