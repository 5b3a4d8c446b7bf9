"""tf.contrib.nn: dropout of selu networks, order statistics, the smooth relu, losses by position."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

nn = tf.contrib.nn
X = np.array([[3.0, -1.0, 2.0, 5.0], [0.0, 4.0, -2.0, 1.0]], np.float32)


def evaluated(fetch, feed=None):
    with tf.Session() as session:
        return session.run(fetch, feed)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("known", [True, False])
def test_nth_element_is_that_of_the_sorted_row(known):
    x = tf.placeholder(tf.float32, X.shape if known else [None, None])
    n = tf.placeholder_with_default(2, [])
    for place in (2, n):
        low, high = evaluated([nn.nth_element(x, place), nn.nth_element(x, place, reverse=True)], {x: X})
        np.testing.assert_array_equal(low, np.sort(X)[:, 2])
        np.testing.assert_array_equal(high, -np.sort(-X)[:, 2])
    with pytest.raises(errors.ShapeError, match=r"at least n\+1=5 elements"):
        nn.nth_element(tf.constant(X), 4)


def test_the_gradient_of_an_order_statistic_goes_to_its_element():
    x = tf.constant(X)
    found = evaluated(tf.gradients(nn.nth_element(x, 1), x)[0])
    np.testing.assert_array_equal(found, np.sort(X)[:, 1:2] == X)


def test_alpha_dropout_keeps_mean_and_variance():
    x = tf.constant(np.random.default_rng(0).standard_normal((1000, 100)), tf.float32)
    made = evaluated(nn.alpha_dropout(x, 0.7, seed=3))
    assert abs(made.mean()) < 0.02 and abs(made.std() - 1) < 0.02
    lowest = np.unique(np.round(made, 4), return_counts=True)
    assert lowest[1].max() == pytest.approx(0.3 * made.size, rel=0.02), "three in ten are dropped, all to one value"
    assert nn.alpha_dropout(x, 1.0) is x
    with pytest.raises(ValueError, match=r"keep_prob is 0; use a number in \(0, 1\]"):
        nn.alpha_dropout(x, 0)


def test_scaled_softplus_nears_relu_and_may_be_clipped():
    smooth = evaluated(nn.scaled_softplus(X, 0.5))
    np.testing.assert_allclose(smooth, 0.5 * np.log1p(np.exp(X / 0.5)), rtol=1e-5)
    np.testing.assert_allclose(evaluated(nn.scaled_softplus(X, 0.01, clip=4.0)), np.clip(X, 0, 4), atol=0.01)


def test_losses_by_position_take_the_logits_first():
    labels = np.array([1, 3])
    one_hot = np.eye(4, dtype=np.float32)[labels]
    pairs = [(nn.deprecated_flipped_softmax_cross_entropy_with_logits(X, one_hot),
              tf.nn.softmax_cross_entropy_with_logits(labels=one_hot, logits=X)),
             (nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits(X, labels),
              tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=X)),
             (nn.deprecated_flipped_sigmoid_cross_entropy_with_logits(X, one_hot),
              tf.nn.sigmoid_cross_entropy_with_logits(labels=one_hot, logits=X))]
    for ours, usual in pairs:
        np.testing.assert_array_equal(*evaluated([ours, usual]))


def test_weights_and_labels_of_unknown_rank_lose_their_last_dimension_in_the_step():
    labels, weights = tf.placeholder(tf.int32), tf.placeholder(tf.float32)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.constant(X), weights)
    known = tf.losses.sparse_softmax_cross_entropy([1, 3], tf.constant(X), [1.2, 3.4])
    for shape in ((2,), (2, 1)):
        feed = {labels: np.reshape([1, 3], shape), weights: np.reshape([1.2, 3.4], shape)}
        np.testing.assert_allclose(*evaluated([loss, known], feed), rtol=1e-6)
    np.testing.assert_allclose(*evaluated([loss, tf.losses.sparse_softmax_cross_entropy([1, 3], tf.constant(X), 2.0)],
                                          {labels: [1, 3], weights: 2.0}), rtol=1e-6)


def test_the_likeliest_of_the_sampled_classes_count():
    """Against the sampled softmax over those that NumPy ranks first; cold or hot, in parts, with hits left out."""
    draw = np.random.default_rng(3)
    w, b, x = draw.normal(size=(7, 3)), draw.normal(size=7), draw.normal(size=(4, 3))
    labels, drawn, expected = np.array([[0], [6], [2], [2]]), np.array([5, 2, 0, 3]), draw.uniform(0.1, 1, 4)
    true_expected = draw.uniform(0.1, 1, (4, 1))
    weights, offsets = [tf.constant(w[part::2]) for part in (0, 1)], [tf.constant(b[part::2]) for part in (0, 1)]
    for temperature in (0.3, 8.0):
        scores = np.log(np.exp((w[drawn] @ x.T + b[drawn, None]) / temperature).sum(1))
        first = np.argsort(-scores)[:2]
        kept = drawn[first], true_expected, expected[first]
        wanted = tf.nn.sampled_softmax_loss(weights, offsets, labels, x, 2, 7, 1, kept)
        found = nn.rank_sampled_softmax_loss(weights, offsets, labels, x, 4, 2, 7, 1, (drawn, true_expected, expected),
                                             temperature, True, "mod")
        slopes = [tf.gradients(loss, weights[0])[0] for loss in (found, wanted)]
        a, c, *rest = evaluated([found, wanted, *map(tf.convert_to_tensor, slopes)])
        np.testing.assert_allclose(a, c)
        np.testing.assert_allclose(*rest)
    free = nn.rank_sampled_softmax_loss(tf.constant(w), tf.constant(b), labels, x, 5, 2, 7, 1, None, 1.0, True, "div")
    assert evaluated(free).shape == (4,)


@pytest.mark.parametrize(("numbers", "strategy", "text"), [
    ((8, 2), "div", r"num_sampled \(8\) cannot be greater than num_classes \(7\)"),
    ((3, 3), "div", r"num_resampled \(3\) must be less than num_sampled \(3\)"), ((3, 2), "all", "use 'div' or 'mod'")])
def test_numbers_of_classes_must_fall(numbers, strategy, text):
    with pytest.raises(ValueError, match=text):
        nn.rank_sampled_softmax_loss(np.ones((7, 3)), np.ones(7), [[1]], np.ones((1, 3)), *numbers, 7, 1, None, 1.0, True,
                                     strategy)
