"""A graph as stable text: for golden tests, error reports and eyes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.program import Program, topological
from workbench.core.graph.shape import Shape

__all__ = ["attributes", "to_text"]

_INTERNAL = frozenset({"columns", "holder", "results", "space", "steps", "token"})      # how a kernel is made, not what of
_LISTED = 8       # values of a list that are told
_LONGEST = 60     # characters of one attribute


def to_text(item: Graph | Program, device: bool = False) -> str:
    """One line per operation in execution order: `name = type(inputs) {attributes} -> dtype[shape]`."""
    graph = item.graph if isinstance(item, Program) else item
    lines = [_line(op, device) for op in topological(graph.operations)]
    if isinstance(item, Program):
        lines.append("fetch " + ", ".join([t.name for t in item.fetches] + [f"^{op.name}" for op in item.targets]))
    return "\n".join(lines) + "\n"


def _line(op: Operation, device: bool) -> str:
    inputs = ", ".join([_short(t.name) for t in op.inputs] + [f"^{c.name}" for c in op.controls])
    attrs = ", ".join(f"{k}={_value(v)}" for k, v in op.attrs.items() if k != "dtype" and not _default(op, k, v))
    outputs = ", ".join(f"{t.dtype.name}{t.shape}" for t in op.outputs) or "()"
    bodies = "".join(f"\n    {k}:\n" + "".join(f"      {row}\n" for row in to_text(v).splitlines())
                     for k, v in op.attrs.items() if isinstance(v, Graph)).rstrip("\n")
    place = f" @{op.device}" if device and op.device else ""
    return f"{op.name} = {op.kind}({inputs})" + (f" {{{attrs}}}" if attrs else "") + f" -> {outputs}{place}{bodies}"


def _default(op: Operation, key: str, value: Any) -> bool:
    if value is None or isinstance(value, Graph):
        return True
    return not isinstance(value, np.ndarray) and bool(value == op.definition.attrs.get(key, _MISSING))


_MISSING = object()


def _short(name: str) -> str:
    return name.removesuffix(":0")


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return repr(value.item()) if value.size == 1 else f"<{value.dtype}{list(value.shape)}>"
    if isinstance(value, DType):
        return value.name
    return repr(value)


def attributes(op: Operation) -> str:
    """What makes this operation of its kind differ from others, for people: "strides [1, 1], padding SAME". Large arrays are
    their dtype and shape; bodies, functions and what is made for kernels alone is left out."""
    told = [f"{key} {text}" for key, value in op.attrs.items()
            if key[0] != "_" and key not in _INTERNAL and (text := _told(value))]
    return ", ".join(told)


def _told(value: Any) -> str:
    """A value as people read it, "" where they cannot."""
    way = _WAYS.get(type(value))
    if way is None and isinstance(value, np.generic):
        return _told(value.item())
    return way(value) if way is not None else ""


def _text(value: str | bytes) -> str:
    head = value[:_LONGEST + 1]
    text = head if isinstance(head, str) else head.decode(errors="backslashreplace")
    return _cut(text if text.isprintable() else repr(text))


def _array(value: np.ndarray) -> str:
    small = value.size == 1 or (value.ndim < 2 and value.size <= _LISTED)
    return _told(value.tolist()) if small else f"{value.dtype}{list(value.shape)}"


def _listed(values: Sequence[Any]) -> str:
    """A list of values, "" where there is one that people cannot read."""
    told = ["?" if each is None else _told(each) or (repr(each) if each in ("", b"") else "") for each in values[:_LISTED]]
    whole = ", ".join(told + ["…"] * (len(values) > _LISTED))
    return _cut(f"[{whole}]") if all(told) else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST - 1]}…"


_WAYS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false", str: _text, bytes: _text, int: str, float: "{:g}".format, complex: str,
    DType: lambda value: value.name, np.ndarray: _array, list: _listed, tuple: _listed,
    Shape: lambda value: "?" if value.sizes is None else _listed(value.sizes)}
