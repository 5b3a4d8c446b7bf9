"""Graphs that programs edit: operations get other inputs and other operations to wait for, and copies of parts are made."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.opdef import composed
from workbench.core.graph.program import is_back_edge, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow_body import copy_body, copy_operation, outside, set_back_edges


def _bodies(op: Operation) -> dict[str, Subgraph]:
    return {name: value for name, value in op.attrs.items() if isinstance(value, Subgraph)}


# in place

@composed
def rewire(changes: Mapping[Operation, tuple[Sequence[Tensor], Sequence[Operation]]]) -> None:
    """Give operations of one graph other inputs, of the dtypes and shapes that theirs had, and others to wait for: (inputs,
    operations) of each, all at once.

    Nothing is changed where that fails: FailedPreconditionError for a finalized graph, InvalidArgumentError where an operation
    would wait for itself.
    """
    if not changes:
        return
    graph = next(iter(changes)).graph
    if graph.finalized:
        raise errors.FailedPreconditionError(f"rewire: the graph is finalized but {next(iter(changes)).name!r} would change "
                                             "(Graph is finalized and cannot be modified.); do it before finalize()")
    with graph._lock:
        before = {op: (op.inputs, op.controls) for op in changes}
        _set(graph, changes)
        try:
            _sort(graph, changes)
        except errors.InvalidArgumentError:
            _set(graph, before)
            raise


def _set(graph: Graph, changes: Mapping[Operation, tuple[Sequence[Tensor], Sequence[Operation]]]) -> None:
    for op, (inputs, controls) in changes.items():
        graph.changing(op)
        op.inputs, op.controls = tuple(inputs), tuple(controls)
        for body in _bodies(op).values():      # its captures are the last inputs
            own = len(op.inputs) - len(body.captures)
            body.captures = [(outer, inner) for outer, (_, inner) in zip(op.inputs[own:], body.captures)]


def _sort(graph: Graph, changed: Iterable[Operation]) -> None:
    """Bring the graph's operations into an order in which each stands behind what it reads and waits for."""
    def late(op: Operation) -> bool:
        return any(t.op.id >= op.id and not is_back_edge(op, t) for t in op.inputs) or any(c.id >= op.id for c in op.controls)
    if any(late(op) for op in changed):
        graph.operations[:] = topological(graph.operations)
        for position, op in enumerate(graph.operations):
            op.id = position


# copies

@composed
def copy_operations(operations: Iterable[Operation], graph: Graph, tensors: dict[Tensor, Tensor],
                    name_of: Callable[[str], str]) -> dict[Operation, Operation]:
    """Copies of operations of one graph in `graph`: {operation: copy}. `tensors` has what stands for each tensor that they read
    from outside, and gets what stands for those they make. A copy is called what `name_of` makes of the name, or with a number
    behind it. It waits for the copies of what is copied, and in the same graph for the others too.

    UnimplementedError for a branch or loop in another graph.
    """
    order, copies = topological(operations), dict[Operation, Operation]()
    names: dict[str, str] = {}
    with outside(graph), graph.name_scope(None):
        for op in order:
            here = op.graph is graph
            if not here and _bodies(op):
                raise errors.UnimplementedError(f"copy_operations: {op.name!r} has bodies, which stay in their graph; move it "
                                                "by as_graph_def and import_graph_def")
            names[op.name] = graph.unique_name(name_of(op.name))
            before = {t: t.shape for t in op.inputs}
            made = copy_operation(
                op, graph, tensors, copies, names[op.name], attrs={**op.attrs, **_bodies_over(op, tensors)},
                control=[c for c in op.controls if here and c not in copies],
                colocation=frozenset(names.get(name, name) for name in op.colocation if here or name in names))
            if any(tensors.get(t, t).shape != shape for t, shape in before.items()):
                for output, inferred in zip(made.outputs, graph.infer(made)):      # the old shapes need not hold of others
                    output.shape = inferred.shape
        set_back_edges(order, tensors, copies)
    graph.held.update({key: value for op in order[:1] for key, value in op.graph.held.items() if key not in graph.held})
    return copies


def _bodies_over(op: Operation, tensors: Mapping[Tensor, Tensor]) -> dict[str, Any]:
    """Copies of the bodies of `op` that capture what stands for their tensors."""
    made = {}
    for name, body in _bodies(op).items():
        made[name], _ = copy_body(body)
        made[name].captures = [(tensors.get(outer, outer), inner) for outer, inner in made[name].captures]
    return made
