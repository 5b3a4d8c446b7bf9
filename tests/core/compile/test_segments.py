"""Where plans are cut: what may block or steers stands alone, everything else that starts together runs together."""
from __future__ import annotations

import pytest

import workbench as wb
from tests.core.flow_programs import PROGRAMS
from workbench.core.compile.segments import Cut, crossing, cut, is_bound
from workbench.core.graph.program import Program, is_back_edge
from workbench.core.graph.shape import Shape
from workbench.core.passes.lower import lower
from workbench.core.passes.prune import prune

pytestmark = pytest.mark.usefixtures("graph")


def program(*fetches, feeds=(), targets=()) -> Program:
    return prune((*fetches, *targets)[0].graph, [getattr(f, "op", f).outputs[f.index] for f in fetches], targets,
                 {t: t.shape for t in feeds})


def names(cuts: list[Cut]) -> list[tuple[str, set[str]]]:
    return [(c.kind, {op.name for op in c.operations}) for c in cuts]


def test_a_graph_that_cannot_block_is_one_segment():
    x = wb.placeholder("float32", [3], name="x")
    v = wb.Variable([1.0, 2.0, 3.0], name="v")
    y = wb.exp(x, name="y")
    z = wb.add(y, v, name="z")
    (kind, operations), = names(cut(program(z, feeds=[x], targets=[wb.assign_add(v, y, name="more").op])))
    assert kind == "compute" and operations == {"y", "z", "v/read_1", "more"}


def test_constants_and_handles_belong_to_no_segment():
    v = wb.Variable(1.0, name="v")
    one = wb.constant(1.0)
    with wb.control_dependencies([v.initializer]):
        late = wb.constant(2.0)
    assert is_bound(v.op) and is_bound(one.op) and not is_bound(late.op)


def queue_program() -> Program:
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]], name="q")
    x = wb.placeholder("float32", [], name="x")
    before = wb.exp(x, name="before")
    taken = wb.identity(q.dequeue(name="take"), name="taken")
    both = wb.add(before, taken, name="both")
    third = wb.tanh(taken, name="third")
    return program(both, third, feeds=[x])


def test_what_waits_for_a_queue_does_not_hold_up_the_rest():
    found = names(cut(queue_program()))
    assert ("compute", {"before"}) in found and ("blocking", {"take"}) in found
    assert ("compute", {"taken", "both", "third"}) in found and len(found) == 3


def test_work_behind_different_queues_stays_apart():
    a, b = (wb.FIFOQueue(5, ["float32"], shapes=[[]], name=n) for n in "ab")
    x, y = (wb.exp(q.dequeue(name=f"take_{q.name}"), name=f"exp_{q.name}") for q in (a, b))
    found = names(cut(program(wb.add(x, y, name="sum"), targets=[])))
    computed = [operations for kind, operations in found if kind == "compute"]
    assert sorted(map(sorted, computed)) == [["exp_a"], ["exp_b"], ["sum"]]


def check(cuts: list[Cut]) -> None:
    """Every operation once, steering and blocking alone, and no segment before one that it reads or waits for."""
    home = {op: i for i, c in enumerate(cuts) for op in c.operations}
    assert sum(len(c.operations) for c in cuts) == len(home)
    for index, c in enumerate(cuts):
        assert c.kind == "compute" or len(c.operations) == 1
        position = {op: i for i, op in enumerate(c.operations)}
        for op in c.operations:
            before = [t.op for t in op.inputs if not is_back_edge(op, t)] + list(op.controls)
            for other in before:
                if other in home:
                    assert home[other] < index or (home[other] == index and position[other] < position[op])


@pytest.mark.parametrize("name", PROGRAMS)
def test_segments_of_taken_apart_loops_stand_in_order(name):
    with wb.Graph().as_default() as graph:
        feeds, fetches, _ = PROGRAMS[name]()
    p = lower(prune(graph, fetches, [], {t: Shape(getattr(v, "shape", ())) for t, v in feeds.items()}), lambda op: True)
    cuts = cut(p)
    check(cuts)
    made = crossing(cuts)
    assert all(t.op in cuts[i].operations for t, i in made.items())


def test_queue_segments_stand_in_order():
    check(cut(queue_program()))
