"""Which operation of ours stands for which of TensorFlow's: rows of a small language, read in both directions."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import registry
from workbench.core.graph.shape import Shape
from workbench.formats.values import attr, attr_value, kind_of

__all__ = ["GRADIENT", "OURS", "Node", "Row", "exporters", "exports", "importers", "imports", "rows"]

exporters: dict[str, Callable[..., None]] = {}
"""Operation of ours -> function(writer, op) that writes its node or nodes."""
GRADIENT = "_gradient_op_type"
"""The attribute that names the registered gradient of a node where it is not that of its type."""
OURS = "_workbench"
"""An attribute that TensorFlow does not look at: which operation of ours the node was."""
importers: dict[str, Callable[..., Any]] = {}
"""Operation of TensorFlow -> function(node) that builds ours; gives tensors, or an operation without outputs."""


def exports(*types: str) -> Callable[..., Any]:
    """Decorator: the function writes operations of these types of ours."""
    def add(function: Callable[..., None]) -> Callable[..., None]:
        exporters.update(dict.fromkeys(types, function))
        return function
    return add


def imports(*types: str, handles: int = 0) -> Callable[..., Any]:
    """Decorator: the function builds nodes of these types of TensorFlow; its first `handles` inputs stay handles of state."""
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        importers.update(dict.fromkeys(types, function))
        function.handles = handles      # type: ignore[attr-defined]
        return function
    return add


@dataclass
class Node:
    """A node of a GraphDef while it is imported: its inputs are tensors already."""

    proto: Any
    name: str
    inputs: list[Tensor]
    producer: int = 0               # of the GraphDef: by it the meaning of some nodes changed
    shape: Shape | None = None      # that of a loop variable in all iterations, where the node is an Enter

    @property
    def where(self) -> str:
        return f"import_graph_def: node {self.proto.name!r} ({self.proto.op})"

    @property
    def exact(self) -> str:
        """The name in the form that builders take literally."""
        return self.name + "/"

    def has(self, key: str) -> bool:
        return key in self.proto.attr

    def attr(self, key: str, default: Any = None) -> Any:
        """The attribute `key` as a Python value."""
        found = attr_value(self.proto.attr[key], f"{self.where}, attribute {key!r}") if self.has(key) else None
        return default if found is None else found

    def needed(self, key: str) -> Any:
        """The attribute `key`; InvalidArgumentError when the node lacks it."""
        found = self.attr(key)
        if found is None:
            raise errors.InvalidArgumentError(f"{self.where}: attribute {key!r} is missing; write the graph anew")
        return found


# the language of rows

@dataclass(frozen=True)
class Row:
    """One line: `ours Theirs inputs | attributes`.

    Inputs in TensorFlow's order: `x` is an input of ours, `*values` the list of all remaining ones, `axis!` an attribute of
    ours that is a constant input there (`axis!int64` of that dtype, int32 else). Attributes: `T:x` is the dtype of that input,
    `T>0` that of an output, `N#values` how many there are, `keep_dims=keepdims` is an attribute of ours, `k=k:type` one of a
    kind given.
    """

    ours: str
    theirs: str
    inputs: tuple[str, ...]
    attrs: tuple[tuple[str, str, str], ...]
    handles: int

    def write(self, writer: Any, op: Operation) -> None:
        """The node for `op`."""
        given: dict[str, Tensor | np.dtype[Any] | list[Tensor]] = {}
        names = list(op.definition.inputs)
        refs = []
        for term in self.inputs:
            name, _, dtype = term.lstrip("*").partition("!")
            if term.startswith("*"):
                found = list(op.inputs[len(names):])
                given[name] = found
                refs += [writer.ref(t) for t in found]
            elif "!" in term:
                value = np.asarray(op.attrs[name], as_dtype(dtype or "int32").numpy)
                given[name] = value.dtype
                refs.append(writer.constant(op, name, value))
            else:
                given[name] = op.inputs[names.index(name)]
                refs.append(writer.ref(given[name]))
        attrs = {key: self._attr(writer, op, given, sign, source) for key, sign, source in self.attrs}
        writer.node(op, self.theirs, refs, attrs)

    def _attr(self, writer: Any, op: Operation, given: dict[str, Any], sign: str, source: str) -> Any:
        if sign == "=":
            name, _, kind = source.partition(":")
            return attr(kind or kind_of(op.attrs[name]), op.attrs[name])
        if sign == ">":
            return attr("type", op.outputs[int(source)].dtype)
        found = given[source]
        if sign == "#":
            return attr("i", len(found))
        if isinstance(found, list):
            found = found[0]
        return attr("type", writer.dtype(found) if isinstance(found, Tensor) else as_dtype(found))

    def read(self, node: Node) -> Any:
        """Our operation for `node`."""
        needed = sum(not term.startswith("*") for term in self.inputs)
        many = needed < len(self.inputs)
        if len(node.inputs) < needed or (not many and len(node.inputs) > needed):
            raise errors.InvalidArgumentError(f"{node.where}: it has {len(node.inputs)} inputs; {needed} are needed"
                                              + " (More inputs specified than the op expects)" * (len(node.inputs) > needed))
        rest, plain, listed = list(node.inputs), dict[str, Tensor](), list[Tensor]()
        attrs: dict[str, Any] = {}
        for position, term in enumerate(self.inputs):
            if term.startswith("*"):
                stop = len(rest) - (len(self.inputs) - position - 1)
                listed, rest = rest[:stop], rest[stop:]
            elif "!" in term:
                attrs[term.partition("!")[0]] = rest.pop(0)
            else:
                plain[term] = rest.pop(0)
        for key, sign, source in self.attrs:
            if sign == "=" and node.has(key):
                attrs[source.partition(":")[0]] = node.attr(key)
        definition = registry.find(self.ours)
        values = [plain[name] for name in definition.inputs]
        return raw(self.ours)(*values, *([listed] if definition.variadic else []), **attrs, name=node.exact)


_TERM = re.compile(r"(\w+)([:#=>])([\w:()]+)")


def rows(text: str, handles: int = 0, read: bool = True, write: bool = True) -> None:
    """Take the lines of `text` into both directions, or into one."""
    for line in text.strip().splitlines():
        left, _, right = line.partition("|")
        ours, theirs, *inputs = left.split()
        row = Row(ours, theirs, tuple(inputs), tuple(_TERM.findall(right)), handles)
        if write:
            exporters[ours] = row.write
        if read:
            importers[theirs] = imports(theirs, handles=handles)(_reader(row))


def _reader(row: Row) -> Callable[[Node], Any]:
    def read(node: Node) -> Any:
        return row.read(node)
    return read
