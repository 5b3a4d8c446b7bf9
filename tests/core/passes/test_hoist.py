"""Recurrences: what no step makes is multiplied at once, values and gradients stay; what a step makes stays where it is."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds
from tests.core.passes.test_passes import program as pruned
from workbench.core.passes.hoist import FEWEST, hoist
from workbench.core.passes.pipeline import run_passes
from workbench.core.run.session import Session

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("graph")]
SEED = 1
STEPS, ROWS, WIDTH, UNITS = FEWEST + 1, 3, 72, 96      # the gradient of a first state may not be asked for


def program(*fetches, feeds):
    """What the pass is given: equal computations are one, each variable is read once."""
    return run_passes(pruned(*fetches, feeds=feeds))


def recurrence(cell, steps=STEPS, width=WIDTH, learned=False):
    """(loss, what is learned, feed): `cell` over the rows of one fed array."""
    rng = np.random.default_rng(0)
    fed = wb.placeholder("float32", [steps, ROWS, width])
    table = wb.Variable(rng.standard_normal([steps, 1, width]).astype(np.float32) * 0.1)
    rows = wb.unstack(fed + table if learned else fed)
    outputs, _ = wb.nn.static_rnn(cell, rows, dtype="float32")
    loss = wb.reduce_mean(wb.square(wb.stack(outputs)))
    wanted = [v for v in wb.trainable_variables() if learned or v is not table]
    return loss, wanted, {fed: rng.standard_normal((steps, ROWS, width)).astype(np.float32)}


CELLS = {"lstm": wb.nn.rnn_cell.BasicLSTMCell, "gru": wb.nn.rnn_cell.GRUCell, "plain": wb.nn.rnn_cell.BasicRNNCell}


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("name", list(CELLS))
def test_values_and_gradients_are_those_without_the_pass(name, learned):
    loss, variables, feed = recurrence(CELLS[name](UNITS), learned=learned)
    wanted = [loss, *wb.gradients(loss, variables)]
    with Session() as on, Session(disabled_passes=["hoist"]) as off:
        for session in (on, off):
            wb.set_random_seed(1)
            session.run(wb.global_variables_initializer())
        for a, b in zip(on.run(wanted, feed), off.run(wanted, feed)):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)


def test_the_inputs_of_all_steps_are_one_product_and_so_are_their_gradients():
    loss, variables, feed = recurrence(CELLS["lstm"](UNITS), learned=True)
    before = program(loss, *wb.gradients(loss, variables), feeds=feed)
    after = hoist(before)
    assert kinds(after)["matmul_add"] == STEPS
    shapes = [op.outputs[0].shape.static for op in after.graph.operations if op.type == "matmul"]
    assert shapes.count((STEPS * ROWS, 4 * UNITS)) == 1, "the inputs"
    assert shapes.count((STEPS * ROWS, WIDTH)) == 1, "their gradients"
    assert shapes.count((ROWS, UNITS)) == STEPS - 1, "the gradient of the first state is not asked for"
    assert kinds(after)["stack"] == kinds(before)["stack"] - 1, "the gradients of the inputs are together already"


def test_gradients_of_inputs_that_nobody_asks_for_are_not_computed():
    loss, variables, feed = recurrence(CELLS["lstm"](UNITS))
    after = hoist(program(loss, *wb.gradients(loss, variables), feeds=feed))
    shapes = [op.outputs[0].shape.static for op in after.graph.operations if op.type == "matmul"]
    assert shapes.count((STEPS * ROWS, WIDTH)) == 0
    assert shapes.count((ROWS, UNITS)) == STEPS - 1


def test_a_second_layer_reads_the_steps_of_the_first_and_is_done_behind_it():
    cells = wb.nn.rnn_cell.MultiRNNCell([CELLS["lstm"](UNITS), CELLS["gru"](UNITS)])
    loss, variables, feed = recurrence(cells, learned=True)
    wanted = [loss, *wb.gradients(loss, variables)]
    after = hoist(program(*wanted, feeds=feed))
    assert kinds(after)["matmul_add"] == 3 * STEPS, "an LSTM has one product in a step, a GRU two"
    with Session() as on, Session(disabled_passes=["hoist"]) as off:
        for session in (on, off):
            session.run(wb.global_variables_initializer())
        on.run([v.initializer for v in variables])
        values = off.run(variables)
        for v, value in zip(variables, values):
            on.run(v.assign(wb.constant(value)))
        for a, b in zip(on.run(wanted, feed), off.run(wanted, feed)):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("case", [{"steps": FEWEST - 1}, {"width": 1}], ids=["few steps", "small weight"])
def test_what_does_not_pay_is_left_alone(case):
    units = UNITS if "steps" in case else 4
    loss, variables, feed = recurrence(CELLS["lstm"](units), **case)
    before = program(loss, *wb.gradients(loss, variables), feeds=feed)
    assert hoist(before) is before


def test_an_input_that_is_the_last_output_stays_in_its_step():
    cell = CELLS["lstm"](UNITS)
    x = wb.placeholder("float32", [ROWS, UNITS])
    state, output = cell.zero_state(ROWS, "float32"), x
    for _ in range(STEPS):
        output, state = cell(output, state)
    before = program(wb.reduce_sum(output), feeds=[x])
    assert hoist(before) is before


def test_a_step_that_waits_for_another_than_the_rest_is_not_begun_earlier_or_later():
    cell = CELLS["lstm"](UNITS)
    queue = wb.FIFOQueue(1, ["float32"], [[ROWS, WIDTH]])
    state, rows = cell.zero_state(ROWS, "float32"), [wb.placeholder("float32", [ROWS, WIDTH]) for _ in range(STEPS)]
    for row in [*rows[:-1], rows[-1] + queue.dequeue()]:
        output, state = cell(row, state)
    counts = kinds(hoist(program(wb.reduce_sum(output), feeds=rows)))
    assert counts["matmul_add"] == STEPS - 1, "the last one keeps its own product"
