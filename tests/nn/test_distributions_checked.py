"""With validate_args, parameters and events that cannot be are errors, whether known while building or in the step alone."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.nn.probability import bijectors, bijectors_linear, counts, discrete, normal, positive, relaxed, scalar, vector

pytestmark = pytest.mark.usefixtures("graph")
HALVES = [0.5, 0.5]
WRONG = [      # what is asked, with the wrong value x, which a right one of the same shape may stand for
    ("probs must be 0 or more", lambda x, **v: discrete.Bernoulli(probs=x, **v).mean(), -0.5, 0.5),
    ("greater than 1", lambda x, **v: discrete.Bernoulli(probs=x, **v).mean(), 3.0, 1.0),
    ("0 or 1", lambda x, **v: discrete.Bernoulli(probs=0.3, **v).prob(x), 7.0, 1.0),
    ("whole", lambda x, **v: discrete.Bernoulli(probs=0.3, **v).prob(x), 0.5, 0.0),
    ("probs must be 0 or more", lambda x, **v: vector.Categorical(probs=x, **v).prob(0), [-1.0, 2.0], HALVES),
    ("probs does not sum to 1", lambda x, **v: vector.Categorical(probs=x, **v).prob(0), [0.5, 0.6], HALVES),
    ("classes must be 0 or more", lambda x, **v: vector.Categorical(probs=HALVES, **v).cdf(x), -1.0, 1.0),
    ("total_count must be 0 or more", lambda x, **v: vector.Multinomial(x, probs=HALVES, **v).mean(), -1.0, 1.0),
    ("total_count must be whole", lambda x, **v: vector.Multinomial(x, probs=HALVES, **v).mean(), 1.5, 0.0),
    ("sum to `self.total_count`", lambda x, **v: vector.Multinomial(3.0, probs=HALVES, **v).prob(x), [1.0, 1.0], [1.0, 2.0]),
    ("sum to `self.total_count`", lambda x, **v: counts.DirichletMultinomial(3.0, HALVES, **v).prob(x), [1.0, 1.0], [1.0, 2.0]),
    ("positive", lambda x, **v: vector.Dirichlet([1.0, 2.0], **v).prob(x), [-1.0, 2.0], HALVES),
    ("sum to 1", lambda x, **v: vector.Dirichlet([1.0, 2.0], **v).prob(x), [3.0, 4.0], HALVES),
    ("positive", lambda x, **v: scalar.Gamma(1.0, 1.0, **v).log_prob(x), -1.0, 1.0),
    ("positive", lambda x, **v: scalar.Gamma(1.0, 1.0, **v).cdf(x), 0.0, 1.0),
    ("positive", lambda x, **v: positive.InverseGamma(1.0, 1.0, **v).log_prob(x), -1.0, 1.0),
    ("less than 1", lambda x, **v: scalar.Beta(1.0, 1.0, **v).prob(x), 2.0, 0.5),
    ("counts must be whole", lambda x, **v: counts.Poisson(1.0, **v).prob(x), 0.5, 1.0),
    ("counts must be 0 or more", lambda x, **v: counts.Geometric(probs=0.5, **v).cdf(x), -1.0, 1.0),
    ("total_count or less", lambda x, **v: counts.Binomial(3.0, probs=0.5, **v).prob(x), 4.0, 3.0),
    ("total_count must be positive", lambda x, **v: counts.NegativeBinomial(x, probs=0.5, **v).mean(), 0.0, 0.5),
    ("0 or less", lambda x, **v: relaxed.ExpRelaxedOneHotCategorical(1.0, [0.0, 0.0], **v).log_prob(x), [1.0, -9.0],
     [np.log(0.25), np.log(0.75)]),
    ("non-zero", lambda x, **v: vector.MultivariateNormalDiag(None, x, **v).mean(), [1.0, 0.0], [1.0, -1.0]),
    ("non-zero", lambda x, **v: normal.MultivariateNormalTriL(None, x, **v).mean(), [[1.0, 0.0], [1.0, 0.0]],
     [[1.0, 0.0], [1.0, -1.0]]),
    ("greater than 0", lambda x, **v: bijectors.Exp(**v).inverse(x), -1.0, 1.0),
    ("at least -0.5", lambda x, **v: bijectors.PowerTransform(2.0, **v).forward(x), -1.0, -0.25),
    ("non-zero", lambda x, **v: bijectors_linear.Affine(scale_diag=x, **v).inverse([1.0, 1.0]), [1.0, 0.0], [1.0, -1.0]),
    ("non-zero", lambda x, **v: bijectors.Softplus(hinge_softness=x, **v).forward([1.0]), 0.0, -1.0),
    ("exactly one of each", lambda x, **v: bijectors.Permute(x, **v).forward([1.0, 2.0, 3.0]), [2, 0, 2], [2, 0, 1]),
]


@pytest.mark.parametrize(("text", "ask", "wrong", "right"), WRONG)
def test_what_cannot_be_is_an_error_where_it_is_asked_for_and_a_number_elsewhere(text, ask, wrong, right):
    like = wb.constant(right)
    given = wb.placeholder_with_default(np.array(wrong, like.dtype.numpy), like.shape)
    asked = ask(given, validate_args=True)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        run(asked)
    expected = run(ask(like))
    np.testing.assert_array_equal(run(asked, {given: right}), expected)
    run(ask(given))


def test_a_beta_distribution_ends_where_no_density_is():
    assert run(scalar.Beta(2.0, 1.0, validate_args=True).cdf([0.0, 0.5, 1.0])).tolist() == [0, 0.25, 1]
