"""Run passes inside the bodies of branches and loops that stay whole."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import BODIES
from workbench.core.ops.flow_body import copy_operation, set_back_edges
from workbench.core.passes.rewrite import Rewrite, walked

__all__ = ["changed", "rewrite_bodies"]


def rewrite_bodies(program: Program, change: Callable[[Program], Program]) -> Program:
    """`program` with `change` applied to each body of its `if` and `while` operations, as a program of its own.

    A body's arguments are the feeds and its results the fetches; bodies within bodies are up to `change`.
    """
    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind not in BODIES:
            return None
        graphs = {key: changed(op.attrs[key], change) for key in BODIES[op.kind]}
        return state.copy(op, inputs, attrs={**op.attrs, **graphs})

    if not any(op.kind in BODIES for op in program.graph.operations):
        return program
    return walked(program, visit)


def changed(body: Subgraph, change: Callable[[Program], Program], kept: Sequence[int] | None = None) -> Subgraph:
    """`body` as `change` makes it: its arguments are the feeds of a program, its results the fetches.

    Of the arguments those at `kept` stay, by default all; others may come behind them.
    """
    program = change(Program(body, tuple(body.arguments), tuple(body.results), inside=True))
    new = Subgraph(body.outer, body.name)
    tensors: dict[Tensor, Tensor] = {}
    operations: dict[Operation, Operation] = {}
    order = topological(program.graph.operations)
    for op in order:
        copy_operation(op, new, tensors, operations, op.name)
    set_back_edges(order, tensors, operations)
    new.arguments = [tensors[t] for t in program.feeds]
    new.results = [tensors[t] for t in program.fetches]
    stayed = body.arguments if kept is None else [body.arguments[position] for position in kept]
    place = dict(zip(stayed, new.arguments))
    new.captures = [(outer, place[inner]) for outer, inner in body.captures if inner in place]
    return new
