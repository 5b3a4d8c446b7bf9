"""Distributions against SciPy's; gradients of densities and samples numerically; moments of samples; bad input."""
from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.nn.probability import base, discrete, scalar, vector

pytestmark = pytest.mark.usefixtures("graph")
SEED = 5


A, B = np.array([0.7, 2.5, 3.0]), np.array([[0.5], [2.0]])
UNIT = np.array([0.2, 0.5, 0.9])
CONTINUOUS = {
    "Normal": (lambda: scalar.Normal(A, B), stats.norm(A, B), UNIT * 3 - 1),
    "Laplace": (lambda: scalar.Laplace(A, B), stats.laplace(A, B), UNIT * 9 - 3),
    "StudentT": (lambda: scalar.StudentT(A + 2, 0.5 + 0 * A, B), stats.t(A + 2, 0.5, B), UNIT * 4 - 2),
    "Uniform": (lambda: scalar.Uniform(-B, A), stats.uniform(-B, A + B), UNIT * 3 - 0.4),
    "Exponential": (lambda: scalar.Exponential(A), stats.expon(scale=1 / A), np.array([0.0, 0.5, 4.0])),
    "Gamma": (lambda: scalar.Gamma(A + 1, B), stats.gamma(A + 1, scale=1 / B), UNIT * 5),
    "Beta": (lambda: scalar.Beta(A + 1, B + 1), stats.beta(A + 1, B + 1), UNIT),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions_are_scipys(name: str):
    make, theirs, x = CONTINUOUS[name]
    ours = make()
    with np.errstate(divide="ignore"):
        wanted = [theirs.logpdf(x), theirs.pdf(x), theirs.cdf(x), theirs.logcdf(x), theirs.sf(x), theirs.logsf(x),
                  theirs.entropy(), theirs.mean(), theirs.var(), theirs.std()]
    found = run([ours.log_prob(x), ours.prob(x), ours.cdf(x), ours.log_cdf(x), ours.survival_function(x),
                 ours.log_survival_function(x), ours.entropy(), ours.mean(), ours.variance(), ours.stddev()])
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, np.broadcast_to(other, mine.shape), rtol=1e-9, atol=1e-12)
    assert found[6].shape == found[7].shape == tuple(ours.batch_shape.as_list()) and ours.event_shape.as_list() == []


@pytest.mark.parametrize("name", ["Normal", "Uniform", "Exponential"])
def test_quantiles_undo_the_distribution_function(name: str):
    ours = CONTINUOUS[name][0]()
    np.testing.assert_allclose(run(ours.cdf(ours.quantile(UNIT))), np.broadcast_to(UNIT, run(ours.mean()).shape), rtol=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_have_the_moments(name: str):
    make, theirs, _ = CONTINUOUS[name]
    ours = make()
    drawn = ours.sample(4000, seed=3)
    assert drawn.shape.as_list() == [4000, *ours.batch_shape.as_list()]
    found = run(drawn)
    shape = found.shape[1:]
    np.testing.assert_allclose(found.mean(0), np.broadcast_to(theirs.mean(), shape), atol=0.2)
    within = (found <= np.broadcast_to(theirs.median(), shape)).mean(0)
    np.testing.assert_allclose(within, 0.5, atol=0.05)
    assert ours.sample(seed=3).shape.as_list() == list(shape) and ours.sample([2, 5]).shape.as_list() == [2, 5, *shape]


def test_seeds_repeat_samples():
    first, second = scalar.Normal(0.0, 1.0).sample(3, seed=7), scalar.Normal(0.0, 1.0).sample(3, seed=7)
    assert run(first).tolist() == run(second).tolist()


@pytest.mark.parametrize("name", ["Normal", "Laplace", "StudentT", "Uniform", "Exponential"])
def test_samples_carry_gradients(name: str):
    ours = CONTINUOUS[name][0]()
    assert ours.reparameterization_type is base.FULLY_REPARAMETERIZED
    assert wb.gradients(ours.sample(2), [ours.parameters and ours._graph_parents[-1]])[0] is not None


def test_a_sample_of_a_normal_moves_with_its_parameters():
    mean, spread = wb.constant(1.0), wb.constant(2.0)
    drawn = scalar.Normal(mean, spread).sample(5, seed=1)
    value, by_mean, by_spread = run([drawn, *wb.gradients(drawn, [mean, spread])])
    assert by_mean == 5 and by_spread == pytest.approx(((value - 1) / 2).sum(), rel=1e-5)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "StudentT", "Exponential", "Gamma", "Beta"])
