"""verify(program, stage): what every stage must leave true; run after each pass when WB_CHECK=1 and in the tests."""
from __future__ import annotations

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.core.graph.program import Program, topological
from workbench.core.graph.shape import Shape

__all__ = ["verify"]


def verify(program: Program, stage: str) -> None:
    """InternalError naming the stage and the operation when an invariant is broken.

    Names are unique; inputs, controls, feeds and fetches belong to the graph; dtypes and shapes follow the rules, and
    nothing that the rules know is forgotten; no cycle; feeds are `argument` operations.
    """
    graph = program.graph
    own = set(graph.operations)
    _expect(len({op.name for op in own}) == len(graph.operations), stage, "two operations share a name")
    for op in graph.operations:
        _expect(all(t.op in own for t in op.inputs), stage, f"{op.name!r} reads a tensor of another graph")
        _expect(all(c in own for c in op.control_inputs), stage, f"{op.name!r} waits for an operation of another graph")
        _expect(all(isinstance(t, Tensor) and t.op is op for t in op.outputs), stage, f"{op.name!r} lost its outputs")
        for kept, found in zip(op.outputs, graph.infer(op)):
            _expect(kept.dtype is found.dtype, stage, f"{op.name!r} has the wrong dtype")
            _expect(_says_more(kept.shape, found.shape), stage, f"{op.name!r} has the shape {kept.shape} but its inputs "
                    f"give {found.shape}")
    for tensor in (*program.feeds, *program.fetches):
        _expect(tensor.op in own, stage, f"{tensor.name!r} is fed or fetched but not in the graph")
    _expect(all(t.op.type == "argument" for t in program.feeds), stage, "a feed is no argument")
    topological(graph.operations)


def _says_more(kept: Shape, found: Shape) -> bool:
    return kept.compatible(found) and kept.merge(found) == kept


def _expect(holds: bool, stage: str, fault: str) -> None:
    if not holds:
        raise errors.InternalError(f"verify after {stage}: {fault}; please report the graph's text (to_text)")
