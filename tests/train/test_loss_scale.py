"""Loss scaling against computations in NumPy: scales, skipped steps, gradients that vanish without it."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors

START = np.array([1.0, -2.0, 0.5], np.float32)
INPUTS = [1.0, 2.0, np.inf, 0.5, 1.5, np.nan, 1.0, 1.0, 1.0, 0.25]
CHOICES = {"descent": lambda: wb.train.GradientDescentOptimizer(0.1), "momentum": lambda: wb.train.MomentumOptimizer(0.1, 0.5),
           "adam": lambda: wb.train.AdamOptimizer(0.1), "rmsprop": lambda: wb.train.RMSPropOptimizer(0.1)}


def trained(optimizer, inputs, **options):
    """(weights, step and scale after each input); the loss is the sum of (w · x)²."""
    with wb.Graph().as_default():
        w, step = wb.Variable(START), wb.Variable(0, trainable=False, dtype="int64")
        x = wb.placeholder("float32", [])
        opt = optimizer()
        train = opt.minimize(wb.reduce_sum(wb.square(w.value() * x)), step)
        scale = getattr(opt, "loss_scale", wb.constant(1.0))
        with wb.Session(**options) as session:
            session.run(wb.global_variables_initializer())
            found = []
            for value in inputs:
                session.run(train, {x: value})
                found.append(session.run([w.value(), step.value(), scale]))
    return found


def by_hand(growth, momentum=0.5, rate=0.1):
    """The same with momentum, in NumPy."""
    w, velocity, scale, good, step = START.copy(), np.zeros(3, np.float32), np.float32(2 ** 15), 0, 0
    for x in map(np.float32, INPUTS):
        with np.errstate(all="ignore"):
            grad = 2 * w * x * x * scale / scale
        if np.isfinite(grad).all():
            velocity = np.float32(momentum) * velocity + grad
            w, good, step = w - np.float32(rate) * velocity, good + 1, step + 1
            if good == growth:
                scale, good = scale * 2, 0
        else:
            scale, good = max(scale / 2, np.float32(1)), 0
        yield w, step, scale


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
def test_a_dynamic_scale_doubles_halves_and_skips(options):
    made = trained(lambda: wb.train.LossScaleOptimizer(CHOICES["momentum"](), growth_steps=2), INPUTS, **options)
    for (w, step, scale), (weights, steps, scales) in zip(made, by_hand(2), strict=True):
        np.testing.assert_allclose(w, weights, rtol=1e-6)
        assert (step, scale) == (steps, scales)
    assert {scale for _, _, scale in made} == {2.0 ** 15, 2.0 ** 16, 2.0 ** 17}


def test_a_scale_does_not_fall_below_one_or_grow_beyond_numbers():
    low = trained(lambda: wb.train.LossScaleOptimizer(CHOICES["descent"]()), [np.nan] * 20)
    assert low[14][2] == low[19][2] == 1.0 and low[19][1] == 0
    np.testing.assert_array_equal(low[19][0], START)
    high = trained(lambda: wb.train.LossScaleOptimizer(CHOICES["descent"](), growth_steps=1), [1e-30] * 120)
    assert np.isfinite(high[-1][2]) and high[-1][2] == 2.0 ** 127


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
@pytest.mark.parametrize("kind", ["descent", "momentum", "adam", "rmsprop"])
def test_any_optimizer_takes_the_finite_steps_alone(kind, options):
    scaled = trained(lambda: wb.train.LossScaleOptimizer(CHOICES[kind](), 1024.0), INPUTS, **options)
    alone = trained(CHOICES[kind], [x for x in INPUTS if np.isfinite(x)], **options)
    np.testing.assert_allclose(scaled[-1][0], alone[-1][0], rtol=1e-6)
    assert scaled[-1][1] == 8 and scaled[-1][2] == 1024.0


def test_rows_of_a_table(graph):
    table = wb.Variable(np.ones([5, 2], np.float32))
    factor = wb.placeholder("float32", [])
    opt = wb.train.LossScaleOptimizer(wb.train.AdagradOptimizer(0.5), 64.0)
    pairs = opt.compute_gradients(wb.reduce_sum(wb.gather(table, [1, 3, 1])) * factor)
    assert isinstance(pairs[0][0], wb.IndexedSlices)
    train = opt.apply_gradients(pairs)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(train, {factor: np.inf})
        np.testing.assert_array_equal(session.run(table.value()), np.ones([5, 2]))
        session.run(train, {factor: 1.0})
        found = session.run(table.value())
    accumulated = 0.1 + np.array([0, 4, 0, 1, 0])
    np.testing.assert_allclose(found[:, 0], 1 - 0.5 * np.array([0, 2, 0, 1, 0]) / np.sqrt(accumulated), rtol=1e-6)


def test_gradients_too_small_for_sixteen_bits():
    """Of a loss of 1e-7 · sum(tanh(x @ w) @ v): float16 knows nothing below 6e-8, float16 of 2^15 times as much does."""
    rng = np.random.default_rng(4)
    x, w, v = rng.normal(size=[8, 6]), rng.normal(size=[6, 6]), rng.normal(size=[6, 4])

    def gradient(opt, precision):
        with wb.Graph().as_default():
            first, second = wb.Variable(w.astype(np.float32)), wb.Variable(v.astype(np.float32))
            loss = 1e-8 * wb.reduce_sum(wb.matmul(wb.tanh(wb.matmul(x.astype(np.float32), first)), second))
            slope = opt().compute_gradients(loss, [first])[0][0]
            with wb.Session(precision=precision) as session:
                session.run(wb.global_variables_initializer())
                return session.run(slope)
    hidden = np.tanh(x @ w)
    exact = 1e-8 * x.T @ ((np.ones([8, 4]) @ v.T) * (1 - hidden ** 2))
    plain = gradient(CHOICES["descent"], "float16")
    scaled = gradient(lambda: wb.train.LossScaleOptimizer(CHOICES["descent"]()), "float16")
    assert np.abs(plain).max() == 0.0
    np.testing.assert_allclose(scaled, exact, rtol=0, atol=5e-3 * np.abs(exact).max())


def test_state_and_slots_are_there_for_savers(graph):
    w = wb.Variable(START)
    opt = wb.train.LossScaleOptimizer(CHOICES["momentum"]())
    opt.minimize(wb.reduce_sum(w.value()))
    assert opt.get_slot_names() == ["momentum"] and opt.get_slot(w, "momentum") in opt.variables()
    assert {v.op.name for v in opt.variables()} >= {"LossScale/scale", "LossScale/good_steps"}
    assert set(opt.variables()) <= set(wb.global_variables())


@pytest.mark.parametrize("arguments, message", [
    ((3, "dynamic"), "opt is 3; pass an optimizer"), ((None, 0.0), "loss_scale is 0.0; pass a positive number, or 'dynamic'"),
    ((None, "static"), "loss_scale is 'static'"), ((None, np.inf), "loss_scale is inf"), ((None, True), "loss_scale is True"),
    ((None, "dynamic", 0), "growth_steps is 0; pass 1 or more")])
def test_wrong_arguments(graph, arguments, message):
    opt = CHOICES["descent"]() if arguments[0] is None else arguments[0]
    with pytest.raises(errors.InvalidArgumentError, match=message):
        wb.train.LossScaleOptimizer(opt, *arguments[1:])
