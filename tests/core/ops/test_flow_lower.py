"""Lowering: what is taken apart, names and devices, what runs; and dataflow written by hand with primitives."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_evaluator import Tokens, evaluate_tokens, lowered
from tests.core.flow_programs import PROGRAMS
from workbench.core.grad import gradients
from workbench.core.graph import serial
from workbench.core.graph.build import ops
from workbench.core.graph.check import verify
from workbench.core.graph.graph import get_default_graph
from workbench.core.graph.opdef import op, registry
from workbench.core.graph.program import Program
from workbench.core.ops.flow import set_back_edge
from workbench.core.passes.lower import lower, must_lower
from workbench.core.passes.pipeline import run_passes
from workbench.core.state.container import Container

pytestmark = pytest.mark.usefixtures("graph")


def number(shape=(), dtype="float32"):
    return ops.placeholder(dtype=dtype, shape=shape, name="x")


def test_names_devices_and_frames(graph):
    x = number()

    def body(i, v):
        with get_default_graph().name_scope("inner"), get_default_graph().device("/job:ps/task:1"):
            w = ops.sin(v, name="curve")
        return i + 1, w
    with graph.device("/job:worker"):
        _, y = ops.while_loop(lambda i, v: i < 3, body, [0, x], name="loop")
    assert must_lower(y.op)
    new, _, (fetch,) = lowered(graph, {x: 0}, [y])
    assert new.operation("loop/body/inner/curve").device == "/job:ps/task:1"
    assert new.operation("loop/cond/less").device == "/job:worker"
    assert fetch.op.name == "loop/exit_1"
    enters = [o for o in new.operations if o.type == "enter"]
    assert {o.attrs["frame_name"] for o in enters} == {"loop/frame"}
    assert not [o for o in new.operations if o.type in ("if", "while")]


def test_two_loops_have_two_frames(graph):
    x = number()
    y = x
    for _ in range(2):
        y = ops.while_loop(lambda v: v < 3.0, lambda v: ops.while_loop(lambda w: w < 2.0, lambda w: w + 1.0, [v]) + 1.0,
                           [y], name="loop")
    new, _, _ = lowered(graph, {x: 0}, [y])
    assert len({o.attrs["frame_name"] for o in new.operations if o.type == "enter"}) == 4


def test_what_must_be_lowered(graph):
    x = number()
    plain = ops.cond(x > 0.0, lambda: x, lambda: -x)
    assert not must_lower(plain.op)
    program = Program(graph, (), (plain,))
    assert lower(program) is program
    with graph.device("/job:ps/task:0"):
        handle = ops.variable(dtype="float32", shape=(), name="v")
    elsewhere = ops.cond(x > 0.0, lambda: ops.read_variable(handle, dtype="float32", shape=()) + x, lambda: x)
    assert must_lower(elsewhere.op)
    with graph.device("/job:ps/task:0"):
        beside = ops.cond(x > 0.0, lambda: ops.read_variable(handle, dtype="float32", shape=()), lambda: x)
    assert not must_lower(beside.op)


@pytest.fixture
def waits_for_others():
    """A blocking operation for one test."""
    @op("x[...] -> [...]", blocking=True, context=True)
    def waits_for_others(context, x):
        context.done(x)
    yield
    del registry["waits_for_others"]


def test_blocking_bodies_are_lowered(graph, waits_for_others):
    x = number()
    y = ops.cond(x > 0.0, lambda: ops.while_loop(lambda v: v < 3.0, lambda v: ops.waits_for_others(v) + 1.0, [x]),
                 lambda: ops.cond(x < -5.0, lambda: x, lambda: -x))
    assert y.op.definition.blocking and must_lower(y.op)
    kinds = [o.type for o in lower(Program(graph, (x,), (y,))).graph.operations]
    assert "while" not in kinds and kinds.count("if") == 1      # the inner cond blocks nobody


def test_only_the_live_side_runs(graph):
    x = number()
    y = ops.cond(x > 0.0, lambda: ops.sin(x, name="live"), lambda: ops.cos(ops.constant(1.0), name="dead"))
    new, feeds, fetches = lowered(graph, {x: np.float32(2)}, [y])
    machine = Tokens(new, feeds, [f.op for f in fetches], Container())
    machine.run()
    assert "cond/then/live" in machine.runs and "cond/else/dead" not in machine.runs


def test_last_iteration_of_the_body_is_dead(graph):
    """Work on captures alone is done once an iteration, not once more."""
    x = number()
    _, y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, ops.sin(x, name="work")), [0, 0.0])
    new, feeds, fetches = lowered(graph, {x: np.float32(2)}, [y])
    machine = Tokens(new, feeds, [f.op for f in fetches], Container())
    machine.run()
    assert machine.runs.count("while/body/work") == 3


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowered_programs_survive_passes_and_the_wire(graph, name):
    feeds, fetches, expected = PROGRAMS[name]()
    places = [o for o in graph.operations if o.type == "placeholder"]
    arguments = {}
    for place in places:      # what pruning does: feeds become arguments
        place.definition, place.kind = registry["argument"], "argument"
        arguments[place.outputs[0]] = feeds[place.outputs[0]]
    program = lower(Program(graph, tuple(arguments), tuple(fetches)), lambda o: True)
    verify(program, "lower")
    program = serial.load(serial.dump(run_passes(program)))
    found = evaluate_tokens(program.graph, dict(zip(program.feeds, arguments.values())), program.fetches)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


# by hand

def test_loop_by_hand(graph):
    x, n = number(), number((), "int32")
    i, v, limit = (ops.enter(t, frame_name="hand", is_constant=constant)
                   for t, constant in ((ops.constant(0), False), (x, False), (n, True)))
    merge_i, merge_v = ops.merge([i, i])[0], ops.merge([v, v])[0]
    goes_on = ops.loop_cond(merge_i < limit)
    (done, again), (out, value) = ops.switch(merge_i, goes_on), ops.switch(merge_v, goes_on)
    set_back_edge(merge_i, ops.next_iteration(again + 1))
    again = ops.next_iteration(value * 2.0)
    mutations = graph.planning()
    set_back_edge(merge_v, again)
    assert graph.mutations == mutations + 1
    found = evaluate_tokens(graph, {x: np.float32(3), n: np.int32(4)}, [ops.exit(done), ops.exit(out)])
    assert found == [4, 48]


@pytest.mark.parametrize("flag", [True, False])
def test_branch_by_hand_and_its_gradient(graph, flag):
    x, pred = number(), number((), "bool")
    on_false, on_true = ops.switch(x, pred)
    y, index = ops.merge([on_false * 3.0, on_true * on_true])
    dx, = gradients(y, x)
    d2x, = gradients(dx, x)
    feeds = {x: np.float32(5), pred: np.asarray(flag)}
    assert evaluate_tokens(graph, feeds, [y, index, dx]) == ([25, 1, 10] if flag else [15, 0, 3])
    assert evaluate_tokens(graph, feeds, [d2x]) == [2 if flag else 0]


def test_dead_values_and_control_trigger(graph):
    pred = number((), "bool")
    on_false, _ = ops.switch(ops.constant(1.0), pred)
    dead = on_false + 1.0
    with graph.control_dependencies([dead]):
        after, trigger = ops.identity(ops.constant(2.0)), ops.control_trigger()
    with graph.control_dependencies([trigger]):
        alive = ops.identity(ops.constant(3.0))
    assert evaluate_tokens(graph, {pred: np.asarray(True)}, [dead, after, alive]) == ["dead", "dead", 3]
    assert evaluate_tokens(graph, {pred: np.asarray(False)}, [dead, after, alive]) == [2, 2, 3]
