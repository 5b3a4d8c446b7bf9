"""Bodies of branches and loops: traced from Python functions, given common captures, copied, extended."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.opdef import composed
from workbench.core.graph.program import needed
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow_nest import Structure, analyze

__all__ = ["capture_constant", "claim", "copy_body", "copy_operation", "extend", "finish", "outside", "set_back_edges",
           "trace", "unify", "waits"]


def claim(graph: Graph, name: str) -> str:
    """A name for an operation with bodies, taken before they are traced: their operations are named below it."""
    with graph._lock:
        return graph.unique_name(name)


def trace(body: Subgraph, function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Structure, list[Any]]:
    """(structure, leaves) of what `function` returns when it builds into `body`."""
    with body.as_default(), body.inside():
        return analyze(function(*arguments))


def finish(body: Subgraph, leaves: Iterable[Any], dtypes: Iterable[DType | None], done: bool = True) -> None:
    """Make the leaves the results of `body`; an operation becomes the bool `done`, which waits for it."""
    with body.as_default(), body.inside():
        body.results = [body.capture(_result(body, leaf, dtype, done)) for leaf, dtype in zip(leaves, dtypes)]


def _result(body: Subgraph, leaf: Any, dtype: DType | None, done: bool) -> Tensor:
    if not isinstance(leaf, Operation):
        return convert(leaf, dtype)
    with body.control_dependencies([leaf]):
        return ops.identity(ops.constant(done), name="done")      # type: ignore[no-any-return]


def outside(graph: Graph) -> contextlib.ExitStack:
    """Build into `graph` free of the scopes that the user is in."""
    stack = contextlib.ExitStack()
    stack.enter_context(graph.as_default())
    for scope in (graph.control_dependencies(None), graph.device(None), graph.colocate_with(None)):
        stack.enter_context(scope)
    return stack


def unify(bodies: Sequence[Subgraph], leading: int) -> list[Tensor]:
    """Give all bodies the same captures, behind their `leading` own arguments; returns the outer tensors.

    A body may hold several arguments for one outer tensor: they are kept apart. What no result needs is not captured: nobody
    has to feed it.
    """
    for body in bodies:
        asked = needed(t.op for t in body.results)
        body.captures = [(outer, inner) for outer, inner in body.captures if inner.op in asked]
    numbered = [_numbered(body.captures) for body in bodies]
    slots = list(dict.fromkeys(slot for found in numbered for slot in found))
    for body, found in zip(bodies, numbered):
        own = body.arguments[:leading]
        body.captures = [(slot[0], found[slot] if slot in found else _unused(body, slot[0])) for slot in slots]
        body.arguments = own + [inner for _, inner in body.captures]
    return [outer for outer, _ in slots]


def _numbered(captures: Iterable[tuple[Tensor, Tensor]]) -> dict[tuple[Tensor, int], Tensor]:
    found: dict[tuple[Tensor, int], Tensor] = {}
    for outer, inner in captures:
        found[outer, sum(outer is other for other, _ in found)] = inner
    return found


def _unused(body: Subgraph, outer: Tensor) -> Tensor:
    with body.inside():
        return body.argument(outer.dtype, outer.shape, "unused")


def waits(bodies: Iterable[Subgraph]) -> list[Operation]:
    """Operations outside that the bodies have to wait for, as their results need what waits for them."""
    found: dict[Operation, None] = {}
    for body in bodies:
        if body.waits:
            asked = needed(t.op for t in body.results)
            found.update((before, None) for op, given in body.waits.items() if op in asked for before in given)
    return list(found)


def copy_operation(op: Operation, graph: Graph, tensors: dict[Tensor, Tensor], operations: dict[Operation, Operation],
                   name: str, **changes: Any) -> Operation:
    """Add a copy of `op` to `graph`; what its inputs became stands in `tensors`, its outputs are entered there.

    `changes` are device, colocation, attrs or control (operations to wait for besides the copied ones).
    """
    attrs = changes.pop("attrs", op.attrs)
    control = [operations[c] for c in op.controls if c in operations] + list(changes.pop("control", ()))
    inputs = [tensors.get(t, tensors[op.inputs[0]]) for t in op.inputs]     # a back edge is set when its end exists
    options = {"device": op.device, "colocation": op.colocation, "derived": op.derived, **changes}
    new = graph.create(op.definition, inputs, attrs, name + "/", control, source=op.source, **options)
    operations[op], new.overrides, new.recomputed = new, op.overrides, op.recomputed
    for old, fresh in zip(op.outputs, new.outputs):
        tensors[old] = fresh
        fresh.shape = old.shape if old.shape.compatible(fresh.shape) else fresh.shape
    return new


def set_back_edges(copied: Iterable[Operation], tensors: dict[Tensor, Tensor],
                   operations: dict[Operation, Operation]) -> None:
    """Point the inputs of copied merges at the copies of values that are made after them."""
    for op in copied:
        if op.kind == "merge":
            operations[op].inputs = tuple(tensors[t] for t in op.inputs)


def copy_body(body: Subgraph) -> tuple[Subgraph, dict[Tensor, Tensor]]:
    """(copy, its tensor for each tensor of `body`); names stay. What the results do not need stays behind."""
    new = Subgraph(body.outer, body.name)
    tensors: dict[Tensor, Tensor] = {}
    operations: dict[Operation, Operation] = {}
    keep = needed(t.op for t in (*body.results, *body.arguments))
    chosen = [op for op in body.operations if op in keep]
    for op in chosen:
        copy_operation(op, new, tensors, operations, op.name)
    set_back_edges(chosen, tensors, operations)
    new.arguments = [tensors[t] for t in body.arguments]
    new.captures = [(outer, tensors[inner]) for outer, inner in body.captures]
    new.copies = [(outer, tensors[inner]) for outer, inner in body.copies if inner in tensors]
    new.results = [tensors[t] for t in body.results]
    return new, tensors


def extend(node: Operation, inputs: Sequence[Tensor], attrs: dict[str, Any], before: Sequence[Operation] = ()) -> None:
    """Give `node` other inputs and attributes and the outputs that follow from them; those it had stay the same.

    `before` are operations just added to its graph that make its new inputs: they move in front of it, so that
    construction order stays a topological order.
    """
    graph = node.graph
    if graph.finalized:
        raise errors.FailedPreconditionError(f"graph: it is finalized but {node.name!r} must give out more values for "
                                             "a gradient; call gradients before finalize()")
    with graph._lock:
        graph.changing(node)
        node.inputs, node.attrs = tuple(inputs), attrs
        if node.definition.specialize is not None:
            node.definition = node.definition.specialize(attrs)
        node.outputs += graph.infer(node)[len(node.outputs):]
        _move(graph, before, node)


def _move(graph: Graph, moved: Sequence[Operation], target: Operation) -> None:
    if not moved:
        return
    rest = [op for op in graph.operations if op not in set(moved)]
    at = rest.index(target)
    graph.operations[:] = rest[:at] + list(moved) + rest[at:]
    for position, op in enumerate(graph.operations):
        op.id = position


# constants that turn out to be variable

@composed
def capture_constant(constant: Tensor) -> None:
    """Make `constant` an input of every branch and loop of its graph that holds copies of it.

    A gradient by it then sees what the bodies do with it; before, a copy was as good and folds better.
    """
    for node in list(constant.graph.operations):
        if _takes(node, constant):
            extend(node, [*node.inputs, constant], node.attrs)


def _takes(node: Operation, constant: Tensor) -> bool:
    """Give the bodies of `node` an argument for `constant` if one of them uses it; the caller adds the input."""
    bodies = [value for value in node.attrs.values() if isinstance(value, Subgraph)]
    used = [_uses(body, constant) for body in bodies]
    if not any(used):
        return False
    for body, (copies, nodes) in zip(bodies, (found or ([], []) for found in used)):
        argument = _unused(body, constant)
        body.captures.append((constant, argument))
        body.copies = [pair for pair in body.copies if pair[0] is not constant]
        _move(body, [argument.op], body.operations[0])
        _replace(body, set(copies), argument)
        for inner in nodes:
            extend(inner, [*inner.inputs, argument], inner.attrs)
    return True


def _uses(body: Subgraph, constant: Tensor) -> tuple[list[Tensor], list[Operation]] | tuple[()]:
    """(copies of `constant` in `body`, its operations whose bodies use it), () when there are none."""
    copies = [inner for outer, inner in body.copies if outer is constant]
    nodes = [op for op in body.operations if _takes(op, constant)]
    return (copies, nodes) if copies or nodes else ()


def _replace(body: Subgraph, old: set[Tensor], new: Tensor) -> None:
    for op in body.operations:
        op.inputs = tuple(new if t in old else t for t in op.inputs)
        for value in op.attrs.values():
            if isinstance(value, Subgraph):
                value.captures = [(new if outer in old else outer, inner) for outer, inner in value.captures]
    body.results = [new if t in old else t for t in body.results]
