"""The stages of one executable as the records that views show; what a stage left alone is recorded once."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program
from workbench.core.trace import GraphRecord, NodeRecord, node_bytes

__all__ = ["Stages"]

_REFERENCE = 8      # bytes of a node's place in a stage
R = TypeVar("R")


class Stages:
    """Makes the records of one executable (`key`) stage by stage.

    A record shares the nodes that the pass did not change with the stage before, and equal names and outputs with
    everybody: a stage costs what it changed, and one reference for each of its nodes.
    """

    def __init__(self, key: str, devices: Sequence[str]) -> None:
        self.key, self.devices = key, tuple(devices)
        self._before: dict[tuple[str, str], tuple[Operation, NodeRecord]] = {}
        self._shared: dict[Any, Any] = {}
        self._fresh = 0

    def whole(self, stage: str, note: str, program: Program, placement: Mapping[str, str] | None = None) -> GraphRecord:
        """One stage of the graph; there is no `placement` before operations have devices."""
        devices = placement or {}
        return self._record(stage, note, [(op, devices.get(op.name, "")) for op in program.graph.operations],
                            lambda name, device: name)

    def side_by_side(self, stage: str, note: str, shares: Sequence[tuple[str, Program]]) -> GraphRecord:
        """One stage of (device, its share) pairs; a name that several have, a copied constant say, gets the device's
        too."""
        owners = Counter(op.name for _, program in shares for op in program.graph.operations)
        return self._record(stage, note, [(op, device) for device, program in shares for op in program.graph.operations],
                            lambda name, device: f"{name} on {device}" if owners[name] > 1 else name, True)

    def _record(self, stage: str, note: str, operations: Sequence[tuple[Operation, str]],
                shown: Callable[[str, str], str], split: bool = False) -> GraphRecord:
        self._fresh = _REFERENCE * len(operations)
        found: dict[tuple[str, str], tuple[Operation, NodeRecord]] = {}
        for op, device in operations:
            name = shown(op.name, device)
            before = self._before.get((name, device))
            same = before is not None and _same(before[0], op) and (not split or self._points_at(before[1], op, device, shown))
            found[name, device] = op, before[1] if same and before else self._node(op, name, device, shown)
        self._before = found
        return GraphRecord(self.key, stage, tuple(node for _, node in found.values()), self.devices, note, split,
                           self._fresh)

    def _points_at(self, node: NodeRecord, op: Operation, device: str, shown: Callable[[str, str], str]) -> bool:
        """Do the producers still go by the names that the record knows?"""
        return (all(name == self._tensor(shown(t.op.name, device), t.index) for name, t in zip(node.inputs, op.inputs))
                and all(name == shown(c.name, device) for name, c in zip(node.control, op.control_inputs)))

    def _node(self, op: Operation, name: str, device: str, shown: Callable[[str, str], str]) -> NodeRecord:
        node = NodeRecord(
            name, op.type, tuple(self._tensor(shown(t.op.name, device), t.index) for t in op.inputs),
            tuple(shown(c.name, device) for c in op.control_inputs), device, op.device,
            self._once(tuple(self._once((t.dtype.name, t.shape.dims)) for t in op.outputs)), op.definition.stateful,
            op.source)
        self._fresh += node_bytes(node)
        return node

    def _tensor(self, producer: str, index: int) -> str:
        found = self._shared.get((producer, index))
        if found is None:
            found = self._shared[producer, index] = f"{producer}:{index}"
        return str(found)

    def _once(self, value: R) -> R:
        return self._shared.setdefault(value, value)      # type: ignore[no-any-return]


def _same(before: Operation, op: Operation) -> bool:
    """Would the records of both be equal, apart from the device? Asked of every node of every stage."""
    if before is op:
        return True
    if (before.definition is not op.definition or before.device != op.device or before.source != op.source
            or len(before.inputs) != len(op.inputs) or len(before.outputs) != len(op.outputs)
            or len(before.control_inputs) != len(op.control_inputs)):
        return False
    for a, b in zip(before.inputs, op.inputs):
        if a.op.name != b.op.name or a.index != b.index:
            return False
    for first, second in zip(before.control_inputs, op.control_inputs):
        if first.name != second.name:
            return False
    for a, b in zip(before.outputs, op.outputs):
        if a.dtype is not b.dtype or (a.shape is not b.shape and a.shape != b.shape):
            return False
    return True
