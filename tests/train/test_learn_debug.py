"""Estimators that look at labels alone, and input functions over generators, of contrib.learn."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
LEARN = tf.contrib.learn
DEBUG = LEARN.python.learn.estimators.debug
FROM = LEARN.io.generator_input_fn


def given(features, labels=None):
    return lambda: ({"x": tf.constant(features)}, None if labels is None else tf.constant(labels))


def test_a_debug_classifier_tells_the_shares_of_the_classes(tmp_path):
    x, labels = np.zeros([40, 3], np.float32), np.repeat([0, 1, 2], [8, 20, 12])
    made = DEBUG.DebugClassifier(str(tmp_path), n_classes=3, config=LEARN.RunConfig(tf_random_seed=1))
    made.fit(input_fn=given(x, labels), steps=300)
    shares = list(made.predict_proba(input_fn=given(x[:4])))
    np.testing.assert_allclose(shares, [[0.2, 0.5, 0.3]] * 4, atol=0.01)
    assert list(made.predict_classes(input_fn=given(x[:4]))) == [1] * 4
    assert made.evaluate(input_fn=given(x, labels), steps=1)["accuracy"] == 0.5


def test_a_debug_classifier_of_two_classes_weighs_examples(tmp_path):
    def weighed():
        return {"x": tf.zeros([4, 1]), "w": tf.constant([[9.0], [1.0], [1.0], [1.0]])}, tf.constant([[1], [0], [0], [0]])
    made = DEBUG.DebugClassifier(str(tmp_path), weight_column_name="w")
    made.fit(input_fn=weighed, steps=200)
    [first, *_] = made.predict_proba(input_fn=given(np.zeros([2, 1], np.float32)))
    np.testing.assert_allclose(first, [0.25, 0.75], atol=0.02)
    with pytest.raises(ValueError, match="n_classes"):
        DEBUG.DebugClassifier(n_classes=1)


def test_a_debug_regressor_tells_the_mean(tmp_path):
    labels = np.array([[1, 0], [2, 1], [6, 5]], np.float32)
    made = DEBUG.DebugRegressor(str(tmp_path), label_dimension=2)
    made.fit(input_fn=given(np.zeros([3, 2], np.float32), labels), steps=600)
    found = list(made.predict_scores(input_fn=given(np.zeros([2, 2], np.float32))))
    np.testing.assert_allclose(found, [[3, 2]] * 2, rtol=0.01)


def test_features_of_a_debug_model_are_there_and_have_one_batch():
    params = {"head": LEARN.python.learn.estimators.head.regression_head(enable_centered_bias=True)}
    with pytest.raises(ValueError, match="features cannot be empty"):
        DEBUG.debug_model_fn({}, None, "infer", params)
    odd = tf.placeholder(tf.float32, [None, 1])
    words = tf.SparseTensor([[0, 0], [1, 0]], ["a", "b"], [2, 1])
    found = DEBUG.debug_model_fn({"a": tf.zeros([2, 1]), "b": odd, "c": words}, None, "infer", params)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(found.predictions["scores"], {odd: [[1], [2]]}).tolist() == [0, 0]
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(found.predictions["scores"], {odd: [[1]]})


def counted(count, **more):
    def generator():
        for index in range(count):
            yield {"a": np.full([2], index), "label": np.full([1], -index), "more": np.float32(index), **more}
    return generator


def batches(made):
    """All that an input function gives."""
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        wanted = made()
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while True:
                found.append(session.run(wanted))
                assert len(found) < 100
        except tf.errors.OutOfRangeError:
            coordinator.request_stop()
            coordinator.join(threads)
    return found


def test_a_generator_gives_features_and_labels():
    [(features, label), (rest, _), *_] = batches(FROM(counted(3), "label", 2, 1, False))
    assert features["a"].tolist() == [[0, 0], [1, 1]] and label.tolist() == [[0], [-1]]
    assert sorted(features) == ["a", "more"] and rest["more"][0] == 2
    [(features, labels), *_] = batches(FROM(counted(3), ["label", "more"], 3, 1, False))
    assert list(features) == ["a"] and labels["more"].tolist() == [0, 1, 2] and labels["label"].shape == (3, 1)


def test_a_generator_begins_again_in_its_epochs_and_is_shuffled():
    seen = [int(v) for row in batches(FROM(counted(5), None, 4, 3, True)) for v in row["more"]]
    assert np.bincount(seen).tolist()[1:] >= [3] * 4 and len(seen) < 15 + 4
    with tf.Session() as session:
        endless = FROM(counted(2), None, 3, None, False)()
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        assert [session.run(endless)["more"].tolist() for _ in range(3)] == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        coordinator.request_stop()
        session.run(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[0].cancel_op)
        coordinator.join(threads)


def test_a_generator_without_examples_ends_the_input():
    """One that goes on where another stopped has none the second time."""
    examples = iter([{"a": np.full([1], number)} for number in range(3)])

    def generator():
        yield from examples
    [only] = batches(FROM(generator, None, 2, None, False))
    assert only["a"].tolist() == [[1], [2]]


def test_what_a_generator_gives_is_filled_up():
    def generator():
        for length in (1, 3, 2):
            yield {"a": np.full([length], length)}
    [first, *_] = batches(FROM(generator, None, 3, 1, False, pad_value=7))
    assert first["a"].tolist() == [[1, 7, 7], [3, 3, 3], [2, 2, 7]]
    with pytest.raises(NotImplementedError, match="padding and shuffling"):
        FROM(generator, None, 3, 1, True, pad_value=7)


def test_other_names_later_on_end_the_thread_that_reads():
    def generator():
        yield {"a": np.zeros(1)}
        yield {"b": np.zeros(1)}
    with pytest.raises(KeyError, match="key mismatch between dicts emitted by GenFunExpected"):
        batches(FROM(generator, None, 2, 1, False))


@pytest.mark.parametrize(("x", "target", "kind", "text"), [
    (np.arange(3), None, TypeError, "x must be generator function; got ndarray"),
    (lambda: np.arange(3), None, TypeError, r"x\(\) must be generator; got ndarray"),
    (lambda: (i for i in range(3)), None, TypeError, r"x\(\) must yield dict; got int"),
    (counted(0), None, TypeError, r"x\(\) must yield dict; got NoneType"),
    (counted(1), np.arange(3), TypeError, "target_key must be str or Container of str; got"),
    (counted(1), 3, TypeError, "target_key must be str or Container of str; got int"),
    (counted(1), ["label", 3], TypeError, "target_key must be str or Container of str; got int"),
    (counted(1), ["other"], KeyError, "target_key not in yielded dict. Expected .* keys; got other")])
def test_what_is_no_generator_of_examples_is_told(x, target, kind, text):
    with pytest.raises(kind, match=text):
        FROM(x, target)
