"""Where a plan is cut: operations that may block or steer stand alone, the rest joins into maximal segments."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from workbench.core.compile.order import order as arrange
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge
from workbench.core.passes.lower import ambient as is_bound
from workbench.core.passes.waits import CONTROL_FLOW, Waits, role, waits

__all__ = ["CONTROL_FLOW", "Cut", "crossing", "cut", "is_bound"]


@dataclass
class Cut:
    """One segment before selection: its operations in order; `kind` is "compute" or the lone operation's role."""

    kind: str                                 # "compute" "blocking" "receive" "send" "control"
    operations: list[Operation] = field(default_factory=list)


def cut(program: Program, device: str = "CPU") -> list[Cut]:
    """Group operations by the set of boundary outputs they depend on (paper §3.3 executor, per segment).

    Operations with the same set become ready, and dead, at the same moment, so running them together delays nothing
    and cannot deadlock. A graph without boundaries is one segment. Inside a segment order.py decides who comes first.
    """
    order = [op for op in program.order if op.kind != "argument" and not is_bound(op)]
    # what another device sends is computed when the segment before is over, not when its line was run
    steering = device != "CPU" or any(op.kind in CONTROL_FLOW for op in order)
    known: dict[Waits, Cut] = {}
    cuts: list[Cut] = []
    for op, awaited in waits(order).items():
        kind = role(op, steering)
        if kind == "compute" and awaited in known:
            known[awaited].operations.append(op)
            continue
        cuts.append(Cut(kind, [op]))
        if kind == "compute":
            known[awaited] = cuts[-1]
    cuts = _sorted(cuts)
    results = {*program.fetches, *crossing(cuts)}
    return [Cut(c.kind, arrange(c.operations, results)) if c.kind == "compute" else c for c in cuts]


def _sorted(cuts: list[Cut]) -> list[Cut]:
    """Segments after the segments they read; a segment may have been opened before one that it now reads."""
    home = {op: index for index, c in enumerate(cuts) for op in c.operations}
    before: list[set[int]] = [set() for _ in cuts]
    for op, index in home.items():
        before[index] |= {home[t.op] for t in op.inputs if t.op in home and not is_back_edge(op, t)}
        before[index] |= {home[c] for c in op.controls if c in home}
        before[index].discard(index)
    sorter = TopologicalSorter(dict(enumerate(before)))
    return [cuts[i] for i in sorter.static_order()]


def crossing(cuts: Sequence[Cut]) -> dict[Tensor, int]:
    """Tensors read by another segment than the one that makes them -> index of the maker."""
    home = {op: index for index, c in enumerate(cuts) for op in c.operations}
    return {t: home[t.op] for index, c in enumerate(cuts) for op in c.operations for t in op.inputs
            if t.op in home and home[t.op] != index}
