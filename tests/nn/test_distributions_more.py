"""Distributions of tf.contrib against SciPy's: counts, relaxed classes, full covariances, mixtures, bijectors, functions."""
from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import special, stats

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.nn.probability import (
    base,
    bijectors,
    bijectors_linear,
    counts,
    made,
    normal,
    positive,
    relaxed,
    scalar,
    tools,
    vector,
)
from workbench.nn.probability.bijectors_simplex import AbsoluteValue, SoftmaxCentered

pytestmark = pytest.mark.usefixtures("graph")
SEED = 5


A, B, UNIT = np.array([2.7, 3.5, 4.0]), np.array([[0.5], [2.0]]), np.array([0.2, 0.5, 0.9])
SOFT = np.log1p(np.exp(A)), np.log1p(np.exp(B))
CONTINUOUS = {
    "Logistic": (lambda: positive.Logistic(A, B), stats.logistic(A, B), UNIT * 9 - 2),
    "Chi2": (lambda: positive.Chi2(A), stats.chi2(A), UNIT * 5),
    "Chi2WithAbsDf": (lambda: positive.Chi2WithAbsDf(-A), stats.chi2([2, 3, 4]), UNIT * 5),
    "InverseGamma": (lambda: positive.InverseGamma(A, B), stats.invgamma(A, scale=B), UNIT * 2),
    "NormalWithSoftplusScale": (lambda: positive.NormalWithSoftplusScale(A, B), stats.norm(A, SOFT[1]), UNIT),
    "LaplaceWithSoftplusScale": (lambda: positive.LaplaceWithSoftplusScale(A, B), stats.laplace(A, SOFT[1]), UNIT),
    "ExponentialWithSoftplusRate": (lambda: positive.ExponentialWithSoftplusRate(A), stats.expon(scale=1 / SOFT[0]), UNIT),
    "GammaWithSoftplus": (lambda: positive.GammaWithSoftplusConcentrationRate(A, B), stats.gamma(SOFT[0], scale=1 / SOFT[1]),
                          UNIT),
    "InverseGammaWithSoftplus": (lambda: positive.InverseGammaWithSoftplusConcentrationRate(A, B),
                                 stats.invgamma(SOFT[0], scale=SOFT[1]), UNIT),
    "BetaWithSoftplus": (lambda: positive.BetaWithSoftplusConcentration(A, B), stats.beta(*SOFT), UNIT),
    "StudentTWithAbsDf": (lambda: positive.StudentTWithAbsDfSoftplusScale(-A - 2, 0.5 + 0 * A, B),
                          stats.t(np.floor(A + 2), 0.5, SOFT[1]), UNIT)}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions_are_scipys(name: str):
    make, theirs, x = CONTINUOUS[name]
    ours = make()
    found = run([ours.log_prob(x), ours.cdf(x), ours.log_cdf(x), ours.survival_function(x), ours.entropy(), ours.mean(),
                 ours.variance(), ours.stddev()])
    wanted = [theirs.logpdf(x), theirs.cdf(x), theirs.logcdf(x), theirs.sf(x), theirs.entropy(), theirs.mean(), theirs.var(),
              theirs.std()]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, np.broadcast_to(other, mine.shape), rtol=1e-7, atol=1e-12)
    drawn = run(ours.sample(3000, seed=3))
    assert drawn.shape == (3000, *ours.batch_shape.as_list())
    middle = np.broadcast_to(theirs.median(), drawn.shape[1:])
    np.testing.assert_allclose((drawn <= middle).mean(0), 0.5, atol=0.05)
    assert type(ours.copy()) is type(ours) and ours.parameters["name"] == ours.name


def test_what_has_no_moments_is_nan():
    assert np.isnan(run(positive.InverseGamma([0.5, 3.0], 1.0).mean())).tolist() == [True, False]
    assert np.isnan(run(positive.InverseGamma([1.5, 3.0], 1.0).variance())).tolist() == [True, False]
    np.testing.assert_allclose(run(positive.InverseGamma(3.0, 2.0).mode()), 0.5)


