"""Work that grows with the graph grows linearly: building, differentiating, every pass, planning, the first run."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from benchmarks.graph_scale import forward, training
from tests.growth import growth
from workbench.core.compile.partition import partition
from workbench.core.compile.place import place
from workbench.core.compile.plan import compile_plan
from workbench.core.compile.segments import cut
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES, run_passes
from workbench.core.passes.prune import prune

LINEAR = 2.3      # lines executed at twice the size, divided by those at the size; 4 when quadratic
CPUS = [f"/job:localhost/task:0/device:CPU:{i}" for i in range(2)]
Action = Callable[[], Any]


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """verify() after each pass is linear too, but most of the work at these sizes."""
    monkeypatch.setattr(wb.settings.settings, "check", False)


def pruned(size: int) -> Program:
    graph, fetches, feeds, _ = training(wb, size)
    return prune(graph, fetches[:1], fetches[1:], {t: Shape(v.shape) for t, v in feeds.items()})


def chain(size: int) -> Program:
    """Elementwise operations, each of which could join the one before it, beside values read from far away."""
    with wb.Graph().as_default() as graph:
        x = first = wb.placeholder("float32", [1000])
        for i in range(60 * size):
            x = x * 0.5 + (first if i % 2 else x)
        return prune(graph, [x], [], {first: first.shape})


def fan(size: int) -> Program:
    """One value with many readers, all summed."""
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [1000])
        return prune(graph, [wb.add_n([wb.tanh(x * float(i)) for i in range(30 * size)])], [], {x: x.shape})


def crossing(size: int) -> Program:
    """Two devices that hand each other values all the time."""
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [4, 4])
        y = x
        for i in range(20 * size):
            with wb.device(CPUS[i % 2]):
                y = wb.matmul(y, x)
        return prune(graph, [y], [], {x: x.shape})


def built(size: int) -> Action:
    def action() -> None:
        with wb.Graph().as_default():
            forward(wb, size)
    return action


def differentiated(size: int) -> Action:
    graph = wb.Graph()
    with graph.as_default():
        *_, loss = forward(wb, size)
    variables = graph.get_collection("trainable_variables")

    def action() -> None:
        with graph.as_default():
            wb.gradients(loss, variables)
    return action


def run_first(size: int) -> Action:
    graph, fetches, feeds, start = training(wb, size)
    session = wb.Session(graph=graph)
    session.run(start)
    return lambda: session.run(fetches, feeds)


@pytest.mark.parametrize("prepare", [built, differentiated, run_first], ids=lambda f: f.__name__)
def test_what_a_user_waits_for_is_linear(prepare):
    assert growth(prepare, 3) < LINEAR


@pytest.mark.parametrize("step", [f for _, f, _ in (*PASSES, *DEVICE_PASSES)], ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", [pruned, chain, fan, crossing], ids=lambda f: f.__name__)
def test_every_pass_is_linear(make, step):
    def prepare(size: int) -> Action:
        program = make(size)
        return lambda: step(program)
    assert growth(prepare, 2) < LINEAR


@pytest.mark.parametrize("make", [pruned, chain, fan, crossing], ids=lambda f: f.__name__)
def test_placing_splitting_cutting_and_planning_are_linear(make):
    def prepare(size: int) -> Action:
        program = run_passes(make(size))

        def action() -> None:
            for part in partition(program, place(program, CPUS)):
                cut(part.program)
                compile_plan(part.program)
        return action
    assert growth(prepare, 2) < LINEAR