def test_densities_have_gradients_to_second_order(name: str):
    made = {"Normal": lambda a, b: scalar.Normal(a, b), "Laplace": lambda a, b: scalar.Laplace(a, b),
            "StudentT": lambda a, b: scalar.StudentT(a + 2.0, a, b), "Exponential": lambda a, b: scalar.Exponential(a * b),
            "Gamma": lambda a, b: scalar.Gamma(a, b), "Beta": lambda a, b: scalar.Beta(a, b)}[name]
    a, b, x = (wb.placeholder(wb.float64, [3]) for _ in range(3))
    value = made(a, b).log_prob(x)
    point = [np.array([0.7, 2.5, 3.1]), np.array([0.5, 2.0, 1.5]), UNIT]

    def slopes(outcome, argument):
        return wb.gradients(outcome, argument)[0]
    for number, argument in enumerate((a, b, x)):
        first = slopes(value, argument)
        for of, slope in ((value, first), (first, slopes(first, argument))):
            if slope is None:
                continue
            moved = [[p + (e if i == number else 0) for i, p in enumerate(point)] for e in (1e-5, -1e-5)]
            high, low = (run(of, dict(zip((a, b, x), p))) for p in moved)
            np.testing.assert_allclose(run(slope, dict(zip((a, b, x), point))), (high - low) / 2e-5, rtol=1e-4, atol=1e-5)


def test_far_tails_keep_their_logarithms():
    found = run(scalar.Normal(np.float64(0), 1.0).log_cdf([-50.0, -30.0, 40.0]))
    np.testing.assert_allclose(found, stats.norm.logcdf([-50, -30, 40]), rtol=1e-7, atol=1e-300)
    x = wb.constant([-50.0, 0.0, 50.0], wb.float64)
    assert np.isfinite(run(wb.gradients(scalar.Normal(np.float64(0), 1.0).log_cdf(x), x)[0])).all()


# discrete

P = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])


def test_bernoulli():
    ours, theirs = discrete.Bernoulli(probs=UNIT), stats.bernoulli(UNIT)
    found = run([ours.log_prob([0, 1, 1]), ours.prob(1), ours.entropy(), ours.mean(), ours.variance(), ours.mode()])
    wanted = [theirs.logpmf([0, 1, 1]), UNIT, theirs.entropy(), UNIT, theirs.var(), [0, 0, 1]]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-9)
    drawn = run(discrete.Bernoulli(logits=[0.0, 2.0]).sample(4000, seed=1))
    assert drawn.dtype == np.int32
    np.testing.assert_allclose(drawn.mean(0), [0.5, 1 / (1 + np.exp(-2))], atol=0.03)


def test_categorical():
    ours = vector.Categorical(probs=P)
    assert ours.batch_shape.as_list() == [2] and ours.event_shape.as_list() == []
    found = run([ours.log_prob([2, 0]), ours.prob(1), ours.entropy(), ours.mode(), ours.event_size,
                 ours.prob(np.array([[0], [1], [2]]))])
    wanted = [np.log([0.5, 0.6]), [0.3, 0.3], stats.entropy(P, axis=1), [2, 0], 3, P.T]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-9)
    drawn = run(ours.sample([40, 100], seed=2))
    assert drawn.shape == (40, 100, 2) and drawn.dtype == np.int32
    for row in range(2):
        np.testing.assert_allclose(np.bincount(drawn[..., row].ravel()) / 4000, P[row], atol=0.03)


