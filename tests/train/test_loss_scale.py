"""Mixed precision as one choice of a graph, against computations in NumPy: scales, steps left out, gradients that vanish."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.train.keras import optimizers

START = np.array([1.0, -2.0, 0.5], np.float32)
INPUTS = [1.0, 2.0, np.inf, 0.5, 1.5, np.nan, 1.0, 1.0, 1.0, 0.25]
CHOICES = {"descent": lambda: wb.train.GradientDescentOptimizer(0.1), "momentum": lambda: wb.train.MomentumOptimizer(0.1, 0.5),
           "adam": lambda: wb.train.AdamOptimizer(0.1), "rmsprop": lambda: wb.train.RMSPropOptimizer(0.1)}


def trained(optimizer, inputs, scaling=None, **options):
    """(weights, step, scale, steps left out) after each input; the loss is the sum of (w · x)²."""
    with wb.Graph().as_default():
        mixed = wb.mixed_precision("float16", **scaling) if scaling is not None else None
        w, step = wb.Variable(START), wb.Variable(0, trainable=False, dtype="int64")
        x = wb.placeholder("float32", [])
        train = optimizer().minimize(wb.reduce_sum(wb.square(w.value() * x)), step)
        shown = [w.value(), step.value(), *([mixed.scale, mixed.skipped_steps] if mixed else [])]
        with wb.Session(**options) as session:
            session.run(wb.global_variables_initializer())
            found = []
            for value in inputs:
                session.run(train, {x: value})
                found.append(session.run(shown))
    return found


def by_hand(growth, momentum=0.5, rate=0.1):
    """The same with momentum, in NumPy."""
    w, velocity, scale, good, step = START.copy(), np.zeros(3, np.float32), np.float32(2 ** 15), 0, 0
    for count, x in enumerate(map(np.float32, INPUTS), 1):
        with np.errstate(all="ignore"):
            grad = 2 * w * x * x * scale / scale
        if np.isfinite(grad).all():
            velocity = np.float32(momentum) * velocity + grad
            w, good, step = w - np.float32(rate) * velocity, good + 1, step + 1
            if good == growth:
                scale, good = scale * 2, 0
        else:
            scale, good = max(scale / 2, np.float32(1)), 0
        yield w, step, scale, count - step


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
def test_a_dynamic_scale_doubles_halves_and_skips(options):
    made = trained(CHOICES["momentum"], INPUTS, {"growth_steps": 2}, **options)
    for (w, *numbers), (weights, *expected) in zip(made, by_hand(2), strict=True):
        np.testing.assert_allclose(w, weights, rtol=1e-6)
        assert numbers == expected
    assert {scale for _, _, scale, _ in made} == {2.0 ** 15, 2.0 ** 16, 2.0 ** 17} and made[-1][3] == 2


def test_a_scale_does_not_fall_below_one_or_grow_beyond_numbers():
    low = trained(CHOICES["descent"], [np.nan] * 20, {})
    assert low[14][2] == low[19][2] == 1.0 and low[19][1] == 0 and low[19][3] == 20
    np.testing.assert_array_equal(low[19][0], START)
    high = trained(CHOICES["descent"], [1e-30] * 120, {"growth_steps": 1})
    assert np.isfinite(high[-1][2]) and high[-1][2] == 2.0 ** 127


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
@pytest.mark.parametrize("kind", ["descent", "momentum", "adam", "rmsprop"])
def test_any_optimizer_takes_the_finite_steps_alone(kind, options):
    scaled = trained(CHOICES[kind], INPUTS, {"loss_scale": 1024.0}, **options)
    alone = trained(CHOICES[kind], [x for x in INPUTS if np.isfinite(x)], **options)
    np.testing.assert_allclose(scaled[-1][0], alone[-1][0], rtol=1e-6)
    assert scaled[-1][1:] == [8, 1024.0, 2]


def test_a_step_left_out_changes_no_variable_of_any_kind(graph):
    """Slots, powers of Adam, the step and moving averages of an inner optimizer: all but the scale and its counts."""
    mixed = wb.mixed_precision("float16")
    w, step = wb.Variable(START), wb.Variable(0, trainable=False)
    x = wb.placeholder("float32", [])
    train = wb.train.AdamOptimizer(0.1).minimize(wb.reduce_sum(w.value() * x), step)
    others = [v for v in wb.global_variables() if v not in mixed.variables()]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(train, {x: 1.0})
        before, scale = session.run(others), session.run(mixed.scale)
        session.run(train, {x: np.inf})
        for then, now in zip(before, session.run(others), strict=True):
            np.testing.assert_array_equal(then, now)
        assert len(others) == 6 and session.run([mixed.scale, mixed.skipped_steps]) == [scale / 2, 1]


def test_rows_of_a_table(graph):
    wb.mixed_precision("float16", 64.0)
    table = wb.Variable(np.ones([5, 2], np.float32))
    factor = wb.placeholder("float32", [])
    opt = wb.train.AdagradOptimizer(0.5)
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


RNG = np.random.default_rng(4)
X, W, V = RNG.normal(size=[8, 6]), RNG.normal(size=[6, 6]), RNG.normal(size=[6, 4])
SMALL = 1e-8


def net():
    """A loss of 1e-8 · sum(tanh(x @ w) @ v), whose gradients float16 does not know, and w."""
    first, second = wb.Variable(W.astype(np.float32)), wb.Variable(V.astype(np.float32))
    return SMALL * wb.reduce_sum(wb.matmul(wb.tanh(wb.matmul(X.astype(np.float32), first)), second)), first


@pytest.mark.parametrize("precision, scale, moved", [
    ("float16", None, True), ("float16", 1.0, False), ("bfloat16", None, True), ("float32", None, True)])
def test_gradients_too_small_for_float16(precision, scale, moved):
    """Float16 knows nothing below 6e-8, and float16 of 2^15 times as much does: what trains in float32 trains with it."""
    with wb.Graph().as_default():
        mixed = wb.mixed_precision(precision, scale)
        loss, w = net()
        rate = 0.01 / SMALL
        step = wb.train.GradientDescentOptimizer(rate).minimize(loss, var_list=[w])
        with wb.Session() as session:
            session.run(wb.global_variables_initializer())
            weights = W.astype(np.float32)
            for _ in range(20):
                hidden = np.tanh(X @ weights)
                exact = SMALL * X.T @ ((np.ones([8, 4]) @ V.T) * (1 - hidden ** 2))
                session.run(step)
                found = (weights - session.run(w)) / rate
                expected, error = (exact, 2e-2 * np.abs(exact).max()) if moved else (0, 0)
                np.testing.assert_allclose(found, expected, rtol=0, atol=error)
                weights = session.run(w)
            assert (mixed is None) == (precision != "float16") and (mixed is None or session.run(mixed.skipped_steps) == 0)


def test_state_is_saved_and_shown(graph, tmp_path):
    mixed = wb.mixed_precision("float16", growth_steps=1)
    w, x = wb.Variable(START), wb.placeholder("float32", [])
    train = wb.train.GradientDescentOptimizer(0.1).minimize(wb.reduce_sum(w.value() * x))
    assert [v.op.name for v in mixed.variables()] == [
        f"mixed_precision/{name}" for name in ("loss_scale", "steps", "steps_at_overflow", "skipped_steps")]
    assert not {*mixed.variables()} & {*wb.trainable_variables()}
    shown, saver = wb.summary.merge_all(), wb.train.Saver()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for value in (1.0, 1.0, np.inf, 1.0, np.nan):
            session.run(train, {x: value})
        path = saver.save(session, str(tmp_path / "model"))
        values = {v.tag: v.simple_value for v in wb.summary.Summary.FromString(session.run(shown)).value}
    assert values == {"mixed_precision/scale": 2.0 ** 16, "mixed_precision/skipped": 2.0}
    with wb.Session() as session:
        saver.restore(session, path)
        assert session.run([mixed.scale, mixed.skipped_steps]) == [2.0 ** 16, 2]


def test_clipping_hides_no_overflow(graph):
    """Infinity clipped is a number; the step was applied, at full size."""
    mixed = wb.mixed_precision("float16")
    w = wb.Variable(START)
    x = wb.placeholder("float32", [])
    optimizer = wb.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(wb.reduce_sum(w.value() * x))
    step = optimizer.apply_gradients([(wb.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step, {x: 3.0})
        moved = session.run(w)
        np.testing.assert_allclose(moved, START - 0.1, rtol=1e-6)
        session.run(step, {x: 1e36})      # times the scale: infinite
        np.testing.assert_array_equal(session.run(w), moved)
        assert session.run([mixed.scale, mixed.skipped_steps]) == [2.0 ** 14, 1]


def test_optimizers_of_keras_do_the_same(graph):
    mixed = wb.mixed_precision("float16")
    w, x = wb.Variable(START), wb.placeholder("float32", [])
    updates = optimizers.SGD(lr=0.1).get_updates(wb.reduce_sum(w.value() * x), [w])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(updates, {x: np.nan})
        np.testing.assert_array_equal(session.run(w), START)
        session.run(updates, {x: 2.0})
        np.testing.assert_allclose(session.run(w), START - 0.2, rtol=1e-6)
        assert session.run([mixed.scale, mixed.skipped_steps]) == [2.0 ** 14, 1]


@pytest.mark.parametrize("arguments, message", [
    (("float16", 0.0), "loss_scale is 0.0; pass a positive number of float32, or 'dynamic'"),
    (("float16", "static"), "loss_scale is 'static'"),
    (("float16", np.inf), "loss_scale is inf"), (("bfloat16", True), "loss_scale is True"),
    (("float16", 1e39), "loss_scale is 1e.39; pass a positive number of float32"), (("float16", 1e-50), "loss_scale is 1e-50"),
    (("float16", 10 ** 400), "loss_scale is 10000"), (("float16", np.nan), "loss_scale is nan"),
    (("float16", "dynamic", 0), "growth_steps is 0; pass a whole number from 1 on, of int64"),
    (("float16", "dynamic", 2 ** 63), "growth_steps is 9223372036854775808"),
    (("float16", "dynamic", 1.5), "growth_steps is 1.5"),
    (("float64",), "precision is 'float64' but products are computed in 'bfloat16' or 'float16'"),
    (("short",), "precision is 'short' but")])
def test_wrong_arguments(graph, arguments, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        wb.mixed_precision(*arguments)
    assert graph.precision is None


def test_what_is_said_last_counts(graph):
    assert wb.mixed_precision(wb.bfloat16) is None and graph.precision == "bfloat16"
    assert wb.mixed_precision("float16") is not None and graph.precision == "float16"
    assert wb.mixed_precision("float32") is None and graph.precision is None
    w = wb.Variable(START)
    wb.train.GradientDescentOptimizer(0.1).minimize(wb.reduce_sum(w.value()))
    assert wb.global_variables() == [w]


def rivals(growth):
    """Two optimizers, as of a generator and a critic; the gradients of each are its placeholder."""
    mixed = wb.mixed_precision("float16", growth_steps=growth)
    weights, steps, fed = [], [], []
    for rate in (0.1, 0.2):
        w, x = wb.Variable(START), wb.placeholder("float32", [])
        steps.append(wb.train.GradientDescentOptimizer(rate).minimize(wb.reduce_sum(w.value() * x), var_list=[w]))
        weights.append(w)
        fed.append(x)
    return mixed, weights, steps, fed


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
def test_a_step_of_two_optimizers_counts_once(graph, options):
    mixed, weights, steps, fed = rivals(2)
    with wb.Session(**options) as session:
        session.run(wb.global_variables_initializer())
        applied = [0, 0]
        for values, scale, skipped in [((1, 1), 15, 0), ((1, 1), 16, 0), ((1, np.inf), 15, 1), ((np.nan, 1), 14, 2),
                                       ((np.inf, np.nan), 13, 3), ((1, 1), 13, 3), ((1, 1), 14, 3), ((1, 1), 14, 3),
                                       ((np.nan, 1), 13, 4)]:
            session.run(steps, dict(zip(fed, values)))
            assert session.run([mixed.scale, mixed.skipped_steps]) == [2.0 ** scale, skipped], values
            applied = [count + bool(np.isfinite(value)) for count, value in zip(applied, values)]
        for w, rate, count in zip(weights, (0.1, 0.2), applied):
            np.testing.assert_allclose(session.run(w), START - rate * count, rtol=1e-5)
        for turn in range(4):      # one after the other: each is a step
            session.run(steps[turn % 2], dict.fromkeys(fed, 1))
        assert session.run(mixed.scale) == 2.0 ** 15


def test_steps_in_a_loop_count_each(graph):
    mixed, w, rows = wb.mixed_precision("float16", growth_steps=2), wb.Variable(START), wb.placeholder("float32", [5])
    optimizer = wb.train.GradientDescentOptimizer(0.1)
    mixed.variables()

    def body(i):
        with wb.control_dependencies([optimizer.minimize(wb.reduce_sum(w.value() * wb.gather(rows, i)), var_list=[w])]):
            return i + 1
    done = wb.while_loop(lambda i: i < 5, body, [0])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(done, {rows: [1, 1, np.inf, np.nan, 1]})
        assert session.run([mixed.scale, mixed.skipped_steps]) == [2.0 ** 14, 2]
        np.testing.assert_allclose(session.run(w), START - 0.3, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
def test_an_overflow_of_scaled_gradients_is_no_error_to_a_session_that_checks(graph, options):
    """Through a loop, whose gradient is one, and clipping; what is not finite before or behind it is named as ever."""
    mixed, w, x = wb.mixed_precision("float16"), wb.Variable(START), wb.placeholder("float32", [])
    top = wb.placeholder_with_default(np.float32(0.0), [])
    [product] = wb.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, h * x), [0, w.value()])[1:]
    optimizer = wb.train.GradientDescentOptimizer(0.1)
    loss = wb.reduce_sum(product) + wb.exp(top, name="top")
    pairs = optimizer.compute_gradients(loss)
    step = optimizer.apply_gradients([(wb.clip_by_norm(g, 10.0), v) for g, v in pairs])
    with wb.Session(check_numerics=True, **options) as session:
        session.run(wb.global_variables_initializer())
        session.run([loss, step], {x: 1e12})      # 1e36 times the scale
        np.testing.assert_array_equal(session.run(w), START)
        assert session.run([mixed.scale, mixed.skipped_steps]) == [2.0 ** 14, 1]
        with pytest.raises(errors.InvalidArgumentError, match=r"top:0 of exp : Tensor had Inf"):
            session.run([loss, step], {x: 1.0, top: 100.0})
        with pytest.raises(errors.InvalidArgumentError, match=r"of multiply : Tensor had Inf"):
            session.run([loss, step], {x: 1e20})
        session.run(step, {x: 1.0})
        np.testing.assert_allclose(session.run(w), START - 0.1, rtol=1e-6)
