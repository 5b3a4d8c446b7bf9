"""Initial values: distributions have the moments they promise, seeds repeat them."""
from __future__ import annotations

import math

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.nn import initializers
from workbench.nn.initializers import fans


def draw(initializer, shape, dtype="float32", seed=7):
    with wb.Graph().as_default() as graph:
        graph.seed = seed
        v = wb.get_variable("v", shape, dtype=dtype, initializer=initializer)
        with wb.Session() as session:
            session.run(v.initializer)
            return session.run(v)


@pytest.mark.parametrize(("initializer", "mean", "deviation"), [
    (initializers.RandomNormal(1.0, 2.0), 1, 2),
    (initializers.TruncatedNormal(0.0, 1.0), 0, 0.8796),
    (initializers.RandomUniform(-1, 1), 0, 1 / math.sqrt(3)),
    (initializers.glorot_uniform_initializer(), 0, math.sqrt(2 / 500)),
    (initializers.glorot_normal_initializer(), 0, math.sqrt(2 / 500)),
    (initializers.he_normal(), 0, math.sqrt(2 / 200)),
    (initializers.he_uniform(), 0, math.sqrt(2 / 200)),
    (initializers.lecun_normal(), 0, math.sqrt(1 / 200)),
    (initializers.VarianceScaling(3.0, "fan_out", "untruncated_normal"), 0, math.sqrt(3 / 300)),
    (initializers.uniform_unit_scaling_initializer(2.0), 0, math.sqrt(4 / 200)),
    (initializers.xavier_initializer(uniform=False), 0, math.sqrt(2 / 500)),
])
def test_random_values_have_the_promised_moments(initializer, mean: float, deviation: float):
    values = draw(initializer, [200, 300])
    assert values.dtype == np.float32
    assert abs(values.mean() - mean) < 5 * deviation / math.sqrt(values.size)
    assert abs(values.std() / deviation - 1) < 0.02


def test_truncated_values_stay_within_two_deviations():
    assert np.abs(draw(initializers.TruncatedNormal(0.0, 3.0), [100, 100])).max() <= 6


def test_values_repeat_with_the_seed_and_differ_between_variables():
    def two(seed):
        with wb.Graph().as_default() as graph:
            graph.seed = seed
            a, b = wb.get_variable("a", [5, 5]), wb.get_variable("b", [5, 5])
            with wb.Session() as session:
                session.run(wb.global_variables_initializer())
                return session.run([a, b])
    first, again, other = two(1), two(1), two(2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1]) and not np.array_equal(first[0], other[0])


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 3, 4)])
def test_orthogonal_matrices_are_orthogonal(shape):
    flat = draw(initializers.Orthogonal(gain=2.0), list(shape)).reshape(-1, shape[-1])
    product = flat.T @ flat if flat.shape[0] >= flat.shape[1] else flat @ flat.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_fixed_values():
    assert draw(initializers.Zeros(), [2]).tolist() == [0, 0]
    assert draw(initializers.Ones(), [2], "int32").tolist() == [1, 1]
    assert draw(initializers.Constant([1, 2, 3, 4]), [2, 2]).tolist() == [[1, 2], [3, 4]]
    assert draw(initializers.Identity(2.0), [2, 3]).tolist() == [[2, 0, 0], [0, 2, 0]]


def test_fans_of_dense_and_convolution_kernels():
    assert [fans(s) for s in ([], [5], [3, 7], [3, 3, 8, 16])] == [(1, 1), (5, 5), (3, 7), (72, 144)]


@pytest.mark.parametrize(("make", "text"), [
    (lambda: initializers.VarianceScaling(mode="fan"), "VarianceScaling: mode 'fan' is unknown; use one of fan_in, "),
    (lambda: initializers.VarianceScaling(distribution="x"), "VarianceScaling: distribution 'x' is unknown"),
    (lambda: initializers.Orthogonal()([3]), r"orthogonal_initializer: shape \[3\] has rank 1; it needs 2 or more"),
    (lambda: initializers.Identity()([3]), r"identity_initializer: shape \[3\] has rank 1; it needs 2"),
])
def test_mistakes_are_named(make, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        make()
