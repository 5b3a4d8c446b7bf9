"""Optimizers of tf.contrib.opt: steps by signs, gradients that are too old."""
from __future__ import annotations

import math

import numpy as np
import pytest

import workbench.tf1 as tf

opt = tf.contrib.opt
START = np.array([1.0, -2.0, 0.0, 3.0], np.float32)
SCALES = np.array([1.0, 0.5, 2.0, -1.0], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def published(factor, steps, fade=lambda step: 1.0):
    """The rule of the paper in NumPy: a loss of sum(scales / 2 * v ** 2) whose sign turns in every third step."""
    value, m = START.copy(), np.zeros(4, np.float32)
    for step in range(steps):
        grad = SCALES * value * (-1 if step % 3 == 2 else 1)
        m = 0.9 * m + 0.1 * grad
        value = value - 0.1 * factor(fade(step) * np.sign(grad) * np.sign(m)) * grad
    return value


RULES = {"AddSignOptimizer": ({"alpha": 1.5}, lambda agreed: 1.5 + agreed),
         "PowerSignOptimizer": ({"base": 2.0}, lambda agreed: 2.0 ** agreed)}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("fading", [False, True])
def test_steps_by_signs_follow_the_paper(name, fading):
    options, factor = RULES[name]
    step, v, w = tf.train.create_global_step(), tf.Variable(START), tf.Variable(np.stack([START, START + 1]))
    turn = tf.where(tf.equal(step % 3, 2), -1.0, 1.0)
    rows = tf.gather(w, [0])
    loss = turn * 0.5 * (tf.reduce_sum(SCALES * v ** 2) + tf.reduce_sum(SCALES * rows ** 2))
    decay = {"sign_decay_fn": opt.get_linear_decay_fn(8)} if fading else {}
    optimizer = getattr(opt, name)(0.1, **options, **decay)
    train = optimizer.minimize(loss, step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(10):
            session.run(train)
        found, sparse = session.run([v, w])
    expected = published(factor, 10, (lambda step: max(0, 1 - step / 8)) if fading else lambda step: 1.0)
    np.testing.assert_allclose(found, expected, 1e-5)
    np.testing.assert_allclose(sparse, [expected, START + 1], 1e-5)
    assert optimizer.get_slot_names() == ["m"]


def test_a_fading_sign_needs_the_global_step():
    optimizer = opt.PowerSignOptimizer(sign_decay_fn=opt.get_cosine_decay_fn(10))
    with pytest.raises(ValueError, match="global_step is required for sign_decay_fn"):
        optimizer.minimize(tf.square(tf.Variable(1.0)))


@pytest.mark.parametrize(("make", "wanted"), [
    (lambda: opt.get_linear_decay_fn(4), lambda t: max(0, 1 - t / 4)),
    (lambda: opt.get_cosine_decay_fn(4), lambda t: 0.5 * (1 + math.cos(math.pi * t / 4))),
    (lambda: opt.get_cosine_decay_fn(8, 2, zero_after=1), lambda t: 0 if t >= 4 else 0.5 * (1 + math.cos(math.pi * t / 2))),
    (lambda: opt.get_restart_decay_fn(8, 2), lambda t: 0.5 * (1 + math.cos(math.pi * (t % 4) / 4))),
    (lambda: opt.get_restart_decay_fn(8, 2, zero_after=1), lambda t: 0 if t >= 4 else 0.5 * (1 + math.cos(math.pi * t / 4))),
])
def test_signs_fade_by_functions_of_the_step(make, wanted):
    step = tf.placeholder(tf.int64, [])
    faded = make()(step)
    with tf.Session() as session:
        found = [session.run(faded, {step: t}) for t in range(10)]
    np.testing.assert_allclose(found, [wanted(t) for t in range(10)], atol=1e-6)


def test_gradients_that_are_too_old_are_dropped():
    step, v = tf.train.create_global_step(), tf.get_variable("v", initializer=1.0)
    optimizer = opt.DropStaleGradientOptimizer(tf.train.MomentumOptimizer(0.5, 0.0), staleness=2)
    pairs = optimizer.compute_gradients(v * 2.0)
    began = optimizer._began
    train = optimizer.apply_gradients(pairs, step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(train) == 0 and session.run([v, step]) == [0, 1]
        assert session.run(train, {began: -1}) == 0 and session.run([v, step]) == [-1, 2]
        assert session.run(train, {began: -1}) == 1 and session.run([v, step]) == [-1, 2]
        share = session.run(tf.summary.merge_all())
        assert tf.Summary.FromString(share).value[0].simple_value == pytest.approx(1 / 3)
    assert optimizer.get_slot_names() == ["momentum"] and optimizer.get_slot(v, "momentum") is not None


def test_what_is_stale_is_told_by_a_global_step():
    v = tf.Variable(1.0)
    optimizer = opt.DropStaleGradientOptimizer(tf.train.GradientDescentOptimizer(0.5), 0)
    with pytest.raises(ValueError, match="there is no global step"):
        optimizer.compute_gradients(v * 2.0)
    with pytest.raises(ValueError, match="needs global_step="):
        optimizer.apply_gradients([(tf.constant(1.0), v)])


@pytest.mark.parametrize("nesterov", [False, True])
def test_rates_by_layer_follow_the_published_rule(nesterov):
    """LARS, over fifty steps, of a variable, one that is skipped, one that begins at 0, and rows of a table."""
    def rule(value, grad_of, decayed, steps=50):
        mom = np.zeros_like(value)
        for _ in range(steps):
            grad, rate = grad_of(value), 0.5
            if decayed:
                size, slope = np.linalg.norm(value), np.linalg.norm(grad)
                rate *= 0.02 * size / (slope + 0.01 * size + 1e-3) if size > 0 and slope > 0 else 1.0
                grad = grad + 0.01 * value
            mom = 0.8 * mom + grad
            value = value - rate * (grad + 0.8 * mom if nesterov else mom)
        return value
    starts = {"w": START.astype(float), "bias": START[::-1].astype(float) / 4, "zero": np.zeros(3)}
    made = {name: tf.get_variable(name, initializer=value) for name, value in starts.items()}
    table = tf.get_variable("table", initializer=np.ones((3, 2)))
    loss = sum(0.05 * tf.reduce_sum(tf.square(v - 0.5)) for v in made.values()) + 0.05 * tf.reduce_sum(
        tf.square(tf.gather(table, [0, 0])))
    optimizer = opt.LARSOptimizer(0.5, 0.8, 0.01, 0.02, 1e-3, skip_list=["bias"], use_nesterov=nesterov)
    train = optimizer.minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(50):
            session.run(train)
        found, rows = session.run([made, table])
    for name, start in starts.items():
        np.testing.assert_allclose(found[name], rule(start, lambda v: 0.1 * (v - 0.5), name != "bias"), 1e-6)
    np.testing.assert_allclose(rows[0], rule(np.ones(2), lambda v: 0.2 * v, False), 1e-6)
    assert rows[1:].tolist() == [[1, 1], [1, 1]] and optimizer.get_slot_names() == ["momentum"]


def test_a_tensor_cannot_be_trained():
    with pytest.raises(NotImplementedError, match="Trying to update a Tensor"):
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.ones([2]), tf.constant([1.0, 2.0]))])
