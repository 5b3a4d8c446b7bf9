"""The scope tree of a graph, and which of its scopes are open: what a collapsed drawing is made from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.core.trace import GraphRecord, NodeRecord
from workbench.viz.palette import natural

__all__ = ["Edge", "Scope", "ScopeTree", "tensor_bytes"]

CROWD = 40  # operations directly in one scope beyond which they are grouped by type
ALIKE = 3  # scopes of equal structure beside each other from which they are stacked,
GLANCE = 12  # where there are more boxes beside each other than one sees at a glance
APART = 8  # scopes of equal structure on devices of their own up to which they stay apart: replicas are compared
MEMBERS = 40  # scopes in one stack beyond which it holds stacks
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
    kind: str = "scope"  # "scope" | "group" (by type, not by name) | "stack" (scopes of equal structure)
    alike: int = 1  # scopes that a stack stands for

_NUMBERED = re.compile(r"(.*?)_?(\d*)$", re.DOTALL)


def stem_and_number(id: str) -> tuple[str, str]:
    """("block", "12") of "a/block_12", ("block", "") of "a/block"."""
    found = _NUMBERED.match(id.rpartition("/")[2])
    return (found[1], found[2]) if found else (id, "")


@dataclass(slots=True)
class Edge:
    """All tensors that flow from one operation to another."""

    source: str
    target: str
    index: int = -1  # output of the source; -1 = control only


class Bundle(NamedTuple):
    """All edges between two that are drawn."""

    source: str
    target: str
    tensors: int  # different ones
    nbytes: int  # of them together
    edge: Edge  # one of the edges, with a tensor where there is one


class ScopeTree:
    """A graph record indexed by name: scopes ("" is the root), edges, and the owner of each operation."""

    def __init__(self, record: GraphRecord) -> None:
        self.record = record
        self.nodes: dict[str, NodeRecord] = {node.name: node for node in record.nodes}
        self.scopes: dict[str, Scope] = {"": Scope("", None)}
        self.home: dict[str, str] = {}  # operation -> scope it lies in directly
        self._add_operations()
        self._count()
        self._stack_repeats()
        self._group_crowds()
        self.edges = list(self._edges())
        self._places = {name: i for i, name in enumerate(self.nodes)}
        self._numbers = {id: i for i, id in enumerate(self.scopes)}
        self._homes = np.fromiter((self._numbers[self.home[name]] for name in self.nodes), np.int64, len(self.nodes))
        ends = [[self._places[end] for end in (edge.source, edge.target)] for edge in self.edges]
        self._flows = _Flows(np.asarray(ends, np.int64).reshape(-1, 2), *self._tensors())

    @cached_property
    def gradients(self) -> dict[str, list[str]]:
        """Operation -> the operations that were made for its gradient."""
        found: dict[str, list[str]] = {}
        for node in self.record.nodes:
            if node.gradient_of:
                found.setdefault(node.gradient_of, []).append(node.name)
        return found

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
            devices = Counter(self.nodes[name].device for name in names)
            self.scopes[id] = Scope(id, scope.id, [], names, len(names), devices, "group")
            self.home.update(dict.fromkeys(names, id))

    def _stack_repeats(self) -> None:
        """Scopes beside each other that differ in a number only, name and structure, get a stack around them."""
        structure = Structures(self)
        for scope in [one for one in self.scopes.values() if len(one.scopes) + len(one.operations) > GLANCE]:
            alike: dict[tuple[str, int], list[str]] = {}
            for id in scope.scopes:
                alike.setdefault((stem_and_number(id)[0], structure.of(id)), []).append(id)
            for (stem, _), ids in alike.items():
                places = {frozenset(self.scopes[id].devices) for id in ids}
                if len(ids) >= ALIKE and (len(places) == 1 or len(ids) > APART):
                    self._stack(scope, stem, sorted(ids, key=natural))

    def _stack(self, parent: Scope, stem: str, ids: list[str]) -> None:
        """One scope that stands for `ids`; very many are stacked in parts first."""
        stack = self._stacked(parent, stem, ids)
        if stack is not None and len(ids) > MEMBERS:
            size = max(ALIKE, isqrt(len(ids)))
            for at in range(0, len(ids), size):
                self._stacked(stack, stem, ids[at:at + size])

    def _stacked(self, parent: Scope, stem: str, ids: list[str]) -> Scope | None:
        first, last = (stem_and_number(id)[1] or "0" for id in (ids[0], ids[-1]))
        id = f"{ids[0].rpartition('/')[0]}/{stem}_{first}…{last}".lstrip("/")
        if id in self.scopes or id in self.nodes:
            return None
        gone = set(ids)
        members = [self.scopes[one] for one in ids]
        stack = self.scopes[id] = Scope(id, parent.id, ids, [], sum(m.count for m in members),
                                        sum((m.devices for m in members), Counter()), "stack", len(ids))
        parent.scopes = [id, *(one for one in parent.scopes if one not in gone)]
        for member in members:
            member.parent = id
        return stack

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

    def _tensors(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Of each edge the number of its tensor, 0 for control alone, and that tensor's bytes."""
        numbers: dict[tuple[str, int], int] = {}
        sizes = [0]
        found = np.zeros(len(self.edges), np.int64)
        for at, edge in enumerate(self.edges):
            if edge.index >= 0:
                number = numbers.setdefault((edge.source, edge.index), len(sizes))
                if number == len(sizes):
                    outputs = self.nodes[edge.source].outputs
                    sizes.append(tensor_bytes(*outputs[edge.index]) if edge.index < len(outputs) else 0)
                found[at] = number
        return found, np.asarray(sizes, np.int64)[found]

    @cached_property
    def alike(self) -> dict[str, int]:
        """Scopes that are not the only ones of their structure: the number of that structure, from 1 on."""
        structure = Structures(self)
        numbers = {id: structure.of(id) for id, scope in self.scopes.items() if scope.kind == "scope" and id}
        many = [number for number, count in Counter(numbers.values()).items() if count > 1]
        places = {number: place for place, number in enumerate(many, 1)}
        return {id: places[number] for id, number in numbers.items() if number in places}

    @cached_property
    def _kinds(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """The types of operations, and of each operation the place of its own among them."""
        kinds = {kind: i for i, kind in enumerate(dict.fromkeys(node.type for node in self.nodes.values()))}
        return list(kinds), np.fromiter((kinds[node.type] for node in self.nodes.values()), np.int64, len(self.nodes))

    def kinds(self, id: str) -> list[tuple[str, int]]:
        """The types of the operations at any depth in scope `id` with their numbers, the most frequent first."""
        names, codes = self._kinds
        counts = np.bincount(codes[self._within(id)], minlength=len(names))
        return [(names[code], int(counts[code])) for code in np.argsort(-counts, kind="stable") if counts[code]]

    def around(self, id: str) -> tuple[list[Edge], list[Edge]]:
        """The edges into operation `id`, and those out of it."""
        ends, place = self._flows.ends, self._places[id]
        into, out = (np.flatnonzero(ends[:, side] == place) for side in (1, 0))
        return [self.edges[at] for at in into.tolist()], [self.edges[at] for at in out.tolist()]

    def across(self, id: str) -> tuple[list[Edge], list[Edge]]:
        """The edges into scope `id`, one of each operation outside of it, and those out of it, one to each: passes over
        columns, not a walk through the scope."""
        ends = self._flows.ends
        begins, reaches = self._within(id)[ends].T
        into, out = np.flatnonzero(reaches & ~begins), np.flatnonzero(begins & ~reaches)
        return self._once(into, ends[into, 0]), self._once(out, ends[out, 1])

    def _once(self, edges: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> list[Edge]:
        """The first of these edges with each of the operations `others` at its end."""
        return [self.edges[at] for at in edges[np.sort(np.unique(others, return_index=True)[1])].tolist()]

    def _within(self, id: str) -> npt.NDArray[np.bool_]:
        """Which operations lie in scope `id`, at any depth."""
        inside, below = np.zeros(len(self.scopes), bool), [id]
        while below:
            at = below.pop()
            inside[self._numbers[at]] = True
            below += self.scopes[at].scopes
        return np.asarray(inside[self._homes])

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

    def owners(self, opened: set[str]) -> Owners:
        """What stands for each operation in the drawing: itself, or the outermost closed scope around it."""
        numbers, shut, closed = self._numbers, np.arange(len(self.scopes)), np.zeros(len(self.scopes), np.int64)
        shut[[numbers[id] for id in opened]] = 0
        for level, around in self._levels:
            closed[level] = np.where(closed[around] > 0, closed[around], shut[level])
        closed = closed[self._homes]
        alone = np.bincount(closed, minlength=len(numbers))
        own = len(numbers) + np.arange(len(closed))
        return Owners(self, np.where((closed > 0) & (alone[closed] > 1), closed, own), self._flows)

    @cached_property
    def ids(self) -> list[str]:
        """All scopes, then all operations."""
        return [*self.scopes, *self.nodes]

    @cached_property
    def _levels(self) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """The numbers of the scopes at each depth, and of those that each lies in, the outermost depth first."""
        levels, level = [], [""]
        while level := [id for above in level for id in self.scopes[above].scopes]:
            pairs = [(self._numbers[id], self._numbers[self.scopes[id].parent or ""]) for id in level]
            levels.append((np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])))
        return levels

    def place(self, name: str) -> int | None:
        """The place of an operation in the order of the record."""
        return self._places.get(name)

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