def test_multinomial():
    ours, counts = vector.Multinomial(np.array([4.0, 2.0]), probs=P), np.array([[1.0, 1, 2], [2, 0, 0]])
    theirs = [stats.multinomial(4, P[0]), stats.multinomial(2, P[1])]
    found = run([ours.log_prob(counts), ours.mean(), ours.covariance(), ours.variance()])
    wanted = [[t.logpmf(c) for t, c in zip(theirs, counts)], [[0.8, 1.2, 2], [1.2, 0.6, 0.2]], [t.cov() for t in theirs],
              [np.diag(t.cov()) for t in theirs]]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-9)
    drawn = run(ours.sample(2000, seed=4))
    assert (drawn.sum(-1) == [4, 2]).all() and ours.event_shape.as_list() == [3]
    np.testing.assert_allclose(drawn.mean(0), wanted[1], atol=0.1)


def test_dirichlet():
    ours, theirs = vector.Dirichlet([2.0, 3.0, 4.0]), stats.dirichlet([2, 3, 4])
    found = run([ours.log_prob([0.2, 0.3, 0.5]), ours.entropy(), ours.mean(), ours.variance(), ours.mode(), ours.covariance()])
    wanted = [theirs.logpdf([0.2, 0.3, 0.5]), theirs.entropy(), theirs.mean(), theirs.var(),
              np.array([1, 2, 3]) / 6, theirs.cov()]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-7)
    drawn = run(ours.sample(3000, seed=4))
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(drawn.mean(0), theirs.mean(), atol=0.02)


def test_normal_vectors():
    ours = vector.MultivariateNormalDiag(np.array([[1.0, 2.0], [0.0, -1.0]]), np.array([0.5, 2.0]))
    x = np.array([0.5, 0.7])
    theirs = [stats.multivariate_normal(m, np.diag([0.25, 4])) for m in ([1, 2], [0, -1])]
    found = run([ours.log_prob(x), ours.entropy(), ours.covariance(), ours.stddev(), ours.mode()])
    wanted = [[t.logpdf(x) for t in theirs], [t.entropy() for t in theirs], [np.diag([0.25, 4])] * 2, [[0.5, 2]] * 2,
              [[1, 2], [0, -1]]]
    for mine, other in zip(found, wanted):
        np.testing.assert_allclose(mine, other, rtol=1e-9)
    drawn = run(ours.sample(4000, seed=9))
    assert drawn.shape == (4000, 2, 2) and ours.batch_shape.as_list() == [2]
    np.testing.assert_allclose(drawn.std(0), [[0.5, 2]] * 2, rtol=0.06)
    wide = vector.MultivariateNormalDiag(loc=[0.0, 0.0], scale_identity_multiplier=3.0)
    assert run(wide.stddev()).tolist() == [3, 3] and run(vector.MultivariateNormalDiag([0.0]).stddev()).tolist() == [1]


# divergences

PAIRS = {
    "normal": lambda: (scalar.Normal(A, 0.5 + 0 * B), scalar.Normal(A + 0.3, B)),
    "bernoulli": lambda: (discrete.Bernoulli(probs=UNIT), discrete.Bernoulli(probs=UNIT[::-1] * 0.9)),
    "gamma": lambda: (scalar.Gamma(A, 2.0 + 0 * B), scalar.Gamma(A + 1, B)), "exponential": lambda: (
        scalar.Exponential(A), scalar.Exponential(A + 1)),
    "beta": lambda: (scalar.Beta(A, B), scalar.Beta(B, A)),
    "categorical": lambda: (vector.Categorical(probs=P), vector.Categorical(probs=P[::-1])),
    "dirichlet": lambda: (vector.Dirichlet(P * 5), vector.Dirichlet(P[::-1] * 4)),
    "vectors": lambda: (vector.MultivariateNormalDiag(P, P), vector.MultivariateNormalDiag(P * 2, P + 0.5))}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences_are_the_mean_of_what_the_logarithms_differ_by(name: str):
    a, b = PAIRS[name]()
    drawn = a.sample(20000, seed=11)
    estimate, found, same = run([wb.reduce_mean(a.log_prob(drawn) - b.log_prob(drawn), axis=0), base.kl_divergence(a, b),
                                 a.kl_divergence(a)])
    np.testing.assert_allclose(found, estimate, rtol=0.1, atol=0.05)
    np.testing.assert_allclose(same, 0, atol=1e-9)


