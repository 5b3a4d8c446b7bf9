"""How programs write what they keep in collections into meta graphs, and read it again."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Form", "forms", "register_proto_function"]


class Form(NamedTuple):
    """What stands for an object of a collection: a message of `proto_type`, made by `to_proto(object, export_scope=)` and read
    by `from_proto(message, import_scope=)`; each None where only the other way is meant."""

    proto_type: Any = None
    to_proto: Callable[..., Any] | None = None
    from_proto: Callable[..., Any] | None = None


forms: dict[str, Form] = {}
"""Name of a collection -> how its objects are written."""


def register_proto_function(collection_name: str, proto_type: Any = None, to_proto: Callable[..., Any] | None = None,
                            from_proto: Callable[..., Any] | None = None) -> None:
    """Write the objects of a collection as messages of `proto_type`, by these functions. TypeError for what is no function,
    KeyError for a collection that has a form."""
    for name, function in (("to_proto", to_proto), ("from_proto", from_proto)):
        if function and not callable(function):
            raise TypeError(f"register_proto_function: {name} must be callable; it is {function!r}")
    if collection_name in forms:
        raise KeyError(f"register_proto_function: collection {collection_name!r} is registered already; register it once")
    forms[collection_name] = Form(proto_type, to_proto, from_proto)
