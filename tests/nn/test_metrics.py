"""Metrics over several batches against NumPy over all of them, weighted and not; collections; errors."""
from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as reference

import workbench as wb
from workbench import errors, metrics

pytestmark = pytest.mark.usefixtures("graph")
RNG = np.random.default_rng(8)
BATCHES = [(RNG.integers(0, 2, n), np.round(RNG.uniform(size=n), 2).astype(np.float32),
            RNG.uniform(0.1, 1, n).astype(np.float32)) for n in (6, 1, 9)]
Y, P, WEIGHTS = (np.concatenate(column) for column in zip(*BATCHES))
Q = P > 0.5


def result(build):
    """(value before any batch, after all, what the last update gave)."""
    y, p, w = wb.placeholder("int64", [None]), wb.placeholder("float32", [None]), wb.placeholder("float32", [None])
    value, update = build(y, p, w)
    with wb.Session() as session:
        session.run(wb.local_variables_initializer())
        before = session.run(value)
        for batch in BATCHES:
            last = session.run(update, dict(zip((y, p, w), batch)))
        return before, session.run(value), last


def _mean(values, weights):
    return (values * weights).sum() / weights.sum()


EXPECTED = {
    "accuracy": lambda w: _mean(Y == Q, w), "mean_squared_error": lambda w: _mean((Y - P) ** 2, w),
    "mean_absolute_error": lambda w: _mean(abs(Y - P), w), "root_mean_squared_error": lambda w: _mean((Y - P) ** 2, w) ** 0.5,
    "precision": lambda w: w[(Y == 1) & Q].sum() / w[Q].sum(), "recall": lambda w: w[(Y == 1) & Q].sum() / w[Y == 1].sum(),
    "true_positives": lambda w: w[(Y == 1) & Q].sum(), "false_positives": lambda w: w[(Y == 0) & Q].sum(),
    "true_negatives": lambda w: w[(Y == 0) & ~Q].sum(), "false_negatives": lambda w: w[(Y == 1) & ~Q].sum()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", EXPECTED)
def test_over_all_batches(name: str, weighted: bool):
    def build(y, p, w):
        predictions = p if "error" in name else wb.cast(p > 0.5, "int64")
        return getattr(metrics, name)(y, predictions, w if weighted else None)
    before, after, last = result(build)
    np.testing.assert_allclose(after, EXPECTED[name](WEIGHTS if weighted else np.ones(16)), rtol=1e-5)
    assert before == 0 and last == after


@pytest.mark.parametrize("weighted", [False, True])
def test_area_under_the_curve(weighted: bool):
    weights = WEIGHTS if weighted else None
    _, after, last = result(lambda y, p, w: metrics.auc(y, p, w if weighted else None, num_thresholds=1001))
    assert abs(after - reference.roc_auc_score(Y, P, sample_weight=weights)) < 1e-3 and last == after
    low, mean, high = (result(lambda y, p, w, m=m: metrics.auc(y, p, None, 5, summation_method=m))[1]
                       for m in ("minoring", "trapezoidal", "majoring"))
    assert low < mean < high and abs((low + high) / 2 - mean) < 1e-6
    _, after, _ = result(lambda y, p, w: metrics.auc(y, p, w if weighted else None, num_thresholds=1001, curve="PR"))
    precision, recall, _ = reference.precision_recall_curve(Y, P, sample_weight=weights)
    assert abs(after - reference.auc(recall, precision)) < 1e-3


def test_mean_counts_what_it_saw():
    _, after, last = result(lambda y, p, w: metrics.mean(p, w))
    np.testing.assert_allclose(after, _mean(P, WEIGHTS), rtol=1e-6)
    assert after == last


def test_confusion_and_overlap_of_classes():
    labels, found = np.array([0, 1, 2, 2, 1]), np.array([0, 2, 2, 2, 1])
    expected = reference.confusion_matrix(labels, found)
    value, update = metrics.mean_iou(labels, found, 4)
    with wb.Session() as session:
        np.testing.assert_array_equal(session.run(metrics.confusion_matrix(labels, found)), expected)
        weighed = session.run(metrics.confusion_matrix(labels, found, 4, "float32", weights=[1.0, 2, 3, 4, 5]))
        assert weighed.shape == (4, 4) and weighed[1, 2] == 2 and weighed[2, 2] == 7
        session.run(wb.local_variables_initializer())
        matrix = session.run(update)
        np.testing.assert_array_equal(matrix[:3, :3], expected)
        assert matrix.dtype == np.float64      # counts stay exact beyond 2²⁴
        np.testing.assert_allclose(session.run(value), (1 + 1 / 2 + 2 / 3) / 3, rtol=1e-6)      # class 3 never came


def test_values_and_updates_join_collections():
    value, update = metrics.precision([1, 0], [1, 1], metrics_collections=["m", "n"], updates_collections="u")
    assert wb.get_collection("m") == wb.get_collection("n") == [value] and wb.get_collection("u") == [update]
    assert all(v in wb.local_variables() for v in wb.get_collection(wb.GraphKeys.METRIC_VARIABLES))


def test_what_cannot_be():
    with pytest.raises(errors.ShapeError, match=r"accuracy: labels have shape \[2\] but predictions \[3\]; make them equal"):
        metrics.accuracy([1, 0], [1, 0, 1])
    with pytest.raises(errors.InvalidArgumentError, match="auc: summation_method is 'best'; use one of trapezoidal, minoring"):
        metrics.auc([1], [0.5], summation_method="best")
    with pytest.raises(errors.InvalidArgumentError, match="auc: curve is 'X' and num_thresholds 200; use ROC or PR"):
        metrics.auc([1], [0.5], curve="X")