DISCRETE = {
    "Poisson": (lambda: counts.Poisson(A), stats.poisson(A)),
    "Poisson of logarithms": (lambda: counts.Poisson(log_rate=np.log(A)), stats.poisson(A)),
    "Geometric": (lambda: counts.Geometric(probs=UNIT), stats.geom(UNIT, loc=-1)),
    "Binomial": (lambda: counts.Binomial(np.array([3.0, 5.0, 9.0]), probs=UNIT), stats.binom([3, 5, 9], UNIT)),
    "NegativeBinomial": (lambda: counts.NegativeBinomial(A, probs=UNIT), stats.nbinom(A, 1 - UNIT))}


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_are_scipys(name: str):
    make, theirs = DISCRETE[name]
    ours, x = make(), np.arange(4.0)[:, None]
    found = run([ours.log_prob(x), ours.cdf(x), ours.cdf(x + 0.5), ours.mean(), ours.variance(), ours.mode()])
    with np.errstate(divide="ignore"):
        wanted = [theirs.logpmf(x), theirs.cdf(x), theirs.cdf(x), theirs.mean(), theirs.var()]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, np.broadcast_to(other, mine.shape), rtol=1e-6, atol=1e-12)
    most = np.argmax(theirs.pmf(np.arange(30)[:, None]), axis=0)
    assert (theirs.pmf(found[5]) >= theirs.pmf(most) * (1 - 1e-12)).all()
    drawn = run(ours.sample(4000, seed=8))
    np.testing.assert_allclose(drawn.mean(0), theirs.mean(), rtol=0.1, atol=0.05)
    np.testing.assert_allclose(drawn.var(0), theirs.var(), rtol=0.2, atol=0.05)


def test_the_entropy_of_waiting():
    np.testing.assert_allclose(run(counts.Geometric(probs=UNIT).entropy()), stats.geom(UNIT).entropy(), rtol=1e-7)
    assert run(counts.Binomial(4.0, probs=0.5).cdf([4.0, 7.0])).tolist() == [1, 1]


def test_a_sure_event_fails_never():
    found = run(counts.Geometric(probs=[1.0, 0.5]).log_prob([[0.0, 0.0], [2.0, 1.0]]))
    np.testing.assert_allclose(found, [[0.0, np.log(0.5)], [-np.inf, np.log(0.25)]])


@pytest.mark.parametrize("kind", [vector.Categorical, relaxed.OneHotCategorical])
def test_classes_of_logits_of_unknown_rank(kind):
    logits = wb.placeholder("float32")
    drawn, several = kind(logits).sample(), kind(logits).sample(3)
    with wb.Session() as session:
        for given in ([-1e3, 1e3], [[-1e3, 1e3], [1e3, -1e3]]):
            once, often = session.run([drawn, several], {logits: given})
            wanted = np.argmax(given, -1) if kind is vector.Categorical else np.asarray(given) > 0
            assert (once == wanted).all() and once.shape == wanted.shape and often.shape == (3, *wanted.shape)


def test_counts_of_classes_with_unknown_probabilities():
    weights = np.array([[1.0, 2.0, 3.0], [0.5, 0.5, 4.0]])
    ours = counts.DirichletMultinomial(np.array([3.0, 2.0]), weights)
    x = np.array([[1.0, 0, 2], [0, 0, 2]])
    theirs = [stats.dirichlet_multinomial(w, n) for w, n in zip(weights, [3, 2])]
    found = run([ours.log_prob(x), ours.mean(), ours.covariance(), ours.variance()])
    wanted = [[t.logpmf(v) for t, v in zip(theirs, x)], [t.mean() for t in theirs], [t.cov() for t in theirs],
              [t.var() for t in theirs]]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-7)
    drawn = run(ours.sample(3000, seed=2))
    assert (drawn.sum(-1) == [3, 2]).all()
    np.testing.assert_allclose(drawn.mean(0), wanted[1], atol=0.08)
    np.testing.assert_allclose(drawn.var(0), wanted[3], rtol=0.15, atol=0.02)


