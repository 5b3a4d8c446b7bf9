"""Tables that steps add to: values and keys of any shape, what they refuse, and the older names of tables of words."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench import errors
from workbench.core.graph.build import ops

pytestmark = pytest.mark.usefixtures("graph")
lookup = tf.contrib.lookup


def test_a_table_grows_with_each_step():
    table = lookup.MutableHashTable(tf.string, tf.int64, -1)
    words = tf.placeholder(tf.string, [None])
    unknown = tf.boolean_mask(words, tf.equal(table.lookup(words), -1))
    distinct = tf.unique(unknown)[0]
    learn = table.insert(distinct, tf.range(tf.size(distinct, out_type=tf.int64)) + table.size())
    keys, values = table.export()
    assert table.lookup(words).shape.as_list() == [None] and values.shape.as_list() == [None]
    with tf.Session() as session:
        for line in (["to", "be"], ["or", "not", "to", "be"]):
            session.run(learn, {words: line})
        assert session.run(table.lookup(words), {words: ["not", "to", "question"]}).tolist() == [3, 0, -1]
        assert session.run([table.size(), keys, values])[1].tolist() == [b"to", b"be", b"or", b"not"]


def test_values_have_the_shape_of_the_default_and_keys_that_of_the_empty_key():
    rows = lookup.MutableHashTable(tf.int64, tf.float32, [-1.0, 0.0])
    cells = lookup.MutableDenseHashTable(tf.int64, tf.bool, False, empty_key=[0, 0], initial_num_buckets=4)
    found = rows.lookup(tf.constant([[7, 8]], tf.int64))
    places = tf.constant([[1, 2], [3, 4]], tf.int64)
    assert found.shape.as_list() == [1, 2, 2] and cells.lookup(places).shape.as_list() == [2]
    with tf.Session() as session:
        session.run([rows.insert(np.array([7, 7]), np.array([[1, 1], [5, 6]], "f")), cells.insert(places[:1], [True])])
        assert session.run(found).tolist() == [[[5, 6], [-1, 0]]]
        assert session.run(cells.lookup(places)).tolist() == [True, False]
        assert session.run(cells.export()[0]).tolist() == [[1, 2]]


def test_what_a_table_holds_changes_with_nobodys_memory():
    """Not with that of later steps, which is that of earlier ones, nor with what was fed."""
    table = lookup.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    keys, x = tf.placeholder(tf.int64, [2]), tf.placeholder(tf.float32, [2, 2])
    computed, fed = table.insert(keys + 1, tf.tanh(x) * 2.0), table.insert(keys, x)
    taken = ops.growing_table_import(table.table_ref, keys + 1, tf.tanh(x) * 2.0)
    known = table.lookup(tf.constant([2, 3], tf.int64))
    with tf.Session() as session:
        for step in (computed, taken):
            session.run(step, {keys: [1, 2], x: [[1, 2], [3, 4]]})
            before = session.run(known)
            session.run(computed, {keys: [10, 20], x: [[-1, -2], [-3, -4]]})
            np.testing.assert_array_equal(session.run(known), before)
        mine = np.ones((2, 2), np.float32)
        session.run(fed, {keys: [2, 3], x: mine})
        mine[:] = 7
        assert session.run(known).tolist() == [[1, 1], [1, 1]]


def test_a_table_that_refuses_what_it_shall_hold_keeps_what_it_had():
    table = lookup.MutableHashTable(tf.int64, tf.int64, -1)
    with tf.Session() as session:
        session.run(table.insert(np.array([1, 2]), np.array([5, 6])))
        with pytest.raises(errors.InvalidArgumentError, match=r"Expected shape .* for value"):
            session.run(ops.growing_table_import(table.table_ref, np.array([3, 4]), np.array([7])))
        assert session.run(table.lookup(tf.constant([1, 2], tf.int64))).tolist() == [5, 6]


def test_what_does_not_fit_is_refused():
    table = lookup.MutableDenseHashTable(tf.int64, tf.int64, -1, empty_key=0)
    keys = tf.constant([11, 0], tf.int64)
    with pytest.raises(TypeError, match="Invalid value dtype, expected int64"):
        table.insert(keys, ["a", "b"])
    with tf.Session() as session:
        for made in (table.insert(keys, keys), table.lookup(keys)):
            with pytest.raises(errors.InvalidArgumentError, match="empty_key"):
                session.run(made)
        with pytest.raises(errors.InvalidArgumentError, match="Expected key shape"):
            session.run(table.lookup(tf.zeros([2, 2], tf.int64)))
        with pytest.raises(errors.InvalidArgumentError, match=r"Expected shape .* for value"):
            session.run(table.insert(np.array([1, 2]), np.array([1])))
        with pytest.raises(errors.InvalidArgumentError, match="Number of buckets must be"):
            session.run(lookup.MutableDenseHashTable(tf.int64, tf.int64, -1, 17, initial_num_buckets=12).size())


def test_tables_of_one_shared_name_are_one():
    one, other = (lookup.MutableHashTable(tf.string, tf.int64, -1, "both", checkpoint=kept) for kept in (True, False))
    with tf.Session() as session:
        session.run(one.insert(["a"], np.array([5])))
        assert session.run(other.lookup(tf.constant(["a"]))).tolist() == [5]
    assert [one] == [saved.op for saved in tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)]


def test_words_and_their_places_by_the_older_names():
    words = tf.constant(["emerson", "lake", "palmer"])
    table = lookup.index_table_from_tensor(mapping=words, num_oov_buckets=1, default_value=-1)
    back = lookup.index_to_string_table_from_tensor(mapping=words, default_value="?")
    found = [table.lookup(tf.constant(["emerson", "and"])), back.lookup(tf.constant([2, 9], tf.int64)),
             lookup.string_to_index(tf.constant(["lake", "and"]), mapping=words),
             lookup.index_to_string(tf.constant([1, 7], tf.int64), mapping=words),
             lookup.string_to_index_table_from_tensor(mapping=words).lookup(words)]
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        assert [part.tolist() for part in session.run(found)] == [
            [0, 3], [b"palmer", b"?"], [1, -1], [b"lake", b"UNK"], [0, 1, 2]]
    with pytest.raises(ValueError, match="requires string"):
        lookup.string_to_index_table_from_tensor(mapping=[1, 2])


def two_tables():
    """(insertions, their keys, what they find for their keys) of a table of numbers by words and one of rows by pairs."""
    words = lookup.MutableHashTable(tf.string, tf.int64, -1, name="words")
    pairs = lookup.MutableDenseHashTable(tf.int64, tf.float32, [0.0, 0.0], empty_key=[0, 0], name="pairs")
    keys = tf.constant(["a", "b"]), tf.constant([[1, 2], [3, 4]], tf.int64)
    return [words.insert(keys[0], np.array([5, 6])), pairs.insert(keys[1], np.array([[1, 2], [3, 4]], "f"))], [
        words.size(), words.lookup(keys[0]), pairs.size(), pairs.lookup(keys[1])]


@pytest.mark.parametrize("version", [None, 1, 2])
def test_what_a_table_holds_is_in_checkpoints(tmp_path, version):
    insert, found = two_tables()
    words = tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)[0].op
    saver = tf.train.Saver(write_version=version)
    with tf.Session() as session:
        session.run(insert)
        path = saver.save(session, str(tmp_path / "model"))
        wanted = session.run(found)
        assert dict(tf.contrib.framework.list_variables(path)) == {
            "words-keys": [2], "words-values": [2], "pairs-keys": [2, 2], "pairs-values": [2, 2]}
        session.run(words.insert(["a", "c"], np.array([7, 8])))
        saver.restore(session, path)      # what was added since is gone
        for value, expected in zip(session.run(found), wanted):
            np.testing.assert_array_equal(value, expected)
    with tf.Graph().as_default(), tf.Session() as session:
        _, found = two_tables()
        tf.train.Saver().restore(session, path)
        for value, expected in zip(session.run(found), wanted):
            np.testing.assert_array_equal(value, expected)


def test_checkpoints_that_lack_a_table_or_would_hold_two_of_one_name(tmp_path):
    one = lookup.MutableHashTable(tf.string, tf.int64, -1)
    with tf.Session() as session:
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        assert session.run(one.size()) == 0
    lookup.MutableHashTable(tf.string, tf.int64, -1)
    with pytest.raises(ValueError, match="At least two variables have the same name: MutableHashTable-keys"):
        tf.train.Saver()
    with tf.Graph().as_default(), tf.Session() as session:
        lookup.MutableHashTable(tf.string, tf.int64, -1, name="other")
        with pytest.raises(errors.NotFoundError, match="Key other-keys not found in checkpoint"):
            tf.train.Saver().restore(session, path)


def test_a_training_loop_goes_on_with_its_tables(tmp_path):
    def train(steps):
        with wb.Graph().as_default():
            table = lookup.MutableHashTable(tf.int64, tf.int64, 0, name="seen")
            step = tf.train.get_or_create_global_step()
            with tf.control_dependencies([table.insert(tf.reshape(step, [1]), tf.reshape(step, [1]))]):
                train_op = tf.assign_add(step, 1)
            size = table.size()
            with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_checkpoint_secs=None,
                                                   hooks=[tf.train.StopAtStepHook(last_step=steps)]) as session:
                while not session.should_stop():
                    session.run(train_op)
                    found = session.run(size)
            return found
    assert train(2) == 2
    assert train(4) == 4


def test_a_table_of_a_program_adds_to_those_that_there_are():
    class Shaped(lookup.MutableDenseHashTable):
        """As tf.contrib.timeseries keeps tensors by times."""

        def lookup(self, keys, name=None):
            flat = tf.reshape(tf.convert_to_tensor(keys, dtype=self._key_dtype), [-1])
            return tf.reshape(super().lookup(flat, name), tf.shape(keys))

    table = Shaped(tf.int64, tf.float32, -1.0, empty_key=-1)
    assert (table._key_dtype, table._value_dtype, table._name) == (tf.int64, tf.float32, table.name)
    with tf.Session() as session:
        session.run(table.insert(np.array([3]), np.array([0.5], "f")))
        assert session.run(table.lookup([[3, 4]])).tolist() == [[0.5, -1]]
