"""Compute equal things once: common subexpressions by value numbering."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, attribute_key, rewrite

__all__ = ["cse"]

_NEVER = frozenset({"argument", "placeholder", "if", "while", "merge", "switch", "enter", "exit", "next_iteration",
                    "control_trigger", "loop_cond", "send", "receive"})


def cse(program: Program) -> Program:
    """Merge operations of one type, attributes, inputs, controls and device request (paper W§5.1).

    Inputs of commutative operations are compared sorted; stateful and random operations are never merged.
    """
    seen: dict[Any, list[Tensor]] = {}

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.definition.stateful or op.type in _NEVER or not op.outputs:
            return None
        names = [t.name for t in inputs]
        key = (op.type, tuple(sorted(names) if op.definition.commutative else names), attribute_key(op.attrs),
               tuple(sorted(c.name for c in state.controls(op))), op.device, op.colocation)
        if key not in seen:
            seen[key] = state.copy(op, inputs)
        return seen[key]
    return rewrite(program, visit)
