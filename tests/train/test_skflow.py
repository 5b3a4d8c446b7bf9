"""The first tf.contrib.learn: models of (x, y), their estimators and parts."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

learn = tf.contrib.learn


def flowers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    return np.eye(3)[y] * 2 + rng.normal(size=(120, 3)) * 0.3, y


def test_a_linear_classifier_learns_and_tells_classes_and_probabilities():
    x, y = flowers()
    classifier = learn.TensorFlowLinearClassifier(n_classes=3, steps=60, learning_rate=0.5)
    with pytest.raises(ValueError, match="not fitted"):
        classifier.predict(x)
    classifier.fit(x, y)
    assert (classifier.predict(x) == y).mean() > 0.9
    assert np.allclose(classifier.predict_proba(x).sum(1), 1, atol=1e-5)


def test_a_model_of_the_user_goes_on_with_partial_fit():
    x, y = flowers()
    seen = []

    def model(features, targets):
        seen.append(targets.shape.as_list())
        return learn.models.logistic_regression(learn.ops.dnn(features, [8, 8], tf.tanh, dropout=0.1), targets)
    classifier = learn.TensorFlowEstimator(model, 3, steps=40, optimizer="Adam", learning_rate=0.02)
    classifier.fit(x, y)
    classifier.partial_fit(x, y).partial_fit(x, y)
    assert (classifier.predict(x) == y).mean() > 0.9 and seen[0] == [None, 3]
    assert classifier.predict(x).tolist() == classifier.predict(x).tolist()      # nothing is left out any more


@pytest.mark.parametrize("made", [
    lambda: learn.TensorFlowLinearRegressor(steps=150, optimizer="SGD", learning_rate=0.1),
    lambda: learn.TensorFlowDNNRegressor([16], steps=300, optimizer="Adam", learning_rate=0.02)])
def test_regressors_predict_numbers(made):
    x = np.random.default_rng(1).uniform(-1, 1, (64, 2))
    y = x @ [1.0, -2.0]
    assert np.abs(made().fit(x, y).predict(x) - y).mean() < 0.2


def test_categories_and_images_are_parts_of_models():
    with tf.Graph().as_default(), tf.Session() as session:
        rows = learn.ops.categorical_variable(tf.constant([1, 0, 1], tf.int64), 2, 4, "words")
        images = learn.ops.conv2d(tf.ones([2, 4, 4, 1]), 3, [3, 3], batch_norm=True, activation=tf.nn.relu)
        pieces = learn.ops.split_squeeze(1, 2, tf.constant([[1.0, 2.0], [3.0, 4.0]]))
        session.run(tf.global_variables_initializer())
        found, pictures, cut = session.run([rows, images, pieces])
    assert found.shape == (3, 4) and found[0].tolist() == found[2].tolist() and pictures.shape == (2, 4, 4, 3)
    assert [piece.tolist() for piece in cut] == [[1, 3], [2, 4]]


def test_sequences_become_sequences():
    """A network that repeats its input learns to."""
    x = np.random.default_rng(2).integers(0, 3, (60, 2))

    def model(features, targets):
        inputs, given, wanted = learn.ops.seq2seq_inputs(tf.one_hot(features, 3), targets, 2, 2)
        decoding, _, sampling, _ = learn.ops.rnn_seq2seq(inputs, given, tf.contrib.rnn.OutputProjectionWrapper(
            tf.contrib.rnn.GRUCell(12), 3))
        return learn.ops.sequence_classifier(decoding, wanted, sampling)
    translator = learn.TensorFlowEstimator(model, 3, batch_size=30, steps=250, optimizer="Adam", learning_rate=0.02)
    found = translator.fit(x, x).predict(x, axis=2)
    assert found.shape == (60, 3) and (found[:, :2] == x).mean() > 0.6


def test_steps_without_labels_are_an_error():
    with pytest.raises(ValueError, match="there are 2 steps of logits but 1 of labels"):
        learn.ops.sequence_classifier([tf.zeros([1, 2])] * 2, [tf.zeros([1, 2])])
