"""Sums of products over rows: joined where that is less work, left alone where others read or rows are many."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds, program
from workbench.core.graph.build import ops
from workbench.core.passes.join import FEWEST, join
from workbench.core.run.session import Session

pytestmark = pytest.mark.usefixtures("graph")
STEPS, ROWS, WIDTH, UNITS = FEWEST, 3, 8, 16


def chain(rows=ROWS, steps=STEPS):
    """(loss, weight, bias, feed): one weight and one bias, used in every step of an unrolled loop."""
    rng = np.random.default_rng(0)
    x = wb.placeholder("float32", [rows, WIDTH])
    w, b = (wb.Variable(rng.standard_normal(shape).astype(np.float32)) for shape in ([WIDTH, WIDTH], [WIDTH]))
    h = x
    for _ in range(steps):
        h = wb.tanh(wb.nn.bias_add(wb.matmul(h, w), b))
    return wb.reduce_sum(h), w, b, {x: rng.standard_normal((rows, WIDTH)).astype(np.float32)}


def gradients(rows=ROWS, steps=STEPS):
    loss, w, b, feed = chain(rows, steps)
    return wb.gradients(loss, [w, b]), feed


def test_the_gradients_of_an_unrolled_weight_and_bias_are_one_product_and_one_sum():
    found, feed = gradients()
    after = kinds(join(program(*found, feeds=feed)))
    assert (after["add_n"], after["bias_add_grad"], after["concat"]) == (0, 1, 2), "both share the joined rows of the gradient"
    assert after["matmul"] == STEPS + STEPS - 1 + 1


def test_values_are_those_without_the_pass():
    found, feed = gradients()
    with Session() as on, Session(disabled_passes=["join"]) as off:
        for session in (on, off):
            session.run(wb.global_variables_initializer())
        for a, b in zip(on.run(found, feed), off.run(found, feed)):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_the_joined_gradient_goes_straight_into_the_update():
    loss, w, _b, feed = chain()
    step = wb.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[w])
    with Session() as on, Session(disabled_passes=["join", "epilogue"]) as off:
        for session in (on, off):
            session.run(wb.global_variables_initializer())
            for _ in range(3):
                session.run(step, feed)
        np.testing.assert_allclose(on.run(w), off.run(w), rtol=2e-5, atol=1e-6)


def products(count=FEWEST, rows=2, reader=False, wait=False, turn=True):
    shapes = [rows, WIDTH] if turn else [WIDTH, rows], [rows, UNITS]
    sides = [[wb.placeholder("float32", shape) for _ in range(count)] for shape in shapes]
    made = [wb.matmul(a, b, transpose_a=turn) for a, b in zip(*sides)]
    total = ops.add_n(made)
    return program(total, *([made[0]] if reader else []), feeds=[t for side in sides for t in side],
                   targets=[made[0]] if wait else [])


def test_products_over_few_rows_are_joined():
    assert kinds(join(products())) == {"argument": 2 * FEWEST, "concat": 2, "matmul": 1}


@pytest.mark.parametrize("case", [{"reader": True}, {"wait": True}, {"turn": False}, {"rows": 500}, {"count": FEWEST - 1}],
                         ids=["fetched", "waited for", "not over rows", "many rows", "few products"])
def test_what_does_not_pay_or_may_not_be_is_left_alone(case):
    p = products(**case)
    assert join(p) is p


def test_rows_that_only_the_step_knows_are_left_alone():
    a, b = wb.placeholder("float32", [None, WIDTH]), wb.placeholder("float32", [None, UNITS])
    total = ops.add_n([wb.matmul(a + float(step), b, transpose_a=True) for step in range(FEWEST)])
    p = program(total, feeds=[a, b])
    assert kinds(join(p))["add_n"] == 1
