"""Which steps are so short that the thread that received them may run them: whatever may take long or block is not."""
from __future__ import annotations

from workbench.core.compile.forms import Block, Branch, Loop
from workbench.core.compile.plan import Plan
from workbench.core.compile.weight import weight
from workbench.core.graph.graph import Operation
from workbench.core.graph.opdef import from_outside

__all__ = ["is_light", "is_tiny"]

_LIGHT = 1 << 20       # bytes that a light step may touch in all its segments, each of which is light
_TINY = 1 << 16        # the same of one so short that no kernel of it is shared between threads
_IN_MEMORY = frozenset({"variable", "fifo_queue", "random_shuffle_queue", "padding_fifo_queue", "priority_queue",
                        "barrier", "conditional_accumulator", "sparse_conditional_accumulator", "worker_pushes"})
"""Operations that make handles of state in memory, which answers at once or through a callback."""
_MESSAGES = frozenset({"send", "receive", "placeholder_with_default", "Assert"})


def is_light(plan: Plan) -> bool:
    """May a step of `plan` run where it arrives, while aborts and probes wait behind it?"""
    return (all(segment.light for segment in plan.segments) and sum(weight(code.block) for code in plan.codes) < _LIGHT
            and not _loops(plan) and all(_quick(op) for segment in plan.segments for op in segment.operations))


def is_tiny(plan: Plan) -> bool:
    """Is one core enough for a step of `plan`, which is light?"""
    return sum(weight(code.block) for code in plan.codes) < _TINY


def _quick(op: Operation) -> bool:
    """Files, readers, text and kernels from outside may take any time, whatever the bytes they touch."""
    if from_outside(op.definition.reference):
        return False
    if op.definition.stateful and op.kind not in _IN_MEMORY | _MESSAGES and not op.kind.startswith("random_"):
        return any(t.op.kind in _IN_MEMORY for t in op.inputs)
    return op.kind == "constant" or not any(t.dtype.name == "string" for t in (*op.inputs, *op.outputs))


def _loops(plan: Plan) -> bool:
    """May a step take any time, whatever the bytes it touches?"""
    return any(_has_loop(code.block) for code in plan.codes) or any(
        op.kind == "next_iteration" for segment in plan.segments for op in segment.operations)


def _has_loop(block: Block) -> bool:
    return any(isinstance(line, Loop) or (
        isinstance(line, Branch) and (_has_loop(line.then) or _has_loop(line.otherwise)))
               for line in block.lines)
