"""Metrics of tf.contrib over batches: ranked classes, covariance and correlation, curves, histograms, kept values."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
METRICS = tf.contrib.metrics
RNG = np.random.default_rng(8)


def fed(metric, *columns):
    """(updates batch by batch, value at the end) of a metric over placeholders for the columns [batches, ...]."""
    places = [tf.placeholder(column.dtype, [None, *column.shape[2:]]) for column in columns]
    value, update = metric(*places)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        updates = [session.run(update, dict(zip(places, rows))) for rows in zip(*columns)]
        return updates, session.run(value)


X, W = RNG.normal(size=(3, 20)).astype(np.float32), RNG.uniform(0.1, 2, (3, 20)).astype(np.float32)
Y = (0.5 * X + RNG.normal(size=(3, 20))).astype(np.float32)


def test_covariance_and_correlation_are_those_of_all_values():
    updates, value = fed(METRICS.streaming_covariance, X, Y)
    wanted = [np.cov(X[:n].ravel(), Y[:n].ravel())[0, 1] for n in (1, 2, 3)]
    np.testing.assert_allclose([*updates, value], [*wanted, wanted[-1]], rtol=1e-4)
    updates, value = fed(METRICS.streaming_pearson_correlation, X, Y)
    wanted = [np.corrcoef(X[:n].ravel(), Y[:n].ravel())[0, 1] for n in (1, 2, 3)]
    np.testing.assert_allclose([*updates, value], [*wanted, wanted[-1]], rtol=1e-4)
    _, value = fed(METRICS.streaming_covariance, X, Y, W)
    p, q, w = X.ravel(), Y.ravel(), W.ravel()
    wanted = (w * (p - np.average(p, weights=w)) * (q - np.average(q, weights=w))).sum() / (w.sum() - 1)
    np.testing.assert_allclose(value, wanted, rtol=1e-4)
    updates, _ = fed(METRICS.streaming_covariance, X[:, :1], Y[:, :1])
    assert np.isnan(updates[0]) and np.isfinite(updates[1])


def test_classes_that_are_ranked_already():
    scores, labels = RNG.normal(size=(2, 5, 6)).astype(np.float32), RNG.integers(0, 6, (2, 5, 2))
    best = np.argsort(-scores, axis=-1)[..., :3]
    for given, ranked in ((METRICS.streaming_sparse_precision_at_k, METRICS.streaming_sparse_precision_at_top_k),
                          (METRICS.streaming_sparse_average_precision_at_k,
                           METRICS.streaming_sparse_average_precision_at_top_k)):
        wanted, found = fed(lambda p, y, m=given: m(p, y, k=3), scores, labels), fed(ranked, best, labels)
        np.testing.assert_allclose([*wanted[0], wanted[1]], [*found[0], found[1]])
    wanted = fed(lambda p, y: METRICS.streaming_sparse_recall_at_k(p, y, 3), scores, labels)
    found = fed(METRICS.sparse_recall_at_top_k, labels, best)
    np.testing.assert_allclose([*wanted[0], wanted[1]], [*found[0], found[1]])
    rows = [len(set(a) & set(b)) / len(set(a)) * len(set(a)) for a, b in zip(labels.reshape(-1, 2), best.reshape(-1, 3))]
    np.testing.assert_allclose(found[1], sum(rows) / sum(len(set(a)) for a in labels.reshape(-1, 2)))


TRUTH, SCORES = RNG.integers(0, 2, (3, 30)).astype(bool), RNG.uniform(size=(3, 30)).astype(np.float32)


@pytest.mark.parametrize("curve", ["ROC", "PR"])
def test_points_of_curves(curve: str):
    _, points = fed(lambda y, p: METRICS.streaming_curve_points(y, p, num_thresholds=5, curve=curve), TRUTH, SCORES)
    assert points.shape == (5, 2)
    for (first, second), limit in zip(points[1:-1], (0.25, 0.5, 0.75)):
        above, truth = limit < SCORES, TRUTH
        recall = (above & truth).sum() / truth.sum()
        wanted = [(above & ~truth).sum() / (~truth).sum(), recall] if curve == "ROC" else [
            recall, (above & truth).sum() / above.sum()]
        np.testing.assert_allclose([first, second], wanted, rtol=1e-4)
    with pytest.raises(ValueError, match="curve must be either ROC or PR, AB unknown"):
        METRICS.streaming_curve_points(TRUTH[0], SCORES[0], curve="AB")


def test_the_area_by_histograms():
    area, update = METRICS.auc_using_histogram(tf.constant(TRUTH[0]), tf.constant(SCORES[0]), [0.0, 1.0])
    assert isinstance(update, tf.Operation)
    with tf.Session():
        tf.local_variables_initializer().run()
        update.run()
        assert 0.0 < area.eval() < 1.0
    _, value = fed(lambda y, p: METRICS.auc_using_histogram(y, p, [0.0, 1.0], nbins=500), TRUTH, SCORES)
    high, low = SCORES[TRUTH], SCORES[~TRUTH]
    wanted = ((high[:, None] > low).mean() + 0.5 * (high[:, None] == low).mean())
    np.testing.assert_allclose(value, wanted, atol=0.01)


def test_values_are_kept_one_behind_the_other():
    rows = np.arange(18.0, dtype=np.float32).reshape(3, 3, 2)
    updates, value = fed(METRICS.streaming_concat, rows)
    assert [u.shape for u in updates] == [(3, 2), (6, 2), (9, 2)] and (value == rows.reshape(9, 2)).all()
    _, value = fed(lambda x: METRICS.streaming_concat(x, max_size=4), rows)
    assert (value == rows.reshape(9, 2)[:4]).all()
    value, update = METRICS.streaming_concat(tf.constant([[1, 2], [3, 4]]), axis=1)
    assert value.shape.as_list() == update.shape.as_list() == [2, None]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run(update)
        assert session.run(update).tolist() == [[1, 2, 1, 2], [3, 4, 3, 4]]
    with pytest.raises(errors.ShapeError, match="axis is 2; give one of theirs"):
        METRICS.streaming_concat(np.zeros((2, 2)), axis=2)
    with pytest.raises(errors.ShapeError, match="the dimensions other than 0 must be known"):
        METRICS.streaming_concat(tf.placeholder(tf.float32, [None, None]))


def test_percentages_by_their_older_name():
    _, value = fed(lambda x: METRICS.streaming_percentage_less(x, 0.5), SCORES)
    np.testing.assert_allclose(value, (SCORES < 0.5).mean(), rtol=1e-6)


def test_shares_of_what_is_wrong():
    labels, found = np.array([[1, 0, 0, 1], [0, 0, 1, 1]]), np.array([[1, 1, 0, 0], [0, 1, 0, 1]])
    for metric, expected in ((METRICS.streaming_false_positive_rate, 2 / 4), (METRICS.streaming_false_negative_rate, 2 / 4)):
        updates, value = fed(metric, found, labels)
        assert value == updates[-1] == pytest.approx(expected)
    weights = np.float32([[1, 3, 1, 1], [0, 0, 0, 0]])
    _, value = fed(METRICS.streaming_false_positive_rate, found, labels, weights)
    assert value == pytest.approx(3 / 4)
    assert fed(METRICS.streaming_false_positive_rate, found[:, :0], labels[:, :0])[1] == 0
    scores = np.float32([[0.9, 0.6, 0.2, 0.4], [0.1, 0.8, 0.3, 0.7]])
    _, value = fed(lambda p, y: METRICS.streaming_false_positive_rate_at_thresholds(p, y, [0.5, 0.7]), scores, labels)
    assert value == pytest.approx([2 / 4, 1 / 4], rel=1e-5)
    _, value = fed(lambda p, y: METRICS.streaming_false_negative_rate_at_thresholds(p, y, [0.5, 0.95]), scores, labels)
    assert value == pytest.approx([2 / 4, 1], rel=1e-5)


def test_a_last_dimension_of_one_is_no_difference():
    labels, found = np.array([[1, 0, 1]]), np.array([[[1], [1], [1]]])
    weights = np.float32([[1, 1, 2]])
    for metric in (tf.metrics.accuracy, tf.metrics.precision):
        assert fed(metric, labels, found)[1] == pytest.approx(2 / 3)
        assert fed(metric, labels[..., None], found[..., 0])[1] == pytest.approx(2 / 3)
        for more in (weights, weights[..., None]):
            assert fed(metric, labels, found, more)[1] == pytest.approx(3 / 4)
    assert fed(tf.metrics.mean, np.float32([[[1, 3], [5, 7]]]), np.float32([[1, 0]]))[1] == 2
    with pytest.raises(ValueError, match="make them equal"):
        tf.metrics.accuracy([1, 2, 3], [1, 2])


def test_labels_may_be_sparse_values():
    labels = tf.SparseTensorValue(np.array([[0, 0], [1, 0]]), np.array([3, 1]), np.array([2, 1]))
    best = tf.constant([[3, 0], [2, 0]], tf.int64)
    value, update = METRICS.streaming_sparse_precision_at_top_k(best, labels)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update) == session.run(value) == 0.25


def test_means_of_each_element_take_values_and_weights():
    values, weights = (tf.placeholder(tf.float32, [2]) for _ in range(2))
    plain, weighted = METRICS.streaming_mean_tensor(values), METRICS.streaming_mean_tensor(values, weights)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for row, scale in (([1, 2], [1, 1]), ([3, 6], [3, 0])):
            session.run([plain[1], weighted[1]], {values: row, weights: scale})
        assert [session.run(plain[0]).tolist(), session.run(weighted[0]).tolist()] == [[2, 4], [2.5, 2]]


def test_labels_that_are_no_class_are_not_found():
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.int64([-1, 2, 7]), [2, 2])
    scores = tf.constant([[0.1, 0.2, 0.9], [0.8, 0.1, 0.3]])
    value, update = METRICS.streaming_sparse_recall_at_k(scores, labels, 1)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update) == session.run(value) == pytest.approx(1 / 3)


def test_words_are_kept_along_the_last_axis_too():
    x = tf.placeholder(tf.string, [2, None])
    value, update = METRICS.streaming_concat(x, axis=-1)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for row in ([["a"], ["b"]], [["c", "d"], ["e", "f"]]):
            session.run(update, {x: row})
        assert session.run(value).tolist() == [[b"a", b"c", b"d"], [b"b", b"e", b"f"]]
