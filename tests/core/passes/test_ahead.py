"""Loops: what no iteration has to multiply itself is multiplied at once, before or behind them; values and gradients stay."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds
from tests.core.passes.test_passes import program as pruned
from workbench.core.graph.check import verify
from workbench.core.passes.ahead import ahead
from workbench.core.passes.hoist import FEWEST
from workbench.core.passes.pipeline import run_passes
from workbench.core.passes.prune import prune
from workbench.core.run.session import Session

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("graph")]
SEED = 1
STEPS, ROWS, WIDTH, UNITS = FEWEST + 1, 3, 72, 104
CELLS = {"lstm": wb.nn.rnn_cell.BasicLSTMCell, "gru": wb.nn.rnn_cell.GRUCell, "plain": wb.nn.rnn_cell.BasicRNNCell}


def program(*fetches, feeds):
    """What the pass is given, but for what other passes do in bodies."""
    return run_passes(pruned(*fetches, feeds=feeds))


def recurrence(cell, steps=STEPS, learned=False, shape=None, **options):
    """(loss, what is learned, feed): `cell` in a loop over the rows of one fed array."""
    rng = np.random.default_rng(0)
    fed = wb.placeholder("float32", shape or [steps, ROWS, WIDTH])
    table = wb.Variable(rng.standard_normal([steps, 1, WIDTH]).astype(np.float32) * 0.1)
    outputs, _ = wb.nn.dynamic_rnn(cell, fed + table if learned else fed, dtype="float32", time_major=True, **options)
    loss = wb.reduce_mean(wb.square(outputs))
    wanted = [v for v in wb.trainable_variables() if learned or v is not table]
    return loss, wanted, {fed: rng.standard_normal((steps, ROWS, WIDTH)).astype(np.float32)}


def inside(found, kind):
    """The operations of one type in the bodies of a program's loops."""
    return [node for op in found.graph.operations if op.type == "while" for node in op.attrs["body_graph"].operations
            if node.type == kind]


def agree(loss, variables, feed):
    wanted = [loss, *wb.gradients(loss, variables)]
    with Session() as on, Session(disabled_passes=["ahead"]) as off, Session(lower_all=True) as lowered:
        for session in (on, off, lowered):
            session.run(wb.global_variables_initializer())
        for v, value in zip(variables, off.run(variables)):
            for session in (on, lowered):
                session.run(v.assign(wb.constant(value)))
        wanted_values = off.run(wanted, feed)
        for session in (on, lowered):
            for a, b in zip(session.run(wanted, feed), wanted_values):
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("name", list(CELLS))
def test_values_and_gradients_are_those_without_the_pass(name, learned):
    agree(*recurrence(CELLS[name](UNITS), learned=learned))


def test_the_inputs_of_all_iterations_are_one_product_and_so_are_their_gradients():
    loss, variables, feed = recurrence(CELLS["lstm"](UNITS), learned=True)
    before = program(loss, *wb.gradients(loss, variables), feeds=feed)
    after = ahead(before)
    verify(after, "ahead")
    shapes = [op.outputs[0].shape.static for op in after.graph.operations if op.type == "matmul"]
    assert shapes.count((STEPS * ROWS, 4 * UNITS)) == 1, "the inputs"
    assert shapes.count((STEPS * ROWS, WIDTH)) == 1, "their gradients"
    assert [op.inputs[0].shape.static for op in inside(after, "matmul_add")] == [(ROWS, UNITS)]
    assert [op.outputs[0].shape.static for op in inside(after, "matmul")] == [(ROWS, UNITS)]
    assert kinds(after)["list_stack"] == kinds(before)["list_stack"], "what the weight's gradient stacks serves both"
    assert ahead(after) is after


def test_gradients_of_inputs_that_nobody_asks_for_are_not_computed():
    loss, variables, feed = recurrence(CELLS["lstm"](UNITS))
    after = ahead(program(loss, *wb.gradients(loss, variables), feeds=feed))
    assert [op.outputs[0].shape.static for op in inside(after, "matmul")] == [(ROWS, UNITS)]
    assert not [op for op in after.graph.operations if op.outputs and op.outputs[0].shape.rank == 2
                and op.outputs[0].shape.static == (STEPS * ROWS, WIDTH) and op.type == "matmul"]


def test_the_bias_is_added_before_the_loop_where_it_belongs_to_the_product():
    loss, _, feed = recurrence(CELLS["lstm"](UNITS))
    with Session() as session:
        session.run(wb.global_variables_initializer())
        rows = session.explain(loss, feed).rows
    assert [row.type for row in rows if row.inside and "matmul" in row.type] == ["matmul_add"]
    assert [row.type for row in rows if not row.inside and "matmul" in row.type] == ["fused_matmul"]
    assert not [row.name for row in rows if row.inside and row.reorders], "the weight is packed before the loop"


def test_layers_one_upon_the_other_and_loops_one_after_the_other():
    cells = wb.nn.rnn_cell.MultiRNNCell([CELLS["lstm"](UNITS), CELLS["gru"](UNITS)])
    loss, variables, feed = recurrence(cells, learned=True)
    after = ahead(program(loss, *wb.gradients(loss, variables), feeds=feed))
    assert len(inside(after, "matmul_add")) == 1, "the second layer's inputs are known in their iteration"
    agree(loss, variables, feed)


