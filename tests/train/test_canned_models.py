"""The models of ready estimators: how fast they learn, what they show, and as functions of programs; a cluster of one task."""
from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from workbench.tf1.python.estimator.canned import dnn, dnn_linear_combined, linear, optimizers

import workbench.tf1 as tf

X, Y = np.float32([[1.0], [2.0], [-1.0]]), np.float32([[3.0], [1.0], [0.5]])
SLOPE = float((2 * Y * X).sum())      # minus the gradient of the sum of squares at weights of 0
TRAIN = tf.estimator.ModeKeys.TRAIN


def columns(count=1):
    return [tf.feature_column.numeric_column(f"x{i:02}") for i in range(count)]


def batch(count=1):
    return {f"x{i:02}": tf.constant(X) for i in range(count)}, tf.constant(Y)


@pytest.mark.parametrize("make, rate, count", [
    (lambda c: tf.estimator.LinearRegressor(c, optimizer="SGD"), 0.2, 30),
    (lambda c: tf.estimator.DNNLinearCombinedRegressor(linear_feature_columns=c, linear_optimizer="SGD"), 0.005, 30)])
def test_an_optimizer_of_a_name_learns_as_fast_as_tensorflows(make, rate, count):
    made = make(columns(count)).train(lambda: batch(count), steps=1)
    weights = made.get_variable_value("linear/linear_model/x07/weights")
    assert weights == pytest.approx(rate * SLOPE, rel=1e-5)


def test_the_network_beside_a_linear_model_learns_at_a_thousandth():
    made = tf.estimator.DNNLinearCombinedRegressor(dnn_feature_columns=columns(), dnn_hidden_units=[2], dnn_optimizer="SGD")
    made.train(lambda: batch(), steps=1)
    before = made.get_variable_value("dnn/logits/bias")
    outputs = np.stack([one["predictions"] for one in itertools.islice(made.predict(lambda: batch()[0]), 3)])
    made.train(lambda: batch(), steps=1)
    assert made.get_variable_value("dnn/logits/bias") == pytest.approx(before + 0.001 * (2 * (Y - outputs)).sum(), rel=1e-4)


def test_layers_are_shown_in_summaries(tmp_path):
    made = tf.estimator.DNNLinearCombinedRegressor(str(tmp_path), columns(), "SGD", columns(), "SGD", [2])
    made.train(lambda: batch(), steps=1)
    [file] = tmp_path.glob("events*")
    tags = {value.tag for event in tf.train.summary_iterator(str(file)) for value in event.summary.value}
    assert tags >= {f"{part}/{kind}" for part in ("dnn/dnn/hiddenlayer_0", "dnn/dnn/logits", "linear/linear")
                    for kind in ("fraction_of_zero_values", "activation")}


@pytest.mark.usefixtures("graph")
def test_model_functions_of_programs():
    features, labels = batch()
    tf.train.create_global_step()
    head = tf.contrib.estimator.regression_head()
    spec = linear._linear_model_fn(features, labels, TRAIN, head, columns(), "SGD", None, None)
    deep = dnn._dnn_model_fn(features, labels, TRAIN, head, [2], columns(), optimizer=tf.train.GradientDescentOptimizer(0.1))
    outputs = dnn._dnn_logit_fn_builder([1, 3], [2], columns(), tf.nn.relu, None, None)(features=features, mode=TRAIN)
    assert [one.shape.as_list() for one in outputs] == [[3, 1], [3, 3]]
    assert linear._linear_logit_fn_builder(2, columns())(features=features).shape.as_list() == [3, 2]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(spec.loss) == pytest.approx((Y ** 2).sum(), rel=1e-5)
        session.run([spec.train_op, deep.train_op])
        assert session.run(tf.train.get_global_step()) == 2


@pytest.mark.usefixtures("graph")
def test_what_model_functions_refuse():
    head, sync = tf.contrib.estimator.regression_head(), tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(), 2)
    both = dnn_linear_combined._dnn_linear_combined_model_fn
    for bad, words in (
            (lambda: linear._linear_model_fn(X, None, TRAIN, head, columns(), "SGD", None, None), "features should be"),
            (lambda: both(batch()[0], batch()[1], TRAIN, head), "Either linear_feature_columns or dnn_feature_columns"),
            (lambda: both(*batch(), TRAIN, head, columns(), sync), "does not support multi optimizers"),
            (lambda: both(*batch(), TRAIN, head, dnn_feature_columns=columns()), "dnn_hidden_units must be defined"),
            (lambda: dnn._dnn_logit_fn_builder("3", [2], columns(), None, None, None), "units must be an int or list"),
            (lambda: optimizers.get_optimizer_instance("Best", learning_rate=1.0), "Unsupported optimizer name: Best"),
            (lambda: optimizers.get_optimizer_instance("Adam"), "learning_rate must be specified when opt is string"),
            (lambda: optimizers.get_optimizer_instance((1, 2)), "given object is not an Optimizer instance")):
        with pytest.raises(ValueError, match=words):
            bad()


@pytest.mark.parametrize("kind", ["chief", "master"])
def test_the_only_task_of_a_cluster_trains_by_itself(monkeypatch, tmp_path, kind):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {kind: ["host:1"]}, "task": {"type": kind, "index": 0}}))
    made = tf.estimator.LinearRegressor(columns(), str(tmp_path))
    assert (made.config.master, made.config.is_chief, made.config.num_worker_replicas) == ("", True, 1)
    tf.estimator.train_and_evaluate(made, tf.estimator.TrainSpec(lambda: batch(), 2), tf.estimator.EvalSpec(lambda: batch(), 1))
    assert made.get_variable_value("global_step") == 2
