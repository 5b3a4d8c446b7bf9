"""Every invariant that verify() names, broken on purpose; and the text of graphs."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.check import verify
from workbench.core.graph.dtype import int32
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.passes.pipeline import run_passes
from workbench.core.passes.prune import prune


def program() -> Program:
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [2], name="x")
        y = wb.exp(x, name="y")
        z = wb.add(y, x, name="z")
    return prune(graph, [z], [], {x: x.shape})


def rename(p: Program) -> Program:
    p.graph.operations[1].name = "x"
    return p


def foreign_input(p: Program) -> Program:
    p.graph.operations[2].inputs = program().graph.operations[2].inputs
    return p


def foreign_control(p: Program) -> Program:
    p.graph.operations[2].controls = (program().graph.operations[0],)
    return p


def wrong_dtype(p: Program) -> Program:
    p.graph.operations[1].outputs[0].dtype = int32
    return p


def forgotten_shape(p: Program) -> Program:
    p.graph.operations[1].outputs[0].shape = Shape([None])
    return p


def foreign_fetch(p: Program) -> Program:
    return Program(p.graph, p.feeds, program().fetches)


def computed_feed(p: Program) -> Program:
    return Program(p.graph, (p.graph.operations[1].outputs[0],), p.fetches)


def lost_outputs(p: Program) -> Program:
    p.graph.operations[1].outputs = p.graph.operations[0].outputs
    return p


@pytest.mark.parametrize("spoil,fault", [
    (rename, "two operations share a name"), (foreign_input, "'z' reads a tensor of another graph"),
    (foreign_control, "'z' waits for an operation of another graph"), (wrong_dtype, "'y' has the wrong dtype"),
    (forgotten_shape, "'y' has the shape [?] but its inputs give [2]"),
    (lost_outputs, "'y' lost its outputs"), (foreign_fetch, "'z:0' is fed or fetched but not in the graph"),
    (computed_feed, "a feed is not an argument")])
def test_broken_invariants_are_named_with_the_stage(spoil: Callable[[Program], Program], fault: str):
    verify(program(), "prune")
    with pytest.raises(errors.InternalError) as error:
        verify(spoil(program()), "fuse")
    assert str(error.value) == f"verify after fuse: {fault}; please report the graph's text (to_text)"


def test_a_cycle_is_found():
    p = program()
    _, y, z = p.graph.operations
    y.controls = (z,)
    with pytest.raises(errors.InvalidArgumentError) as error:
        verify(p, "cse")
    assert str(error.value) == ("graph: 'y' waits for itself; remove the cycle of data or control edges (loops are written "
                                "with while_loop)")


def test_a_pass_that_breaks_a_graph_is_caught_at_once():
    stages = (("good", lambda p: p, ""), ("bad", lambda p: rename(program()), ""), ("late", lambda p: 1 / 0, ""))
    with pytest.raises(errors.InternalError, match="verify after bad: two operations share a name"):
        run_passes(program(), stages=stages)
