"""Sparsemax against the projection that it is, and its loss by the gradient that defines it."""
from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
LOGITS = np.random.default_rng(3).normal(size=(6, 5)) * 1.5


def nearest(row):
    """The distribution nearest to a row, by a minimizer."""
    found = minimize(lambda p: ((p - row) ** 2).sum(), np.full(len(row), 1 / len(row)), bounds=[(0, 1)] * len(row),
                     constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, options={"ftol": 1e-12})
    return found.x


def test_it_is_the_nearest_distribution():
    with tf.Session() as session:
        found = session.run(tf.contrib.sparsemax.sparsemax(LOGITS))
        shifted, same = session.run([tf.contrib.sparsemax.sparsemax(tf.constant(z)) for z in (LOGITS + 7, np.zeros((1, 4)))])
    np.testing.assert_allclose(found, [nearest(row) for row in LOGITS], atol=1e-5)
    np.testing.assert_allclose(shifted, found, atol=1e-12)
    assert (found == 0).any() and same.tolist() == [[0.25] * 4]


def test_the_slope_of_the_loss_is_what_is_missing():
    z, labels = tf.constant(LOGITS), np.eye(5)[[0, 1, 2, 3, 4, 0]]
    p = tf.contrib.sparsemax.sparsemax(z)
    loss = tf.contrib.sparsemax.sparsemax_loss(z, p, labels)
    with tf.Session() as session:
        slope, values, found = session.run([tf.gradients(loss, z)[0], loss, p])
        sure = session.run(tf.contrib.sparsemax.sparsemax_loss(labels * 9, labels, labels))
    np.testing.assert_allclose(slope, found - labels, atol=1e-12)
    assert (values >= 0).all() and (values > 0).sum() == 5 and np.abs(sure).max() < 1e-12


def test_other_ranks_are_refused():
    for logits in (tf.zeros([3]), tf.placeholder(tf.float32, [2, None])):
        with pytest.raises(ValueError, match="but \\[batch, classes\\] is needed"):
            tf.contrib.sparsemax.sparsemax(logits)
