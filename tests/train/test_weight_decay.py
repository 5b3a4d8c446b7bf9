"""Weight decay apart from the gradient, against the rules in NumPy."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import train
from workbench.core.graph.build import IndexedSlices
from workbench.train.optimizers import decayed

pytestmark = pytest.mark.usefixtures("graph")


def adam(w, g, steps, decay, rate=0.1):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(1, steps + 1):
        w = w - decay * w
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - rate * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * m / (np.sqrt(v) + 1e-8)
    return w


def test_adam_shrinks_weights_before_its_step_and_only_those_asked_for():
    w, b = wb.Variable([1.0, -2.0, 3.0]), wb.Variable([1.0, -2.0, 3.0])
    slope = np.array([0.5, -1.0, 2.0])
    loss = wb.reduce_sum(w * slope) + wb.reduce_sum(b * slope)
    step = decayed.AdamWOptimizer(0.01, learning_rate=0.1).minimize(loss, decay_var_list=[w])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(5):
            session.run(step)
        np.testing.assert_allclose(session.run(w), adam(np.array([1.0, -2, 3]), slope, 5, 0.01), rtol=1e-5)
        np.testing.assert_allclose(session.run(b), adam(np.array([1.0, -2, 3]), slope, 5, 0.0), rtol=1e-5)


def test_rows_of_a_sparse_gradient_alone_shrink():
    rows = wb.Variable(np.ones((3, 2), np.float32))
    grad = IndexedSlices(wb.constant(np.ones((3, 2), np.float32)), wb.constant([0, 0, 2]), wb.constant([3, 2]))
    made = decayed.extend_with_decoupled_weight_decay(train.GradientDescentOptimizer)(0.5, learning_rate=0.1)
    step = made.apply_gradients([(grad, rows)])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(rows), [[0.3, 0.3], [1, 1], [0.4, 0.4]], rtol=1e-6)


def test_momentum_with_decay_follows_its_rule():
    w = wb.Variable([2.0])
    step = decayed.MomentumWOptimizer(0.1, 0.5, 0.9).minimize(wb.reduce_sum(w * 3.0))
    value, speed = 2.0, 0.0
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(3):
            session.run(step)
            value, speed = value - 0.1 * value, 0.9 * speed + 3.0
            value -= 0.5 * speed
        np.testing.assert_allclose(session.run(w), [value], rtol=1e-6)
