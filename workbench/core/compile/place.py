"""Operation to device: requests, kernels and colocation first, then where the data already is (paper §3.3)."""
from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workbench import errors
from workbench.core.device.interface import missing
from workbench.core.graph.device import DeviceSpec, parse
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.program import Program, topological
from workbench.core.kernels import load_device_kernels
from workbench.core.passes.waits import CONTROL_FLOW

__all__ = ["Policy", "place"]

_log = logging.getLogger("workbench")

# what the engine does itself, on any device: it binds, passes on, or keeps the place of a value
_ANYWHERE = CONTROL_FLOW | {"constant", "argument", "placeholder", "no_op", "variable", "read_variable"}


@dataclass(frozen=True)
class Policy:
    """`soft`: where a request for a type or number of device cannot be met, another device serves; `log`: say where
    each operation went."""

    soft: bool = False
    log: bool = False


_STRICTLY = Policy()
_CPU = frozenset({"CPU"})


def _types(op: Operation, types: frozenset[str]) -> frozenset[str]:
    """Those of `types` that have a kernel for `op`."""
    if types == _CPU or op.kind in _ANYWHERE or not op.dtypes:
        return types
    return frozenset(t for t in types if t == "CPU" or op.definition.kernel_for(t, op.dtypes) is not None)


class _Groups:
    """Union-find over operations that must share a device; each group has one merged request and the types of device
    that have kernels for all its members."""

    def __init__(self, operations: Iterable[Operation], types: frozenset[str], policy: Policy) -> None:
        self.policy = policy
        self.parent = {op: op for op in operations}
        read = {text: parse(text) for text in dict.fromkeys([op.device for op in self.parent])}
        self.request = {op: read[op.device] for op in self.parent}
        self.types = {op: _types(op, types) for op in self.parent}
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
        if self.request[a] is self.request[b] and self.types[a] is self.types[b]:
            self.parent[b] = a      # they ask for the same, mostly for nothing
            return
        field = self.request[a].conflict(self.request[b])
        together = self.types[a] & self.types[b]
        wanted = self.request[a].type or self.request[b].type
        if soft and (field or not together or (wanted is not None and wanted not in together)):
            return
        if field and not (self.policy.soft and field in ("type", "index")):
            raise errors.PlacementError(
                f"place: {left.name!r} must be with {right.name!r} ({why}) but asks for "
                f"{self.request[a]} (from {self.asked[a].name!r}) while {self.request[b]} is asked by "
                f"{self.asked[b].name!r}; make the {field} equal\n  built at: {left.source}")
        if not together:
            raise errors.PlacementError(
                f"place: {left.name!r} must be with {right.name!r} ({why}) but {left.kind} has kernels for "
                f"{_named(self.types[a])} and {right.kind} for {_named(self.types[b])}; register a kernel for one type of "
                f"device that both can share\n  built at: {left.source}")
        merged = self.request[a].merged(self.request[b])
        self.parent[b] = a
        if self.request[a] == DeviceSpec():
            self.asked[a] = self.asked[b]
        self.request[a], self.types[a] = merged, together


def _named(types: frozenset[str]) -> str:
    return " and ".join(sorted(types)) or "no device"


def place(program: Program, devices: Sequence[str], default: str | None = None, policy: Policy = _STRICTLY,
          whole: Graph | None = None) -> dict[str, str]:
    """Device of every operation by name.

    Explicit (also partial) requests hold, and a device serves only what it has a kernel for; state and the operations on
    it share a device; colocation groups share one, also with operations of the `whole` graph that the program lacks. What
    asks for nothing goes to `default` (the first device).
    PlacementError names the request, or the kernel that is missing, and what there is.
    """
    specs = [parse(d) for d in devices]
    for kind in {s.type for s in specs if s.type}:
        load_device_kernels(kind)
    home = parse(default) if default else specs[0]
    operations = topological(program.graph.operations)
    by_name = {op.name: op for op in operations}
    lacking = _lacking(by_name, whole)
    groups = _Groups([*operations, *lacking], frozenset(s.type or "CPU" for s in specs), policy)
    for op in operations:
        for tensor in op.inputs:
            if tensor.dtype is resource:
                groups.join(tensor.op, op, "it uses its state")
            elif tensor.dtype is variant:      # lists do not travel, unless somebody asks for it
                groups.join(tensor.op, op, "it uses its list", soft=True)
    for op in lacking:
        for name in _state(op):
            if name in by_name:
                groups.join(by_name[name], op, "it uses its state")
    for op in [*lacking, *operations]:
        for name in sorted(op.colocation):
            if name in by_name:
                groups.join(by_name[name], op, "colocate_with", soft=bool(op.derived))
    chosen = _chosen(groups, specs, home)
    placed = {op.name: chosen[groups.find(op)] for op in operations}
    if policy.log:
        for op in operations:
            _log.warning("%s: (%s): %s", op.name, op.kind, placed[op.name])
    return placed


