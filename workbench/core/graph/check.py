"""verify(program, stage): what every stage must leave true; run after each pass when WB_CHECK=1 and in the tests."""
from __future__ import annotations

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import infer_dtypes
from workbench.core.graph.program import Program, topological

__all__ = ["verify"]


def verify(program: Program, stage: str) -> None:
    """InternalError naming the stage and the operation when an invariant is broken.

    Names are unique; inputs, controls, feeds and fetches belong to the graph; dtypes follow the rules; no cycle;
    feeds are `argument` operations.
    """
    graph = program.graph
    own = set(graph.operations)
    _expect(len({op.name for op in own}) == len(graph.operations), stage, "two operations share a name")
    for op in graph.operations:
        _expect(all(t.op in own for t in op.inputs), stage, f"{op.name!r} reads a tensor of another graph")
        _expect(all(c in own for c in op.control_inputs), stage, f"{op.name!r} waits for an operation of another graph")
        dtypes = infer_dtypes(op.definition, [t.dtype for t in op.inputs], op.attrs, len(op.outputs))
        _expect(all(t.dtype is d for t, d in zip(op.outputs, dtypes)), stage, f"{op.name!r} has the wrong dtype")
        _expect(all(isinstance(t, Tensor) and t.op is op for t in op.outputs), stage, f"{op.name!r} lost its outputs")
    for tensor in (*program.feeds, *program.fetches):
        _expect(tensor.op in own, stage, f"{tensor.name!r} is fed or fetched but not in the graph")
    _expect(all(t.op.type == "argument" for t in program.feeds), stage, "a feed is no argument")
    topological(graph.operations)


def _expect(holds: bool, stage: str, fault: str) -> None:
    if not holds:
        raise errors.InternalError(f"verify after {stage}: {fault}; please report the graph's text (to_text)")
