"""Loops: variables that they only read are read once, before them; those they write stay inside; values stay the same."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds, program
from workbench.core.passes.invariant import invariant
from workbench.core.passes.pipeline import run_passes
from workbench.core.run.session import Session

pytestmark = pytest.mark.usefixtures("graph")
SEED = 1
TURNS, ROWS, UNITS = 9, 20, 264


def inside(found):
    """Types of operations in the bodies of a program's loops."""
    return [node.type for op in found.graph.operations if op.type == "while"
            for key in ("cond_graph", "body_graph") for node in op.attrs[key].operations]


def counted(body, start, turns=3):
    return wb.while_loop(lambda i, *_: i < turns, lambda i, x: (i + 1, body(x)), [wb.constant(0), start])[1]


def test_a_variable_that_a_loop_reads_is_read_before_it():
    v = wb.Variable([1.0, 2.0], dtype="float32")
    total = counted(lambda x: x + v.read_value() * v.read_value(), wb.zeros([2]))
    after = run_passes(program(total))
    assert "read_variable" not in inside(after) and kinds(after)["read_variable"] == 1
    with Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(total).tolist() == [3.0, 12.0]


def test_a_variable_that_the_loop_writes_is_read_in_every_iteration():
    v = wb.Variable(1.0, dtype="float32")

    def body(x):
        read = v.read_value()
        with wb.control_dependencies([v.assign_add(1.0 + 0.0 * read)]):
            return x + read
    found = program(counted(body, wb.constant(0.0)))
    assert inside(invariant(found)).count("read_variable") == inside(found).count("read_variable") > 0
    with Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(counted(body, wb.constant(0.0))) == 1.0 + 2.0 + 3.0


def test_a_read_that_waits_in_the_body_stays_there():
    v = wb.Variable(1.0, dtype="float32")

    def body(x):
        with wb.control_dependencies([wb.Assert(x >= 0.0, [x])]):
            return x + v.read_value()
    assert "read_variable" in inside(invariant(program(counted(body, wb.constant(0.0)))))


def test_loops_within_loops_read_before_the_outer_one():
    v = wb.Variable(2.0, dtype="float32")
    total = counted(lambda x: counted(lambda y: y + v.read_value(), x), wb.constant(0.0))
    after = run_passes(program(total))
    bodies = [op.attrs["body_graph"] for op in after.graph.operations if op.type == "while"]
    inner = [node for body in bodies for node in body.operations if node.type == "while"]
    assert inner and not any(n.type == "read_variable" for body in bodies for n in body.operations)
    assert not any(n.type == "read_variable" for op in inner for n in op.attrs["body_graph"].operations)
    with Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(total) == 18.0


def recurrence(turns):
    """(loss, variables, feed) of an LSTM in a loop; `turns` None is known only when something is fed."""
    rng = np.random.default_rng(0)
    x = wb.placeholder("float32", [turns, ROWS, UNITS])
    outputs, _ = wb.nn.dynamic_rnn(wb.nn.rnn_cell.BasicLSTMCell(UNITS), x, dtype="float32", time_major=True)
    loss = wb.reduce_mean(wb.square(outputs))
    return loss, wb.trainable_variables(), {x: rng.standard_normal((TURNS, ROWS, UNITS)).astype(np.float32)}


@pytest.mark.parametrize("turns", [TURNS, None])
def test_the_weights_of_a_loop_and_of_its_gradient_are_read_once_and_packed_before_them(turns):
    loss, variables, feed = recurrence(turns)
    wanted = [loss, *wb.gradients(loss, variables)]
    with Session() as on, Session(disabled_passes=["invariant", "cse"]) as off:
        for session in (on, off):
            session.run(wb.global_variables_initializer())
        for v, value in zip(variables, off.run(variables)):
            on.run(v.assign(wb.constant(value)))
        for a, b in zip(on.run(wanted, feed), off.run(wanted, feed)):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)
        rows = on.explain(wanted, feed).rows
    assert not [row.name for row in rows if row.inside and row.type == "read_variable"]
    assert not [row.name for row in rows if row.inside and row.reorders], "nothing changes its layout in every iteration"
    assert len([row for row in rows if row.type == "read_variable"]) == 2, "kernel and bias"


def test_what_a_gradient_takes_from_a_list_and_does_not_use_is_left_behind():
    v = wb.Variable([[1.0, 2.0]])
    rows = wb.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, wb.concat([x, v], 0)), [wb.constant(0), wb.zeros([0, 2])],
                         [wb.TensorShape([]), wb.TensorShape([None, 2])])[1]
    with Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(wb.gradients(wb.reduce_sum(rows), v)[0]).tolist() == [[2.0, 2.0]]
