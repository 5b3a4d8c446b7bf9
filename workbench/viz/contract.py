"""The wire contract in TypeScript and its hash, both read off `schema.py`; `python _build/contract.py` writes the file."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.trace import STATES, StatusRecord, TaskRecord
from workbench.viz import schema

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


def interface(record: type, name: str = "") -> list[str]:
    hints = typing.get_type_hints(record)
    lines = [f"export interface {name or record.__name__} {{"]
    for field in dataclasses.fields(record):
        kind = "Status" if (record, field.name) == (schema.Frame, "status") else typescript(hints[field.name])
        lines.append(f"  {field.name}: {kind};")
    return lines


@functools.cache
def _body() -> str:
    records = [value for value in vars(schema).values() if dataclasses.is_dataclass(value) and isinstance(value, type)]
    body = [*interface(TaskRecord), "}", ""]
    status = interface(StatusRecord, "Status")
    status[1 + [f.name for f in dataclasses.fields(StatusRecord)].index("state")] = "  state: State;"
    body += [*status, *(f"  {name}: {kind};" for name, kind in EXTRA.items()), "}", ""]
    for record in records:
        body += [*interface(record), "}", ""]
    states = "\n".join(f"  | '{state}'" for state in STATES)
    commands = " | ".join(f"'{command}'" for command in (*schema.COMMANDS, "ack"))
    return "\n".join([f"export type State =\n{states};", f"export type Command = {commands};", "", *body]).rstrip() + "\n"


def digest() -> str:
    """Identity of the contract: page and kernel compare it when they meet."""
    return hashlib.sha256(_body().encode()).hexdigest()[:12]


def text() -> str:
    """The whole file."""
    head = ["/** Written from workbench/viz/schema.py by _build/contract.py; never edited. */", "",
            f"export const VERSION = {schema.VERSION};", f"export const CONTRACT = '{digest()}';", "", ""]
    return "\n".join(head) + _body()