def test_a_loop_behind_a_loop():
    fed = wb.placeholder("float32", [STEPS, ROWS, WIDTH])
    with wb.variable_scope("first"):
        middle, _ = wb.nn.dynamic_rnn(CELLS["gru"](UNITS), fed, dtype="float32", time_major=True)
    with wb.variable_scope("second"):
        outputs, _ = wb.nn.dynamic_rnn(CELLS["lstm"](UNITS), middle, dtype="float32", time_major=True)
    loss, variables = wb.reduce_mean(wb.square(outputs)), wb.trainable_variables()
    feed = {fed: np.random.default_rng(0).standard_normal((STEPS, ROWS, WIDTH)).astype(np.float32)}
    after = ahead(program(loss, *wb.gradients(loss, variables), feeds=feed))
    assert len(inside(after, "matmul_add")) == 3, "a GRU has two products"
    agree(loss, variables, feed)


def test_both_directions():
    fed = wb.placeholder("float32", [STEPS, ROWS, WIDTH])
    cells = [CELLS["lstm"](UNITS), CELLS["lstm"](UNITS)]
    outputs, _ = wb.nn.bidirectional_dynamic_rnn(*cells, fed, dtype="float32", time_major=True)
    loss = wb.reduce_mean(wb.square(wb.concat(outputs, 2)))
    feed = {fed: np.random.default_rng(0).standard_normal((STEPS, ROWS, WIDTH)).astype(np.float32)}
    assert len(inside(ahead(program(loss, feeds=feed)), "matmul_add")) == 2
    agree(loss, wb.trainable_variables(), feed)


@pytest.mark.parametrize("case", [{"steps": FEWEST - 1}, {"units": 4}], ids=["few steps", "small weight"])
def test_what_does_not_pay_is_left_alone(case):
    loss, variables, feed = recurrence(CELLS["lstm"](case.get("units", UNITS)), case.get("steps", STEPS), learned=True)
    before = program(loss, *wb.gradients(loss, variables), feeds=feed)
    assert ahead(before) is before


def test_a_number_of_steps_that_only_the_step_knows():
    loss, variables, feed = recurrence(CELLS["lstm"](UNITS), shape=[None, ROWS, WIDTH])
    after = ahead(program(loss, *wb.gradients(loss, variables), feeds=[]))
    shapes = [op.outputs[0].shape.static for op in inside(after, "matmul")]
    assert shapes == [(ROWS, 4 * UNITS), (ROWS, UNITS)], "the gradient of the inputs is not computed, which nobody reads"
    agree(loss, variables, feed)


def test_parts_of_gradients_that_a_step_of_known_length_lists_are_one_product():
    """The graph leaves the length open, and lists join what has that many rows."""
    loss, variables, feed = recurrence(CELLS["lstm"](UNITS), shape=[None, None, WIDTH], learned=True)
    shapes = {t: wb.TensorShape(value.shape) for t, value in feed.items()}
    found = prune(loss.graph, [loss, *wb.gradients(loss, variables)], [], shapes)
    after = ahead(run_passes(found))
    verify(after, "ahead")
    assert [op.outputs[0].shape.static for op in inside(after, "matmul")] == [(ROWS, UNITS)]
    assert kinds(after)["list_concat"] < kinds(run_passes(found))["list_concat"], "what is stacked is joined too"
    agree(loss, variables, feed)


def test_lengths_of_sequences():
    agree(*recurrence(CELLS["lstm"](UNITS), learned=True, sequence_length=[STEPS, 2, 5]))


def rows_of(x):
    """The list of the rows of x, the first one on top."""
    return wb.ops.list_from_tensor(x, reverse=True)


def loop(x, weight, body, turns=STEPS):
    """`body(row, state, weight)` over the rows of x."""
    def step(i, rows, state):
        rest, row = wb.ops.list_pop(rows, dtype=wb.float32, shape=[ROWS, WIDTH])
        return i + 1, rest, body(row, state, weight)
    return wb.while_loop(lambda i, *_: i < turns, step, [wb.constant(0), rows_of(x), wb.zeros([ROWS, WIDTH])])[2]


@pytest.fixture
def sides():
    rng = np.random.default_rng(3)
    x = wb.constant(rng.standard_normal((STEPS, ROWS, WIDTH)).astype(np.float32))
    w = wb.placeholder("float32", [2 * WIDTH, 4 * WIDTH])
    return x, w, rng.standard_normal((2 * WIDTH, 4 * WIDTH)).astype(np.float32) * 0.05


def test_a_loop_that_ends_before_its_rows_do(sides):
    x, w, weight = sides
    y = loop(x, w, lambda row, state, w: wb.tanh(wb.matmul(wb.concat([state, row], 1), w)[:, :WIDTH]), STEPS - 4)
    p = program(y, feeds=[w])
    assert len(inside(ahead(p), "matmul_add")) == 1
    with Session() as on, Session(disabled_passes=["ahead"]) as off:
        np.testing.assert_allclose(on.run(y, {w: weight}), off.run(y, {w: weight}), rtol=1e-4, atol=1e-6)


def test_a_loop_that_runs_beyond_its_rows_says_so(sides):
    x, w, weight = sides
    y = loop(x, w, lambda row, state, w: wb.tanh(wb.matmul(wb.concat([state, row], 1), w)[:, :WIDTH]), STEPS + 1)
    with Session() as session, pytest.raises(wb.errors.OutOfRangeError, match="list_pop: the list is empty"):
        session.run(y, {w: weight})


def test_a_weight_that_the_loop_changes_is_no_known_one(sides):
    x, w, _ = sides

    def step(i, rows, state, weight):
        rest, row = wb.ops.list_pop(rows, dtype=wb.float32, shape=[ROWS, WIDTH])
        return i + 1, rest, wb.tanh(wb.matmul(wb.concat([row, state], 1), weight)[:, :WIDTH]), weight * 0.9
    y = wb.while_loop(lambda i, *_: i < STEPS, step, [wb.constant(0), rows_of(x), wb.zeros([ROWS, WIDTH]), w])[2]
    p = program(y, feeds=[w])
    assert ahead(p) is p
