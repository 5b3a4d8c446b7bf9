"""Branches and loops whose operations lie on several devices: scattered at random, with gradients, and by request."""
from __future__ import annotations

import random

import numpy as np
import pytest

from tests.core.flow_evaluator import evaluate
from tests.core.flow_gradient_cases import CASES
from tests.core.flow_programs import PROGRAMS
from tests.core.ops.test_flow_gradients import feed, feeds_of, floats, sloped
from workbench import errors
from workbench.core.compile.loops import share_frames
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph, get_default_graph
from workbench.core.graph.program import Program
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import set_back_edge
from workbench.core.passes.lower import lower, must_lower
from workbench.core.run.session import Session

DEVICES = 3


def scatter(graph, rng):
    """Ask for a random device for each operation that may go anywhere."""
    for op in graph.operations:
        for body in op.attrs.values():
            if isinstance(body, Subgraph):
                scatter(body, rng)
        pinned = any(t.dtype.kind == "object" for t in (*op.inputs, *op.outputs))
        if op.type not in ("argument", "constant", "placeholder") and not pinned:
            op.device = f"/device:CPU:{rng.randrange(DEVICES)}"


def check(graph, feeds, fetches, expected):
    with Session(graph=graph, devices=DEVICES) as session:
        for _ in range(2):
            for value, wanted in zip(session.run(fetches, feeds), expected, strict=True):
                np.testing.assert_allclose(value, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    with Graph().as_default() as graph:
        feeds, fetches, expected = PROGRAMS[name]()
    scatter(graph, random.Random(name))
    check(graph, feeds, fetches, expected)


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    function, points = CASES[name]
    with Graph().as_default() as graph:
        places = [feed(p) for p in points]
        grads, _ = sloped(function(*places), [places[i] for i in floats(points)])
    feeds = feeds_of(places, points)
    expected = evaluate(graph, feeds, grads)
    scatter(graph, random.Random(name))
    check(graph, feeds, grads, expected)


def test_loop_over_a_variable_of_another_device():
    """The handle stays where it is; the value is read there once an iteration."""
    with Graph().as_default() as graph:
        with graph.device("/device:CPU:1"):
            handle = ops.variable(dtype="float32", shape=(), name="w")
            start = ops.assign(handle, 2.0)

        def body(i, v):
            read = ops.read_variable(handle, dtype="float32", shape=())
            with get_default_graph().control_dependencies([read.op]):
                return i + 1, v * read
        _, y = ops.while_loop(lambda i, v: i < 3, body, [0, 1.0])
    assert must_lower(y.op)
    with Session(graph=graph, devices=2) as session:
        session.run(start)
        assert session.run(y) == 8


def shared(graph, fetch, device_of):
    program = lower(Program(graph, (), (fetch,)), lambda op: True)
    return share_frames(program, {op.name: device_of(op.name) for op in program.graph.operations})


def test_one_control_loop_for_each_frame_and_device():
    with Graph().as_default() as graph:
        _, y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, ops.sin(v, name="far")), [0, 1.0], name="loop")
        frames = shared(graph, y, lambda name: "/device:CPU:1" if name.endswith("far") else "/device:CPU:0")
    assert sorted(frames.beats) == [("/device:CPU:0", ("loop/frame",)), ("/device:CPU:1", ("loop/frame",))]
    beat = frames.beats["/device:CPU:1", ("loop/frame",)]
    assert beat.name == "loop/frame/control/device_CPU_1/merge" and frames.placement[beat.name] == "/device:CPU:1"
    assert [t.op.type for t in beat.inputs] == ["enter", "next_iteration"]


def test_a_loop_on_one_device_stays_as_it_is():
    with Graph().as_default() as graph:
        _, y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.0), [0, 1.0])
        program = lower(Program(graph, (), (y,)), lambda op: True)
        assert share_frames(program, {op.name: "a" for op in program.graph.operations}).program is program


def test_a_frame_without_decision_cannot_span_devices():
    with Graph().as_default() as graph:
        start = ops.enter(1.0, frame_name="hand")
        merged = ops.merge([start, start])[0]
        out, again = ops.switch(merged, merged < 3.0)
        set_back_edge(merged, ops.next_iteration(ops.sin(again, name="far")))
        y = ops.exit(out)
        with pytest.raises(errors.InvalidArgumentError, match="frame 'hand' spans devices but has no loop_cond; mark"):
            shared(graph, y, lambda name: "b" if name == "far" else "a")
