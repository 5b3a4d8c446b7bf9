"""The global step, decaying rates, clipping, moving averages."""
from __future__ import annotations

import math

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")


def test_there_is_one_global_step():
    assert wb.train.get_global_step() is None
    step = wb.train.get_or_create_global_step()
    assert step is wb.train.get_or_create_global_step() is wb.train.get_global_step()
    assert (step.name, step.dtype, step.trainable) == ("global_step:0", wb.int64, False)
    with pytest.raises(errors.AlreadyExistsError, match=r"the graph has a global step; use get_global_step\(\)"):
        wb.train.create_global_step()
    with wb.Session() as session:
        session.run(step.initializer)
        assert wb.train.global_step(session, step) == 0


def test_an_old_programs_global_step_is_found_by_its_name():
    step = wb.Variable(0, name="global_step", trainable=False)
    assert wb.train.get_global_step() is step


@pytest.mark.parametrize(("rate", "expected"), [
    (lambda s: wb.train.exponential_decay(0.8, s, 10, 0.5), lambda s: 0.8 * 0.5 ** (s / 10)),
    (lambda s: wb.train.exponential_decay(0.8, s, 10, 0.5, staircase=True), lambda s: 0.8 * 0.5 ** (s // 10)),
    (lambda s: wb.train.natural_exp_decay(0.8, s, 10, 0.5), lambda s: 0.8 * math.exp(-0.5 * s / 10)),
    (lambda s: wb.train.inverse_time_decay(0.8, s, 10, 0.5), lambda s: 0.8 / (1 + 0.5 * s / 10)),
    (lambda s: wb.train.polynomial_decay(0.8, s, 20, 0.1, power=2.0), lambda s: 0.7 * (1 - min(s, 20) / 20) ** 2 + 0.1),
    (lambda s: wb.train.polynomial_decay(0.8, s, 10, 0.1, cycle=True),
     lambda s: 0.7 * (1 - s / (10 * max(math.ceil(s / 10), 1))) + 0.1),
    (lambda s: wb.train.piecewise_constant(s, [10, 20], [1.0, 0.5, 0.1]),
     lambda s: 1.0 if s <= 10 else 0.5 if s <= 20 else 0.1),
])
def test_rates_follow_the_step(rate, expected):
    step = wb.placeholder(wb.int64, [])
    tensor = rate(step)
    with wb.Session() as session:
        for s in (0, 5, 10, 15, 25):
            np.testing.assert_allclose(session.run(tensor, {step: s}), expected(s), rtol=1e-5)


def test_pieces_need_one_value_more_than_boundaries():
    with pytest.raises(errors.InvalidArgumentError, match="piecewise_constant: 2 values for 2 boundaries"):
        wb.train.piecewise_constant(wb.constant(1), [1, 2], [0.1, 0.2])


def test_clipping_by_the_common_norm_keeps_directions_and_sparsity():
    dense, rows = wb.constant([3.0, 0.0]), wb.IndexedSlices(wb.constant([[4.0]]), wb.constant([2]))
    clipped, norm = wb.clip_by_global_norm([dense, None, rows], 2.5)
    assert clipped[1] is None and isinstance(clipped[2], wb.IndexedSlices)
    found = run([clipped[0], clipped[2], norm])
    assert found[0].tolist() == [1.5, 0] and found[1].values.tolist() == [[2]] and float(found[2]) == 5
    small, _ = wb.clip_by_global_norm([wb.constant([0.3, 0.4])], 2.5)
    np.testing.assert_allclose(run(small[0]), [0.3, 0.4], rtol=1e-6)
    with pytest.raises(errors.InvalidArgumentError, match="global_norm: the list holds 0 tensors"):
        wb.global_norm([None])


def test_an_infinite_norm_shows_in_everything_that_it_clips():
    with wb.Graph().as_default(), wb.Session() as session:
        (first, second), _ = wb.clip_by_global_norm([wb.constant([1.0, np.inf]), wb.constant(2.0)], 1.0)
        assert np.isnan(session.run(first)).all() and np.isnan(session.run(second))


def test_a_tensor_of_zeros_is_clipped_with_a_gradient():
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.constant([0.0, 0.0])
        assert session.run(wb.gradients(wb.clip_by_norm(x, 1.0), x)[0]).tolist() == [1.0, 1.0]


def test_clipping_single_tensors():
    x = wb.constant([[3.0, 4.0], [0.0, 1.0]])
    whole, by_row = wb.clip_by_norm(x, 1.0), wb.clip_by_norm(x, 2.0, axes=[1])
    average, values = wb.clip_by_average_norm(wb.constant([3.0, 4.0]), 1.0), wb.clip_by_value(x, 0.5, 2.0)
    found = run([whole, by_row, average, values])
    np.testing.assert_allclose(np.linalg.norm(found[0]), 1, rtol=1e-6)
    np.testing.assert_allclose(found[1], [[1.2, 1.6], [0, 1]], rtol=1e-6)
    np.testing.assert_allclose(found[2], [1.2, 1.6], rtol=1e-6)
    assert found[3].tolist() == [[2, 2], [0.5, 1]]


def test_moving_averages_follow_slowly():
    w = wb.Variable([0.0, 10.0], name="w")
    average = wb.train.ExponentialMovingAverage(0.9)
    update = average.apply([w])
    change = w.assign([1.0, 0.0])
    assert average.average_name(w) == "w/ExponentialMovingAverage"
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(change)
        for _ in range(2):
            session.run(update)
        np.testing.assert_allclose(session.run(average.average(w)), [0.19, 8.1], rtol=1e-6)
    assert average.variables_to_restore() == {"w/ExponentialMovingAverage": w}
    assert average.average(w) not in wb.trainable_variables()


def test_averages_adapt_faster_at_first():
    w, count = wb.Variable(0.0), wb.placeholder(wb.float32, [])
    average = wb.train.ExponentialMovingAverage(0.99, num_updates=count)
    update = average.apply([w])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(w.assign(1.0))
        session.run(update, {count: 0})
        np.testing.assert_allclose(session.run(average.average(w)), 0.9, rtol=1e-6)


def test_averages_need_a_sensible_decay_and_variables():
    with pytest.raises(errors.InvalidArgumentError, match=r"decay is 1.5"):
        wb.train.ExponentialMovingAverage(1.5)
    with pytest.raises(errors.InvalidArgumentError, match="is a Tensor; pass floating variables or tensors"):
        wb.train.ExponentialMovingAverage(0.5).apply([wb.constant(1)])
    with pytest.raises(errors.ShapeError, match="not fully known"):
        wb.train.ExponentialMovingAverage(0.5).apply([wb.placeholder(wb.float32, [None])])
    w, average = wb.Variable(0.0, name="w"), wb.train.ExponentialMovingAverage(0.5)
    average.apply([w])
    with pytest.raises(ValueError, match="Moving average already computed for: w:0"):
        average.apply([w])


@pytest.mark.parametrize(("debias", "expected"), [(False, [0.2, 0.58]), (True, [2.0, 0.58 / 0.19])])
def test_averages_of_tensors_start_at_zero_which_can_be_taken_out(debias, expected):
    x = wb.placeholder(wb.float32, [], name="x")
    average = wb.train.ExponentialMovingAverage(0.9, zero_debias=debias)
    update = average.apply([x])
    assert average.average_name(x) == "x/ExponentialMovingAverage"
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for value, wanted in zip((2.0, 4.0), expected):
            session.run(update, {x: value})
            np.testing.assert_allclose(session.run(average.average(x)), wanted, rtol=1e-6)


def test_averages_carry_the_variable_scope_in_force_and_all_that_is_averaged_is_restored():
    with wb.variable_scope("model"):
        w, fixed = wb.Variable(1.0, name="w"), wb.Variable(2.0, name="fixed", trainable=False)
        both = wb.add(w, fixed, name="both")
    with wb.variable_scope("slow"):
        average = wb.train.ExponentialMovingAverage(0.5, name="mean")
        assert average.average_name(w) == "slow/model/w/mean"
        average.apply([w, fixed, both])
    assert [average.average(x).op.name for x in (w, both)] == ["slow/model/w/mean", "slow/model/both/mean"]
    found = average.variables_to_restore()
    assert found == {"slow/model/w/mean": w, "slow/model/fixed/mean": fixed, "slow/model/both/mean": average.average(both)}


def test_averages_from_zero_keep_their_sums_under_tensorflows_names():
    with wb.variable_scope("model"):
        w = wb.get_variable("w", [2], initializer=wb.zeros_initializer())
        average = wb.train.ExponentialMovingAverage(0.9, zero_debias=True)
        average.apply([wb.add(w, 1.0, name="sum")])
    name = "model/model/sum/ExponentialMovingAverage"
    assert {name, f"model/{name}/biased", f"model/{name}/local_step"} < set(average.variables_to_restore())


@pytest.mark.parametrize(("value", "text"), [(0.0, r"global_step:0 is float32\[\]: it does not have integer type"),
                                             ([0], r"is int32\[1\].* is not scalar")])
def test_a_global_step_is_one_whole_number(value, text):
    wb.Variable(value, name="global_step")
    with pytest.raises(TypeError, match=text):
        wb.train.get_global_step()
