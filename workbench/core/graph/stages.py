"""The stages of one executable as the records that views show; what a stage left alone is recorded once."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from sys import getsizeof
from typing import Any, TypeVar

from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program
from workbench.core.graph.subgraph import Subgraph
from workbench.core.graph.text import attributes
from workbench.core.rings import node_bytes
from workbench.core.trace import GraphRecord, NodeRecord

__all__ = ["GIVEN", "Stages"]

GIVEN = "given"      # the type of what a body of a loop or branch gets from outside

_REFERENCE = 8      # bytes of a node's place in a stage
R = TypeVar("R")
Shares = Sequence[tuple[object, Program]]      # (device of a share, or the whole program's placement; program)
Nodes = dict[str, tuple[Operation, NodeRecord]]      # by the name that is shown


class Stages:
    """Makes the records of one executable (`key`) stage by stage.

    A record shares the nodes that the pass did not change with the stage before, and equal names and outputs with
    everybody: a stage costs what it changed, and one reference for each of its nodes.

    Bodies of loops and branches are there, in the scope of their operation (`while/body/tanh`): what is given to a body is a
    node of type `GIVEN` that runs after the operation begins.
    """

    def __init__(self, key: str, devices: Sequence[str]) -> None:
        self.key, self.devices = key, tuple(devices)
        self._before: Nodes = {}
        self._last: tuple[Shares, tuple[NodeRecord, ...]] = ((), ())      # the stage before, and its nodes
        self._shared: dict[Any, Any] = {}
        self._fresh = 0

    def whole(self, stage: str, note: str, program: Program, placement: Mapping[str, str] | None = None) -> GraphRecord:
        """One stage of the graph; there is no `placement` before operations have devices."""
        def nodes() -> Nodes:
            device, found, node = "", {}, self._node
            for op, around in _recorded(program):
                name = op.name
                if placement is not None and around is None:      # bodies run where their operation does
                    device = placement[name]
                found[name] = op, node(op, name, device, _own_name, around)
            return found
        return self._record(stage, note, [(placement, program)], nodes, False)

    def side_by_side(self, stage: str, note: str, shares: Sequence[tuple[str, Program]]) -> GraphRecord:
        """One stage of (device, its share) pairs; a name that several have, a copied constant say, gets the device's
        too."""
        owners = Counter([op.name for _, program in shares for op, _ in _recorded(program)] if len(shares) > 1 else ())

        def shown(name: str, device: str) -> str:
            return f"{name} on {device}" if owners[name] > 1 else name

        def nodes() -> Nodes:
            naming, found, node = shown if owners else _own_name, {}, self._node
            for device, program in shares:
                for op, around in _recorded(program):
                    name = naming(op.name, device)
                    found[name] = op, node(op, name, device, naming, around)
            return found
        return self._record(stage, note, shares, nodes, True)

    def _record(self, stage: str, note: str, made_of: Shares, nodes: Callable[[], Nodes], split: bool) -> GraphRecord:
        last, found = self._last
        self._fresh = _REFERENCE
        if len(last) != len(made_of) or any([p is not q or a != b for (a, p), (b, q) in zip(last, made_of)]):
            self._before = nodes()
            found = tuple([node for _, node in self._before.values()])
            self._fresh += _REFERENCE * len(found)
        self._last = made_of, found
        return GraphRecord(self.key, stage, found, self.devices, note, split, self._fresh)

    def _node(self, op: Operation, name: str, device: str, shown: Callable[[str, str], str],
              around: Operation | None = None) -> NodeRecord:
        """The record of the stage before if it still holds, or what of it still holds."""
        known = self._before.get(name)
        if known is None or not _same(known[0], op) or (
                shown is not _own_name and not self._points_at(known[1], op, device, shown)):
            return self._new(op, name, device, shown, around)
        node = known[1]
        if node.device == device and node.request == op.device:
            return node
        moved = NodeRecord(node.name, node.type, node.inputs, node.control, device, op.device, node.outputs, node.stateful,
                           node.source, node.message, node.attributes, node.gradient_of)
        self._fresh += getsizeof(moved)
        return moved

    def _points_at(self, node: NodeRecord, op: Operation, device: str, shown: Callable[[str, str], str]) -> bool:
        """Do the producers still go by the names that the record knows?"""
        return (all(name == self._tensor(shown(t.op.name, device), t.index) for name, t in zip(node.inputs, op.inputs))
                and all(name == shown(c.name, device) for name, c in zip(node.control, op.controls)))

    def _new(self, op: Operation, name: str, device: str, shown: Callable[[str, str], str],
             around: Operation | None) -> NodeRecord:
        given = around is not None and op.kind == "argument"
        controls = (*op.controls, around) if around is not None and given else op.controls
        node = NodeRecord(
            name, GIVEN if given else op.kind, tuple([self._tensor(shown(t.op.name, device), t.index) for t in op.inputs]),
            tuple([shown(c.name, device) for c in controls]), device, op.device,
            self._once(tuple([self._once((t.dtype.name, t.shape.sizes)) for t in op.outputs])), op.definition.stateful,
            op.source, _message(op), self._text(attributes(op)), self._text(op.derived))
        self._fresh += node_bytes(node)
        return node

    def _tensor(self, producer: str, index: int) -> str:
        found = self._shared.get((producer, index))
        if found is None:
            found = self._shared[producer, index] = f"{producer}:{index}"
        return str(found)

    def _text(self, text: str) -> str:
        """The text, of which equal ones are kept once, and counted."""
        if text not in self._shared:
            self._fresh += getsizeof(text)
        return self._once(text)

    def _once(self, value: R) -> R:
        return self._shared.setdefault(value, value)      # type: ignore[no-any-return]


def _message(op: Operation) -> str:
    """What a send and its receive have in common."""
    if op.kind not in ("send", "receive"):
        return ""
    return "|".join(str(op.attrs[end]) for end in ("tensor", "source", "target"))


def _recorded(program: Program) -> Iterator[tuple[Operation, Operation | None]]:
    """All operations of a program, each followed by what stands in its bodies, with the operation around that."""
    for op in program.graph.operations:
        yield op, None
        for value in op.attrs.values():
            if isinstance(value, Subgraph):
                yield from _inside(op, value)


def _inside(op: Operation, body: Subgraph) -> Iterator[tuple[Operation, Operation]]:
    """What stands in a body of a loop or branch, at any depth, and in whose. Calls of functions are the operations of
    their bodies by then (`workbench/core/passes/inline.py`); what has names of its own is left out: a data set's function."""
    for inner in body.operations:
        if inner.name.startswith(f"{op.name}/"):
            yield inner, op
            for value in inner.attrs.values():
                if isinstance(value, Subgraph):
                    yield from _inside(inner, value)


def _own_name(name: str, device: str) -> str:
    return name


def _same(before: Operation, op: Operation) -> bool:
    """Would the records of both be equal, apart from the devices? Asked of every node of every stage that changed any."""
    if before is op:
        return True
    if before.definition is not op.definition or before.source != op.source or before.derived != op.derived or (
            before.attrs is not op.attrs and not _alike(before, op)):
        return False
    read, reads = before.inputs, op.inputs
    if len(read) != len(reads):
        return False
    for a, b in zip(read, reads):
        if a.op.name != b.op.name or a.index != b.index:
            return False
    if (before.controls or op.controls) and [c.name for c in before.controls] != [c.name for c in op.controls]:
        return False
    gave, gives = before.outputs, op.outputs
    return len(gave) == len(gives) and all([
        a.dtype is b.dtype and (a.shape is b.shape or a.shape == b.shape) for a, b in zip(gave, gives)])


def _alike(before: Operation, op: Operation) -> bool:
    """Do both have the same attributes, as far as people are told?"""
    a, b = before.attrs, op.attrs
    return (a.keys() == b.keys() and all(map(is_, a.values(), b.values()))) or attributes(before) == attributes(op)
