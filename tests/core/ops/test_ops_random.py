"""Random operations: repeatable from their seeds, independent of each other, distributed as they say."""
from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import stats

import workbench.core.ops  # noqa: F401
from tests.evaluate import evaluate
from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.state.container import Container

pytestmark = pytest.mark.usefixtures("graph")


def test_same_seeds_give_the_same_sequence_in_a_new_session() -> None:
    x = ops.random_normal([4], seed=3)
    first, second = Container(), Container()
    a, b = (evaluate([x], container=first)[0] for _ in range(2))
    c, d = (evaluate([x], container=second)[0] for _ in range(2))
    np.testing.assert_array_equal([a, b], [c, d])
    assert not np.array_equal(a, b)


def test_streams_are_independent(graph: Graph) -> None:
    graph.seed = 7
    a, b, c = ops.random_uniform([50]), ops.random_uniform([50]), ops.random_uniform([50], seed=1)
    values = evaluate([a, b, c])
    assert len({v.tobytes() for v in values}) == 3


def test_graph_seed_alone_repeats_in_an_equal_graph() -> None:
    values = []
    for _ in range(2):
        with Graph().as_default() as graph:
            graph.seed = 11
            values.append(evaluate([ops.truncated_normal([8])])[0])
    np.testing.assert_array_equal(*values)


