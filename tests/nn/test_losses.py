"""Weighted losses: every reduction against NumPy, weights that fit and do not, integers, collections."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors, losses

pytestmark = pytest.mark.usefixtures("graph")
Reduction = losses.Reduction


VALUES = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]], np.float32)


@pytest.mark.parametrize("weights", [1.0, 2.0, 0.0, [[1.0], [0.0]], [[0.5, 0.0, 2.0]], [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]])
@pytest.mark.parametrize("reduction", Reduction.all())
def test_every_reduction(weights, reduction):
    w = np.broadcast_to(np.float32(weights), VALUES.shape)
    total = (VALUES * w).sum()
    expected = {Reduction.NONE: VALUES * w, Reduction.SUM: total, Reduction.MEAN: total / (w.sum() or 1),
                Reduction.SUM_OVER_BATCH_SIZE: total / 6, Reduction.SUM_BY_NONZERO_WEIGHTS: total / ((w != 0).sum() or 1)}
    np.testing.assert_allclose(run(losses.compute_weighted_loss(VALUES, weights, reduction=reduction)), expected[reduction],
                               rtol=1e-6)


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0], [1.0], [[1.0, 2.0]], [[[1.0]]]])
def test_weights_that_do_not_fit_are_refused_while_building_and_in_the_step(weights):
    with pytest.raises(ValueError, match=r"weights can not be broadcast to values. values.shape=\[2,3\], weights.shape"):
        losses.compute_weighted_loss(VALUES, weights)
    fed = wb.placeholder("float32", None)
    loss = losses.compute_weighted_loss(VALUES, fed)
    with pytest.raises(errors.InvalidArgumentError, match=r"weights can not be broadcast to values"):
        run(loss, {fed: weights})
    assert run(loss, {fed: 1.0}) == 3.5 and run(loss, {fed: [[1.0], [0.0]]}) == pytest.approx(7 / 3)


@pytest.mark.parametrize(("loss", "value"), [
    (lambda y, p: losses.mean_squared_error(y, p), 2.5), (lambda y, p: losses.absolute_difference(y, p), 1.5),
    (lambda y, p: losses.huber_loss(y, p), 1.0), (lambda y, p: losses.compute_weighted_loss(p), 3.0)])
def test_integers_become_floats(loss, value):
    found = loss(wb.constant([1, 2]), wb.constant([2, 4]))
    assert found.dtype is wb.float32 and run(found) == pytest.approx(value)


def test_pairs_of_elements():
    labels, predictions = np.float32([[1, 9, 2], [-5, -2, 6]]), np.float32([[4, 8, 12], [8, 1, 3]])

    def expected(weights):
        total = 0.0
        for d, w in zip(predictions - labels, weights):
            pairs = [(d[i] - d[j]) ** 2 for i in range(3) for j in range(3) if i != j]
            total += w * np.mean(pairs)
        return total
    assert run(losses.mean_pairwise_squared_error(labels, predictions)) == pytest.approx(expected([1, 1]))
    assert run(losses.mean_pairwise_squared_error(labels, predictions, [[2.0], [0.0]])) == pytest.approx(expected([2, 0]))
    assert run(losses.mean_pairwise_squared_error(labels, predictions, [[2.0, 1.0, 0.5]])) == pytest.approx(
        expected([3.5, 3.5]))
    with pytest.raises(errors.ShapeError, match="weights can not be broadcast to values"):
        losses.mean_pairwise_squared_error(labels, predictions, [1.0, 2.0])
    assert run(losses.mean_pairwise_squared_error([[1.0]], [[5.0]])) == 0
    assert len(losses.get_losses()) == 4


def test_unknown_reductions_are_refused():
    with pytest.raises(ValueError, match="reduction 'best' is unknown; use one of none, weighted_sum"):
        losses.compute_weighted_loss(VALUES, reduction="best")
