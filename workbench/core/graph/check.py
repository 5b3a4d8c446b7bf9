"""verify(program, stage): what every stage must leave true; run after each pass when WB_CHECK=1 and in the tests."""
from __future__ import annotations

from collections.abc import Iterator

from workbench import errors
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, topological
from workbench.core.graph.shape import Shape

__all__ = ["verify"]


def verify(program: Program, stage: str) -> None:
    """InternalError naming the stage and the operation when an invariant is broken.

    Names are unique; inputs, controls, feeds and fetches belong to the graph; dtypes and shapes follow the rules, and
    nothing that the rules know is forgotten; no cycle; feeds are `argument` operations.
    """
    own = set(program.graph.operations)
    fault = next(_faults(program, own), "")
    if fault:
        raise errors.InternalError(f"verify after {stage}: {fault}; please report the graph's text (to_text)")
    topological(program.graph.operations)


def _faults(program: Program, own: set[Operation]) -> Iterator[str]:
    if len({op.name for op in own}) != len(program.graph.operations):
        yield "two operations share a name"
    for op in program.graph.operations:
        yield from _faults_of(op, own)
        for kept, found in zip(op.outputs, program.graph.infer(op)):
            if kept.dtype is not found.dtype:
                yield f"{op.name!r} has the wrong dtype"
            if kept.shape is not found.shape and not _says_more(kept.shape, found.shape):
                yield f"{op.name!r} has the shape {kept.shape} but its inputs give {found.shape}"
    for tensor in (*program.feeds, *program.fetches):
        if tensor.op not in own:
            yield f"{tensor.name!r} is fed or fetched but not in the graph"
    if any(t.op.kind != "argument" for t in program.feeds):
        yield "a feed is not an argument"


def _faults_of(op: Operation, own: set[Operation]) -> Iterator[str]:
    for tensor in op.inputs:
        if tensor.op not in own:
            yield f"{op.name!r} reads a tensor of another graph"
    for waited in op.controls:
        if waited not in own:
            yield f"{op.name!r} waits for an operation of another graph"
    for tensor in op.outputs:
        if not isinstance(tensor, Tensor) or tensor.op is not op:
            yield f"{op.name!r} lost its outputs"


def _says_more(kept: Shape, found: Shape) -> bool:
    return kept == found or (kept.compatible(found) and kept.merge(found) == kept)
