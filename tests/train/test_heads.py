"""Heads of tf.contrib.learn: predictions, losses, metrics and steps from the outputs of a model."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 5
LEARN = tf.contrib.learn
TRAIN, EVAL, INFER = LEARN.ModeKeys.TRAIN, LEARN.ModeKeys.EVAL, LEARN.ModeKeys.INFER


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def entropy(labels, logits):
    return -np.log(np.where(np.asarray(labels) > 0, sigmoid(logits), 1 - sigmoid(logits)))


def evaluated(made):
    """(loss, metrics) of one batch."""
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        loss = session.run(made.loss)
        session.run([update for _, update in made.eval_metric_ops.values()])
        return loss, {key: session.run(value) for key, (value, _) in made.eval_metric_ops.items()}


def test_numbers_are_scores_and_their_losses_squares():
    logits, labels = [[1.0], [3.0], [2.0]], [[0.0], [1.0], [4.0]]
    made = LEARN.regression_head().create_model_fn_ops({}, EVAL, labels, None, logits)
    loss, found = evaluated(made)
    assert loss == pytest.approx(3.0) and found == {"loss": pytest.approx(3.0)}
    scores = LEARN.regression_head().create_model_fn_ops({}, INFER, None, None, logits)
    assert scores.loss is None and scores.predictions["scores"].shape.as_list() == [3]
    assert scores.output_alternatives[None][0] == LEARN.ProblemType.LINEAR_REGRESSION
    wide = LEARN.regression_head(label_dimension=2).create_model_fn_ops({}, INFER, None, None, np.ones((3, 2), np.float32))
    assert wide.predictions["scores"].shape.as_list() == [3, 2]


def test_weights_make_a_mean_for_training_and_an_average_for_reports():
    head = LEARN.regression_head(weight_column_name="w")
    made = head.create_model_fn_ops({"w": np.float32([2, 0, 1])}, EVAL, [0.0, 1.0, 4.0], None, [[1.0], [3.0], [2.0]])
    loss, found = evaluated(made)
    assert loss == pytest.approx((2 * 1 + 4) / 3) and found["loss"] == pytest.approx((2 * 1 + 4) / 3)


def test_counts_are_exponentials():
    logits, labels = np.float32([[0.0], [1.0], [-1.0]]), np.float32([[1], [2], [0]])
    made = LEARN.poisson_regression_head().create_model_fn_ops({}, EVAL, labels, None, logits)
    factorials = np.array([[0.0], [2 * np.log(2) - 2 + 0.5 * np.log(4 * np.pi)], [0.0]])
    loss, _ = evaluated(made)
    assert loss == pytest.approx(np.mean(np.exp(logits) - labels * logits + factorials), rel=1e-5)
    with tf.Session() as session:
        assert session.run(made.predictions["scores"]) == pytest.approx(np.exp(logits[:, 0]), rel=1e-6)


def test_two_classes_are_judged_at_thresholds():
    logits, labels = np.float32([[1.0], [-2.0], [0.5], [-0.25]]), [1, 0, 0, 1]
    head = LEARN.multi_class_head(2, thresholds=[0.4, 0.9])
    made = head.create_model_fn_ops({}, EVAL, labels, None, logits)
    loss, found = evaluated(made)
    assert loss == pytest.approx(entropy(np.transpose([labels]), logits).mean(), rel=1e-5)
    assert found["accuracy"] == 0.5 and found["labels/actual_label_mean"] == found["accuracy/baseline_label_mean"] == 0.5
    assert found["labels/prediction_mean"] == pytest.approx(sigmoid(logits).mean(), rel=1e-5)
    assert found["accuracy/threshold_0.400000_mean"] == 0.75 and found["accuracy/threshold_0.900000_mean"] == 0.5
    assert found["precision/positive_threshold_0.400000_mean"] == pytest.approx(2 / 3, rel=1e-4)
    assert found["recall/positive_threshold_0.400000_mean"] == 1 and found["recall/positive_threshold_0.900000_mean"] == 0
    assert found["auc"] == pytest.approx(0.75, abs=0.01) and 0.5 < found["auc_precision_recall"] < 1
    classes = made.predictions["classes"]
    with tf.Session() as session:
        assert session.run(classes).tolist() == [1, 0, 1, 0]


def test_one_of_several_classes_by_number_or_word():
    logits = np.float32([[2, 0, 0], [0, 1, 0], [0, 3, 0]])
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    made = LEARN.multi_class_head(3, metric_class_ids=[1]).create_model_fn_ops({}, EVAL, [[0], [1], [2]], None, logits)
    loss, found = evaluated(made)
    assert loss == pytest.approx(-np.log(shares[range(3), range(3)]).mean(), rel=1e-5)
    assert found["accuracy"] == pytest.approx(2 / 3) and found["labels/prediction_mean/class1"] == pytest.approx(2 / 3)
    assert found["labels/actual_label_mean/class1"] == pytest.approx(1 / 3)
    assert found["labels/probability_mean/class1"] == pytest.approx(shares[:, 1].mean(), rel=1e-5)
    assert found["labels/logits_mean/class1"] == pytest.approx(4 / 3, rel=1e-5)
    named = LEARN.multi_class_head(3, label_keys=["low", "mid", "high"], head_name="size").create_model_fn_ops(
        {}, EVAL, ["low", "mid", "high"], None, logits)
    other, words = evaluated(named)
    assert other == pytest.approx(loss) and words["accuracy/size"] == pytest.approx(2 / 3)
    _, exported = named.output_alternatives["size"]
    with tf.Session() as session:
        assert session.run(named.predictions["classes"]).tolist() == [b"low", b"mid", b"mid"]
        assert session.run(exported["classes"]).tolist() == [[b"low", b"mid", b"high"]] * 3


def test_any_number_of_classes():
    logits, labels = np.float32([[1, -1, 2], [-1, 1, -2]]), np.int64([[1, 0, 0], [0, 1, 1]])
    made = LEARN.multi_label_head(3, metric_class_ids=[2]).create_model_fn_ops({}, EVAL, labels, None, logits)
    loss, found = evaluated(made)
    assert loss == pytest.approx(entropy(labels, logits).mean(), rel=1e-5) and found["accuracy"] == pytest.approx(4 / 6)
    assert found["labels/prediction_mean/class2"] == 0.5 and found["labels/actual_label_mean/class2"] == 0.5
    sparse = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], np.int64([0, 1, 2]), [2, 2])
    again = LEARN.multi_label_head(3).create_model_fn_ops({}, EVAL, sparse, None, logits)
    assert evaluated(again)[0] == pytest.approx(loss)


def test_margins_are_hinged():
    made = LEARN.binary_svm_head().create_model_fn_ops({}, EVAL, [1, 0, 0], None, [[0.5], [-3.0], [1.0]])
    loss, found = evaluated(made)
    assert loss == pytest.approx((0.5 + 0 + 2) / 3) and found["accuracy"] == pytest.approx(2 / 3)
    assert set(made.predictions) == {"logits", "classes"}


def test_a_step_trains_the_model_and_its_centered_bias():
    x = tf.get_variable("x", [], initializer=tf.zeros_initializer())
    head = LEARN.regression_head(enable_centered_bias=True, head_name="price")
    made = head.create_model_fn_ops({}, TRAIN, [[3.0], [5.0]],
                                    tf.train.GradientDescentOptimizer(0.1).minimize, tf.ones([2, 1]) * x)
    bias = next(v for v in tf.trainable_variables() if v.op.name == "price/centered_bias_weight")
    tags = {t.op.attrs["tag"] for t in tf.get_collection(tf.GraphKeys.SUMMARIES)}
    assert tags >= {"loss/price", "price/centered_bias/bias_0/price"}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(made.train_op)
        assert session.run(x) == pytest.approx(0.8) and session.run(bias)[0] > 0.08


def test_the_last_layer_may_be_the_heads():
    head = LEARN.multi_class_head(3)
    made = head.create_model_fn_ops({}, INFER, logits_input=np.ones((2, 5), np.float32))
    assert made.predictions["logits"].shape.as_list() == [2, 3]
    assert [v.shape.as_list() for v in tf.trainable_variables("multi_class_head/logits")] == [[5, 3], [3]]


def test_several_heads_on_one_model():
    heads = [LEARN.regression_head("size", head_name="size"), LEARN.multi_class_head(2, "kind", head_name="kind"),
             LEARN.head.loss_only_head(lambda: [tf.constant(10.0), tf.constant(2.0)], "rules")]
    both = LEARN.multi_head(heads, [1.0, 2.0, 0.5])
    assert both.logits_dimension == 2
    logits, labels = np.float32([[1, 2], [3, -1]]), {"size": [0.0, 1.0], "kind": [1, 0]}
    made = both.create_model_fn_ops({}, EVAL, labels, None, logits)
    loss, found = evaluated(made)
    kinds = entropy([1, 0], [2, -1]).mean()
    assert loss == pytest.approx(2.5 + 2 * kinds + 6, rel=1e-5) and found["loss/size"] == pytest.approx(2.5)
    assert found["accuracy/kind"] == 1 and ("kind", "classes") in made.predictions
    told = both.create_model_fn_ops({}, INFER, None, None, {"size": logits[:, :1], "kind": logits[:, 1:]})
    assert set(told.output_alternatives) == {"size", "kind"} and told.loss is None
    trained = both.create_model_fn_ops({}, TRAIN, labels, LEARN.no_op_train_fn, logits)
    assert trained.predictions is None and trained.train_op is not None


def own(labels, logits, weights=None):
    return tf.reduce_sum(tf.cast(labels, tf.float32) * logits)


def test_a_loss_of_ones_own():
    made = LEARN.multi_class_head(2, loss_fn=own).create_model_fn_ops({}, EVAL, [1, 1], None, [[2.0], [3.0]])
    assert evaluated(made)[0] == 5


def call(head, mode=EVAL, labels=(0.0,), **given):
    return head.create_model_fn_ops(given.pop("features", {}), mode, labels, **given)


ONE = [[1.0]]


@pytest.mark.parametrize(("action", "text"), [
    (lambda: LEARN.multi_class_head(1), "n_classes must be > 1 for classification: 1."),
    (lambda: LEARN.multi_class_head(2, metric_class_ids=[0]), "metric_class_ids invalid for n_classes==2."),
    (lambda: LEARN.multi_class_head(2, label_keys=["a", "b"]), "label_keys is not supported for n_classes=2."),
    (lambda: LEARN.multi_class_head(3, label_keys=["a", "b"]), "Length of label_keys must equal n_classes."),
    (lambda: LEARN.multi_class_head(3, metric_class_ids=[3]), "Class ID 3 not in [0, 3)."),
    (lambda: LEARN.multi_class_head(3, loss_fn=lambda labels, logits: 0), "Argument weights not found in loss_fn."),
    (lambda: LEARN.multi_label_head(1), "n_classes must be > 1 for classification."),
    (lambda: LEARN.regression_head(label_dimension=0), "Invalid logits_dimension 0."),
    (lambda: LEARN.multi_head([LEARN.regression_head()]), "Members of MultiHead must have names."),
    (lambda: LEARN.multi_head([LEARN.regression_head(head_name="a")], [1, 2]), "heads and loss_weights must have same size"),
    (lambda: call(LEARN.regression_head(), "some", logits=ONE), "mode=some unrecognized."),
    (lambda: call(LEARN.regression_head()), "Neither logits nor logits_input supplied."),
    (lambda: call(LEARN.regression_head(), logits=ONE, logits_input=ONE), "Both logits and logits_input supplied."),
    (lambda: call(LEARN.regression_head(), logits=[[1.0, 2.0]]), "Dimensions 2 and 1 are not compatible"),
    (lambda: call(LEARN.regression_head(), labels=[[1.0, 2.0]], logits=ONE), "Shapes [1,1] and [1,2] are incompatible"),
    (lambda: call(LEARN.regression_head(), TRAIN, logits=ONE), "train_op_fn can not be None in TRAIN mode."),
    (lambda: call(LEARN.regression_head(weight_column_name="w"), logits=ONE), "Weights w missing from features."),
    (lambda: call(LEARN.multi_class_head(3), labels=[0.5], logits=[[1.0, 2.0, 3.0]]), "Labels dtype should be integer"),
    (lambda: call(LEARN.multi_class_head(2), labels=tf.SparseTensor([[0, 0]], [1], [1, 1]), logits=ONE),
     "SparseTensor is not supported.")])
def test_what_heads_refuse(action, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        action()
