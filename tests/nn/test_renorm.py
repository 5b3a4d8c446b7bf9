"""Renormalized batches: the rule of the paper, step by step, through both names of the layer; and what is refused."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

BATCHES = np.random.default_rng(0).normal(1.0, 2.0, (5, 8, 3)).astype(np.float32)
CLIPPING = {"rmin": 0.7, "rmax": 1.3, "dmax": 0.5}


class Rule:
    """The averages of Ioffe 2017, which begin as those of the first batch."""

    def __init__(self, momentum: float, epsilon: float, clipping: dict[str, float]) -> None:
        self.momentum, self.epsilon, self.clipping = momentum, epsilon, clipping
        self.mean = self.deviation = self.weight = 0.0

    def step(self, x):
        mean, deviation = x.mean(0), np.sqrt(x.var(0) + self.epsilon)
        usual_mean, usual = (old + (1 - self.weight) * new for old, new in ((self.mean, mean), (self.deviation, deviation)))
        r, d = deviation / usual, (mean - usual_mean) / usual
        if self.clipping:
            r = np.clip(r, self.clipping["rmin"], self.clipping["rmax"])
            d = np.clip(d, -self.clipping["dmax"], self.clipping["dmax"])
        self.mean, self.deviation, self.weight = (
            self.momentum * old + (1 - self.momentum) * new
            for old, new in ((self.mean, mean), (self.deviation, deviation), (self.weight, 1.0)))
        return (x - mean) / deviation * r + d


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("clipping", [{}, CLIPPING], ids=["free", "clipped"])
@pytest.mark.parametrize("layer", [
    lambda x, training, clipping: tf.layers.batch_normalization(x, training=training, renorm=True, renorm_clipping=clipping,
                                                                renorm_momentum=0.8, momentum=0.9),
    lambda x, training, clipping: tf.contrib.layers.batch_norm(x, is_training=training, renorm=True, renorm_clipping=clipping,
                                                               renorm_decay=0.8, decay=0.9, scale=True)],
    ids=["layers", "contrib"])
def test_each_step_follows_the_rule_and_testing_uses_moving_averages(layer, clipping):
    x, training = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.bool, [])
    y = layer(x, training, clipping)
    updates = tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    rule = Rule(0.8, 1e-3, clipping)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in BATCHES:
            found, _ = session.run([y, updates], {x: batch, training: True})
            np.testing.assert_allclose(found, rule.step(batch), rtol=1e-3, atol=1e-4)
        held = {v.op.name.rpartition("/")[2]: v.eval(session) for v in tf.global_variables()}
        np.testing.assert_allclose(held["renorm_mean"], rule.mean, rtol=1e-4)
        np.testing.assert_allclose(held["renorm_stddev_weight"], rule.weight, rtol=1e-5)
        quiet = session.run(y, {x: BATCHES[0], training: False})
        exact = (BATCHES[0] - held["moving_mean"]) / np.sqrt(held["moving_variance"] + 1e-3)
        np.testing.assert_allclose(quiet, exact, rtol=1e-4, atol=1e-5)
        weight = next(v for v in tf.global_variables() if "renorm_mean_weight" in v.name)
        assert weight.eval(session) == pytest.approx(rule.weight)


def test_the_gradient_sees_the_correction_as_constants():
    x = tf.placeholder(tf.float32, [8, 3])
    y = tf.layers.batch_normalization(x, training=True, renorm=True)
    plain = tf.layers.batch_normalization(x, training=True)
    dy = np.arange(24, dtype=np.float32).reshape(8, 3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())      # the first batch is not corrected
        found, exact = session.run([tf.gradients(t, x, dy)[0] for t in (y, plain)], {x: BATCHES[0]})
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def test_averages_that_cannot_be_kept_beside_are_refused():
    with pytest.raises(ValueError, match="renorm is not supported with batch_weights"):
        tf.contrib.layers.batch_norm(tf.zeros([2, 3]), renorm=True, updates_collections=None)
