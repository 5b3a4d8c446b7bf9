"""Sums, means, extremes and softmax of rows lie in one kernel with what is computed of them and of the rows."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_sides import kinds, with_and_without
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.kernels import openmp, team

SHAPES = [(1, 64), (1, 4097), (7, 65), (3, 2, 131), (0, 70), (300, 100), (2, 9001)]


def over(t, reduce=wb.reduce_mean):
    return reduce(t, t.shape.rank - 1, keepdims=True)


def layer_norm(x, y, b):
    centred = x - over(x)
    return [centred / wb.sqrt(over(centred * centred) + 1e-5) * b + b]


def scaled_softmax(x, y, b):
    return [wb.nn.softmax(x * 0.5 + y)]


def softmax_by_hand(x, y, b):
    powers = wb.exp(x - over(x, wb.reduce_max))
    return [powers / over(powers, wb.reduce_sum)]


def cross_entropy(x, y, b):
    return [wb.reduce_sum(y * wb.nn.log_softmax(x), x.shape.rank - 1)]


def l2_normalized(x, y, b):
    return [wb.nn.l2_normalize(x, x.shape.rank - 1)]


def span(x, y, b):
    return [(x - over(x, wb.reduce_min)) / (over(x, wb.reduce_max) - over(x, wb.reduce_min)), wb.tanh(y) * b]


PATTERNS = [layer_norm, scaled_softmax, softmax_by_hand, cross_entropy, l2_normalized, span]


def built(pattern, shape, dtype="float32"):
    """Graph, what it computes, its gradients, and what is fed."""
    rng = np.random.default_rng(len(shape))
    with Graph().as_default() as graph:
        x, y, b = (ops.placeholder(dtype, s) for s in (shape, shape, shape[-1:]))
        found = pattern(x, y, b)
        grads = wb.gradients(found, [x, y, b], grad_ys=[wb.tanh(f) for f in found])
    feeds = {t: rng.standard_normal(t.shape.static).astype(dtype) for t in (x, y, b)}
    return graph, found, [g for g in grads if g is not None], feeds


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_values_and_gradients_are_what_they_are_without_fusion(pattern, shape):
    graph, forward, grads, feeds = built(pattern, shape)
    for found, wanted in with_and_without(graph, [*forward, *grads], feeds):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5 * max(1.0, np.abs(wanted).max(initial=0.0)))


@pytest.mark.parametrize("dtype,rtol", [("float64", 1e-11), ("float16", 1e-2)])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_values_and_gradients_in_other_types(pattern, dtype, rtol):
    graph, forward, grads, feeds = built(pattern, (8, 200), dtype)
    for found, wanted in with_and_without(graph, [*forward, *grads], feeds):
        assert found.dtype == wanted.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol, rtol * np.abs(wanted).max(initial=0.0))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_is_one_kernel(pattern):
    _, forward, _, feeds = built(pattern, (512, 512))
    assert kinds(forward, list(feeds)) == ["fused"] * len(forward)      # what has nothing to do with the rows is apart


def test_a_layer_norm_and_its_gradient_are_one_kernel_but_for_sums_of_columns():
    _, forward, grads, feeds = built(layer_norm, (512, 512))
    found = kinds([*forward, *grads], list(feeds))
    assert found.count("fused") == 1 and set(found) == {"fused", "reduce_sum", "add_n"}, found


@pytest.mark.parametrize("where", ["rows of few columns", "another axis", "a reduction that drops its axis"])
def test_what_is_no_row_stays_apart(where):
    with Graph().as_default():
        x = ops.placeholder("float32", [512, 8] if "few" in where else [512, 512])
        found = {"rows of few columns": lambda: x - over(x),
                 "another axis": lambda: x - ops.reduce_mean(x, axis=0, keepdims=True),
                 "a reduction that drops its axis": lambda: x - ops.reduce_mean(x, axis=1)}[where]()
        assert kinds([found * found], [x])[0] == "reduce_mean"


def test_a_dropped_axis_does_not_make_a_row_of_a_column():
    """[n, n] minus its means [n]: NumPy takes them for a row, and so does the kernel."""
    rng = np.random.default_rng(0)
    with Graph().as_default() as graph:
        x, y = ops.placeholder("float32", [300, 300]), ops.placeholder("float32", [300, 300])
        fetches = [ops.tanh(x * y) + ops.reduce_mean(x * y, axis=1), ops.reduce_max(x * y, axis=1)]
    feeds = {t: rng.standard_normal((300, 300), np.float32) for t in (x, y)}
    for found, wanted in with_and_without(graph, fetches, feeds):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pattern", [layer_norm, scaled_softmax, softmax_by_hand, span])
def test_a_row_with_infinity_or_nan_spoils_that_row_alone(pattern):
    graph, forward, _, feeds = built(pattern, (64, 100))
    x, _, _ = feeds
    feeds[x][3, 7], feeds[x][5, 9], feeds[x][9, 11] = np.nan, np.inf, -np.inf
    for found, wanted in with_and_without(graph, forward[:1], feeds):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("columns", [100, 5000, 1_000_000])
def test_sums_of_long_rows_are_as_exact_as_the_reference(columns):
    """Ones of which each takes a rounding error: added one after the other they would be off by thousands of units."""
    rng = np.random.default_rng(columns)
    with Graph().as_default() as graph:
        x = ops.placeholder("float32", [2, columns])
        fetches = [over(x * 1.0 + 0.0, wb.reduce_sum) * 1.0, x - over(x)]
    value = rng.random((2, columns), np.float32) + np.float32(0.1)
    with wb.Session(graph=graph) as session:
        total, centred = session.run(fetches, {x: value})
    exact = value.astype(np.float64)
    np.testing.assert_allclose(total, exact.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(centred, exact - exact.mean(1, keepdims=True), atol=1e-6)


def test_a_number_repeated_along_rows_leaves_the_kernel_as_a_matrix():
    rng = np.random.default_rng(1)
    with Graph().as_default() as graph:
        x = ops.placeholder("float32", [300, 200])
        repeated = ops.broadcast_to(over(x * x), [300, 200])
        fetches = [repeated, repeated - x, over(repeated, wb.reduce_sum)]
        assert kinds(fetches, [x]) == ["fused"]
    for found, wanted in with_and_without(graph, fetches, {x: rng.standard_normal((300, 200), np.float32)}):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.once
@pytest.mark.named
@pytest.mark.skipif(openmp.runtime() is None, reason="no GNU OpenMP here")
@pytest.mark.parametrize("shape", [(1000, 601), (17, 40_001)])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_however_many_threads_share_the_rows_bits_are_the_same(pattern, shape, monkeypatch):
    graph, forward, grads, feeds = built(pattern, shape)
    taken: list[int] = []
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(team, "threads_now", lambda threads=threads: taken.append(threads) or threads)
        with wb.Session(graph=graph) as session:
            results.append(session.run([*forward, *grads], feeds))
    assert {1, 2, 3} <= set(taken)
    for found in results[1:]:
        for value, wanted in zip(found, results[0]):
            np.testing.assert_array_equal(value, wanted)


def test_short_work_is_not_shared(monkeypatch):
    graph, forward, _, feeds = built(layer_norm, (64, 600))
    monkeypatch.setattr(team, "threads_now", lambda: pytest.fail("38,400 elements were shared"))
    with wb.Session(graph=graph) as session:
        session.run(forward, feeds)
