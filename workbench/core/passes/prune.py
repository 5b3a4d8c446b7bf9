"""Keep what the fetches need: fed tensors become arguments, the rest of the graph is dropped."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, needed, topological
from workbench.core.graph.shape import Shape
from workbench.core.passes.inline import inline
from workbench.core.passes.rewrite import Rewrite

__all__ = ["prune"]


def prune(graph: Graph, fetches: Sequence[Tensor], targets: Sequence[Operation],
          feeds: Mapping[Tensor, Shape]) -> Program:
    """The backward closure of `fetches` and `targets`, cut at `feeds` (paper W§4.2).

    Each fed tensor becomes an `argument` of the given shape, in the order of `feeds`; since shapes are inferred again,
    concrete feed shapes make everything below them concrete. Calls of functions become what they do.
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
    fed_alone = {t.op for t in feeds if len(t.op.outputs) == 1}
    _copy(state, [op for op in topological(keep) if op not in fed_alone or op in targets], feeds)
    return inline(Program(state.graph, tuple(state.tensors[t] for t in feeds), tuple(state.tensors[t] for t in fetches),
                          tuple(dict.fromkeys(state.operations[op][0] for op in targets))))


def _copy(state: Rewrite, order: Sequence[Operation], feeds: Mapping[Tensor, Shape]) -> None:
    for op in order:
        inputs = state.inputs(op)
        if state.graph.has(op.name):      # a fed operation that is also run as a target
            new = state.create(op.kind, inputs, op.attrs, f"{op.name}_run", op)
        else:
            outputs = state.copy(op, inputs)
            new = outputs[0].op if outputs else state.graph.operations[-1]
        state.operations[op] = (new,)
        for old, tensor in zip(op.outputs, new.outputs):
            if old not in feeds:
                state.tensors[old] = tensor
    state.close_loops()
