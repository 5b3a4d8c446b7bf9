"""Keep what the fetches need: fed tensors become arguments, the rest of the graph is dropped."""
from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import FREED, Program, needed, topological
from workbench.core.graph.shape import Shape
from workbench.core.passes.inline import inline
from workbench.core.passes.narrow import narrow
from workbench.core.passes.rewrite import Rewrite

__all__ = ["prune"]


def prune(graph: Graph, fetches: Sequence[Tensor], targets: Sequence[Operation],
          feeds: Mapping[Tensor, Shape]) -> Program:
    """The backward closure of `fetches` and `targets`, cut at `feeds` (paper W§4.2).

    Each fed tensor becomes an `argument` of the given shape, in the order of `feeds`; since shapes are inferred again,
    concrete feed shapes make everything below them concrete, in bodies too. Calls of functions become what they do.
    """
    roots = [t.op for t in fetches if t not in feeds] + list(targets)
    keep = needed(roots, lambda tensor: tensor in feeds)
    state = Rewrite(op.name for op in keep)
    for tensor, shape in feeds.items():
        name = tensor.op.name
        if len(tensor.op.outputs) > 1:
            name = state.free_name(f"{name}/output_{tensor.index}")
        argument = state.graph.create("argument", (), {"dtype": tensor.dtype, "shape": shape}, f"{name}/",
                                      device=tensor.op.device, source=tensor.op.source)
        state.tensors[tensor] = argument.outputs[0]
    freed = {op for op in keep if op.kind == "variable"} & graph.held.get(FREED, set())
    fed_alone = {t.op for t in feeds if len(t.op.outputs) == 1}
    _copy(state, [op for op in topological(keep) if op not in fed_alone or op in targets], feeds, freed)
    return narrow(inline(Program(state.graph, tuple(state.tensors[t] for t in feeds), tuple(state.tensors[t] for t in fetches),
                                 tuple(dict.fromkeys(state.operations[op][0] for op in targets)))))


def _copy(state: Rewrite, order: Sequence[Operation], feeds: Mapping[Tensor, Shape], freed: Set[Operation]) -> None:
    loose: set[Tensor] = set()      # old tensors whose shape the graph knew, and steps do not
    for op in order:
        inputs = state.inputs(op)
        if state.graph.has(op.name):      # a fed operation that is also run as a target
            new = state.create(op.kind, inputs, op.attrs, f"{op.name}_run", op)
        else:
            if op in freed or loose.intersection(op.inputs):
                outputs = _loosened(state, op, inputs, loose)
            else:
                outputs = _again(state, op, inputs, op.attrs) if op in op.graph.said_less else state.copy(op, inputs)
            new = outputs[0].op if outputs else state.graph.operations[-1]
        state.operations[op] = (new,)
        for old, tensor in zip(op.outputs, new.outputs):
            if old not in feeds:
                state.tensors[old] = tensor
    state.close_loops()


_READS = ("read_variable", "resource_gather")      # which have the variable's shape as an attribute


def _loosened(state: Rewrite, op: Operation, inputs: Sequence[Tensor], loose: set[Tensor]) -> Sequence[Tensor]:
    """A copy of an operation on a variable that may take another shape, or on what follows from one: nothing is kept of the
    shape that the graph was told."""
    if op.has_bodies:
        names = ", ".join(t.name for t in op.inputs if t in loose)
        raise errors.UnimplementedError(f"{op.name}: {names} may change its shape (assign with validate_shape=False), which a "
                                        "branch or loop cannot follow; make the variable itself with validate_shape=False")
    told: dict[str, Any] = {"freed": True} if op.kind == "variable" else {"shape": Shape(None)} if op.kind in _READS else {}
    new = _again(state, op, inputs, {**op.attrs, **told})
    loose.update(old for old, tensor in zip(op.outputs, new) if told or tensor.shape != old.shape)
    return new


def _again(state: Rewrite, op: Operation, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Sequence[Tensor]:
    """A copy of which nothing is known but what follows from `inputs` and `attrs`."""
    return state.graph.create(op.definition, inputs, attrs, f"{op.name}/", state.controls(op), device=op.device,
                              colocation=op.colocation, derived=op.derived, source=op.source).outputs
