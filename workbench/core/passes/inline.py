"""Calls of functions become the operations of their bodies, below the names of the calls."""
from __future__ import annotations

from collections.abc import Callable

from workbench.core.graph import device as devices
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, needed, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import BODIES, bodies
from workbench.core.ops.flow_body import copy_body
from workbench.core.passes.bodies import changed
from workbench.core.passes.rewrite import Rewrite, walked

__all__ = ["inline"]

Choose = Callable[[Operation], bool]


def inline(program: Program, choose: Choose = lambda op: True) -> Program:
    """Replace each call for which `choose(op)` holds by the operations of its body, also in the bodies of branches and loops.

    They wait for what the call waits for, and ask for its device where they ask for none.
    """
    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind == "call" and choose(op):
            return _Call(op, state, choose).outputs(inputs)
        if op.kind in BODIES and _calls(op, choose):
            graphs = {key: changed(op.attrs[key], lambda body: inline(body, choose)) for key in BODIES[op.kind]}
            return state.copy(op, inputs, attrs={**op.attrs, **graphs})
        return None

    if not _any(program.graph, choose):
        return program
    return walked(program, visit)


def _any(graph: Graph, choose: Choose) -> bool:
    return any((op.kind == "call" and choose(op)) or (op.kind in BODIES and _calls(op, choose)) for op in graph.operations)


def _calls(op: Operation, choose: Choose) -> bool:
    return any(_any(body, choose) for body in bodies(op.attrs))


class _Call:
    """One call, while the operations of its body are made."""

    def __init__(self, op: Operation, state: Rewrite, choose: Choose) -> None:
        self.op, self.state, self.choose = op, state, choose
        self.controls = state.controls(op)

    def outputs(self, inputs: list[Tensor]) -> list[Tensor]:
        """What the call gives for these inputs."""
        body = _whole(copy_body(self.op.attrs["body"])[0], self.choose)
        self.state.tensors.update(zip(body.arguments, inputs))
        order = [op for op in topological(needed(t.op for t in body.results)) if op.kind != "argument"]
        names = {op.name: self._name(body, op) for op in order}
        for op in order:
            self._make(op, names)
        return [self.state.tensors[t] for t in body.results]

    def _name(self, body: Subgraph, op: Operation) -> str:
        return self.state.free_name(f"{self.op.name}/{op.name.removeprefix(body.name + '/')}")

    def _make(self, op: Operation, names: dict[str, str]) -> None:
        call, state = self.op, self.state
        near = frozenset(names.get(name, name) for name in op.colocation)
        new = state.graph.create(
            op.definition, state.inputs(op), op.attrs, names[op.name] + "/", (*state.controls(op), *self.controls),
            device=devices.merge(call.device, op.device), colocation=near | call.colocation,
            derived=names.get(op.derived, op.derived) or call.derived, source=op.source)
        new.overrides, new.recomputed, new.swapped = op.overrides, op.recomputed, op.swapped
        for old, tensor in zip(op.outputs, new.outputs):
            tensor.shape = tensor.shape.merge(old.shape, f"inline of {call.name}")
        state.operations[op] = (new,)
        state.tensors.update(zip(op.outputs, new.outputs))


def _whole(body: Subgraph, choose: Choose) -> Subgraph:
    """`body` with the chosen calls in it replaced."""
    return changed(body, lambda program: inline(program, choose)) if _any(body, choose) else body
