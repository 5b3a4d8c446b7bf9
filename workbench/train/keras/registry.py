"""Objects by name: how activations, losses, layers and the like are found from text, and how they are described as data."""
from __future__ import annotations

import contextlib
import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType

__all__ = ["CUSTOM_OBJECTS", "CustomObjectScope", "Kind", "config_of", "custom_object_scope", "described", "get_custom_objects"]

CUSTOM_OBJECTS: dict[str, Any] = {}
"""Objects of the program by name, for configurations that name them."""


def get_custom_objects() -> dict[str, Any]:
    """The dictionary of the program's own objects by name; what is put there is found."""
    return CUSTOM_OBJECTS


@contextlib.contextmanager
def custom_object_scope(*given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Inside, configurations may name these objects too."""
    before = dict(CUSTOM_OBJECTS)
    for names in given:
        CUSTOM_OBJECTS.update(names)
    try:
        yield CUSTOM_OBJECTS
    finally:
        CUSTOM_OBJECTS.clear()
        CUSTOM_OBJECTS.update(before)


CustomObjectScope = custom_object_scope


class Kind:
    """The objects of one kind, such as losses: found by name or by configuration, and turned into one.

    A configuration is a name, or {"class_name": name, "config": arguments}: data, of which nothing is executed. Where the
    names are those of `makers`, a name alone means what its maker makes of no arguments.
    """

    def __init__(self, what: str, *things: Any, default: Any = None, makers: bool = False, aliases: Any = None) -> None:
        self.what, self.default, self.makers = what, default, makers
        self.names: dict[str, Any] = {**{thing.__name__: thing for thing in things}, **(aliases or {})}

    def find(self, name: str, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """The function or class of this name. InvalidArgumentError, naming the nearest, where there is none."""
        for names in (custom_objects or {}, CUSTOM_OBJECTS, self.names):
            if name in names:
                return names[name]
        close = ", ".join(difflib.get_close_matches(name, self.names, n=3)) or ", ".join(sorted(self.names)[:8])
        raise errors.InvalidArgumentError(f"keras: Unknown {self.what}: {name!r}; the nearest names are {close}; a {self.what} "
                                          "of your own is named in custom_objects")

    def deserialize(self, config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """The object that a configuration, or a name, describes. InvalidArgumentError for what describes none."""
        if isinstance(config, str):
            found = self.find(config, custom_objects)
            return found() if self.makers or inspect.isclass(found) else found
        if not isinstance(config, Mapping) or "class_name" not in config:
            raise errors.InvalidArgumentError(f"keras: Could not interpret {self.what} identifier: {config!r}; give a name, an "
                                              "object, or {'class_name': …, 'config': …}")
        found = self.find(config["class_name"], custom_objects)
        arguments = config.get("config") or {}
        if not hasattr(found, "from_config"):
            return found(**arguments)
        with custom_object_scope(custom_objects or {}):
            return found.from_config(arguments)

    def get(self, identifier: Any) -> Any:
        """The object for a name, a configuration, None (the default) or an object, which is given back."""
        if identifier is None:
            return self.default
        if isinstance(identifier, (str, Mapping)):
            return self.deserialize(identifier)
        if inspect.isclass(identifier) and identifier in self.names.values():
            return identifier()
        if callable(identifier):
            return identifier
        raise errors.InvalidArgumentError(f"keras: Could not interpret {self.what} identifier: {identifier!r}; give a name or "
                                          "a function")

    def serialize(self, thing: Any) -> Any:
        """A name or a configuration, from which `deserialize` makes the like."""
        return described(thing)


def described(thing: Any) -> Any:
    """A value as data for JSON: objects by class and arguments, functions by name, arrays as lists."""
    if isinstance(thing, np.generic):
        return thing.item()
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, DType):
        return thing.name
    if hasattr(thing, "get_config"):
        return {"class_name": type(thing).__name__, "config": thing.get_config()}
    if isinstance(thing, (list, tuple)):
        return [described(one) for one in thing]
    if isinstance(thing, dict):
        return {key: described(one) for key, one in thing.items()}
    return thing.__name__ if callable(thing) else thing


def config_of(thing: Any, skip: tuple[str, ...] = (), of: Any = None) -> dict[str, Any]:
    """The arguments of an object's class, or of that named, as far as it keeps them under their names."""
    function: Callable[..., Any] = (of or type(thing)).__init__
    taken = [p.name for p in inspect.signature(function).parameters.values()
             if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in ("self", *skip)]
    return {name: described(getattr(thing, name)) for name in taken if hasattr(thing, name)}
