"""Sums and means of columns lie in one kernel with what they are made of, and have the same bits for any number of threads."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_sides import kinds, with_and_without
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.kernels import openmp, team
from workbench.core.kernels.fused_columns import BLOCK

SHAPES = [(4, 17, 19, 64), (BLOCK, 256), (BLOCK + 1, 257), (1, 16384), (16 * BLOCK + 3, 16), (2, 1, 5000, 17)]


def leading(t):
    return list(range(t.shape.rank - 1))


def batch_norm(x, y, b):
    mean, variance = wb.nn.moments(x, leading(x))
    return [wb.nn.relu(wb.nn.batch_normalization(x, mean, variance, b, wb.exp(b), 1e-3))]


def bias_and_relu(x, y, b):
    return [wb.nn.relu(x + b) * y]


def sums_of_products(x, y, b):
    return [wb.reduce_sum(x * y, leading(x)), wb.reduce_mean(wb.tanh(x), leading(x), keepdims=True), x * y + 1.0]


def repeated(x, y, b):
    return [x * wb.broadcast_to(b, x.shape) + wb.broadcast_to(wb.reduce_mean(y), x.shape)]


PATTERNS = [batch_norm, bias_and_relu, sums_of_products, repeated]


def built(pattern, shape, dtype="float32"):
    """Graph, what it computes with its gradients, and what is fed."""
    rng = np.random.default_rng(len(shape))
    with Graph().as_default() as graph:
        x, y, b = (ops.placeholder(dtype, s) for s in (shape, shape, shape[-1:]))
        found = pattern(x, y, b)
        grads = wb.gradients(found, [x, y, b], grad_ys=[wb.tanh(f) for f in found])
    feeds = {t: rng.standard_normal(t.shape.static).astype(dtype) for t in (x, y, b)}
    return graph, [*found, *[g for g in grads if g is not None]], feeds


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_values_and_gradients_are_what_they_are_without_fusion(pattern, shape):
    graph, fetches, feeds = built(pattern, shape)
    for found, wanted in with_and_without(graph, fetches, feeds):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("dtype,rtol", [("float64", 1e-11), ("float16", 3e-2)])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_values_and_gradients_in_other_types(pattern, dtype, rtol):
    graph, fetches, feeds = built(pattern, (9, 11, 200), dtype)
    for found, wanted in with_and_without(graph, fetches, feeds):
        assert found.dtype == wanted.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol, rtol * np.abs(wanted).max())


def test_a_batch_norm_and_its_gradient_go_over_the_images_six_times():
    """Forward: the mean, the variance, the values; backward: two sums with the first part of the gradient, the second part
    with its sum, the whole gradient."""
    _, fetches, feeds = built(batch_norm, (4, 32, 32, 64))
    found = kinds(fetches, list(feeds))
    assert found.count("reduce_mean") == 1 and "reduce_sum" not in found and "broadcast_to" not in found, found
    # over a number a channel: what scales and shifts, the gradient of 1 / deviation, and a sum; and the tanh that the test adds
    assert found.count("fused") <= 6 + 3, found


@pytest.mark.parametrize("where", ["few columns", "few elements", "another axis", "all axes", "an input of another pattern"])
def test_what_is_no_sum_of_columns_stays_apart(where):
    with Graph().as_default():
        x = ops.placeholder("float32", {"few columns": [9000, 8], "few elements": [64, 64]}.get(where, [64, 32, 32]))
        y = ops.placeholder("float32", [64, 32, 1])
        axis = {"another axis": [0, 2], "all axes": None}.get(where, leading(x))
        summed = ops.reduce_sum(x * (y if "pattern" in where else 2.0) - 1.0, axis=axis)
        assert kinds([summed], [x, y])[-1] == "reduce_sum"


def test_a_softmax_of_rows_is_in_no_kernel_with_sums_of_its_columns():
    with Graph().as_default() as graph:
        x = ops.placeholder("float32", [128, 1000])
        fetches = [ops.reduce_mean(ops.softmax(x * 2.0), axis=0), ops.reduce_sum(ops.log_softmax(x), axis=[0])]
    feeds = {x: np.random.default_rng(0).standard_normal((128, 1000)).astype(np.float32)}
    for found, wanted in with_and_without(graph, fetches, feeds):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_who_reads_a_sum_of_columns_waits_for_its_end():
    with Graph().as_default() as graph:
        x = ops.placeholder("float32", [512, 64])
        y = wb.tanh(x)
        fetches = [y - ops.reduce_mean(y, axis=0), ops.reduce_sum(y * y, axis=[0], keepdims=True)]
        assert kinds(fetches, [x]) == ["fused", "subtract"]
    feeds = {x: np.random.default_rng(0).standard_normal((512, 64)).astype(np.float32)}
    for found, wanted in with_and_without(graph, fetches, feeds):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_column_with_infinity_or_nan_spoils_that_column_alone():
    graph, fetches, feeds = built(sums_of_products, (300, 100))
    x, y, _ = feeds
    feeds[x][3, 7], feeds[x][5, 9], feeds[y][9, 11] = np.nan, np.inf, -np.inf
    for found, wanted in with_and_without(graph, fetches[:3], feeds):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))


@pytest.mark.once
@pytest.mark.named
def test_long_columns_lose_no_more_than_numbers_of_float64_would():
    x = np.random.default_rng(0).uniform(0.5, 1.5, (200_000, 16)).astype(np.float32)
    with Graph().as_default() as graph:
        fed = ops.placeholder("float32", x.shape)
        fetches = [ops.reduce_mean(fed, axis=0), ops.reduce_sum(fed * fed, axis=0)]
    wanted = [x.mean(0, dtype=np.float64), np.square(x, dtype=np.float64).sum(0)]
    for (found, _), true in zip(with_and_without(graph, fetches, {fed: x}), wanted):
        np.testing.assert_allclose(found, true, rtol=1e-6)


@pytest.mark.once
@pytest.mark.named
@pytest.mark.skipif(openmp.runtime() is None, reason="no GNU OpenMP here")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_however_many_threads_share_the_rows_bits_are_the_same(pattern, monkeypatch):
    monkeypatch.setattr(team, "SHARED", 0.0)
    graph, fetches, feeds = built(pattern, (40, 10, 10, 64))
    taken: list[int] = []
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(team, "threads_now", lambda threads=threads: taken.append(threads) or threads)
        with wb.Session(graph=graph) as session:
            results.append([value.tobytes() for value in session.run(fetches, feeds)])
    assert {1, 2, 3} <= set(taken)
    assert results[0] == results[1] == results[2]
