"""Loops of imported graphs, written with Enter, Merge, Switch and Exit, become our `while`, which has gradients."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.opdef import registry
from workbench.core.graph.program import has_effect, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow_body import copy_operation, outside, unify, waits
from workbench.formats.branches import NotPlain, must, raise_branches
from workbench.formats.frames import frames_of

__all__ = ["raise_loops"]

_STEERS = {"enter", "exit", "next_iteration", "loop_cond", "control_trigger"}      # beside those of branches


def raise_loops(graph: Graph, first: int, kept: Collection[Operation]) -> None:
    """Make a `while` of each loop that is nothing else, among the operations of `graph` from the one of that number on.

    The exits stay under their names; what is within becomes its bodies, with the names that it had. A loop that holds one of
    the operations `kept`, or arrays and stacks of a step, stays as it is; branches in it become `if`.
    """
    left: set[str] = {op.attrs["frame_name"] for op in graph.operations[first:] if op.kind == "enter"}
    while left:
        inside = frames_of(graph)
        depth = {op.attrs["frame_name"]: len(inside.get(op, ())) for op in graph.operations if op.kind == "enter"}
        frame = max(left, key=lambda name: (depth[name], name))      # loops within loops come first
        left.discard(frame)
        try:
            _Loop(graph, frame, inside, kept).replace()
        except NotPlain:
            continue


class _Loop:
    """A loop of primitives: for each variable its enter, merge, value that comes back, switch and exits."""

    def __init__(self, graph: Graph, frame: str, inside: Mapping[Operation, tuple[str, ...]],
                 kept: Collection[Operation]) -> None:
        self.graph = graph
        self.enters = [op for op in graph.operations if op.kind == "enter" and op.attrs["frame_name"] == frame]
        self.members = {op for op, path in inside.items() if path[-1] == frame}
        must(not any(frame in path[:-1] for path in inside.values()))      # a loop within that stayed as it is
        conditions = [op for op in self.members if op.kind == "loop_cond"]
        must(len(conditions) == 1)
        self.condition = conditions[0]
        self.first = [op for op in self.enters if not op.attrs["is_constant"]]
        self.merges = [self._merge(op) for op in self.first]
        self.switches = [self._switch(merge) for merge in self.merges]
        self.exits = [self._exits(switch) for switch in self.switches]
        outer = {op for exits in self.exits for op in exits}
        steering = {*self.merges, *self.switches, self.condition, *outer, *(merge.inputs[1].op for merge in self.merges)}
        self.rest = self.members - steering - self._pivots()
        must(not any(op.kind in _STEERS or op.kind.startswith("step_") for op in self.rest))
        must(not any(op in self.members - outer or op in self.enters for op in kept))

    def _merge(self, enter: Operation) -> Operation:
        found = self.graph.readers(enter.outputs[0])
        must(len(found) == 1 and found[0].kind == "merge" and len(found[0].inputs) == 2)
        merge = found[0]
        must(merge.inputs[0] is enter.outputs[0] and merge.inputs[1].op.kind == "next_iteration")
        must(not self.graph.readers(merge.outputs[1]))
        return merge

    def _switch(self, merge: Operation) -> Operation:
        found = [op for op in self.graph.readers(merge.outputs[0]) if op.kind == "switch"]
        must(len(found) == 1 and found[0].inputs == (merge.outputs[0], self.condition.outputs[0]))
        return found[0]

    def _exits(self, switch: Operation) -> list[Operation]:
        found = self.graph.readers(switch.outputs[0])
        must(all(op.kind == "exit" for op in found))
        return found

    def _pivots(self) -> set[Operation]:
        """What only says that the loop goes on, to operations that take nothing from it."""
        decided = self.condition.outputs[0]
        found = {op for op in self.graph.readers(decided) if op.kind == "switch" and op.inputs[0] is decided}
        return found | {reader for op in found for reader in self.graph.readers(op.outputs[1]) if reader.kind == "identity"}

    # the same as an operation with bodies
    def replace(self) -> None:
        """Put a `while` where the loop was."""
        with outside(self.graph), self.graph.name_scope(None):
            title = self.graph.unique_name(self.condition.name.rpartition("/")[0] or "while", mark_as_used=False)
            test, body = (Subgraph(self.graph, f"{title}/{side}") for side in ("cond", "body"))
            merged = [merge.outputs[0] for merge in self.merges]
            going_on = [switch.outputs[1] for switch in self.switches]
            results = [merge.inputs[1].op.inputs[0] for merge in self.merges]
            used = self._fill(test, [merged], [self.condition.inputs[0]]) | self._fill(body, [merged, going_on], results)
            must(not any(has_effect(op) for op in self.rest - used))
            captures = unify((test, body), len(merged))
            before = [c for enter in self.first for c in enter.controls]
            attrs = {"cond_graph": test, "body_graph": body, "trip_count": None, "back_prop": True,
                     "parallel_iterations": self.first[0].attrs["parallel_iterations"]}
            node = self.graph.create("while", [*(enter.inputs[0] for enter in self.first), *captures], attrs, title + "/",
                                     [*dict.fromkeys(before), *waits((test, body))], device=self.condition.device)
        self._leave(node)

    def _fill(self, body: Subgraph, variables: Sequence[Sequence[Tensor]], results: Sequence[Tensor]) -> set[Operation]:
        """Copy what the results need to `body`, whose arguments stand for each of the lists of variables."""
        tensors: dict[Tensor, Tensor] = {}
        for number, merged in enumerate(variables[0]):
            argument = body.argument(merged.dtype, merged.shape, self.first[number].inputs[0].op.name)
            tensors.update((listed[number], argument) for listed in variables)
        chosen = self._between(results, tensors)
        operations: dict[Operation, Operation] = {}
        for op in topological(chosen):
            for tensor in op.inputs:
                if tensor not in tensors:
                    tensors[tensor] = body.capture(self._outer(tensor))
            copy_operation(op, body, tensors, operations, op.name)
        body.results = [tensors[t] if t in tensors else body.capture(self._outer(t)) for t in results]
        raise_branches(body)
        return chosen

    def _between(self, results: Iterable[Tensor], known: Collection[Tensor]) -> set[Operation]:
        """The operations of the loop that lead from what is known to the results."""
        found: set[Operation] = set()
        left = [t.op for t in results if t not in known]
        while left:
            op = left.pop()
            if op in found or op not in self.members:
                continue
            must(op in self.rest)      # a value of another iteration, or of after the loop
            found.add(op)
            left += [t.op for t in op.inputs if t not in known]
            left += [c for c in op.controls if c in self.rest]
        return found

    def _outer(self, tensor: Tensor) -> Tensor:
        """What is outside for a tensor that comes from there."""
        return tensor.op.inputs[0] if tensor.op in self.enters else tensor

    def _leave(self, node: Operation) -> None:
        """The exits give what `node` gives; nothing else is left of the loop."""
        outer = {op for exits in self.exits for op in exits}
        for exits, output in zip(self.exits, node.outputs):
            for op in exits:
                self.graph.changing(op)
                op.definition, op.kind, op.attrs, op.inputs = registry.find("identity"), "identity", {}, (output,)
        gone = (self.members - outer) | {*self.enters}
        self.graph.retain({op for op in self.graph.operations if op not in gone})
        self.graph.operations[:] = topological(self.graph.operations)
        for position, op in enumerate(self.graph.operations):
            op.id = position