class _Flows(NamedTuple):
    """The edges of a graph in columns."""

    ends: npt.NDArray[np.int64]  # places of source and target
    tensors: npt.NDArray[np.int64]  # number of the tensor, 0 for control alone
    nbytes: npt.NDArray[np.int64]  # of that tensor


class Owners:
    """Who stands for whom: numbers, because a graph has many operations and a drawing few."""

    def __init__(self, tree: ScopeTree, codes: npt.NDArray[np.int64], flows: _Flows) -> None:
        self._tree, self._codes, self._flows = tree, codes, flows
        self._ids = tree.ids

    def get(self, name: str) -> str | None:
        """What stands for operation `name`; None when there is no such operation. One stands for itself."""
        place = self._tree.place(name)
        return None if place is None else self._ids[self._codes[place]]

    def visible(self) -> Counter[str]:
        """What is drawn, and how many operations it stands for, in the order of the record."""
        codes, first, counts = np.unique(self._codes, return_index=True, return_counts=True)
        order = np.argsort(first)
        return Counter({self._ids[code]: int(count) for code, count in zip(codes[order], counts[order])})

    def bundles(self) -> list[Bundle]:
        """What flows between two that are drawn: as much work as there are bundles, beside passes over columns."""
        ends = self._codes[self._flows.ends]
        crossing = np.flatnonzero(ends[:, 0] != ends[:, 1])
        if not len(crossing):
            return []
        pairs = ends[crossing, 0] * len(self._ids) + ends[crossing, 1]
        count = int(self._flows.tensors.max()) + 1
        keys, first = np.unique(pairs * count + self._flows.tensors[crossing], return_index=True)
        edges, pairs, real = crossing[first], keys // count, keys % count > 0
        begins = np.flatnonzero(np.diff(pairs, prepend=-1))
        lasts = edges[np.append(begins[1:], len(pairs)) - 1].tolist()      # control alone has number 0: it comes first
        tensors = np.add.reduceat(real.astype(np.int64), begins).tolist()
        nbytes = np.add.reduceat(np.where(real, self._flows.nbytes[edges], 0), begins).tolist()
        between = (divmod(pair, len(self._ids)) for pair in pairs[begins].tolist())
        return [Bundle(self._ids[a], self._ids[b], many, size, self._tree.edges[last])
                for (a, b), many, size, last in zip(between, tensors, nbytes, lasts)]


class Structures:
    """Scopes numbered by what is in them: types and fan-in of operations in order, and the scopes in them; never names."""

    def __init__(self, tree: ScopeTree) -> None:
        self._tree = tree
        self._known: dict[tuple[object, ...], int] = {}
        self._numbers: dict[str, int] = {}

    def of(self, id: str) -> int:
        """The same number for scopes of equal structure."""
        if id not in self._numbers:
            scope, nodes = self._tree.scopes[id], self._tree.nodes
            shape = (*((nodes[name].type, len(nodes[name].inputs)) for name in scope.operations), *map(self.of, scope.scopes))
            self._numbers[id] = self._known.setdefault(shape, len(self._known))
        return self._numbers[id]