def _lacking(by_name: dict[str, Operation], whole: Graph | None) -> list[Operation]:
    """The operations of `whole` with which those in `by_name` are to lie, and what these lie with; added to it."""
    found: list[Operation] = []
    wanted = [name for op in by_name.values() for name in op.colocation]
    while wanted:
        name = wanted.pop()
        if name not in by_name and whole is not None and whole.has(name):
            op = by_name[name] = whole.operation(name)
            found.append(op)
            wanted += [*op.colocation, *_state(op)]
    return found


def _state(op: Operation) -> list[str]:
    """Names of the operations whose state it uses."""
    return [tensor.op.name for tensor in op.inputs if tensor.dtype is resource]


def _chosen(groups: _Groups, specs: Sequence[DeviceSpec], home: DeviceSpec) -> dict[Operation, str]:
    """The device of each group, asked once for all that ask for the same: most ask for nothing."""
    found: dict[Operation, str] = {}
    known: dict[tuple[int, frozenset[str]], str] = {}
    for op in groups.parent:
        if groups.find(op) is op:
            wanted = id(groups.request[op]), groups.types[op]
            if wanted not in known:
                known[wanted] = str(_choose(groups, op, specs, home))
            found[op] = known[wanted]
    return found


def _choose(groups: _Groups, op: Operation, specs: Sequence[DeviceSpec], home: DeviceSpec) -> DeviceSpec:
    request, types = groups.request[op], groups.types[op]
    accepted = [s for s in specs if request.accepts(s)]
    feasible = [s for s in accepted if s.type in types]
    if not feasible and groups.policy.soft:
        near = replace(request, type=None, index=None)
        feasible = [s for s in specs if near.accepts(s) and s.type in types]
    if not feasible:
        raise _impossible(groups, op, accepted, specs)
    in_job = [s for s in feasible if s.job == home.job]
    in_task = [s for s in in_job if s.task == home.task]
    return home if home in feasible else (in_task or in_job or feasible)[0]


def _impossible(groups: _Groups, op: Operation, accepted: Sequence[DeviceSpec],
                specs: Sequence[DeviceSpec]) -> errors.PlacementError:
    asked, request = groups.asked[op], groups.request[op]
    if not accepted:
        softly = ", or with ConfigProto(allow_soft_placement=True)" if request.type is not None else ""
        if request.type is not None and all(s.type != request.type for s in specs) and (lacking := missing(request.type)):
            softly += f" ({request.type}: {lacking})"
        return errors.PlacementError(
            f"place: {asked.name!r} asks for {request} but there are only {', '.join(map(str, specs))}; ask for one of "
            f"them or start the session with more devices{softly}\n  built at: {asked.source}")
    kind = accepted[0].type or ""
    member = next(m for m in groups.parent if groups.find(m) is op and kind not in _types(m, frozenset({kind})))
    dtypes = ", ".join(dict.fromkeys(d.name for d in member.dtypes))
    return errors.PlacementError(
        f"place: {asked.name!r} asks for {request} but {member.kind} (of {member.name!r}) has no {kind} kernel for {dtypes}; "
        f"register one with .kernel({kind.lower()!r}), place it elsewhere, or use ConfigProto(allow_soft_placement=True)"
        f"\n  built at: {asked.source}")
