"""Small functions of networks against NumPy, with gradients; errors."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.evaluate import evaluate
from workbench import errors, nn

pytestmark = pytest.mark.usefixtures("graph")
RNG = np.random.default_rng(2)
X, Z = RNG.normal(size=(3, 4)), RNG.uniform(size=(3, 4))


def check(build, value, *inputs, rtol=1e-8):
    """The value, and the gradient of its weighted sum by differences."""
    tensors = [wb.placeholder(i.dtype, i.shape) for i in inputs]
    y = build(*tensors)
    feeds = dict(zip(tensors, inputs))
    np.testing.assert_allclose(evaluate([y], feeds)[0], value(*inputs), rtol=rtol)
    weights = np.cos(np.arange(np.size(value(*inputs)))).reshape(np.shape(value(*inputs)))
    found = evaluate(wb.gradients(wb.reduce_sum(y * weights), tensors), feeds)
    for number, slope in enumerate(found):
        for place in np.ndindex(inputs[number].shape):
            near = []
            for side in (1e-6, -1e-6):
                moved = [i.copy() for i in inputs]
                moved[number][place] += side
                near.append((value(*moved) * weights).sum())
            np.testing.assert_allclose(slope[place], (near[0] - near[1]) / 2e-6, rtol=1e-4, atol=1e-6)


def test_a_quotient_by_zero_is_zero_whatever_is_divided():
    x, y = np.float32([np.inf, np.nan, 1, 3]), np.float32([0, 0, 0, 2])
    assert evaluate([wb.div_no_nan(x, y)])[0].tolist() == [0, 0, 0, 1.5]
    assert evaluate([wb.div_no_nan(np.float32([[1], [2]]), y)])[0].tolist() == [[0, 0, 0, 0.5], [0, 0, 0, 1]]


def test_weighted_cross_entropy():
    check(lambda x, z: nn.weighted_cross_entropy_with_logits(z, x, 3.0),
          lambda x, z: z * np.log1p(np.exp(-x)) * 3 + (1 - z) * np.log1p(np.exp(x)), X, Z)
    big = nn.weighted_cross_entropy_with_logits(np.float32([1, 0]), np.float32([-1000, 1000]), 2.0)
    assert evaluate([big])[0].tolist() == [2000, 1000]
    with pytest.raises(errors.ShapeError, match=r"targets have shape \[2\] but logits \[3\]; make them equal"):
        nn.weighted_cross_entropy_with_logits(np.zeros(2, np.float32), np.zeros(3, np.float32), 1.0)


def test_poisson_loss():
    counts = np.float64([[0, 1, 2, 5]])
    check(lambda x: nn.log_poisson_loss(counts, x), lambda x: np.exp(x) - x * counts, X[:1])
    stirling = np.float64([0, 0, *(z * np.log(z) - z + 0.5 * np.log(2 * np.pi * z) for z in (2, 5))])
    check(lambda x: nn.log_poisson_loss(counts, x, True), lambda x: np.exp(x) - x * counts + stirling, X[:1])


def test_crelu_swish_and_global_normalization():
    check(nn.crelu, lambda x: np.maximum(np.concatenate([x, -x], 1), 0), X)
    check(nn.swish, lambda x: x / (1 + np.exp(-x)), X)
    m, v, beta, gamma = (RNG.uniform(0.5, 1, 4) for _ in range(4))
    for scale in (True, False):
        check(lambda x, s=scale: nn.batch_norm_with_global_normalization(x, m, v, beta, gamma, 0.01, s),
              lambda x, s=scale: (x - m) / np.sqrt(v + 0.01) * (gamma if s else 1) + beta, X)


@pytest.mark.parametrize("second", [False, True])
def test_one_dimensional_convolution(second: bool):
    x, f = RNG.normal(size=(2, 6, 3)), RNG.normal(size=(3, 3, 2))

    def value(x, f):
        rows = x.swapaxes(1, 2) if second else x
        y = np.stack([np.einsum("nwc,wco->no", rows[:, i:i + 3], f) for i in (0, 2)], 1)
        return y.swapaxes(1, 2) if second else y
    check(lambda x, f: nn.conv1d(x, f, 2, "VALID", data_format="NCW" if second else None), value,
          x.swapaxes(1, 2).copy() if second else x, f, rtol=1e-6)


def test_conv1d_wants_sequences():
    with pytest.raises(errors.ShapeError, match="sequences have rank 3"):
        nn.conv1d(np.zeros((2, 3), np.float32), np.zeros((1, 3, 1), np.float32), 1, "SAME")
    with pytest.raises(errors.InvalidArgumentError, match="data_format 'X' is unknown; use NWC or NCW"):
        nn.conv1d(np.zeros((2, 3, 1), np.float32), np.zeros((1, 3, 1), np.float32), 1, "SAME", data_format="X")


@pytest.mark.parametrize("shift", [None, 0.7])
def test_moments_by_their_sums(shift):
    count, total, squares, moved = nn.sufficient_statistics(X, [0], shift)
    assert (moved is None) == (shift is None)
    mean, variance = nn.normalize_moments(count, total, squares, moved)
    found = evaluate([mean, variance])
    np.testing.assert_allclose(found[0], X.mean(0))
    np.testing.assert_allclose(found[1], X.var(0))
