"""Programs as the records that views show: a graph as a whole, or the devices' shares of it side by side."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program
from workbench.core.trace import GraphRecord, NodeRecord

__all__ = ["side_by_side", "whole"]


def whole(key: str, stage: str, note: str, program: Program, devices: Sequence[str],
          placement: Mapping[str, str]) -> GraphRecord:
    """One stage of the graph; `placement` is empty before there is one."""
    nodes = tuple(_node(op, placement.get(op.name, "")) for op in program.graph.operations)
    return GraphRecord(key, stage, nodes, tuple(devices), note)


def side_by_side(key: str, stage: str, note: str, shares: Sequence[tuple[str, Program]],
                 devices: Sequence[str]) -> GraphRecord:
    """One stage of (device, its share) pairs; a name that several have, a copied constant say, gets the device's too."""
    owners = Counter(op.name for _, program in shares for op in program.graph.operations)

    def shown(name: str, device: str) -> str:
        return f"{name} on {device}" if owners[name] > 1 else name

    def qualified(node: NodeRecord, device: str) -> NodeRecord:
        inputs = (tensor.rpartition(":") for tensor in node.inputs)
        return replace(node, name=shown(node.name, device), control=tuple(shown(c, device) for c in node.control),
                       inputs=tuple(f"{shown(producer, device)}:{index}" for producer, _, index in inputs))
    nodes = tuple(qualified(_node(op, device), device) for device, program in shares for op in program.graph.operations)
    return GraphRecord(key, stage, nodes, tuple(devices), note, split=True)


def _node(op: Operation, device: str) -> NodeRecord:
    return NodeRecord(op.name, op.type, tuple(t.name for t in op.inputs), tuple(c.name for c in op.control_inputs),
                      device, op.device, tuple((t.dtype.name, t.shape.dims) for t in op.outputs),
                      op.definition.stateful, op.source)