def test_one_value_alone():
    one = counts.Deterministic([1.0, -2.0], atol=0.1, rtol=0.1)
    assert run(one.prob([1.15, -2.4])).tolist() == [1, 0] and run(one.cdf([0.5, -1.0])).tolist() == [0, 1]
    assert run([one.mean(), one.mode()])[0].tolist() == [1, -2] and run([one.entropy(), one.variance()])[1].tolist() == [0, 0]
    assert run(one.sample(3)).shape == (3, 2)
    vector = counts.VectorDeterministic([[1.0, 2.0], [3.0, 4.0]])
    assert vector.event_shape.as_list() == [2] and vector.batch_shape.as_list() == [2]
    assert run(vector.sample(5)).shape == (5, 2, 2)
    assert run(vector.prob([[1.0, 2.0], [3.0, 5.0]])).tolist() == [1, 0]
    assert run(vector.event_shape_tensor()).tolist() == [2] and run(vector.stddev()).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(NotImplementedError):
        vector.cdf([[1.0, 2.0]])


P = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])


def test_classes_as_vectors():
    ours = relaxed.OneHotCategorical(probs=P)
    found = run([ours.log_prob(np.eye(3)[[2, 0]]), ours.entropy(), ours.mean(), ours.mode(), ours.variance(),
                 ours.covariance()])
    wanted = [np.log([0.5, 0.6]), stats.entropy(P, axis=1), P, np.eye(3)[[2, 0]], P * (1 - P),
              [stats.multinomial(1, p).cov() for p in P]]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-7)
    drawn = run(ours.sample(3000, seed=2))
    assert (drawn.sum(-1) == 1).all() and drawn.dtype == np.int32
    np.testing.assert_allclose(drawn.mean(0), P, atol=0.04)
    again = base.kl_divergence(ours, relaxed.OneHotCategorical(probs=P[::-1].copy()))
    np.testing.assert_allclose(run(again), (P * np.log(P / P[::-1])).sum(1))


def test_relaxed_classes_have_the_published_density_and_carry_gradients():
    temperature, logits = wb.constant(0.7, wb.float64), wb.constant(np.log(P[0]))
    ours, y = relaxed.RelaxedOneHotCategorical(temperature, logits, dtype=wb.float64), np.array([0.2, 0.5, 0.3])
    t, p = 0.7, P[0]      # Maddison et al. 2016, equation 10
    density = special.gamma(3) * t ** 2 * np.prod(p * y ** (-t - 1)) / np.sum(p * y ** -t) ** 3
    np.testing.assert_allclose(run(ours.prob(y)), density, rtol=1e-9)
    drawn = ours.sample(4000, seed=2)
    values, slope = run([drawn, wb.gradients(drawn[:, 0], logits)[0]])
    np.testing.assert_allclose(values.sum(-1), 1, rtol=1e-9)
    np.testing.assert_allclose(np.bincount(values.argmax(-1)) / 4000, p, atol=0.03)
    assert np.isfinite(slope).all() and abs(slope).max() > 0
    assert ours.event_shape.as_list() == [3] and run(ours.event_size) == 3


def test_relaxed_coins_have_the_published_density():
    ours = relaxed.RelaxedBernoulli(0.7, probs=np.array([0.3, 0.8]))
    y, t, odds = np.array([0.25, 0.6]), 0.7, np.array([0.3 / 0.7, 0.8 / 0.2])
    density = t * odds * y ** (-t - 1) * (1 - y) ** (-t - 1) / (odds * y ** -t + (1 - y) ** -t) ** 2
    np.testing.assert_allclose(run(ours.prob(y)), density, rtol=1e-6)
    drawn = run(ours.sample(4000, seed=4))
    np.testing.assert_allclose((drawn > 0.5).mean(0), [0.3, 0.8], atol=0.03)


# vectors

TRIANGLE = np.array([[1.0, 0, 0], [0.5, 2, 0], [-1, 0.3, 0.7]])
MEAN = np.array([1.0, -2.0, 0.5])
NORMALS = {
    "triangle": lambda: normal.MultivariateNormalTriL(MEAN, TRIANGLE),
    "covariance": lambda: normal.MultivariateNormalFullCovariance(MEAN, TRIANGLE @ TRIANGLE.T),
    "factors": lambda: normal.MultivariateNormalDiagPlusLowRank(MEAN, [1.0, 0.5, 2.0], 0.1, TRIANGLE[:, :2], [0.3, 2.0])}
