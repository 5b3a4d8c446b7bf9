"""The wire contract in TypeScript and its hash, read off `schema.py` and the views; `_build/contract.py` writes the file."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.trace import STATES, StatusRecord, TaskRecord
from workbench.viz import schema
from workbench.viz.views import VIEWS

__all__ = ["digest", "text"]

PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", Any: "unknown"}
EXTRA = {"seconds": "number", "records_lost": "number"}      # what a status says besides its record


def typescript(kind: Any) -> str:
    """The TypeScript type of a Python one; sequences of numbers arrive as typed arrays or lists."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if dataclasses.is_dataclass(kind):
        return typing.cast(type, kind).__name__
    if type(None) in arguments:
        return f"{typescript(next(a for a in arguments if a is not type(None)))} | null"
    if origin is Sequence:
        return "ArrayLike<number>" if arguments[0] in (int, float, float | None) else f"{typescript(arguments[0])}[]"
    if origin in (list, tuple):
        return f"{typescript(arguments[0])}[]"
    if origin in (dict, Mapping):
        return f"Record<string, {typescript(arguments[1])}>"
    raise TypeError(f"contract: {kind} has no TypeScript type; give it one in workbench/viz/contract.py")


SPECIAL = {  # fields whose type Python does not say
    (schema.Update, "status"): "Partial<Status>",
    (schema.Update, "topics"): "Partial<Topics>",
    (schema.Answer, "status"): "Partial<Status>",
    (schema.Request, "command"): "Command",
    (StatusRecord, "broken"): "[string, string][]",  # fact and what to do, in words
}


def interface(record: type, name: str = "", optional: bool = False) -> list[str]:
    """A record as a TypeScript interface; `optional`: the kernel has a value for what is left out."""
    hints = typing.get_type_hints(record)
    lines = [f"export interface {name or record.__name__} {{"]
    for field in dataclasses.fields(record):
        kind = SPECIAL.get((record, field.name)) or typescript(hints[field.name])
        lines.append(f"  {field.name}{'?' if optional else ''}: {kind};")
    return [*lines, "}", ""]


def _records() -> list[type]:
    """Those of the schema, and those that views bring along, each once."""
    found = [value for value in vars(schema).values() if dataclasses.is_dataclass(value) and isinstance(value, type)]
    for kind in VIEWS.values():
        module = vars(sys.modules[kind.__module__]).values()
        found += [v for v in module if dataclasses.is_dataclass(v) and isinstance(v, type) and v.__module__ == kind.__module__
                  and not v.__name__.startswith("_")]
    return list(dict.fromkeys(found))


def _topics() -> list[str]:
    """Topic -> record, and topic -> parameters."""
    body = ["/** What travels under each topic. */", "export interface Topics {"]
    body += [f"  {topic}: {kind.record.__name__};" for topic, kind in VIEWS.items()]
    body += ["}", "", "/** What a page may say of each topic that it watches. */", "export interface Parameters {"]
    for topic, kind in VIEWS.items():
        body.append(f"  {topic}: {kind.params.__name__ if dataclasses.is_dataclass(kind.params) else 'Record<string, never>'};")
    return [*body, "}", "", "export type Topic = keyof Topics;", ""]


@functools.cache
def _body() -> str:
    parameters = {kind.params for kind in VIEWS.values()}
    body = interface(TaskRecord)
    status = interface(StatusRecord, "Status")
    status[1 + [f.name for f in dataclasses.fields(StatusRecord)].index("state")] = "  state: State;"
    body += [*status[:-2], *(f"  {name}: {kind};" for name, kind in EXTRA.items()), *status[-2:]]
    for record in _records():
        body += interface(record, optional=record in parameters)
    body += _topics()
    states = "\n".join(f"  | '{state}'" for state in STATES)
    commands = " | ".join(f"'{command}'" for command in schema.COMMANDS)
    return "\n".join([f"export type State =\n{states};", f"export type Command = {commands};", "", *body]).rstrip() + "\n"


def digest() -> str:
    """Identity of the contract: page and kernel compare it when they meet."""
    return hashlib.sha256(_body().encode()).hexdigest()[:12]


def text() -> str:
    """The whole file."""
    head = ["/** Written from workbench/viz/schema.py and workbench/viz/views/ by _build/contract.py; never edited. */", "",
            f"export const VERSION = {schema.VERSION};", f"export const CONTRACT = '{digest()}';", "", ""]
    return "\n".join(head) + _body()
