"""Tables that steps add to: values and keys of any shape, what they refuse, and the older names of tables of words."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

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


def test_tables_of_one_shared_name_are_one(caplog):
    one, other = (lookup.MutableHashTable(tf.string, tf.int64, -1, "both", checkpoint=kept) for kept in (True, False))
    with tf.Session() as session:
        session.run(one.insert(["a"], np.array([5])))
        assert session.run(other.lookup(tf.constant(["a"]))).tolist() == [5]
    assert [one] == tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)
    assert sum("not saved in checkpoints" in message for message in caplog.messages) == 1


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
