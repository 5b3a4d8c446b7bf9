"""Heads of tf.estimator and tf.contrib.estimator: losses, metrics, predictions, what is served, several at once."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.python.estimator.canned import head as canned_head
from workbench.tf1.python.estimator.canned import metric_keys, prediction_keys

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
HEADS = tf.contrib.estimator
TRAIN, EVAL, PREDICT = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT
LOGITS = np.float32([[1.0], [-2.0], [0.5], [-0.25]])
LABELS = np.int64([[1], [0], [0], [1]])


def entropy(labels, logits):
    return np.log1p(np.exp(logits)) - labels * logits


def started(session):
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])


def measured(spec):
    """(loss, metrics) of one batch; value and update agree."""
    with tf.Session() as session:
        started(session)
        loss = session.run(spec.loss)
        updates = session.run({key: update for key, (_, update) in spec.eval_metric_ops.items()})
        values = session.run({key: value for key, (value, _) in spec.eval_metric_ops.items()})
    for key, value in values.items():
        assert value == pytest.approx(updates[key], abs=1e-6), key
    return loss, values


def test_two_classes_by_weights_and_thresholds():
    weights = np.float32([[1], [2], [3], [4]])
    head = HEADS.binary_classification_head(weight_column="w", thresholds=[0.4, 0.9], name="h")
    spec = head.create_estimator_spec({"w": tf.constant(weights)}, EVAL, tf.constant(LOGITS), tf.constant(LABELS))
    loss, found = measured(spec)
    each, shares = entropy(LABELS, LOGITS), 1 / (1 + np.exp(-LOGITS))
    assert loss == pytest.approx((each * weights).sum(), rel=1e-5)
    above, right = shares >= 0.4, lambda said: (weights * (said == LABELS)).sum() / weights.sum()
    wanted = {
        "average_loss": (each * weights).sum() / weights.sum(), "accuracy": right(LOGITS > 0), "label/mean": 0.5,
        "prediction/mean": (shares * weights).sum() / weights.sum(), "accuracy_baseline": 0.5,
        "accuracy/positive_threshold_0.4": right(above), "accuracy/positive_threshold_0.9": right(shares >= 0.9),
        "precision/positive_threshold_0.4": (weights * above * LABELS).sum() / (weights * above).sum(),
        "precision/positive_threshold_0.9": 0, "recall/positive_threshold_0.4": 1, "recall/positive_threshold_0.9": 0}
    assert set(found) == {f"{key}/h" for key in [*wanted, "auc", "auc_precision_recall"]}
    for key, value in wanted.items():
        assert found[f"{key}/h"] == pytest.approx(value, abs=1e-5), key
    assert metric_keys.MetricKeys.AUC_PR == "auc_precision_recall" and prediction_keys.PredictionKeys.CLASS_IDS == "class_ids"


def test_more_classes_by_words_predictions_and_what_is_served():
    head = canned_head._multi_class_head_with_softmax_cross_entropy_loss(3, label_vocabulary=["a", "b", "c"])
    logits = np.float32([[2, 0, 0], [0, 0, 3]])
    spec = head.create_estimator_spec({}, EVAL, tf.constant(logits), tf.constant([["b"], ["c"]]))
    loss, found = measured(spec)
    each = np.log(np.exp(logits).sum(1)) - logits[[0, 1], [1, 2]]
    assert loss == pytest.approx(each.sum(), rel=1e-5) and found["average_loss"] == pytest.approx(each.mean(), rel=1e-5)
    assert found["accuracy"] == 0.5 and set(found) == {"accuracy", "average_loss"}
    served = head.create_estimator_spec({}, PREDICT, tf.constant(logits))
    with tf.Session() as session:
        made = session.run(served.predictions)
    assert made["classes"].tolist() == [[b"a"], [b"c"]] and made["class_ids"].tolist() == [[0], [2]]
    assert set(served.export_outputs) == {"serving_default", "classification", "predict"}
    unweighted, ids = head.create_loss({}, TRAIN, tf.constant(logits), tf.constant(["b", "c"]))
    with tf.Session() as session:
        found = session.run([unweighted, ids])
    np.testing.assert_allclose(found[0], each[:, None], rtol=1e-5)
    assert found[1].tolist() == [[1], [2]]


def test_labels_out_of_range_and_of_another_width_are_refused():
    head = HEADS.multi_class_head(3)
    labels = tf.placeholder(tf.int64, [None, 1])
    spec = head.create_estimator_spec({}, TRAIN, tf.zeros([2, 3]), labels, lambda loss: tf.no_op())
    with tf.Session() as session:
        for wrong, told in (([[0], [3]], "Label IDs must < n_classes"), ([[0], [-1]], "Label IDs must >= 0")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=told):
                session.run(spec.loss, {labels: wrong})
    for wrong, told in ((lambda: HEADS.multi_class_head(2), "n_classes must be > 2"),
                        (lambda: HEADS.binary_classification_head(thresholds=[1.0]), r"thresholds not in \(0, 1\)"),
                        (lambda: HEADS.regression_head(label_dimension=0), "Invalid label_dimension 0"),
                        (lambda: head.create_estimator_spec({}, PREDICT, tf.zeros([2, 4])), "logits shape must be"),
                        (lambda: head.create_estimator_spec({}, EVAL, tf.zeros([2, 3]), tf.zeros([2, 2], tf.int64)),
                         "Mismatched label shape"),
                        (lambda: head.create_estimator_spec({}, EVAL, tf.zeros([2, 3]), tf.zeros([2, 1])),
                         "Labels dtype should be integer"),
                        (lambda: head.create_estimator_spec({}, TRAIN, tf.zeros([2, 3]), tf.zeros([2, 1], tf.int64)),
                         "train_op_fn can not be None")):
        with pytest.raises(ValueError, match=told):
            wrong()
    with pytest.raises(TypeError, match="Weight column must be either a string or _NumericColumn"):
        HEADS.regression_head(weight_column=3).create_estimator_spec({}, EVAL, tf.zeros([2, 1]), tf.zeros([2, 1]))


def test_any_number_of_classes_dense_and_sparse():
    logits, labels = np.float32([[1, -1], [-2, 0.5]]), np.int64([[1, 0], [1, 1]])
    each = entropy(labels, logits).mean(1)
    words = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["x", "y", "x"], [2, 2])
    for given, more in ((tf.constant(labels), {}), (words, {"label_vocabulary": ["x", "y"]})):
        spec = HEADS.multi_label_head(2, **more).create_estimator_spec({}, EVAL, tf.constant(logits), given)
        loss, found = measured(spec)
        assert loss == pytest.approx(each.sum(), rel=1e-5) and found["average_loss"] == pytest.approx(each.mean(), rel=1e-5)
        assert set(found) == {"auc", "auc_precision_recall", "average_loss"}


def test_several_heads_are_one():
    one, two = HEADS.regression_head(name="one", label_dimension=2), HEADS.binary_classification_head(name="two")
    both = HEADS.multi_head([one, two], head_weights=[1.0, 0.5])
    logits = {"one": tf.constant(np.float32([[1, 2]])), "two": tf.constant([[0.0]])}
    labels = {"one": tf.constant(np.float32([[0, 0]])), "two": tf.constant([[1]])}
    assert both.logits_dimension == 3 and both.name == "one_two"
    loss, found = measured(both.create_estimator_spec({}, EVAL, logits, labels))
    assert loss == pytest.approx(5 + 0.5 * np.log(2), rel=1e-6) and found["average_loss/one"] == 2.5 and "auc/two" in found
    served = both.create_estimator_spec({}, PREDICT, logits)
    assert ("two", "logistic") in served.predictions
    assert {"serving_default", "predict", "predict/one", "classification/two"} <= set(served.export_outputs)
    for wrong, told in (([], "Must specify heads"), ([HEADS.regression_head()], "must have name specified"),
                        ([one, one], "unique names")):
        with pytest.raises(ValueError, match=told):
            HEADS.multi_head(wrong)


def data(repeat=1):
    x = np.float32([[0.0], [1.0], [2.0], [3.0]])
    return tf.estimator.inputs.numpy_input_fn({"x": x, "id": np.arange(4)}, x[:, 0] * 2, 2, repeat, shuffle=False)


def test_estimators_over_heads_measure_more_and_let_features_through(tmp_path):
    column = tf.feature_column.numeric_column("x")
    optimizer = HEADS.clip_gradients_by_norm(tf.train.AdagradOptimizer(0.1), 1.0)
    made = HEADS.DNNEstimator(HEADS.regression_head(), [4], [column], str(tmp_path), optimizer)
    made.train(data(3))
    more = HEADS.add_metrics(made, lambda labels, predictions: {
        "mae": tf.metrics.mean_absolute_error(labels, predictions["predictions"][:, 0])})
    found = more.evaluate(data())
    assert set(found) == {"average_loss", "global_step", "loss", "mae"} and found["global_step"] == 6
    rows = list(HEADS.forward_features(made, "id").predict(data()))
    assert [row["id"] for row in rows] == [0, 1, 2, 3] and set(rows[0]) == {"id", "predictions"}
    with pytest.raises(ValueError, match="not expected args"):
        HEADS.add_metrics(made, lambda labels, other: {})
    with pytest.raises(TypeError, match="keys should be either a string or a list of strings"):
        HEADS.forward_features(made, [1])
    with pytest.raises(ValueError, match="keys should be exist in features"):
        list(HEADS.forward_features(made, "y").predict(data()))


def test_gradients_are_cut_together():
    x = tf.Variable([3.0, 4.0])
    step = HEADS.clip_gradients_by_norm(tf.train.GradientDescentOptimizer(1.0), 1.0).minimize(tf.reduce_sum(x * [3.0, 4.0]))
    with tf.Session() as session:
        started(session)
        session.run(step)
        np.testing.assert_allclose(session.run(x), [3 - 0.6, 4 - 0.8], rtol=1e-6)
