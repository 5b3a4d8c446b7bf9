"""Operation to device: requests and colocation first, then where the data already is (paper §3.3)."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench import errors
from workbench.core.graph.device import DeviceSpec, parse
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program, topological

__all__ = ["place"]


class _Groups:
    """Union-find over operations that must share a device; each group carries one merged request."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.parent = {op: op for op in operations}
        self.request = {op: parse(op.device) for op in self.parent}
        self.asked = {op: op for op in self.parent}      # who made the request, for errors

    def find(self, op: Operation) -> Operation:
        while self.parent[op] is not op:
            self.parent[op] = self.parent[self.parent[op]]
            op = self.parent[op]
        return op

    def join(self, left: Operation, right: Operation, why: str, soft: bool = False) -> None:
        a, b = self.find(left), self.find(right)
        if a is b:
            return
        field = self.request[a].conflict(self.request[b])
        if field and soft:
            return
        if field:
            raise errors.PlacementError(
                f"place: {left.name!r} must be with {right.name!r} ({why}) but asks for "
                f"{self.request[a]} (from {self.asked[a].name!r}) while {self.request[b]} is asked by "
                f"{self.asked[b].name!r}; make the {field} equal\n  built at: {left.source}")
        merged = self.request[a].merged(self.request[b])
        self.parent[b] = a
        if self.request[a] == DeviceSpec():
            self.asked[a] = self.asked[b]
        self.request[a] = merged


def place(program: Program, devices: Sequence[str], default: str | None = None) -> dict[str, str]:
    """Device of every operation by name.

    Explicit (also partial) requests hold; state and the operations on it share a device; colocation groups share one.
    What asks for nothing goes to `default` (the first device). PlacementError names the request and what there is.
    """
    specs = [parse(d) for d in devices]
    home = parse(default) if default else specs[0]
    operations = topological(program.graph.operations)
    groups = _Groups(operations)
    by_name = {op.name: op for op in operations}
    for op in operations:
        for tensor in op.inputs:
            if tensor.dtype is resource:
                groups.join(tensor.op, op, "it uses its state")
            elif tensor.dtype is variant:      # lists do not travel, unless somebody asks for it
                groups.join(tensor.op, op, "it uses its list", soft=True)
    for op in operations:
        for name in sorted(op.colocation):
            if name in by_name:
                groups.join(by_name[name], op, "colocate_with", soft=op.derived)
    chosen = {op: _choose(groups, op, specs, home) for op in operations if groups.find(op) is op}
    return {op.name: str(chosen[groups.find(op)]) for op in operations}


def _choose(groups: _Groups, op: Operation, specs: Sequence[DeviceSpec], home: DeviceSpec) -> DeviceSpec:
    request = groups.request[op]
    feasible = [s for s in specs if request.accepts(s)]
    if not feasible:
        asked = groups.asked[op]
        raise errors.PlacementError(
            f"place: {asked.name!r} asks for {request} but there are only {', '.join(map(str, specs))}; ask for one of "
            f"them or start the session with more devices\n  built at: {asked.source}")
    in_job = [s for s in feasible if s.job == home.job]
    in_task = [s for s in in_job if s.task == home.task]
    return home if home in feasible else (in_task or in_job or feasible)[0]
