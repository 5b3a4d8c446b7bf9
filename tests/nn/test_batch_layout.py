"""Batch normalization along several axes, over virtual batches and with adjustments, held against NumPy."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.nn.layers import batch_normalization

pytestmark = pytest.mark.usefixtures("graph")
X = np.random.default_rng(3).normal(2.0, 3.0, (6, 5, 4)).astype("float32")


def normal(x, over, gamma=3.0, beta=2.0):
    mean, variance = x.mean(over, keepdims=True), x.var(over, keepdims=True)
    return gamma * (x - mean) / np.sqrt(variance + 1e-3) + beta, mean, variance


def ran(axis, known=True, **options):
    """(while training, afterwards, moving mean, moving variance) of three steps of momentum 0."""
    x = wb.placeholder("float32", X.shape if known else [None, *X.shape[1:]])
    training = wb.placeholder("bool", [])
    y = batch_normalization(x, axis, 0.0, gamma_initializer=wb.constant_initializer(3.0),
                            beta_initializer=wb.constant_initializer(2.0), training=training, **options)
    assert y.shape == x.shape
    moving = [v for v in wb.global_variables() if "moving" in v.name]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(3):
            trained = session.run([y, *wb.get_collection(wb.GraphKeys.UPDATE_OPS)], {x: X, training: True})[0]
        return trained, session.run(y, {x: X, training: False}), *session.run(moving)


@pytest.mark.parametrize(("axis", "over", "shape"), [([1, 2], (0,), (1, 5, 4)), ([-1, 0], (1,), (6, 1, 4)), ([1], (0, 2), (5,)),
                                                     (1, (0, 2), (5,))])
def test_several_axes_have_a_mean_for_each_of_their_indices_together(axis, over, shape):
    trained, later, mean, variance = ran(axis)
    expected, means, variances = normal(X, over)
    np.testing.assert_allclose(trained, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(later, expected, rtol=1e-4, atol=1e-4)
    assert mean.shape == shape
    np.testing.assert_allclose([mean, variance], [means.reshape(shape), variances.reshape(shape)], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("axis", "over"), [(-1, (0, 2)), (1, (0, 3)), ([1, 2], (0,))])
def test_virtual_batches_have_moments_of_their_own_and_share_moving_ones(axis, over, known):
    trained, later, mean, variance = ran(axis, known, virtual_batch_size=3)
    parts = X.reshape(3, 2, 5, 4)      # every second example is of one batch
    expected, means, variances = normal(parts, over)
    np.testing.assert_allclose(trained, expected.reshape(X.shape), rtol=1e-4, atol=1e-4)
    assert mean.shape == (1, 1, *(d if (np.ravel(axis) % 3 == i).any() else 1 for i, d in enumerate(X.shape) if i))
    np.testing.assert_allclose(mean, means.mean(1, keepdims=True), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(variance, variances.mean(1, keepdims=True), rtol=1e-4, atol=1e-4)
    apart = 3 * (parts - mean) / np.sqrt(variance + 1e-3) + 2
    np.testing.assert_allclose(later, apart.reshape(X.shape), rtol=1e-4, atol=1e-4)


def test_an_adjustment_comes_before_scale_and_center_in_training_alone():
    trained, later, *_ = ran(-1, adjustment=lambda shape: (wb.fill([shape[0], 1, 1], 0.5), wb.fill([shape[0], 1, 1], 7.0)))
    expected, *_ = normal(X, (0, 1), 1.0, 0.0)
    np.testing.assert_allclose(trained, 3 * (0.5 * expected + 7) + 2, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(later, 3 * expected + 2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("axis", "options", "text"), [
    ([1, 3], {}, r"Invalid axis: \[1, 3\]"), ([-4, 1], {}, "Invalid axis"), ([1, 2, 1], {}, "Duplicate axis"),
    (-1, {"virtual_batch_size": -1}, "virtual_batch_size is -1 .* must be a positive integer"),
    (0, {"virtual_batch_size": 2}, "which is not an axis then"),
    (-1, {"virtual_batch_size": 2, "adjustment": lambda shape: shape}, "adjustment cannot be specified")])
def test_layouts_that_cannot_be_are_refused(axis, options, text):
    with pytest.raises(ValueError, match=text):
        batch_normalization(wb.constant(X), axis, **options)


def test_lengths_that_must_be_known_are_named():
    x = wb.placeholder("float32", [None, None, 4])
    with pytest.raises(errors.ShapeError, match="axis 1 must be known"):
        batch_normalization(x, [1, 2])
    with pytest.raises(errors.ShapeError, match="all but its first length must be known"):
        batch_normalization(x, virtual_batch_size=2)
