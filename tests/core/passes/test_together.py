"""Updates of small variables by one rule: joined where nothing stands between them, left alone where something does."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds, program
from workbench.core.graph.build import ops
from workbench.core.graph.check import verify
from workbench.core.passes.cse import cse
from workbench.core.passes.together import FEWEST, LARGEST, MOST, together
from workbench.core.run.session import Session

OPTIMIZERS = {"descent": lambda: wb.train.GradientDescentOptimizer(0.1), "adam": lambda: wb.train.AdamOptimizer(0.1),
              "momentum": lambda: wb.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
              "adagrad": lambda: wb.train.AdagradOptimizer(0.1), "rms_prop": lambda: wb.train.RMSPropOptimizer(0.1)}


pytestmark = [pytest.mark.once, pytest.mark.usefixtures("graph")]


def some(count: int = FEWEST, size: int = 5, dtype: Any = np.float32) -> list[Any]:
    """(gradient, variable) of each."""
    return [(wb.constant(np.linspace(-i - 1, i, size + i).astype(dtype)), wb.Variable(np.full(size + i, 1 + i, dtype)))
            for i in range(count)]


def joined(*steps: Any, fetches: Any = ()) -> Any:
    found = together(cse(program(*fetches, targets=steps)))      # equal settings are one tensor
    verify(found, "together")
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_of_one_optimizer_are_one_operation_with_the_same_values(name):
    pairs = some()
    step = OPTIMIZERS[name]().apply_gradients(pairs)
    after = kinds(joined(step))
    assert after["apply_together"] == 1 and not any(kind.startswith("apply_") and kind != "apply_together" for kind in after)
    with Session() as on, Session(disabled_passes=["together"]) as off:
        for session in (on, off):
            session.run(wb.global_variables_initializer())
            for _ in range(3):
                session.run(step)
        for found, wanted in zip(on.run(wb.global_variables()), off.run(wb.global_variables()), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_its_members_are_named():
    step = wb.train.GradientDescentOptimizer(0.1).apply_gradients(some())
    made, = (op for op in joined(step).graph.operations if op.kind == "apply_together")
    assert made.attrs["names"] == tuple(op.name for op in step.controls)
    with Session() as session:
        assert any(row.members == made.attrs["names"] for row in session.explain(step).rows)


def test_what_counts_steps_still_follows():
    count = wb.Variable(0, trainable=False)
    step = wb.train.GradientDescentOptimizer(0.1).apply_gradients(some(), global_step=count)
    assert kinds(joined(step))["apply_together"] == 1
    with Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step)
        assert session.run(count) == 1


@pytest.mark.parametrize("pairs, left", [
    (lambda: some(FEWEST - 1), FEWEST - 1), (lambda: some(dtype=np.float64), FEWEST), (lambda: some(size=LARGEST + 1), FEWEST),
    (lambda: [(wb.IndexedSlices(wb.ones([1, 2]), wb.constant([0])), wb.Variable(np.ones((3, 2), np.float32)))] * FEWEST, 0)],
    ids=["too few", "float64", "large", "rows"])
def test_which_are_left_alone(pairs, left):
    after = kinds(joined(wb.train.GradientDescentOptimizer(0.1).apply_gradients(pairs())))
    assert after["apply_gradient_descent"] == left and after["apply_together"] == 0


def test_a_group_ends_before_its_gradients_take_much():
    step = wb.train.GradientDescentOptimizer(0.1).apply_gradients(
        [(wb.ones([LARGEST]), wb.Variable(np.ones(LARGEST, np.float32))) for _ in range(MOST // LARGEST + FEWEST)])
    counts = [op.attrs["count"] for op in joined(step).graph.operations if op.kind == "apply_together"]
    assert counts == [MOST // LARGEST, FEWEST]


def test_other_settings_are_another_group():
    pairs = some(2 * FEWEST)
    steps = [wb.train.GradientDescentOptimizer(rate).apply_gradients(pairs[at:at + FEWEST])
             for at, rate in ((0, 0.1), (FEWEST, 0.2))]
    assert kinds(joined(*steps))["apply_together"] == 2


def test_an_update_that_is_fetched_or_read_stays():
    pairs = some(FEWEST + 1)
    first = ops.apply_gradient_descent(pairs[0][1].handle, 0.1, pairs[0][0])
    others = wb.train.GradientDescentOptimizer(0.1).apply_gradients(pairs[1:])
    after = kinds(joined(others, fetches=[first]))
    assert after["apply_gradient_descent"] == 1 and after["apply_together"] == 1


def between(make: Any) -> Any:
    """Updates with what `make(variable of the first, its update)` builds behind the first."""
    rate = wb.constant(0.1)
    (slope, first), *others = some()
    one = ops.apply_gradient_descent(first.handle, rate, slope)
    made = make(first, one)
    return joined(one, *(ops.apply_gradient_descent(v.handle, rate, g) for g, v in others), made)


@pytest.mark.parametrize("make", [
    lambda v, update: v.read_value(),
    lambda v, update: v.assign_add(wb.ones([5])),
    lambda v, update: wb.Assert(wb.constant(True), ["no"]),
    lambda v, update: wb.check_numerics(wb.constant(1.0), "no"),
    lambda v, update: wb.group(update)], ids=["a reader", "a writer", "an assertion", "a check", "one that waits"])
def test_an_update_does_not_move_past(make):
    assert kinds(between(make))["apply_gradient_descent"] == FEWEST


def test_an_update_moves_past_what_only_computes():
    after = kinds(between(lambda v, update: wb.constant(2.0) * 3.0))
    assert after["apply_together"] == 1 and after["apply_gradient_descent"] == 0
