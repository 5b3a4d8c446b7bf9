"""Compiled plans: the generated text, whose line raised, spans of a traced step, and instances of one plan."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile.instance import Instance
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.passes.prune import prune
from workbench.core.run.driver import run_error
from workbench.core.state.container import Container
from workbench.core.state.variables import VariableState
from workbench.core.trace import Journal

pytestmark = pytest.mark.usefixtures("graph", "numpy_alone")
CPU = "/job:localhost/task:0/device:CPU:0"


def plan_of(*fetches, feeds=(), targets=()) -> Plan:
    return compile_plan(prune((*fetches, *targets)[0].graph, fetches, targets, {t: t.shape for t in feeds}), "p")


def body(plan: Plan) -> list[str]:
    """The lines of the segments' functions: all of the text."""
    return plan.source.splitlines()


def test_known_shapes_are_computed_into_planned_buffers():
    x = wb.placeholder("float32", [4], name="x")
    y = wb.tanh(wb.exp(x) * x)
    assert body(plan_of(y, feeds=[x])) == [
        "def segment_0(t0):", "    k0(t0, out=b1)", "    k1(b1, t0, out=b2)", "    t3 = k2(b2)", "    return (t3,)"]


def test_unknown_shapes_use_locals():
    x = wb.placeholder("float32", [None], name="x")
    assert body(plan_of(wb.tanh(wb.exp(x)), feeds=[x]))[1:] == [
        "    t1 = f1(k0(t0))", "    t2 = f2(k1(t1))", "    t1 = None", "    return (handed_over(t2),)"]


def test_views_of_buffers_cost_no_line():
    x = wb.placeholder("float32", [2, 3], name="x")
    y = wb.exp(wb.reshape(wb.tanh(x), [3, 2]))
    assert [line for line in body(plan_of(y, feeds=[x])) if "reshape" in line] == []


def test_branches_and_loops_become_python(graph):
    n = wb.placeholder("int32", [], name="n")
    y = wb.while_loop(lambda i: i < n, lambda i: wb.cond(i > 2, lambda: i + 2, lambda: i + 1), [0])
    text = "\n".join(body(plan_of(y, feeds=[n])))
    for part in (" in count(1):", "if not t3: break", "check()", "if b", "else:"):
        assert part in text, text
    run = Instance(plan_of(y, feeds=[n]), Container(), CPU).run
    assert [int(run(np.array(k, np.int32))[0]) for k in (0, 1, 5, 6)] == [0, 1, 5, 7]


def test_a_cancelled_instance_leaves_its_loop():
    n = wb.placeholder("int32", [], name="n")
    instance = Instance(plan_of(wb.while_loop(lambda i: i < n, lambda i: i * 1, [0]), feeds=[n]), Container(), CPU)
    instance.cancelled.set()
    with pytest.raises(errors.CancelledError, match="while_loop: the step was cancelled"):
        instance.run(np.array(5, np.int32))


@pytest.mark.parametrize("traced", [False, True])
def test_the_operation_whose_line_raised_is_found(traced):
    x = wb.placeholder("float32", None, name="x")
    y = wb.exp(wb.tanh(x))
    z = wb.matmul(y, y, name="product")
    plan = plan_of(wb.exp(z) + 1.0, feeds=[x])
    instance = Instance(plan, Container(), CPU, traced)
    with pytest.raises(ValueError) as error:
        instance.run(np.ones((2, 3), np.float32))
    assert plan.locate(error.tb).name == "product"
    shown = run_error(plan, error.value)
    assert type(shown) is errors.ShapeError and shown.__cause__ is error.value
    assert "\n  operation: 'product'\n  inputs: exp:0 float32[2,3], exp:0 float32[2,3]\n  built at: " in str(shown)


def test_a_segment_is_called_by_its_operation_or_the_scope_of_its_operations():
    x = wb.placeholder("float32", [3], name="x")
    one = wb.sin(x, name="alone")
    with wb.name_scope("layer"):
        two = wb.tanh(wb.reduce_sum(x, name="a"), name="b")
    three = wb.cos(two, name="outside")
    assert [plan_of(y, feeds=[x]).segments[0].name for y in (one, two, three)] == [
        "alone", "layer, 2 operations", "computation, 3 operations"]


def test_a_traced_step_has_a_span_per_operation():
    x = wb.placeholder("float32", [50], name="x")
    y = wb.tanh(wb.exp(x, name="first"), name="second")
    instance = Instance(plan_of(y, feeds=[x]), Container(), CPU, traced=True)
    journal = Journal(capacity=100)
    instance.run(np.zeros(50, np.float32))
    instance.operation_spans(7, journal)
    spans = journal.spans_since()[2]
    assert [(s.kind, s.name, s.detail, s.step, s.nbytes) for s in spans] == [
        ("op", "first", "exp", 7, 200), ("op", "second", "tanh", 7, 200)]
    assert spans[0].end <= spans[1].end and all(s.start <= s.end for s in spans) and len(instance.marks) == 0


def test_instances_share_the_plan_and_nothing_else():
    x = wb.placeholder("float32", [3], name="x")
    plan = plan_of(wb.tanh(wb.exp(x)) + x, feeds=[x])
    one, other = (Instance(plan, Container(), CPU) for _ in range(2))
    assert not np.shares_memory(one.arena.memory, other.arena.memory)
    np.testing.assert_allclose(one.run(np.zeros(3, np.float32))[0], np.tanh(1.0) * np.ones(3), rtol=1e-6)
    np.testing.assert_allclose(other.run(np.ones(3, np.float32))[0], np.tanh(np.e) + np.ones(3), rtol=1e-6)


def test_state_is_bound_to_the_container_of_the_instance():
    v = wb.Variable(1.0, name="v")
    plan = plan_of(wb.assign_add(v, 1.0))
    first, second = Container(), Container()
    for container in (first, second):
        Instance(plan_of(targets=[v.initializer]), container, CPU).run()
    assert [float(Instance(plan, first, CPU).run()[0]) for _ in range(2)] == [2.0, 3.0]
    assert float(Instance(plan, second, CPU).run()[0]) == 2.0


def updated_in_place() -> tuple[VariableState, Instance]:
    """A variable, and what adds to it: after four times in one place."""
    v = wb.Variable(np.zeros(1000, np.float32), name="v")
    container = Container()
    Instance(plan_of(targets=[v.initializer]), container, CPU).run()
    state = container.variables()["v"]
    update = Instance(plan_of(targets=[wb.assign_add(v, wb.tanh(v.read_value()) + 1.0).op]), container, CPU)
    places = set()
    for _ in range(4):
        update.run()
        places.add(state.read().ctypes.data)
    assert len(places) == 1
    return state, update


def test_a_variable_is_updated_in_place_once_nobody_reads_it():
    state, update = updated_in_place()
    held = state.read()
    update.run()
    assert not np.shares_memory(held, state.read())
