"""In which frame of a loop an operation runs: TensorFlow wants constants and handles in the frame that reads them."""
from __future__ import annotations

from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.program import is_back_edge, topological

__all__ = ["anchor", "frames_of"]


def frames_of(graph: Graph) -> dict[Operation, tuple[str, ...]]:
    """The names of the frames around each operation of a loop, the outermost first; others are left out."""
    inside: dict[Operation, tuple[str, ...]] = {}
    if not any(op.kind == "enter" for op in graph.operations):
        return inside
    after: dict[Operation, tuple[str, ...]] = {}
    for op in topological(graph.operations):
        before = [t.op for t in op.inputs if not is_back_edge(op, t)] + list(op.controls)
        path = max((after[b] for b in before), key=len, default=())
        inside[op] = path
        after[op] = (*path, op.attrs["frame_name"]) if op.kind == "enter" else path[:-1] if op.kind == "exit" else path
    return {op: path for op, path in inside.items() if path}


def anchor(op: Operation, inside: dict[Operation, tuple[str, ...]]) -> str:
    """An operation whose end `op` has to wait for anyway, in its frame: what `op` reads is made once it is done."""
    path = inside[op]
    for other in (*(t.op for t in op.inputs), *op.controls):
        around = inside.get(other, ())
        if (around[:-1] if other.kind == "exit" else around) == path:
            return other.name
        if other.kind == "enter" and (*around, other.attrs["frame_name"]) == path:
            return other.name
    return ""
