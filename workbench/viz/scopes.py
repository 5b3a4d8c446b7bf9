"""The scope tree of a graph, and which of its scopes are open: what a collapsed drawing is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from workbench.core.trace import GraphRecord, NodeRecord
from workbench.viz.palette import natural

__all__ = ["Edge", "Scope", "ScopeTree", "tensor_bytes"]

CROWD = 40  # operations directly in one scope beyond which they are grouped by type
BACKGROUND = ("gradients", "train", "optimizer", "init", "save", "report_uninitialized")
"""Scopes of machinery: closed until asked for (a scope named so, or with a number or name behind it)."""
_ITEM = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "complex128": 16,
    "resource": 0,
}


def tensor_bytes(dtype: str, shape: Sequence[int | None] | None) -> int:
    """Bytes of a tensor; unknown dimensions count as 1, an unknown shape as one element."""
    return _ITEM.get(dtype, 8) * prod(1 if d is None else d for d in shape or ())


@dataclass(slots=True)
class Scope:
    """One name scope: the scopes and operations directly in it."""

    id: str
    parent: str | None
    scopes: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    count: int = 0  # operations at any depth
    devices: Counter[str] = field(default_factory=Counter)
    kind: str = "scope"  # "scope" | "group" (by type, not by name)


@dataclass(slots=True)
class Edge:
    """All tensors that flow from one operation to another."""

    source: str
    target: str
    index: int = -1  # output of the source; -1 = control only


class ScopeTree:
    """A graph record indexed by name: scopes ("" is the root), edges, and the owner of each operation."""

    def __init__(self, record: GraphRecord) -> None:
        self.record = record
        self.nodes: dict[str, NodeRecord] = {node.name: node for node in record.nodes}
        self.scopes: dict[str, Scope] = {"": Scope("", None)}
        self.home: dict[str, str] = {}  # operation -> scope it lies in directly
        self._add_operations()
        self._group_crowds()
        self._count()
        self.edges = list(self._edges())

    def _add_operations(self) -> None:
        """NOTE: an operation may have the name of a scope (`W` beside `W/read`): it then lies in that scope."""
        for name in self.nodes:
            self._scope(name.rpartition("/")[0])
        for name in self.nodes:
            home = name if name in self.scopes else name.rpartition("/")[0]
            self.scopes[home].operations.append(name)
            self.home[name] = home

    def _scope(self, id: str) -> Scope:
        if id not in self.scopes:
            parent = id.rpartition("/")[0]
            self._scope(parent).scopes.append(id)
            self.scopes[id] = Scope(id, parent)
        return self.scopes[id]

    def _group_crowds(self) -> None:
        """Scopes that hold too many operations to draw get a group per operation type."""
        for scope in list(self.scopes.values()):
            if len(scope.operations) > CROWD:
                self._group(scope)

    def _group(self, scope: Scope) -> None:
        by_type: dict[str, list[str]] = {}
        for name in scope.operations:
            by_type.setdefault(self.nodes[name].type, []).append(name)
        scope.operations = []
        for kind, names in sorted(by_type.items()):
            if len(names) < 4:
                scope.operations += names
                continue
            id = f"{scope.id}/{kind}*".lstrip("/")
            scope.scopes.append(id)
            self.scopes[id] = Scope(id, scope.id, operations=names, kind="group")
            self.home.update(dict.fromkeys(names, id))

    def _count(self) -> None:
        for name, home in self.home.items():
            device = self.nodes[name].device
            at: str | None = home
            while at is not None:
                scope = self.scopes[at]
                scope.count += 1
                scope.devices[device] += 1
                at = scope.parent

    def _edges(self) -> Iterable[Edge]:
        for node in self.record.nodes:
            for text in node.inputs:
                source, _, index = text.rpartition(":")
                if not index.isdigit():
                    source, index = text, "0"
                if source in self.nodes:
                    yield Edge(source, node.name, int(index))
            for source in node.control:
                if source in self.nodes:
                    yield Edge(source, node.name)

    def children(self, id: str) -> int:
        scope = self.scopes[id]
        return len(scope.scopes) + len(scope.operations)

    def ancestors(self, id: str) -> list[str]:
        """`id` and the scopes around it, innermost first, without the root."""
        found, at = [], id if id in self.scopes else self.home[id]
        while at:
            found.append(at)
            at = self.scopes[at].parent or ""
        return found

    def owners(self, opened: set[str]) -> dict[str, str]:
        """Operation -> what stands for it in the drawing: itself, or the outermost closed scope around it."""
        stands: dict[str, str] = {"": ""}

        def outermost(id: str) -> str:
            if id not in stands:
                above = outermost(self.scopes[id].parent or "")
                stands[id] = above or ("" if id in opened else id)
            return stands[id]

        closed = {name: outermost(home) for name, home in self.home.items()}
        alone = Counter(closed.values())
        return {name: scope if alone[scope] > 1 and scope else name for name, scope in closed.items()}  # one stands for itself

    def default_open(self, budget: int) -> list[str]:
        """Scopes to open at first: level by level, small ones first, while at most `budget` nodes are visible."""
        visible, opened = self.children(""), []
        level = self.scopes[""].scopes
        while level:
            below: list[str] = []
            for id in sorted(level, key=lambda i: (self.children(i), natural(i))):
                gain = self.children(id) - 1
                if visible + gain <= budget and self._inviting(id):
                    visible += gain
                    opened.append(id)
                    below += self.scopes[id].scopes
            level = below
        return opened

    def _inviting(self, id: str) -> bool:
        """Not machinery, not a group by type, and not one operation with its helpers (`W` with `W/read`)."""
        return not self.background(id) and self.scopes[id].kind == "scope" and id not in self.nodes

    @staticmethod
    def background(id: str) -> bool:
        leaf = id.rpartition("/")[2].lower()
        return leaf.rstrip("_0123456789") in BACKGROUND or leaf.startswith("gradient") or "optimizer" in leaf
