"""A graph as stable text: for golden tests, error reports and eyes."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.program import Program, topological

__all__ = ["to_text"]


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
