"""What an operation waits for before it can run: the operations that may block, arrive or steer."""
from __future__ import annotations

from collections.abc import Sequence

from workbench.core.graph.graph import Operation
from workbench.core.graph.program import is_back_edge
from workbench.core.passes.lower import ambient

__all__ = ["CONTROL_FLOW", "Waits", "role", "waits"]

CONTROL_FLOW = frozenset({"switch", "merge", "enter", "exit", "next_iteration", "loop_cond", "control_trigger"})

Waits = frozenset[tuple[str, int]]
"""Names and output ports of boundaries; port -1 is their end, where a control edge leaves them."""


def role(op: Operation, steering: bool) -> str:
    """"compute", or what `op` is instead: "blocking", "receive", "send", "control". `steering`: the graph has loops."""
    if op.kind in CONTROL_FLOW:
        return "control"
    if op.kind == "receive":
        return "receive"
    if op.kind == "send":
        return "send" if steering or op.attrs.get("steered") else "compute"
    return "blocking" if op.definition.blocking else "compute"


def waits(order: Sequence[Operation]) -> dict[Operation, Waits]:
    """For each operation of `order`, which is topological, the boundary outputs that it waits for: those that reach it without
    passing another boundary.

    Operations that wait for the same outputs become ready, or dead, at the same moment, so running them together delays nothing
    and cannot deadlock. Constants and handles are bound before the step and arguments are fed, so no operation waits for them.
    """
    if all([role(op, True) == "compute" for op in order]):      # without boundaries nothing waits
        return dict.fromkeys([op for op in order if op.kind != "argument" and not ambient(op)], frozenset())
    steering = any(op.kind in CONTROL_FLOW for op in order)
    found: dict[Operation, Waits] = {}
    after: dict[Operation, Waits] = {}      # what a reader takes over; empty behind a boundary
    for op in order:
        if op.kind == "argument" or ambient(op):
            continue
        parts: set[tuple[str, int]] = set()
        for tensor in op.inputs:
            if not is_back_edge(op, tensor) and tensor.op in after:
                parts |= after[tensor.op] or _boundary(tensor.op, tensor.index)
        for before in op.controls:
            if before in after:
                parts |= after[before] or _boundary(before, -1)
        found[op] = frozenset(parts)
        after[op] = found[op] if role(op, steering) == "compute" else frozenset()
    return found


def _boundary(op: Operation, port: int) -> set[tuple[str, int]]:
    return {(op.name, port)} if role(op, True) != "compute" else set()