COVARIANCES = {"triangle": TRIANGLE @ TRIANGLE.T, "covariance": TRIANGLE @ TRIANGLE.T}
_S = np.diag([1.1, 0.6, 2.1]) + TRIANGLE[:, :2] @ np.diag([0.3, 2]) @ TRIANGLE[:, :2].T
COVARIANCES["factors"] = _S @ _S.T


@pytest.mark.parametrize("name", NORMALS)
def test_normal_vectors_of_any_covariance_are_scipys(name: str):
    ours, theirs = NORMALS[name](), stats.multivariate_normal(MEAN, COVARIANCES[name])
    x = np.array([[0.5, 0.7, 1.0], [2.0, -2.0, 0.0]])
    found = run([ours.log_prob(x), ours.entropy(), ours.covariance(), ours.variance(), ours.mean(), ours.mode()])
    wanted = [theirs.logpdf(x), theirs.entropy(), theirs.cov, np.diag(theirs.cov), MEAN, MEAN]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-12)
    drawn = run(ours.sample(4000, seed=9))
    assert drawn.shape == (4000, 3) and ours.event_shape.as_list() == [3] and ours.batch_shape.as_list() == []
    np.testing.assert_allclose(np.cov(drawn.T), theirs.cov, atol=0.12 * np.abs(theirs.cov).max())


def test_divergences_of_normal_vectors():
    a, b = NORMALS["triangle"](), vector.MultivariateNormalDiag(MEAN + 0.5, np.array([1.0, 2.0, 1.5]))
    for one, other, p, q in ((a, b, COVARIANCES["triangle"], np.diag([1, 4, 2.25])),
                             (b, a, np.diag([1, 4, 2.25]), COVARIANCES["triangle"]), (a, a, np.eye(3), np.eye(3))):
        apart = np.zeros(3) if one is other else np.full(3, 0.5)
        wanted = 0.5 * (np.trace(np.linalg.solve(q, p)) + apart @ np.linalg.solve(q, apart) - 3
                        + np.log(np.linalg.det(q) / np.linalg.det(p)))
        np.testing.assert_allclose(run(base.kl_divergence(one, other)), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("make", "theirs"), [
    (lambda: normal.VectorLaplaceDiag(MEAN, np.array([1.0, 2.0, 0.5])), stats.laplace(MEAN, [1, 2, 0.5])),
    (lambda: normal.VectorExponentialDiag(MEAN, np.array([1.0, 2.0, 0.5])), stats.expon(MEAN, [1, 2, 0.5]))])
def test_vectors_of_independent_numbers(make, theirs):
    ours, x = make(), MEAN + 0.3
    found = run([ours.log_prob(x), ours.mean(), ours.variance(), ours.entropy(), ours.covariance(), ours.stddev()])
    wanted = [theirs.logpdf(x).sum(), theirs.mean(), theirs.var(), theirs.entropy().sum(), np.diag(theirs.var()), theirs.std()]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-7)
    drawn = run(ours.sample(3000, seed=1))
    assert drawn.shape == (3000, 3)
    np.testing.assert_allclose(drawn.mean(0), theirs.mean(), atol=0.15)
    np.testing.assert_allclose(run(ours.mode()), MEAN)


# made of others

def test_what_is_transformed_has_the_density_of_its_events():
    ours = made.TransformedDistribution(scalar.Normal(A, B), bijectors.Exp())
    theirs, x = stats.lognorm(B, scale=np.exp(A)), np.array([1.0, 30.0, 90.0])
    for mine, other in zip(run([ours.log_prob(x), ours.cdf(x), ours.survival_function(x), ours.quantile(UNIT)]),
                           [theirs.logpdf(x), theirs.cdf(x), theirs.sf(x), theirs.ppf(UNIT)]):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
    within = run(ours.sample(3000, seed=1)) <= theirs.median()
    np.testing.assert_allclose(within.mean(0), np.full((2, 3), 0.5), atol=0.05)


