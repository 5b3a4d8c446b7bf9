"""Where a plan is cut: operations that may block or steer stand alone, the rest joins into maximal segments."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from workbench.core.graph import Operation, Tensor
from workbench.core.passes.lower import ambient as is_bound
from workbench.core.passes.rewrite import Program, is_back_edge, needed, topological

__all__ = ["CONTROL_FLOW", "Cut", "crossing", "cut", "is_bound"]

CONTROL_FLOW = frozenset({"switch", "merge", "enter", "exit", "next_iteration", "loop_cond", "control_trigger"})


@dataclass
class Cut:
    """One segment before selection: its operations in order; `kind` is "compute" or the lone operation's role."""

    kind: str                                 # "compute" "blocking" "receive" "send" "control"
    operations: list[Operation] = field(default_factory=list)


def cut(program: Program) -> list[Cut]:
    """Group operations by the set of boundary outputs they depend on (paper §3.3 executor, per segment).

    Operations with the same set become ready, and dead, at the same moment, so running them together delays nothing
    and cannot deadlock. A graph without boundaries is one segment.
    """
    roots = program.roots
    chosen = needed(roots)
    order = [op for op in topological(chosen) if op.type != "argument" and not is_bound(op)]
    steering = any(op.type in CONTROL_FLOW for op in order)
    known: dict[frozenset[tuple[str, int]], Cut] = {}
    cuts: list[Cut] = []
    marks: dict[Operation, frozenset[tuple[str, int]]] = {}
    for op in order:
        kind = _kind(op, steering)
        signature = _signature(op, marks)
        if kind == "compute":
            if signature not in known:
                known[signature] = Cut("compute")
                cuts.append(known[signature])
            known[signature].operations.append(op)
            marks[op] = signature
        else:
            cuts.append(Cut(kind, [op]))
            marks[op] = frozenset()
    return _sorted(cuts)


def _sorted(cuts: list[Cut]) -> list[Cut]:
    """Segments after the segments they read; a segment may have been opened before one that it now reads."""
    home = {op: index for index, c in enumerate(cuts) for op in c.operations}
    before: list[set[int]] = [set() for _ in cuts]
    for op, index in home.items():
        before[index] |= {home[t.op] for t in op.inputs if t.op in home and not is_back_edge(op, t)}
        before[index] |= {home[c] for c in op.control_inputs if c in home}
        before[index].discard(index)
    sorter = TopologicalSorter(dict(enumerate(before)))
    return [cuts[i] for i in sorter.static_order()]


def _kind(op: Operation, steering: bool) -> str:
    if op.type in CONTROL_FLOW:
        return "control"
    if op.type == "receive":
        return "receive"
    if op.type == "send":
        return "send" if steering or op.attrs.get("steered") else "compute"
    return "blocking" if op.definition.blocking else "compute"


def _signature(op: Operation, marks: dict[Operation, frozenset[tuple[str, int]]]) -> frozenset[tuple[str, int]]:
    parts: set[tuple[str, int]] = set()
    for tensor in op.inputs:
        if not is_back_edge(op, tensor) and tensor.op in marks:
            parts |= marks[tensor.op] or _boundary(tensor.op, tensor.index)
    for before in op.control_inputs:
        if before in marks:
            parts |= marks[before] or _boundary(before, -1)
    return frozenset(parts)


def _boundary(op: Operation, port: int) -> set[tuple[str, int]]:
    return {(op.name, port)} if _kind(op, True) != "compute" else set()


def crossing(cuts: Sequence[Cut]) -> dict[Tensor, int]:
    """Tensors read by another segment than the one that makes them -> index of the maker."""
    home = {op: index for index, c in enumerate(cuts) for op in c.operations}
    return {t: home[t.op] for index, c in enumerate(cuts) for op in c.operations for t in op.inputs
            if t.op in home and home[t.op] != index}
