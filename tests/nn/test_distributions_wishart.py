"""Wishart's distribution, skewed and tailed ones, conditions and heads on distributions, against other ways to compute them."""
from __future__ import annotations

import math

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 11
DS = tf.contrib.distributions
SCALE = np.array([[2.0, 0.5], [0.5, 1.0]])
X = np.array([[3.0, 1.0], [1.0, 4.0]])


def value(*tensors):
    with tf.Session() as session:
        found = session.run(list(tensors))
    return found[0] if len(found) == 1 else found


def log_density(x, df, scale):
    """By the formula, with matrices and determinants themselves."""
    n = len(x)
    gammas = n * (n - 1) / 4 * math.log(math.pi) + sum(math.lgamma((df - i) / 2) for i in range(n))
    return ((df - n - 1) / 2 * math.log(np.linalg.det(x)) - np.trace(np.linalg.solve(scale, x)) / 2
            - df * n / 2 * math.log(2) - df / 2 * math.log(np.linalg.det(scale)) - gammas)


def test_wisharts_density_and_moments():
    full = DS.WishartFull(np.array([5.0, 3.0]), SCALE)
    assert full.batch_shape.as_list() == [2] and full.event_shape.as_list() == [2, 2]
    assert value(full.log_prob(X)) == pytest.approx([log_density(X, df, SCALE) for df in (5, 3)])
    root = np.linalg.cholesky(SCALE)
    triangles = DS.WishartCholesky(np.float64(5), root, cholesky_input_output_matrices=True)
    assert value(triangles.log_prob(np.linalg.cholesky(X))) == pytest.approx(log_density(X, 5, SCALE))
    one = DS.WishartCholesky(np.float64(5), root)
    mean, variance, mode, scale = value(one.mean(), one.variance(), one.mode(), one.scale())
    assert mean == pytest.approx(5 * SCALE) and mode == pytest.approx(2 * SCALE) and scale == pytest.approx(SCALE)
    assert variance == pytest.approx(5 * (SCALE ** 2 + np.outer(np.diag(SCALE), np.diag(SCALE))))
    assert value(triangles.mean()) == pytest.approx(np.sqrt(5) * root)


def test_wisharts_samples_have_its_moments():
    one = DS.WishartFull(np.float64(4), SCALE)
    drawn = one.sample(4000, seed=2)
    assert drawn.shape.as_list() == [4000, 2, 2]
    found, mean, logs, entropy, own = value(drawn, one.mean(), one.mean_log_det(), one.entropy(), -tf.reduce_mean(
        one.log_prob(drawn)))
    spread = 5 * np.sqrt(value(one.variance()) / 4000)
    assert (abs(found.mean(0) - mean) < spread).all()
    assert np.log(np.linalg.det(found)).mean() == pytest.approx(logs, abs=0.1) and own == pytest.approx(entropy, abs=0.15)


def test_what_no_wishart_is():
    with pytest.raises(ValueError, match="cannot be less than dimension of scale matrix"):
        DS.WishartFull(np.float64(1), SCALE)
    with pytest.raises(ValueError, match="scale must be square"):
        DS.WishartCholesky(np.float64(3), np.ones((2, 3)))
    with pytest.raises(ValueError, match="does not make sense"):
        DS.WishartFull(np.float64(3), SCALE, cholesky_input_output_matrices=True).stddev()


def density_of_normal(z):
    return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def test_tails_and_skewness():
    plain = DS.SinhArcsinh(1.0, 2.0)
    points = np.float32([-3, 0, 1, 4])
    assert value(plain.prob(points)) == pytest.approx(density_of_normal((points - 1) / 2) / 2, rel=1e-4)
    skewed = DS.SinhArcsinh(np.float64([1.0]), np.float64(2.0), np.float64(0.5), np.float64([[1.5], [0.7]]))
    assert skewed.batch_shape.as_list() == [2, 1]
    grid = np.linspace(-60, 200, 40001)
    mass = value(skewed.prob(grid[:, None, None])).sum(0) * (grid[1] - grid[0])
    assert mass == pytest.approx(np.ones((2, 1)), abs=0.01)
    fat = DS.SinhArcsinh(0.0, 3.0, tailweight=1.7)
    assert value(fat.cdf(6.0)) == pytest.approx(0.5 * (1 + math.erf(2 / math.sqrt(2))), abs=1e-5)


def test_the_map_of_sinh_and_arcsinh_turns_back():
    one = DS.bijectors.SinhArcsinh(np.float64(0.4), np.float64(1.3), event_ndims=1)
    x = np.array([[-2.0, 0.1, 3.0]])
    y = one.forward(x)
    assert value(one.inverse(y)) == pytest.approx(x)
    slopes = np.cosh((np.arcsinh(x) + 0.4) * 1.3) * 1.3 / np.sqrt(x ** 2 + 1)
    assert value(one.forward_log_det_jacobian(x)) == pytest.approx(np.log(slopes).sum(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Argument tailweight was not positive"):
        value(DS.bijectors.SinhArcsinh(tailweight=-1.0, validate_args=True).forward([1.0]))


def test_vectors_with_tails():
    many = DS.VectorSinhArcsinhDiag([1.0, -1.0], scale_identity_multiplier=2.0, skewness=0.3, tailweight=[1.2, 0.9])
    single = DS.SinhArcsinh([1.0, -1.0], 2.0, 0.3, [1.2, 0.9])
    x = np.float32([[0.5, 2.0], [1.0, -4.0]])
    assert many.event_shape.as_list() == [2] and many.sample(5, seed=1).shape.as_list() == [5, 2]
    assert value(many.log_prob(x)) == pytest.approx(value(single.log_prob(x)).sum(1), rel=1e-4)


def test_a_distribution_under_conditions():
    class Moved(DS.ConditionalDistribution):
        def __init__(self):
            super().__init__(tf.float32, DS.FULLY_REPARAMETERIZED, False, True)

        def _batch(self):
            return tf.zeros([])

        def _draw(self, shape, seed, by):
            return by + tf.zeros(shape)

        def _log_prob(self, x, by):
            return x - by
    one = Moved()
    assert value(one.sample([2], by=3.0)).tolist() == [3, 3] and value(one.log_prob(1.0, by=4.0)) == -3
    assert value(one.prob(1.0, by=1.0)) == 1
    with pytest.raises(TypeError, match="by"):
        one.log_prob(1.0)


def test_a_head_of_a_distribution():
    head = DS.estimator_head_distribution_regression(
        lambda logits: DS.Normal(logits[:, 0], tf.exp(logits[:, 1])), logits_dimension=2)
    logits, labels = np.float32([[1, 0], [2, 1]]), np.float32([[0], [5]])
    made = head.create_model_fn_ops({}, tf.contrib.learn.ModeKeys.EVAL, labels, None, logits)
    scores = (labels[:, 0] - logits[:, 0]) / np.exp(logits[:, 1])
    assert value(made.loss) == pytest.approx(np.mean(scores ** 2 / 2 + logits[:, 1]) + 0.5 * math.log(2 * math.pi), rel=1e-5)
    assert value(made.predictions["scores"]).tolist() == [1, 2]
    with pytest.raises(TypeError, match="must be a callable"):
        DS.estimator_head_distribution_regression(3)
