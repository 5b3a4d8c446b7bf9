"""Bijectors against numbers of other ways: their Jacobians by differentiation, shapes of events, what was mapped before."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf

MAPS = tf.contrib.distributions.bijectors
X = np.array([0.3, -0.7, 1.4])
FACTOR = np.array([[1.0, 0.2], [0.5, -0.3], [0.1, 2.0]])


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


def run(fetched: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetched, feeds)


VECTORS = {
    "rank": lambda: MAPS.Affine(X, scale_identity_multiplier=2.0, scale_perturb_factor=FACTOR),
    "weighted": lambda: MAPS.Affine(X, scale_diag=[1.0, 2.0, 3.0], scale_perturb_factor=FACTOR, scale_perturb_diag=[2.0, 0.5]),
    "triangle and rank": lambda: MAPS.Affine(X, scale_tril=np.eye(3) + np.tri(3), scale_perturb_factor=FACTOR),
    "operator": lambda: MAPS.AffineLinearOperator(X, tf.linalg.LinearOperatorDiag(np.array([1.0, 2.0, -3.0])))}


@pytest.mark.parametrize("name", VECTORS)
def test_linear_maps_are_undone_and_know_their_determinants(name: str) -> None:
    one, x = VECTORS[name](), tf.constant(X)
    y = one.forward(x)
    rows = [tf.gradients(y[i], x)[0] for i in range(3)]
    matrix, back, there = run([rows, one.inverse(y + 0.0), one.forward_log_det_jacobian(x)])
    np.testing.assert_allclose(back, X, rtol=1e-9)
    np.testing.assert_allclose(there, np.log(abs(np.linalg.det(matrix))), rtol=1e-9)


def test_shares_that_sum_to_one() -> None:
    for one, x, shape, out in ((MAPS.SoftmaxCentered(event_ndims=1), X, [3], [4]), (MAPS.SigmoidCentered(), X, [], [2])):
        y = one.forward(tf.constant(x))
        back, found, there, again = run([one.inverse(y + 0.0), y, one.forward_log_det_jacobian(tf.constant(x)),
                                         one.inverse_log_det_jacobian(y + 0.0)])
        np.testing.assert_allclose(found.sum(-1), np.ones(found.shape[:-1]))
        np.testing.assert_allclose(back, x, rtol=1e-9)
        np.testing.assert_allclose(there, -again, rtol=1e-9)
        np.testing.assert_allclose(again, -np.log(found).sum(-1), rtol=1e-9)
        assert one.forward_event_shape(shape).as_list() == out and one.inverse_event_shape(out).as_list() == shape
        assert run(one.forward_event_shape_tensor(shape)).tolist() == out
        assert run(one.inverse_event_shape_tensor(out)).tolist() == shape
        turned = MAPS.Chain([MAPS.Invert(one)])
        assert turned.forward_event_shape(out).as_list() == shape and turned.inverse_event_shape(shape).as_list() == out
    with pytest.raises(ValueError, match="`event_ndims` must be a TF constant which is 0 or 1"):
        MAPS.SoftmaxCentered(event_ndims=2)


def test_matrices_of_triangles() -> None:
    triangle = np.tril(np.arange(1.0, 10.0).reshape(3, 3))
    one, below = MAPS.CholeskyOuterProduct(), np.tril_indices(3)
    x = tf.constant(triangle)
    y = one.forward(x)
    slopes = [tf.gradients(y[int(i), int(j)], x)[0] for i, j in zip(*below)]
    found, back, rows, there = run([y, one.inverse(y + 0.0), slopes, one.forward_log_det_jacobian(x)])
    np.testing.assert_allclose(found, triangle @ triangle.T)
    np.testing.assert_allclose(back, triangle)
    np.testing.assert_allclose(there, np.log(abs(np.linalg.det([row[below] for row in rows]))), rtol=1e-9)
    np.testing.assert_allclose(run(MAPS.CholeskyOuterProduct(event_ndims=0).forward_log_det_jacobian(tf.constant(3.0))),
                               np.log(6.0), rtol=1e-6)


def test_sizes_have_two_ways_back() -> None:
    one = MAPS.AbsoluteValue(validate_args=True)
    assert run(one.inverse(2.0)) == (-2.0, 2.0) and run(one.inverse_log_det_jacobian(2.0)) == (0.0, 0.0)
    assert run(one.forward([-1.0, 3.0])).tolist() == [1.0, 3.0] and not one.is_injective
    with pytest.raises(tf.errors.InvalidArgumentError, match="was negative"):
        run(one.inverse(-1.0)[0])
    with pytest.raises(ValueError, match="Only event_ndims = 0"):
        MAPS.AbsoluteValue(event_ndims=1)


def test_weibull() -> None:
    one = MAPS.Weibull(scale=2.0, concentration=0.5)
    x = tf.constant([0.5, 3.0])
    y = one.forward(x)
    found, slope, there, again, back = run([y, tf.gradients(y, x)[0], one.forward_log_det_jacobian(x),
                                            one.inverse_log_det_jacobian(y + 0.0), one.inverse(y + 0.0)])
    np.testing.assert_allclose(found, 1 - np.exp(-np.sqrt(np.array([0.5, 3.0]) / 2)), rtol=1e-6)
    np.testing.assert_allclose(there, np.log(slope), rtol=1e-5)
    np.testing.assert_allclose(again, -there, rtol=1e-5)
    np.testing.assert_allclose(back, [0.5, 3.0], rtol=1e-5)


class Own(MAPS.Bijector):      # type: ignore[misc, name-defined]
    """A program's own map: one number an event, no inverse, and a condition by name."""

    def __init__(self) -> None:
        super().__init__(event_ndims=1, validate_args=False, name="own")

    def _forward(self, x: Any, by: float = 2.0) -> Any:
        return x * by

    def _forward_log_det_jacobian(self, x: Any, by: float = 2.0) -> Any:
        return tf.reduce_sum(tf.zeros_like(x) + np.log(by), axis=-1)