def test_numbers_become_vectors_by_a_triangle():
    one = scalar.Normal(np.float64(0.0), 1.0)
    ours = made.TransformedDistribution(one, bijectors_linear.Affine(MEAN, scale_tril=TRIANGLE), event_shape=[3])
    x = np.array([0.5, 0.7, 1.0])
    np.testing.assert_allclose(run(ours.log_prob(x)), stats.multivariate_normal(MEAN, COVARIANCES["triangle"]).logpdf(x))
    assert run(ours.sample(4)).shape == (4, 3) and ours.event_shape.as_list() == [3]
    several = made.TransformedDistribution(one, bijectors.Exp(), batch_shape=[2])
    assert several.batch_shape.as_list() == [2] and run(several.sample(4)).shape == (4, 2)
    with pytest.raises(NotImplementedError, match="cdf is not implemented"):
        ours.cdf(x)


def test_linear_maps_keep_mean_and_entropy():
    one, x = scalar.Normal(np.float64(0.0), 1.0), stats.multivariate_normal(MEAN, COVARIANCES["triangle"])
    ours = made.TransformedDistribution(one, bijectors_linear.Affine(MEAN, scale_tril=TRIANGLE), batch_shape=[2],
                                        event_shape=[3])
    mean, entropy = run([ours.mean(), ours.entropy()])
    np.testing.assert_allclose(mean, [MEAN] * 2)
    np.testing.assert_allclose(entropy, [x.entropy()] * 2)
    curved = made.TransformedDistribution(one, bijectors.Exp())
    for what in (curved.mean, curved.entropy):
        with pytest.raises(NotImplementedError, match="Jacobian depends on the event"):
            what()


def test_what_several_events_become_has_the_density_of_all_of_them():
    ours = made.TransformedDistribution(scalar.Normal(np.float64(0.5), 1.0), AbsoluteValue())
    x = np.array([0.1, 2.13])
    np.testing.assert_allclose(run(ours.prob(x)), stats.norm(0.5).pdf(x) + stats.norm(0.5).pdf(-x))
    with pytest.raises(NotImplementedError, match="cdf is not implemented"):
        ours.cdf(x)


def test_numbers_become_shares():
    ours = made.TransformedDistribution(scalar.Normal(np.float64(0.0), 1.0), SoftmaxCentered())
    shares = np.array([[0.25, 0.75], [0.6, 0.4]])
    np.testing.assert_allclose(run(ours.log_prob(shares)), stats.norm.logpdf(np.log(shares[:, 0] / shares[:, 1]))
                               - np.log(shares).sum(-1))
    assert ours.event_shape.as_list() == [2] and run(ours.event_shape_tensor()).tolist() == [2]
    assert run(ours.sample([1, 3])).shape == (1, 3, 2)


def test_independent_numbers_are_one_event():
    ours = made.Independent(scalar.Normal(np.zeros((2, 3)), A))
    x = UNIT
    theirs = stats.norm(0, A)
    found = run([ours.log_prob(x), ours.entropy(), ours.mean(), ours.variance(), ours.stddev(), ours.mode()])
    np.testing.assert_allclose(found[0], [theirs.logpdf(x).sum()] * 2)
    np.testing.assert_allclose(found[1], [theirs.entropy().sum()] * 2)
    assert found[2].shape == (2, 3) and ours.batch_shape.as_list() == [2] and ours.event_shape.as_list() == [3]
    assert run(ours.sample(5)).shape == (5, 2, 3) and run(ours.event_shape_tensor()).tolist() == [3]
    other = made.Independent(scalar.Normal(np.ones((2, 3)), A))
    np.testing.assert_allclose(run(base.kl_divergence(ours, other)), [(0.5 / A ** 2).sum()] * 2)