# bad input

@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: discrete.Bernoulli(), ValueError, "Must pass probs or logits, but not both."),
    (lambda: discrete.Bernoulli(logits=1.0, probs=0.5), ValueError, "Must pass probs or logits, but not both."),
    (lambda: scalar.Normal(wb.constant(1), 1.0), errors.DtypeError, "Normal: loc is int32; use float16, float32 or float64"),
    (lambda: scalar.Normal(wb.constant(1.0), wb.constant(1.0, wb.float64)), errors.DtypeError,
     "Normal: scale is float64 but the parameter before it is float32; cast one of them"),
    (lambda: vector.MultivariateNormalDiag(), ValueError, "one of them must say how long an event is"),
    (lambda: vector.Dirichlet([1.0, 2.0]).cdf([0.5, 0.5]), NotImplementedError, "cdf is not implemented"),
    (lambda: scalar.Gamma(1.0, 1.0).quantile(0.5), NotImplementedError, "quantile is not implemented"),
    (lambda: base.kl_divergence(scalar.Uniform(), scalar.Normal(0.0, 1.0)), NotImplementedError,
     "No KL(distribution_a || distribution_b) registered for distribution_a type Uniform and distribution_b type Normal"),
    (lambda: base.RegisterKL(scalar.Normal, scalar.Normal)(lambda a, b: 0), ValueError, "KL(Normal || Normal) has already"),
    (lambda: base.RegisterKL(int, int)(3), TypeError, "kl_fn must be callable")])
def test_what_no_distribution_is(make, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_what_is_undefined_is_nan_or_an_error():
    assert np.isnan(run(scalar.Beta([0.5, 2.0], 2.0).mode())).tolist() == [True, False]
    found = run([scalar.StudentT([0.5, 1.5, 3.0], 0.0, 1.0).variance(), scalar.StudentT([0.5, 1.5, 3.0], 0.0, 1.0).mean()])
    assert np.isnan(found[0][0]) and np.isinf(found[0][1]) and found[0][2] == 3
    assert np.isnan(found[1]).tolist() == [True, False, False]
    with pytest.raises(errors.InvalidArgumentError, match="mode: not defined for some parameters"):
        run(scalar.Gamma(0.5, 1.0, allow_nan_stats=False).mode())
    with pytest.raises(errors.InvalidArgumentError, match=r"0 did not hold element-wise|x > 0"):
        run(scalar.Normal(0.0, wb.placeholder_with_default(-1.0, []), validate_args=True).sample())


def test_copies_and_words():
    first = scalar.Normal(0.0, 1.0, name="n")
    second = first.copy(scale=3.0)
    assert run(second.stddev()) == 3 and second.parameters["loc"] == 0.0
    assert repr(first) == "<Normal 'n' batch_shape=[] event_shape=[] dtype=float32>"
    assert run([first.is_scalar_batch(), first.is_scalar_event()]) == [True, True]
    assert run(vector.Dirichlet([[1.0, 2.0]]).event_shape_tensor()).tolist() == [2]


def test_classes_before_one_are_counted_by_the_cdf_of_a_categorical_distribution():
    with wb.Graph().as_default(), wb.Session() as session:
        dist = vector.Categorical(probs=[[0.2, 0.1, 0.7], [0.3, 0.45, 0.25]])
        found = session.run(dist.cdf([[0, 0], [1, 1], [2, 2]]))
    np.testing.assert_allclose(found, [[0, 0], [0.2, 0.3], [0.3, 0.75]], atol=1e-6)