def test_without_seeds_sessions_differ() -> None:
    x = ops.random_uniform([20])
    assert not np.array_equal(evaluate([x])[0], evaluate([x])[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform(dtype: str) -> None:
    unit, scaled = evaluate([ops.random_uniform([5000], dtype=dtype, seed=1),
                             ops.random_uniform([5000], -1, 3, dtype=dtype, seed=1)])
    assert unit.dtype.name == scaled.dtype.name == dtype
    assert unit.min() >= 0 and unit.max() < 1
    assert abs(unit.astype(float).mean() - 0.5) < 0.02 and abs(scaled.astype(float).mean() - 1) < 0.08


def test_uniform_integers_and_tensor_bounds() -> None:
    whole = evaluate([ops.random_uniform([2000], 2, 5, "int32", seed=1)])[0]
    assert whole.dtype == np.int32 and set(whole.tolist()) == {2, 3, 4}
    high = ops.placeholder("float32", [])
    shape = ops.placeholder("int32", [2])
    drawn = ops.random_uniform(shape, 0.0, high, seed=1)
    value = evaluate([drawn], {high: 10, shape: [30, 40]})[0]
    assert drawn.shape.rank == 2 and value.shape == (30, 40) and 9 < value.max() <= 10


def test_normal_and_truncated() -> None:
    normal, cut = evaluate([ops.random_normal([9000], 3.0, 2.0, seed=1),
                            ops.truncated_normal([9000], 3.0, 2.0, seed=1)])
    assert abs(normal.mean() - 3) < 0.1 and abs(normal.std() - 2) < 0.1 and normal.max() > 7.5
    assert cut.min() >= -1 and cut.max() <= 7 and abs(cut.std() / 2 - 0.88) < 0.03
    assert normal.dtype == cut.dtype == np.float32


def test_multinomial_draws_no_class_whose_logit_is_not_finite() -> None:
    rows = np.float32([[np.nan, 0, 1], [np.inf, -np.inf, 0], [0, np.nan, np.nan]])
    drawn = evaluate([ops.multinomial(rows, 200, seed=2)])[0]
    narrow = evaluate([ops.multinomial(rows, 200, seed=2, output_dtype="int32")])[0]
    assert narrow.dtype == np.int32 and narrow.shape == drawn.shape and set(np.unique(narrow)) == set(np.unique(drawn))
    assert [sorted(set(row)) for row in drawn.tolist()] == [[1, 2], [2], [0]]
    with pytest.raises(errors.InvalidArgumentError, match=r"multinomial: row 1 of logits \(shape \[2, 2\]\) has no finite"):
        evaluate([ops.multinomial([[0.0, 0.0], [np.nan, np.inf]], 3)])


@pytest.mark.parametrize(("mean", "deviation", "low", "high"), [
    (0.0, 1.0, -2.0, 2.0), (1.0, 2.0, -np.inf, 0.0), (0.0, 1.0, 7.0, 9.0), (5.0, 0.5, -3.0, 2.0), (0.0, 3.0, -0.5, np.inf)])
def test_a_normal_distribution_between_bounds(mean: float, deviation: float, low: float, high: float) -> None:
    drawn = ops.parameterized_truncated_normal([20000], mean, deviation, low, high, seed=3)
    value = evaluate([drawn])[0]
    law = stats.truncnorm((low - mean) / deviation, (high - mean) / deviation, mean, deviation)
    assert drawn.shape == [20000] and value.dtype == np.float32 and low <= value.min() and value.max() <= high
    assert stats.kstest(value.astype(np.float64), law.cdf).statistic < 0.012
    again = ops.parameterized_truncated_normal([20000], mean, deviation, low, high, seed=3)
    np.testing.assert_array_equal(evaluate([again])[0], value)


def test_rows_between_bounds_of_their_own() -> None:
    shape, means = ops.placeholder("int32", [2]), ops.placeholder("float64", [2])
    drawn = ops.parameterized_truncated_normal(shape, means, 1.0, [-1.0, 99.0], 101.0, dtype="float64", seed=1)
    value = evaluate([drawn], {shape: [2, 3000], means: [0, 100]})[0]
    assert value.dtype == np.float64 and value.shape == (2, 3000)
    assert value[0].min() >= -1 and 0.2 < value[0].mean() < 0.35 and value[1].min() >= 99 and abs(value[1].mean() - 100) < 0.05
    for wrong in ({"stddevs": 0.0}, {"minvals": 2.0}, {"stddevs": [1.0, -1.0]}):
        with pytest.raises(errors.InvalidArgumentError, match="Invalid parameters: stddevs must be above 0"):
            evaluate([ops.parameterized_truncated_normal([2, 2], **wrong)])


def test_multinomial_follows_the_logits() -> None:
    drawn = ops.multinomial(np.log([[0.7, 0.2, 0.1], [0.01, 0.01, 0.98]]).astype(np.float32), 4000, seed=2)
    value = evaluate([drawn])[0]
    assert drawn.shape == [2, 4000] and value.dtype == np.int64
    np.testing.assert_allclose(np.bincount(value[0]) / 4000, [0.7, 0.2, 0.1], atol=0.03)
    assert (value[1] == 2).mean() > 0.95


def test_shuffle_keeps_rows_and_has_a_gradient() -> None:
    x = ops.placeholder("float32", [6, 2])
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    shuffled = ops.random_shuffle(x, seed=5)
    value, grad = evaluate([shuffled, ops.densify(gradients(ops.square(shuffled), x)[0])], {x: rows})
    assert shuffled.shape == [6, 2] and not np.array_equal(value, rows)
    np.testing.assert_array_equal(np.sort(value[:, 0]), rows[:, 0])
    np.testing.assert_array_equal(grad, 2 * rows)


def test_crop_is_a_block() -> None:
    image = np.arange(20.0).reshape(4, 5)
    value = evaluate([ops.random_crop(image, [2, 3], seed=1)])[0]
    assert value.shape == (2, 3)
    np.testing.assert_array_equal(value - value[0, 0], [[0, 1, 2], [5, 6, 7]])


def test_dropout_scales_what_it_keeps_and_drops_alike_backwards() -> None:
    x, keep = ops.placeholder("float32", [None, 50]), ops.placeholder("float32", [])
    y = ops.dropout(x, keep, seed=1)
    value, grad = evaluate([y, gradients(y, x)[0]], {x: np.ones((40, 50)), keep: 0.8})
    assert set(np.unique(value).tolist()) == {0.0, 1.25} and abs((value > 0).mean() - 0.8) < 0.03
    np.testing.assert_array_equal(value, grad)
    np.testing.assert_array_equal(evaluate([y], {x: np.ones((4, 50)), keep: 1.0})[0], 1)
    assert ops.dropout(x, 1.0) is x


def test_dropout_noise_shape_shares_the_choice() -> None:
    value = evaluate([ops.dropout(ops.ones([30, 4]), 0.5, noise_shape=[30, 1], seed=1)])[0]
    assert (value == value[:, :1]).all() and 0 < (value[:, 0] > 0).mean() < 1


def test_candidates_are_different_and_their_expected_counts_follow_the_distribution() -> None:
    drawn, true, counts = ops.log_uniform_candidate_sampler([[0], [50]], 1, 20, True, 1000, seed=1)
    assert drawn.shape == counts.shape == [20] and true.shape == [2, 1]
    totals = np.zeros(1000)
    state = Container()
    for _ in range(400):
        classes, expected, own = evaluate([drawn, true, counts], container=state)
        assert len(set(classes.tolist())) == 20 and classes.min() >= 0 and classes.max() < 1000
        totals[classes] += 1
    assert classes.dtype == np.int64 and expected.dtype == own.dtype == np.float32
    np.testing.assert_allclose(totals[[0, 50]] / 400, expected[:, 0], atol=0.06)


def test_candidates_with_repetition() -> None:
    drawn, true, counts = evaluate(ops.uniform_candidate_sampler([[3]], 1, 3000, False, 4, seed=1))
    np.testing.assert_allclose(np.bincount(drawn), 750, rtol=0.1)
    assert true[0, 0] == counts[0] == 750
    with pytest.raises(ValueError,
                       match=r"uniform_candidate_sampler: 5 different classes are wanted of 4; sample fewer"):
        ops.uniform_candidate_sampler([[3]], 1, 5, True, 4)


@pytest.mark.parametrize("sampler", [
    lambda true, number: ops.uniform_candidate_sampler(true, number, 2, True, 4),
    lambda true, number: ops.log_uniform_candidate_sampler(true, number, 2, True, 4),
    lambda true, number: ops.learned_unigram_candidate_sampler(true, number, 2, True, 4),
    lambda true, number: ops.fixed_unigram_candidate_sampler(true, number, 2, True, 2, unigrams=[1.0, 2.0]),
    lambda true, number: ops.all_candidate_sampler(true, number, 2, True)])
def test_an_example_has_as_many_true_classes_as_is_said(sampler):
    sampler([[0, 1]], 2)
    with pytest.raises(errors.ShapeError, match=r"\[1,2\].*\[\?,3\]|\[\?,3\].*\[1,2\]"):
        sampler([[0, 1]], 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_rounding_never_reaches_the_upper_bound(dtype: str) -> None:
    value = evaluate([ops.random_uniform([20_000], -2, 8, dtype, seed=3)])[0].astype(np.float64)
    assert value.min() >= -2 and value.max() < 8


@pytest.mark.parametrize("draw", [lambda shape: ops.random_uniform(shape, -0.5, 2.0, seed=1),
                                  lambda shape: ops.random_normal(shape, 1.0, 2.0, seed=1),
                                  lambda shape: ops.truncated_normal(shape, 1.0, 2.0, seed=1)],
                         ids=["uniform", "normal", "truncated normal"])
def test_drawing_takes_little_more_memory_than_what_is_drawn(draw: Any) -> None:
    """The initial value of a table may be as large as all else that a server holds."""
    small, large = draw([2]), draw([1 << 21])
    evaluate([small])
    tracemalloc.start()
    try:
        value = evaluate([large])[0]
        assert tracemalloc.get_traced_memory()[1] < 1.8 * value.nbytes      # of one drawn again: where they lie
    finally:
        tracemalloc.stop()