@pytest.mark.parametrize("family", [False, True])
def test_mixtures(family: bool):
    shares, means, spreads = np.array([0.3, 0.7]), np.array([-1.0, 2.0]), np.array([0.5, 1.5])
    chosen = vector.Categorical(probs=shares)
    ours = made.MixtureSameFamily(chosen, scalar.Normal(means, spreads)) if family else made.Mixture(
        chosen, [scalar.Normal(m, s) for m, s in zip(means, spreads)])
    x = np.array([-1.0, 0.0, 3.0])
    parts = [stats.norm(m, s) for m, s in zip(means, spreads)]
    mean = (shares * means).sum()
    found = run([ours.prob(x), ours.cdf(x), ours.mean(), ours.variance(), ours.entropy_lower_bound()])
    wanted = [sum(w * p.pdf(x) for w, p in zip(shares, parts)), sum(w * p.cdf(x) for w, p in zip(shares, parts)), mean,
              (shares * (spreads ** 2 + means ** 2)).sum() - mean ** 2, sum(w * p.entropy() for w, p in zip(shares, parts))]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
    drawn = run(ours.sample(5000, seed=3))
    assert drawn.shape == (5000,)
    np.testing.assert_allclose([drawn.mean(), drawn.var()], found[2:4], rtol=0.1)
    np.testing.assert_allclose((drawn < 0).mean(), run(ours.cdf(0.0)), atol=0.03)


def test_mixtures_of_vectors():
    shares = vector.Categorical(probs=P[:, :2] / P[:, :2].sum(1, keepdims=True))
    parts = vector.MultivariateNormalDiag(np.arange(12.0).reshape(2, 2, 3), np.array([1.0, 2.0, 3.0]))
    ours = made.MixtureSameFamily(shares, parts)
    assert ours.event_shape.as_list() == [3] and ours.batch_shape.as_list() == [2]
    wide = run([ours.mean(), ours.variance(), ours.sample(7, seed=1), ours.log_prob(np.zeros(3))])
    assert [w.shape for w in wide] == [(2, 3), (2, 3), (7, 2, 3), (2,)]
    two = made.Mixture(shares, [vector.MultivariateNormalDiag(np.arange(12.0).reshape(2, 2, 3)[:, i],
                                                                           np.array([1.0, 2.0, 3.0])) for i in (0, 1)])
    for mine, other in zip(run([two.mean(), two.variance(), two.log_prob(np.zeros(3))]), [wide[0], wide[1], wide[3]]):
        np.testing.assert_allclose(mine, other)
    assert run(two.sample(7, seed=1)).shape == (7, 2, 3)


def test_rounded_numbers():
    ours = made.QuantizedDistribution(scalar.Normal(np.float64(1.3), 1.0), low=-1, high=3)
    edges = stats.norm(1.3, 1).cdf([-np.inf, -1, 0, 1, 2, np.inf])
    np.testing.assert_allclose(run(ours.prob(np.arange(-1.0, 4.0))), np.diff(edges), rtol=1e-9)
    drawn = run(ours.sample(4000, seed=5))
    np.testing.assert_allclose([(drawn == k).mean() for k in range(-1, 4)], np.diff(edges), atol=0.03)


# bijectors

X = np.array([[0.3, 0.7, 1.4], [0.2, 0.5, 2.0]])
MAPS = {
    "identity": lambda: bijectors.Identity(), "exp": lambda: bijectors.Exp(), "softplus": lambda: bijectors.Softplus(),
    "softer": lambda: bijectors.Softplus(hinge_softness=0.7), "sigmoid": lambda: bijectors.Sigmoid(),
    "power": lambda: bijectors.PowerTransform(0.4), "power 0": lambda: bijectors.PowerTransform(),
    "numbers": lambda: bijectors_linear.Affine(np.float64(2.0), np.float64(-3.0), event_ndims=0),
    "inverse": lambda: bijectors.Invert(bijectors_linear.Affine(np.float64(2.0), np.float64(3.0), event_ndims=0)),
    "chain": lambda: bijectors.Chain([bijectors.Exp(), bijectors.Softplus()])}