def test_a_programs_own_map_is_remembered_and_gets_conditions() -> None:
    own, x = Own(), tf.constant([1.0, 2.0])
    y = own.forward(x)
    assert own.inverse(y) is x and run(own.event_ndims) == 1 and own.name == "own"
    np.testing.assert_allclose(run([own.forward(x, by=5.0), y]), [[5, 10], [2, 4]])
    np.testing.assert_allclose(run([own.forward_log_det_jacobian(x), own.inverse_log_det_jacobian(y)]),
                               [2 * np.log(2.0), -2 * np.log(2.0)], rtol=1e-6)
    with pytest.raises(NotImplementedError, match="inverse not implemented"):
        own.inverse([1.0, 2.0])
    with pytest.raises(NotImplementedError, match="inverse_log_det_jacobian not implemented"):
        own.inverse_log_det_jacobian([1.0, 2.0])
    drawn = tf.contrib.distributions.TransformedDistribution(tf.distributions.Normal([0.0, 0.0], 1.0), own).sample(3)
    assert drawn.shape == [3, 2]


def test_what_was_mapped_in_a_branch_counts_there_alone() -> None:
    one, x = MAPS.Exp(), tf.constant(1.0)
    inner = tf.cond(tf.constant(True), lambda: one.forward(x), lambda: x)
    np.testing.assert_allclose(run([inner, one.forward(x)]), [np.e, np.e], rtol=1e-6)


def test_how_many_axes_an_event_has_may_be_known_in_the_step_alone() -> None:
    count = tf.placeholder(tf.int32, [])
    one = MAPS.Exp(event_ndims=count)
    found = one.forward_log_det_jacobian(np.ones((2, 3)))
    assert run(found, {count: 0}).shape == (2, 3) and run(found, {count: 1}).tolist() == [3, 3] and run(found, {count: 2}) == 6


def test_elements_of_another_type_are_refused() -> None:
    class Single(Own):
        def __init__(self) -> None:
            MAPS.Bijector.__init__(self, dtype=tf.float32)

    assert Single().name == "single"
    with pytest.raises(TypeError, match="Input had dtype float64 but expected float32"):
        Single().forward(wb.constant(X))


def test_large_numbers_have_a_slope_by_sinh_and_arcsinh() -> None:
    x = np.array([1e30, -1e25, 3.0], np.float32)
    there = run(MAPS.SinhArcsinh(skewness=np.float32(0.5), tailweight=np.float32(0.5)).forward_log_det_jacobian(x))
    exact = x.astype(np.float64)
    turned = (np.arcsinh(exact) + 0.5) * 0.5
    np.testing.assert_allclose(there, np.log(np.cosh(turned) * 0.5) - 0.5 * np.log1p(exact ** 2), rtol=1e-5)


def test_one_triangle_maps_many_vectors_and_maps_them_back() -> None:
    many = np.array([[X, 2 * X], [X + 1, -X]])
    for one in (MAPS.Affine(X, scale_tril=np.eye(3) + np.tri(3)), VECTORS["rank"]()):
        np.testing.assert_allclose(run(one.inverse(one.forward(many) + 0.0)), many, rtol=1e-6)


@pytest.mark.parametrize("make", [
    lambda: MAPS.Affine(X, scale_tril=np.tri(3)), lambda: MAPS.Affine(X, scale_tril=np.tri(3), scale_perturb_factor=FACTOR),
    lambda: MAPS.AffineLinearOperator(X, tf.contrib.linalg.LinearOperatorTriL(np.tri(3)))])
def test_vectors_whose_rank_only_the_step_knows_are_mapped(make: Any) -> None:
    one, x = make(), tf.placeholder(tf.float64)
    y = one.forward(x)
    fetched = [y, one.inverse(y + 0.0)]
    for values in (X, np.stack([X, 2 * X]), np.stack([X, -X])[None]):
        there, back = run(fetched, {x: values})
        np.testing.assert_allclose(there, run(one.forward(values)), rtol=1e-6)
        np.testing.assert_allclose(back, values, rtol=1e-6)
