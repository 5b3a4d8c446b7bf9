"""What lies where: operations, scopes and bytes per device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from workbench.core.trace import GraphRecord
from workbench.viz.palette import device_order
from workbench.viz.scopes import tensor_bytes

__all__ = ["DeviceRow", "Placement", "placement_view"]

NAMED = 6  # scopes of a device that are named


@dataclass(slots=True)
class DeviceRow:
    """One device: how much of the graph it holds."""

    device: str  # "" = operations that have no device yet
    operations: int
    state_bytes: int  # of variables; unknown dimensions count as 1
    output_bytes: int  # of all operations' outputs in one step
    received_bytes: int  # of tensors made on another device, each once per step
    scopes: list[tuple[str, int]]  # (outermost scope, operations), the largest first; "" = outside any scope

    @property
    def named(self) -> str:
        """The scopes, for people."""
        words = [f"{name or '(outside scopes)'} {count:,}" for name, count in self.scopes[:NAMED]]
        return ", ".join(words) + (f" and {len(self.scopes) - NAMED} more" if len(self.scopes) > NAMED else "") or "–"


@dataclass(slots=True)
class Placement:
    rows: list[DeviceRow]
    unknown: int  # tensors with an unknown dimension: the bytes are lower bounds when it is not 0
    crossing: int  # tensors that cross devices, each counted once per receiving device


def placement_view(record: GraphRecord) -> Placement:
    """The table of `record`; devices without operations are listed too."""
    nodes = {node.name: node for node in record.nodes}
    devices = sorted({*record.devices, *(n.device for n in record.nodes)}, key=device_order)
    rows = {device: DeviceRow(device, 0, 0, 0, 0, []) for device in devices}
    scopes: dict[str, Counter[str]] = {device: Counter() for device in devices}
    held, crossings = _held(record), set()
    for node in record.nodes:
        row = rows[node.device]
        nbytes = sum(tensor_bytes(*output) for output in node.outputs)
        row.operations += 1
        row.output_bytes += nbytes
        row.state_bytes += held.get(node.name, 0)
        scopes[node.device][node.name.partition("/")[0] if "/" in node.name else ""] += 1
        crossings |= {
            (text, node.device)
            for text in node.inputs
            if (source := nodes.get(text.rpartition(":")[0])) is not None and source.device != node.device
        }
    for text, device in crossings:
        name, _, index = text.rpartition(":")
        outputs = nodes[name].outputs
        rows[device].received_bytes += tensor_bytes(*outputs[int(index)]) if int(index) < len(outputs) else 0
    for device, row in rows.items():
        row.scopes = sorted(scopes[device].items(), key=lambda item: (-item[1], item[0]))
    unknown = sum(shape is None or None in shape for node in record.nodes for _, shape in node.outputs)
    return Placement(list(rows.values()), unknown, len(crossings))


def _held(record: GraphRecord) -> dict[str, int]:
    """Bytes that each variable holds; one behind a handle is as large as the largest thing read from it."""
    held = {
        node.name: sum(tensor_bytes(*output) for output in node.outputs)
        for node in record.nodes
        if node.type.lower().startswith("variable")
    }
    for node in record.nodes:
        name = node.inputs[0].rpartition(":")[0] if node.inputs else ""
        if name in held and node.outputs:
            held[name] = max(held[name], tensor_bytes(*node.outputs[0]))
    return held
