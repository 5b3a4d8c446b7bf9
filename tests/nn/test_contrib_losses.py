"""Losses by the names of tf.contrib.losses: weights with fewer axes than the losses, and the mean over all pairs."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

P, L = (np.random.default_rng(seed).uniform(0.1, 0.9, (4, 3)).astype(np.float32) for seed in (0, 1))
WEIGHTS = np.array([1.0, 0.0, 2.0, 0.5], np.float32)


def value(loss):
    with tf.Session() as session:
        return session.run(loss)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(("name", "each"), [
    ("absolute_difference", abs(P - L)), ("mean_squared_error", (P - L) ** 2),
    ("log_loss", -L * np.log(P + 1e-7) - (1 - L) * np.log(1 - P + 1e-7)),
    ("sigmoid_cross_entropy", np.log1p(np.exp(P)) - P * L)])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_weights_of_examples_count_for_all_their_elements(name, each, shape):
    loss = getattr(tf.contrib.losses, name)(P, L, WEIGHTS.reshape(shape))
    assert loss.op.name == f"{name}{'_loss' * name.endswith('entropy')}/value" and tf.contrib.losses.get_losses() == [loss]
    np.testing.assert_allclose(value(loss), (each * WEIGHTS[:, None]).sum() / 9, rtol=1e-5)


def test_losses_of_whole_examples_take_the_same_weights():
    shifted = np.exp(P) / np.exp(P).sum(1, keepdims=True)
    for weights in (WEIGHTS, WEIGHTS[:, None]):
        loss = tf.contrib.losses.sparse_softmax_cross_entropy(P, np.array([[0], [1], [2], [0]]), weights)
        np.testing.assert_allclose(value(loss), (-np.log(shifted[range(4), [0, 1, 2, 0]]) * WEIGHTS).sum() / 3, rtol=1e-5)
    loss = tf.contrib.losses.cosine_distance(P, L, 1, WEIGHTS)
    np.testing.assert_allclose(value(loss), ((1 - (P * L).sum(1)) * WEIGHTS).sum() / 3, rtol=1e-5)


def test_pairs_are_all_pairs_here():
    d = P - L
    squares = np.array([[(a - b) ** 2 for a in row for b in row] for row in d]).mean(1)
    np.testing.assert_allclose(value(tf.contrib.losses.mean_pairwise_squared_error(P, L, WEIGHTS)), (squares * WEIGHTS).sum(),
                               rtol=1e-5)


def test_ranks_must_be_known():
    with pytest.raises(ValueError, match=r"losses.get_shape\(\).ndims cannot be None"):
        tf.contrib.losses.compute_weighted_loss(tf.placeholder(tf.float32))


def test_hinges_have_a_label_for_each_logit():
    with pytest.raises(ValueError, match="are incompatible; give a label for each logit"):
        tf.contrib.losses.hinge_loss(tf.zeros([2, 1]), tf.zeros([2]))


def test_losses_are_added_to_the_collection_that_a_scope_names():
    losses = tf.contrib.losses
    with tf.contrib.framework.arg_scope([losses.add_loss], loss_collection=None):
        losses.absolute_difference(P, L)
        losses.add_loss(tf.constant(1.0))
    assert len(losses.get_losses()) == 1
    losses.add_loss(tf.constant(1.0))
    assert len(losses.get_losses()) == 2
