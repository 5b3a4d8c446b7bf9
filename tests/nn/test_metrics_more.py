"""Metrics by thresholds, rank and class against NumPy over all batches; weights; errors."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import metrics
from workbench.core.graph.build import ops

pytestmark = pytest.mark.usefixtures("graph")
RNG = np.random.default_rng(3)
BATCHES = [(RNG.integers(0, 2, n), np.round(RNG.uniform(size=n), 2).astype(np.float32),
            RNG.uniform(0.1, 1, n).astype(np.float32)) for n in (6, 2, 9)]
Y, P, W = (np.concatenate(column) for column in zip(*BATCHES))
AT = [0.2, 0.5, 0.8]


def after(build, batches):
    """(value, what the last update gave) after all batches, each a tuple of arrays."""
    given = [wb.placeholder(wb.as_dtype(a.dtype), [None, *a.shape[1:]]) for a in batches[0]]
    value, update = build(*given)
    with wb.Session() as session:
        session.run(wb.local_variables_initializer())
        for batch in batches:
            last = session.run(update, dict(zip(given, batch)))
        return session.run(value), last


def counts(threshold):
    above, true = threshold < P, Y == 1
    return {key: (W * hit).sum() for key, hit in {
        "tp": above & true, "fp": above & ~true, "tn": ~above & ~true, "fn": ~above & true}.items()}


@pytest.mark.parametrize(("name", "expected"), [
    ("true_positives", lambda c: c["tp"]), ("false_positives", lambda c: c["fp"]), ("true_negatives", lambda c: c["tn"]),
    ("false_negatives", lambda c: c["fn"]), ("precision", lambda c: c["tp"] / (c["tp"] + c["fp"])),
    ("recall", lambda c: c["tp"] / (c["tp"] + c["fn"]))])
def test_thresholds(name, expected):
    metric = getattr(metrics, f"{name}_at_thresholds")
    value, last = after(lambda y, p, w: metric(y, p, AT, weights=w), BATCHES)
    np.testing.assert_allclose(value, [expected(counts(t)) for t in AT], rtol=1e-5)
    np.testing.assert_allclose(last, value)


def test_one_share_where_the_other_is_nearest():
    limits = [-1e-7, *[(i + 1) / 199 for i in range(198)], 1 - 1e-7]
    all_ = [counts(t) for t in np.float32(limits)]
    specificity = np.array([c["tn"] / (c["tn"] + c["fp"]) for c in all_])
    sensitivity = np.array([c["tp"] / (c["tp"] + c["fn"]) for c in all_])
    value, _ = after(lambda y, p, w: metrics.sensitivity_at_specificity(y, p, 0.7, w), BATCHES)
    assert value == pytest.approx(sensitivity[np.abs(specificity - 0.7).argmin()], rel=1e-4)
    value, _ = after(lambda y, p, w: metrics.specificity_at_sensitivity(y, p, 0.7, w), BATCHES)
    away = np.abs(sensitivity - 0.7)      # of several nearest thresholds the last
    assert value == pytest.approx(specificity[len(away) - 1 - away[::-1].argmin()], rel=1e-4)
    with pytest.raises(ValueError, match="specificity must be in the range"):
        metrics.sensitivity_at_specificity([1], [0.5], 2.0)


def test_means():
    x = RNG.normal(size=(2, 3, 2)).astype(np.float32)
    value, last = after(lambda v: metrics.mean_tensor(v[0]), [(x[:1],), (x[1:],)])
    np.testing.assert_allclose(value, x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(last, value)
    value, _ = after(lambda y, p, w: metrics.mean_relative_error(y, p, ops.cast(y, "float32"), w), BATCHES)
    assert value == pytest.approx((W * np.where(Y == 0, 0, np.abs(Y - P))).sum() / W.sum(), rel=1e-5)
    value, _ = after(lambda y, p, w: metrics.percentage_below(p, 0.4, w), BATCHES)
    assert value == pytest.approx((W * (np.float32(0.4) > P)).sum() / W.sum(), rel=1e-5)
    unit = x[0] / np.linalg.norm(x[0], axis=1, keepdims=True)
    value, _ = after(lambda a, b: metrics.mean_cosine_distance(a, b, 1), [(unit, unit[::-1])])
    assert value == pytest.approx(1 - (unit * unit[::-1]).sum(1).mean(), rel=1e-5)


def test_each_class_counts_once():
    labels, found = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    batches = [(labels[:2], found[:2]), (labels[2:], found[2:])]
    value, last = after(lambda a, b: metrics.mean_per_class_accuracy(a, b, 3), batches)
    assert value == pytest.approx((2 / 3 + 1 + 0) / 3) and last.tolist() == pytest.approx([2 / 3, 1, 0])


SCORES = np.array([[0.1, 0.4, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1], [0.0, 0.1, 0.2, 0.7]], np.float32)
LABELS = np.array([[1, 3], [2, 2], [0, 3]])


@pytest.mark.parametrize(("k", "recall", "precision"), [(1, 2 / 5, 2 / 3), (2, 2 / 5, 2 / 6), (3, 4 / 5, 4 / 9)])
def test_labels_among_the_best(k, recall, precision):
    batches = [(LABELS[:1], SCORES[:1]), (LABELS[1:], SCORES[1:])]
    assert after(lambda a, b: metrics.recall_at_k(a, b, k), batches)[0] == pytest.approx(recall)
    assert after(lambda a, b: metrics.sparse_precision_at_k(a, b, k), batches)[0] == pytest.approx(precision)


def test_of_one_class_and_with_weights():
    batches = [(LABELS, SCORES, np.float32([1, 2, 3]))]
    assert after(lambda a, b, w: metrics.recall_at_k(a, b, 1, class_id=3, weights=w), batches)[0] == pytest.approx(3 / 4)
    found, _ = after(lambda a, b, w: metrics.sparse_precision_at_k(a, b, 2, class_id=1, weights=w), batches)
    assert found == pytest.approx(1 / 3)
    assert np.isnan(after(lambda a, b, w: metrics.recall_at_k(a, b, 1, class_id=9), batches)[0])


def test_average_precision():
    value, _ = after(lambda a, b: metrics.sparse_average_precision_at_k(a, b, 3), [(LABELS, SCORES)])
    first, second, third = (1 + 2 / 3) / 2, (1 / 3) / 1, (1 / 1) / 2
    assert value == pytest.approx((first + second + third) / 3)
    sparse = wb.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]], np.array([1, 3, 2, 0, 3]), [3, 2])
    again, _ = after(lambda b: metrics.sparse_average_precision_at_k(sparse, b, 3), [(SCORES,)])
    assert again == pytest.approx(value)


@pytest.mark.parametrize("known", ["neither", "values", "weights"])
@pytest.mark.parametrize(("shape", "given"), [([2, 3], [2, 3, 1]), ([2, 1], [2]), ([3], []), ([4], [4])])
def test_weights_may_have_one_axis_more_or_less_also_where_ranks_are_not_known(shape, given, known):
    x, w = np.arange(1.0, 1 + np.prod(shape)).reshape(shape), np.arange(1.0, 1 + np.prod(given)).reshape(given)
    with wb.Graph().as_default(), wb.Session() as session:
        values = wb.placeholder("float32", shape if known == "values" else None)
        weights = wb.placeholder("float32", given if known == "weights" else None)
        _, update = metrics.mean(values, weights)
        session.run(wb.local_variables_initializer())
        wanted = np.average(x.reshape(-1), weights=np.broadcast_to(w.reshape(-1), x.size))
        assert session.run(update, {values: x, weights: w}) == pytest.approx(wanted)


def test_weights_of_another_rank_are_refused():
    with pytest.raises(ValueError, match="metric: weights can not be broadcast to values"):
        metrics.mean(np.ones((2, 3), np.float32), weights=[1.0, 1.0, 1.0])
