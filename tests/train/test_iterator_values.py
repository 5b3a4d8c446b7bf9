"""Datasets without an iterator of one's own: the only element of one, and iterators that savers keep."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench.tf1 as tf

Dataset = tf.data.Dataset


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_only_element_is_made_anew_in_each_step():
    rows = tf.placeholder(tf.float32, [None])
    scale = tf.Variable(2.0)
    parts = Dataset.from_tensor_slices(rows).map(lambda x: (x * scale, tf.as_string(x))).batch(3)
    doubled, texts = tf.contrib.data.get_single_element(parts)
    with tf.Session() as session:
        session.run(scale.initializer)
        assert session.run(doubled, {rows: [1, 2]}).tolist() == [2, 4]
        session.run(scale.assign(10.0))
        found = session.run([doubled, texts], {rows: [1, 2, 3]})
        assert found[0].tolist() == [10, 20, 30] and len(found[1]) == 3
        for wrong, text in (([1, 2, 3, 4], "more than one element"), ([], "Dataset was empty")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(doubled, {rows: wrong})
    with pytest.raises(TypeError, match="must be a Dataset"):
        tf.contrib.data.get_single_element([1])


def test_an_error_within_the_only_element_is_that_of_the_step():
    x = tf.placeholder(tf.float32, [])
    checked = Dataset.from_tensors(x).map(lambda value: tf.check_numerics(1.0 / value, "infinite"))
    element = tf.contrib.data.get_single_element(checked)
    with tf.Session() as session:
        assert session.run(element, {x: 4}) == 0.25
        with pytest.raises(tf.errors.InvalidArgumentError, match="infinite"):
            session.run(element, {x: 0})


def test_steps_at_the_same_time_have_elements_of_their_own():
    x = tf.placeholder(tf.int64, [])
    element = tf.contrib.data.get_single_element(Dataset.range(x).map(lambda n: n * 2).batch(100))
    found = {}
    with tf.Session() as session:
        threads = [threading.Thread(target=lambda n=n: found.update({n: session.run(element, {x: n}).tolist()}))
                   for n in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {n: list(range(0, 2 * n, 2)) for n in range(1, 9)}


@pytest.mark.parametrize("kind", ["make_initializable_iterator", "make_one_shot_iterator"])
def test_a_restored_iterator_goes_on_where_it_was(kind, tmp_path):
    def build():
        iterator = getattr(Dataset.range(20).shuffle(20, seed=3).repeat(2), kind)()
        tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, tf.contrib.data.make_saveable_from_iterator(iterator))
        return iterator, iterator.get_next(), tf.train.Saver()
    iterator, element, saver = build()
    with tf.Session() as session:
        if "init" in kind:
            session.run(iterator.initializer)
        first = [session.run(element) for _ in range(25)]
        path = saver.save(session, str(tmp_path / "model"))
        rest = [session.run(element) for _ in range(15)]
        saver.restore(session, path)
        assert [session.run(element) for _ in range(15)] == rest and sorted(first + rest) == sorted(2 * list(range(20)))
    with tf.Graph().as_default():      # as after a restart: the iterator was not initialized
        _, element, saver = build()
        with tf.Session() as session:
            saver.restore(session, path)
            assert [session.run(element) for _ in range(15)] == rest
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)


def test_only_an_iterator_that_is_somewhere_is_saved():
    iterator = Dataset.range(3).make_initializable_iterator()
    saved = tf.contrib.data.make_saveable_from_iterator(iterator)
    (state, _, name), = saved.specs
    given = tf.placeholder(tf.string, [])
    resumed = saved.restore([given], None)
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            session.run(state)
        session.run(iterator.initializer)
        assert b'"taken": 0' in session.run(state) and name.endswith("-state")
        for wrong in (b"", b"[]", b'{"taken": "1", "generators": []}'):
            with pytest.raises(tf.errors.InvalidArgumentError, match="does not say where an iterator is"):
                session.run(resumed, {given: wrong})
        np.testing.assert_equal(session.run(iterator.get_next()), 0)
    for wrong in (3, tf.data.Iterator.from_string_handle("x", tf.int64)):
        with pytest.raises(TypeError, match="does not hold a place in a dataset"):
            tf.contrib.data.make_saveable_from_iterator(wrong)
