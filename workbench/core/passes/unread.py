"""Variables of loops that nobody reads are left out: lists kept for gradients, of which the gradients need no element."""
from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, has_effect, needed, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import BODIES, bodies
from workbench.core.passes.bodies import changed
from workbench.core.passes.rewrite import Rewrite, copied

__all__ = ["unread"]


def unread(program: Program) -> Program:
    """Each loop without those of its variables that serve neither its condition nor an effect nor a result that is read. One
    that is run for itself, or waited for, stays whole: its work may be wanted, and not its value.

    Loops are asked from the last to the first, as what a gradient's loop does not read need not be kept for it.
    """
    operations = program.graph.operations
    if not any(op.kind == "while" for op in operations) or any(op.kind == "merge" for op in operations):
        return program
    found = _Found(program)
    return program if not found.kept else _without(program, found)


class _Found:
    """What is needed: operations, and by its position each variable and what is read of outside in loops that lose some."""

    def __init__(self, program: Program) -> None:
        self.order = topological(program.graph.operations)
        self.needed: set[Operation] = {*program.roots, *(t.op for t in program.feeds)}
        self.kept: dict[Operation, list[int]] = {}
        read, waited = set(program.fetches), set(program.targets)
        for op in reversed(self.order):
            if not (op in self.needed or not op.outputs or has_effect(op) or not read.isdisjoint(op.outputs)):
                continue
            positions = _positions(op, read) if op.kind == "while" and op not in waited else range(len(op.inputs))
            if len(positions) < len(op.inputs):
                self.kept[op] = [*positions]
            self.needed.update((op, *op.controls))
            waited.update(op.controls)
            read.update(op.inputs[position] for position in positions)


def _positions(op: Operation, read: Set[Tensor]) -> list[int]:
    """The inputs that the loop needs, in order."""
    body, cond, count = op.attrs["body_graph"], op.attrs["cond_graph"], len(op.outputs)
    inside = [_reached(body, [result]) for result in body.results]
    asked = [position for position, tensor in enumerate(op.outputs) if tensor in read or _acts(inside[position][1])]
    found = {*asked, *_reached(cond, cond.results)[0]}
    waiting = [*found]
    while waiting:
        position = waiting.pop()
        more = inside[position][0] - found if position < count else set()
        found |= more
        waiting += more
    return sorted(found)


def _reached(body: Subgraph, tensors: Iterable[Tensor]) -> tuple[set[int], set[Operation]]:
    """(the numbers of the arguments from which they follow, all that they follow from)"""
    reached = needed(t.op for t in tensors)
    return {number for number, argument in enumerate(body.arguments) if argument.op in reached}, reached


def _acts(operations: Iterable[Operation]) -> bool:
    """Do any of them more than compute, also in bodies?"""
    return any(has_effect(op) or any(t.dtype is resource for t in op.inputs)
               or (op.kind in BODIES and any(_acts(body.operations) for body in bodies(op.attrs))) for op in operations)


def _without(program: Program, found: _Found) -> Program:
    state = Rewrite(op.name for op in program.graph.operations)
    for op in found.order:
        if op in found.kept:
            _shorten(op, found.kept[op], state)
        elif op in found.needed:
            state.place(op, state.inputs(op))
    return state.program(program)


def _shorten(op: Operation, kept: list[int], state: Rewrite) -> None:
    """The loop over the inputs `kept`, in the new graph."""
    variables = [position for position in kept if position < len(op.outputs)]

    def shortened(body: Subgraph, results: Iterable[int]) -> Subgraph:
        return changed(body, lambda program: copied(replace(
            program, feeds=tuple(program.feeds[i] for i in kept), fetches=tuple(program.fetches[i] for i in results))), kept)

    graphs = {"cond_graph": shortened(op.attrs["cond_graph"], [0]), "body_graph": shortened(op.attrs["body_graph"], variables)}
    inputs = [state.tensors[op.inputs[position]] for position in kept]
    made = state.create("while", inputs, {**op.attrs, **graphs, "trip_count": None}, op.name, op)
    for position, tensor in zip(variables, made.outputs):
        old = op.outputs[position]
        tensor.shape = tensor.shape.merge(old.shape, f"rewrite of {op.name}")
        state.tensors[old] = tensor
    state.operations[op] = (made,)