@pytest.mark.parametrize("name", MAPS)
def test_maps_are_undone_and_know_their_slopes(name: str):
    one, x = MAPS[name](), wb.constant(X)
    y = one.forward(x)
    back, slope, there, again = run([one.inverse(y), wb.gradients(y, x)[0], one.forward_log_det_jacobian(x),
                                     one.inverse_log_det_jacobian(y)])
    np.testing.assert_allclose(back, X, rtol=1e-6)
    np.testing.assert_allclose(there, np.log(abs(slope)), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(again, -there, rtol=1e-6, atol=1e-9)


VECTOR_MAPS = {
    "triangle": lambda: bijectors_linear.Affine(MEAN, scale_tril=TRIANGLE),
    "all": lambda: bijectors_linear.Affine(MEAN, np.float64(0.3), np.array([1.0, 2.0, 3.0]), TRIANGLE),
    "turned": lambda: bijectors.Permute([2, 0, 1]), "exp": lambda: bijectors.Exp(event_ndims=1),
    "chain": lambda: bijectors.Chain([bijectors.Exp(), bijectors_linear.Affine(MEAN, scale_tril=TRIANGLE)])}


@pytest.mark.parametrize("name", VECTOR_MAPS)
def test_maps_of_vectors_know_their_determinants(name: str):
    one, x = VECTOR_MAPS[name](), wb.constant(X[0])
    y = one.forward(x)
    rows, back, there, again = run([[wb.convert_to_tensor(wb.gradients(y[i], x)[0]) for i in range(3)], one.inverse(y),
                                    one.forward_log_det_jacobian(x), one.inverse_log_det_jacobian(y)])
    np.testing.assert_allclose(back, X[0], rtol=1e-6)
    np.testing.assert_allclose(there, np.log(abs(np.linalg.det(rows))), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(again, -there, rtol=1e-9, atol=1e-12)


def test_maps_of_given_functions():
    one = bijectors.Inline(forward_fn=wb.exp, inverse_fn=wb.log, inverse_log_det_jacobian_fn=lambda y: -wb.log(y))
    assert run([one.forward(0.0), one.inverse(1.0), one.forward_log_det_jacobian(2.0)]) == [1, 0, 2]
    with pytest.raises(NotImplementedError, match="Cannot inverse with inline: it was made without the function"):
        bijectors.Inline(wb.exp).inverse(1.0)
    with pytest.raises(NotImplementedError, match="forward_log_det_jacobian not implemented"):
        bijectors.Bijector().forward_log_det_jacobian(1.0)


# functions

def test_triangles_percentiles_and_sums():
    six = np.arange(1.0, 7.0)
    assert run(tools.fill_triangular(six)).tolist() == [[4, 0, 0], [6, 5, 0], [3, 2, 1]]
    assert run(tools.fill_triangular(six, upper=True)).tolist() == [[1, 2, 3], [0, 5, 6], [0, 0, 4]]
    x = np.random.default_rng(2).normal(size=(4, 7, 3))
    for way in ("lower", "higher", "nearest"):
        for axis in (None, 1, [0, 2]):
            found = run(tools.percentile(x, 30.0, axis, way, keep_dims=True))
            numpys = tuple(axis) if isinstance(axis, list) else axis
            np.testing.assert_array_equal(found, np.percentile(x, 30, numpys, method=way, keepdims=True))
    logs, weights = np.array([[1.0, 2, 1000], [0, -1, 2]]), np.array([[1.0, -2, 3], [1, -5, 0]])
    found, sign = run(tools.reduce_weighted_logsumexp(logs, weights, axis=1, return_sign=True))
    np.testing.assert_allclose(found, [1000 + np.log(3), np.log(abs(1 - 5 / np.e))])
    assert sign.tolist() == [1, -1]
    np.testing.assert_allclose(run(wb.nn.softplus(tools.softplus_inverse(UNIT * 40))), UNIT * 40)
    turned = tools.matrix_diag_transform(TRIANGLE, wb.exp)
    np.testing.assert_allclose(run(turned), TRIANGLE + np.diag(np.exp(np.diag(TRIANGLE)) - np.diag(TRIANGLE)))
    with pytest.raises(errors.InvalidArgumentError, match=r"percentile: q is outside \[0, 100\]"):
        run(tools.percentile(x, wb.placeholder_with_default(101.0, []), validate_args=True))


def test_moving_moments():
    x = wb.placeholder(wb.float64, [])
    mean, variance = tools.moving_mean_variance(x, 0.9)
    log_mean = wb.Variable(np.float64(0.0))
    logs = tools.assign_log_moving_mean_exp(log_mean, x, 0.9)
    wanted_mean, wanted_variance, wanted_log = 0.0, 0.0, 0.0
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for value in (1.0, 3.0, -2.0):
            found = session.run([mean, variance, logs], {x: value})
            away = value - wanted_mean
            wanted_mean += 0.1 * away
            wanted_variance = 0.9 * (wanted_variance + 0.1 * away ** 2)
            wanted_log = np.log(0.9 * np.exp(wanted_log) + 0.1 * np.exp(value))
            np.testing.assert_allclose(found, [wanted_mean, wanted_variance, wanted_log], rtol=1e-9)


def test_what_is_known_of_a_mean():
    prior = scalar.Normal(np.float64(1.0), 2.0)
    known = tools.normal_conjugates_known_scale_posterior(prior, 0.5, np.float64(12.0), 5)
    precision = 1 / 4 + 5 / 0.25
    np.testing.assert_allclose(run([known.mean(), known.variance()]), [(1 / 4 + 12 / 0.25) / precision, 1 / precision])
    ahead = tools.normal_conjugates_known_scale_predictive(prior, 0.5, np.float64(12.0), 5)
    np.testing.assert_allclose(run(ahead.variance()), 1 / precision + 0.25)


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: counts.Poisson(), ValueError, "Must specify exactly one of `rate` and `log_rate`."),
    (lambda: normal.MultivariateNormalTriL(), ValueError, "Must specify one or both of `loc`, `scale_tril`."),
    (lambda: normal.MultivariateNormalDiagPlusLowRank(), ValueError, "must say how long an event is"),
    (lambda: made.Mixture(3, []), TypeError, "cat must be a Categorical distribution, but saw: 3"),
    (lambda: made.Mixture(vector.Categorical(probs=P), []), ValueError, "components must be a non-empty list"),
    (lambda: made.Mixture(vector.Categorical(probs=P[0]), [scalar.Normal(0.0, 1.0)]), ValueError,
     "cat.num_classes is 3 but there are 1 components; give one for each class"),
    (lambda: made.MixtureSameFamily(vector.Categorical(probs=P[0]), scalar.Normal(B[:, 0], 1.0)),
     ValueError, "`mixture_distribution components` (3) does not equal `components_distribution.batch_shape[-1]` (2)"),
    (lambda: made.Independent(scalar.Normal(0.0, 1.0)), errors.InvalidArgumentError,
     "Independent: reduce_batch_ndims is 1 but the batch has 0 axes; take as many at most"),
    (lambda: made.TransformedDistribution(scalar.Normal(A, 1.0), event_shape=[2]), errors.InvalidArgumentError,
     "TransformedDistribution: batch_shape is None and event_shape [2] but the distribution has [3] and []"),
    (lambda: bijectors.PowerTransform(-1.0), errors.InvalidArgumentError, "PowerTransform: power is -1.0; give 0 or more"),
    (lambda: bijectors_linear.Affine(scale_diag=A, event_ndims=0), errors.InvalidArgumentError, "Affine: event_ndims is 0 but"),
    (lambda: tools.fill_triangular(A[:2]), errors.ShapeError, "(2) does not correspond to a triangular matrix"),
    (lambda: tools.percentile(A, 3, interpolation="linear"), ValueError, "must be in ('lower', 'higher', 'near"),
    (lambda: tools.normal_conjugates_known_scale_posterior(3, 1.0, 1.0, 1), TypeError, "Expected prior to be")])
def test_what_no_distribution_is(make, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_the_scale_of_normal_vectors_is_an_operator():
    for one in (normal.MultivariateNormalTriL(MEAN, TRIANGLE), normal.MultivariateNormalFullCovariance(
            MEAN, np.tril(TRIANGLE) @ np.tril(TRIANGLE).T)):
        matrix, turned = run([one.scale.to_dense(), one.scale.matvec(wb.constant(MEAN))])
        np.testing.assert_allclose(matrix @ matrix.T, np.tril(TRIANGLE) @ np.tril(TRIANGLE).T)
        np.testing.assert_allclose(turned, matrix @ MEAN)
    along = vector.MultivariateNormalDiag(MEAN, np.array([1.0, 2.0, 3.0])).scale
    np.testing.assert_allclose(run(along.to_dense()), np.diag([1.0, 2.0, 3.0]))
