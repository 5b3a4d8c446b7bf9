"""What every iteration of a loop would find the same is found once, before it: variables that it reads and does not write."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import BODIES, bodies
from workbench.core.passes.bodies import changed
from workbench.core.passes.rewrite import Rewrite, copied, rewrite

__all__ = ["invariant"]

_READS = frozenset({"read_variable", "resource_gather"})


def invariant(program: Program) -> Program:
    """Reads of variables stand before a loop that only reads variables, and what its gradient takes from a list of equal
    elements, such as these, comes from outside the list.

    Weights are thereby known outside the loop, which may bring them into the layout that suits its products. A variable
    without a value is an error then also where the loop does not run at all.
    """
    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind != "while":
            return None
        found = {**_reads(op, inputs, state), **_equal_elements(op, inputs)}
        if not found:
            return None
        outer = list(dict.fromkeys(found.values()))
        numbers = {inner: outer.index(tensor) for inner, tensor in found.items()}
        graphs = {key: with_arguments(op.attrs[key], outer, numbers if key == "body_graph" else {})
                  for key in ("cond_graph", "body_graph")}
        return state.copy(op, [*inputs, *outer], {**op.attrs, **graphs})

    if not any(op.kind == "while" for op in program.graph.operations):
        return program
    return rewrite(program, visit)


def with_arguments(body: Subgraph, outer: list[Tensor], numbers: Mapping[Tensor, int]) -> Subgraph:
    """`body` with an argument more for each of `outer`; those take the places of tensors of the body, by `numbers`."""
    def change(program: Program) -> Program:
        made: dict[int, Tensor] = {}

        def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
            if numbers.keys().isdisjoint(op.outputs):
                return None
            outputs = state.copy(op, inputs) if len(op.outputs) > 1 else list(op.outputs)
            for tensor in op.outputs:
                number = numbers.get(tensor)
                if number is not None:
                    if number not in made:
                        like = outer[number]
                        made[number] = state.create("argument", (), {"dtype": like.dtype, "shape": like.shape},
                                                    f"{op.name}/before", op).outputs[0]
                    outputs[tensor.index] = made[number]
            return outputs
        new = rewrite(program, visit) if numbers else copied(program)
        kept = set(new.graph.operations)      # what nobody reads was left behind
        rest = [made[number] if number in made and made[number].op in kept else new.graph.create(
            "argument", (), {"dtype": like.dtype, "shape": like.shape}, "unused").outputs[0]
            for number, like in enumerate(outer)]
        return replace(new, feeds=(*new.feeds, *rest))
    return changed(body, change)


def _reads(op: Operation, inputs: list[Tensor], state: Rewrite) -> dict[Tensor, Tensor]:
    """Reads in the body of the loop `op` -> the same before the loop, in the new graph."""
    body, count = op.attrs["body_graph"], len(op.outputs)
    if not all(_only_reads(graph) for graph in bodies(op.attrs)):
        return {}
    found: dict[Tensor, Tensor] = {}
    before: dict[Tensor, Tensor] = {}
    for node in body.operations:
        if node.kind != "read_variable" or node.controls or node.inputs[0] not in body.arguments[count:]:
            continue
        handle = node.inputs[0]
        if handle not in before:
            name = state.free_name(node.name.rpartition("/body/")[2]) + "/"
            before[handle] = state.graph.create("read_variable", [inputs[body.arguments.index(handle)]], node.attrs, name,
                                                state.controls(op), device=node.device, derived=node.derived,
                                                source=node.source).outputs[0]
        found[node.outputs[0]] = before[handle]
    return found


def _only_reads(graph: Graph) -> bool:
    """Is no variable written there, nor in bodies within it?"""
    return all(node.kind in _READS or (node.kind in BODIES and all(map(_only_reads, bodies(node.attrs))))
               for node in graph.operations if any(t.dtype is resource for t in node.inputs))


def _equal_elements(op: Operation, inputs: list[Tensor]) -> dict[Tensor, Tensor]:
    """What the body of `op` takes from lists of which every element is one value of an earlier loop -> that value."""
    body, found = op.attrs["body_graph"], {}
    for position, argument in enumerate(body.arguments[:len(op.outputs)]):
        value = _element(inputs[position])
        node = body.results[position].op
        if value is not None and node.kind == "list_pop" and node.inputs[0] is argument and (
                body.results[position] is node.outputs[0] and not node.controls):
            found[node.outputs[1]] = value
    return found


def _element(listed: Tensor) -> Tensor | None:
    """What every element is of a list that a loop made, where that is one value from outside the loop."""
    loop = listed.op
    if loop.kind != "while" or loop.inputs[listed.index].op.kind != "list_new":
        return None
    body, count = loop.attrs["body_graph"], len(loop.outputs)
    node = body.results[listed.index].op
    if node.kind != "list_push" or node.inputs[0] is not body.arguments[listed.index] or node.inputs[1] not in body.arguments:
        return None
    position = body.arguments.index(node.inputs[1])
    return loop.inputs[position] if position >= count else None
