"""Matrices of checkpoints in the order of other vocabularies: rows, columns, new words, parts of variables; what is refused."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

FRAMEWORK = tf.contrib.framework
OLD = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def saved(tmp_path):
    """(path of a checkpoint with OLD and a bias, a function that writes vocabularies)."""
    def words(name, text):
        (tmp_path / name).write_text("\n".join(text.split()) + "\n")
        return str(tmp_path / name)
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.Variable(OLD, name="m"), tf.Variable(OLD[:, :1] * 10, name="b")
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver(made).save(session, str(tmp_path / "model"))
    return path, words


def values(*variables):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [value.tolist() for value in session.run([tf.convert_to_tensor(v) for v in variables])]


def test_rows_and_columns_are_found_by_their_words(saved, graph):
    path, words = saved
    rows = words("old_rows", "a b c d"), words("new_rows", "d x a")
    columns = words("old_columns", "p q r"), words("new_columns", "r z q")
    both = FRAMEWORK.load_and_remap_matrix_initializer(
        path, "m", 3, 3, *rows, *columns, num_row_oov_buckets=1, num_col_oov_buckets=1,
        initializer=tf.constant_initializer(-1.0))
    v = tf.get_variable("v", [4, 4], initializer=both)
    w = tf.get_variable("w", [3, 3], initializer=FRAMEWORK.load_and_remap_matrix_initializer(
        path, "m", 3, 3, tf.constant(rows[0]), tf.constant(rows[1])))
    same = tf.get_variable("same", [4, 3], initializer=FRAMEWORK.load_and_remap_matrix_initializer(path, "m", 4, 3))
    found = values(v, w, same)
    assert found[0] == [[11, -1, 10, -1], [-1] * 4, [2, -1, 1, -1], [-1] * 4]
    assert found[1:] == [[[9, 10, 11], [0, 0, 0], [0, 1, 2]], OLD.tolist()]


def test_embeddings_biases_and_slots(saved, graph):
    path, words = saved
    files = words("old", "a b c d"), words("new", "b x")
    embeddings = tf.get_variable("e", [4, 3], initializer=FRAMEWORK.load_embedding_initializer(path, "m", 2, 3, *files, 2))
    bias = tf.get_variable("c", [2, 1], initializer=FRAMEWORK.load_linear_multiclass_bias_initializer(path, "b", 2, *files))
    first, second, third = values(embeddings, bias, bias)
    assert first[0] == [3, 4, 5] and len({*map(tuple, first)}) == 4 and np.abs(first[1:]).max() < 2 / np.sqrt(3)
    assert second == third == [[30], [0]]


def test_parts_of_a_variable_get_their_rows(saved, graph):
    path, words = saved
    files = words("old", "a b c d"), words("new", "d c x b a")
    make = FRAMEWORK.load_and_remap_matrix_initializer(path, "m", 5, 3, *files)
    v = tf.get_variable("v", [5, 3], initializer=make, partitioner=tf.fixed_size_partitioner(2))
    assert [part.shape.as_list() for part in v] == [[3, 3], [2, 3]]
    [found] = values(v)
    assert found == [[9, 10, 11], [6, 7, 8], [0, 0, 0], [3, 4, 5], [0, 1, 2]]


@pytest.mark.parametrize(("options", "shape", "kind", "text"), [
    ({"initializer": 3.0}, [4, 3], TypeError, "initializer must be callable"),
    ({"old_row_vocab_file": "x"}, [4, 3], ValueError, "must both be specified or left unspecified"),
    ({"num_row_oov_buckets": -1}, [4, 3], ValueError, "num_row_oov_buckets must be >= 0, but it is -1"),
    ({}, [5, 3], ValueError, r"a variable of shape \[5, 3\] is asked but the vocabularies make \[4, 3\]")])
def test_what_does_not_fit_is_refused(saved, graph, options, shape, kind, text):
    with pytest.raises(kind, match=text):
        tf.get_variable("v", shape, initializer=FRAMEWORK.load_and_remap_matrix_initializer(saved[0], "m", 4, 3, **options))


def test_a_smaller_matrix_and_a_shorter_vocabulary_are_errors_of_the_step(saved, graph):
    path, words = saved
    more = tf.get_variable("more", [6, 3], initializer=FRAMEWORK.load_and_remap_matrix_initializer(path, "m", 6, 3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="'m' has 4 rows but number 5 is asked"):
        values(more)
    files = words("old", "a b c d"), words("new", "a")
    less = tf.get_variable("less", [2, 3], initializer=FRAMEWORK.load_and_remap_matrix_initializer(path, "m", 2, 3, *files))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"_size is 2 but .* 1 words"):
        session.run(less.initializer)
