"""Lookup tables: words to numbers and back, from lists and files, with buckets for the rest; filled once, shared, saved."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
lookup = tf.contrib.lookup
WORDS = ["red", "green", "blue"]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"red\ngreen\r\nblue\n")
    return str(path)


def run(fetches, feeds=None):
    with wb.Session() as session:
        session.run(tf.tables_initializer())
        return session.run(fetches, feeds)


def test_a_table_gives_values_and_a_default():
    table = lookup.HashTable(lookup.KeyValueTensorInitializer(tf.constant(WORDS), tf.constant([1.5, 2.5, 3.5])), -1.0)
    found = table.lookup(tf.constant([["blue", "none"], ["red", "green"]]))
    assert (table.key_dtype, table.value_dtype) == (tf.string, tf.float32) and found.shape == [2, 2]
    values, size = run([found, table.size()])
    assert values.dtype == np.float32 and values.tolist() == [[3.5, -1], [1.5, 2.5]] and size == 3


@pytest.mark.parametrize("size", [None, 3])
def test_lines_of_a_file_become_numbers_and_back(words, size):
    ids = lookup.index_table_from_file(words, vocab_size=size).lookup(tf.constant(["blue", "black"]))
    back = lookup.index_to_string_table_from_file(words, vocab_size=size).lookup(tf.constant([1, 7], tf.int64))
    found, texts = run([ids, back])
    assert found.dtype == np.int64 and found.tolist() == [2, -1] and texts.tolist() == [b"green", b"UNK"]
    assert [t.eval(session=wb.Session()) for t in tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)] == [words.encode()] * 2


def test_fewer_lines_of_a_file(words):
    table = lookup.index_table_from_file(words, vocab_size=2)
    assert run([table.lookup(tf.constant(WORDS)), table.size()])[0].tolist() == [0, 1, -1]
    with pytest.raises(errors.InvalidArgumentError, match=r"Invalid vocab_size: it is 9 but .* has 3 lines"):
        run(lookup.index_table_from_file(words, vocab_size=9).size())


def test_columns_of_a_file(tmp_path):
    path = tmp_path / "columns.txt"
    path.write_text("a 1 x\nb 2 y\n")
    filler = lookup.TextFileInitializer(str(path), tf.string, 0, tf.int64, 1, delimiter=" ")
    assert run(lookup.HashTable(filler, 0).lookup(tf.constant(["b", "c"]))).tolist() == [2, 0]
    for index, text in ((2, "Field b'x' in line 0 of .* is not a valid int64"), (3, "Invalid number of columns .* it has 3")):
        filler = lookup.TextFileInitializer(str(path), tf.string, 0, tf.int64, index, delimiter=" ")
        with wb.Session() as session, pytest.raises(errors.InvalidArgumentError, match=text):
            session.run(lookup.HashTable(filler, 0).init)


def test_other_words_go_to_buckets(words):
    table = lookup.index_table_from_file(words, num_oov_buckets=5)
    others = tf.constant(["red", "black", "white"])
    hashed = 3 + tf.string_to_hash_bucket_fast(others, 5)
    found, expected, size = run([table.lookup(others), hashed, table.size()])
    assert found.tolist() == [0, *expected[1:]] and size == 8
    strong = lookup.IdTableWithHashBuckets(None, 7, lookup.StrongHashSpec((3, 4)))
    found, expected = run([strong.lookup(others), tf.string_to_hash_bucket_strong(others, 7, [3, 4])])
    assert found.tolist() == expected.tolist()


def test_integers_are_keys_too():
    table = lookup.index_table_from_tensor([42, 1, -7], num_oov_buckets=1, dtype=tf.int32)
    assert run(table.lookup(tf.constant([1, -7, 9]))).tolist() == [1, 2, 3]
    back = lookup.index_to_string_table_from_tensor(WORDS, default_value="?")
    assert run(back.lookup(tf.constant([2, 5], tf.int64))).tolist() == [b"blue", b"?"]


def test_sparse_keys_give_sparse_values():
    table = lookup.index_table_from_tensor(WORDS)
    keys = tf.SparseTensor(np.int64([[0, 1], [2, 0]]), ["blue", "black"], np.int64([3, 2]))
    found = run(table.lookup(keys))
    assert found.values.tolist() == [2, -1] and found.indices.tolist() == [[0, 1], [2, 0]]


def test_a_table_is_filled_before_it_is_used_and_keeps_what_it_has(words):
    keys = tf.placeholder(tf.string, [None])
    table = lookup.HashTable(lookup.KeyValueTensorInitializer(keys, tf.range(tf.size(keys))), -1)
    with wb.Session() as session:
        with pytest.raises(errors.FailedPreconditionError, match="Table not initialized"):
            session.run(table.size())
        with pytest.raises(errors.InvalidArgumentError, match="keys and values cannot be empty"):
            session.run(table.init, {keys: []})
        with pytest.raises(errors.FailedPreconditionError, match="b'a' has 0 and trying to add value 1"):
            session.run(table.init, {keys: ["a", "a"]})
        for _ in range(2):
            session.run(table.init, {keys: ["a", "b"]})
        with pytest.raises(errors.FailedPreconditionError, match="Table already initialized with different data"):
            session.run(table.init, {keys: ["a"]})
        assert session.run(table.size()) == 2


def test_tables_of_one_name_are_one_table(words):
    first = lookup.index_table_from_file(words)
    second = lookup.index_table_from_file(words, default_value=-5)
    with wb.Session() as session:
        session.run(first.init)
        assert session.run(second.lookup(tf.constant(["green", "black"]))).tolist() == [1, -5]


def test_a_file_that_is_fed_or_missing(words):
    table = lookup.index_table_from_file("nowhere.txt")
    with wb.Session() as session:
        with pytest.raises(errors.NotFoundError, match=r"'nowhere\.txt' cannot be read"):
            session.run(table.init)
        [name] = tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
        session.run(table.init, {name: words})
        assert session.run(table.size()) == 3


def _table(**options):
    return lookup.IdTableWithHashBuckets(None, 3, **options)


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: lookup.index_table_from_file(""), ValueError, "vocabulary_file must be specified"),
    (lambda: lookup.index_table_from_file("x", vocab_size=0), ValueError, "vocab_size must be greater than 0, got 0.*: x"),
    (lambda: lookup.index_table_from_file("x", num_oov_buckets=-1), ValueError, "num_oov_buckets must be greater or equal"),
    (lambda: lookup.index_table_from_file("x", key_dtype=tf.float32), TypeError, "Only integer and string keys"),
    (lambda: lookup.index_table_from_tensor(None), ValueError, "must be specified"),
    (lambda: lookup.index_table_from_tensor(WORDS, dtype=tf.int64), ValueError, "Expected int64, got string"),
    (lambda: lookup.index_to_string_table_from_file(""), ValueError, "vocabulary_file must be specified"),
    (lambda: lookup.index_to_string_table_from_tensor(None), ValueError, "must be specified"),
    (lambda: lookup.TextFileInitializer("", tf.string, 0, tf.int64, 1), ValueError, "Filename required"),
    (lambda: lookup.TextFileInitializer("x", tf.string, -1, tf.int64, 1), ValueError, "key_index -1 gives no string"),
    (lambda: lookup.TextFileInitializer("x", tf.string, 0, tf.int64, 1, vocab_size=0), ValueError, "Invalid vocab_size 0"),
    (lambda: lookup.HashTable(lookup.KeyValueTensorInitializer(["a"], [1]), "none"), TypeError, "none"),
    (lambda: lookup.HashTable(lookup.KeyValueTensorInitializer(["a"], [1, 2]), 0), ValueError, "'n'"),
    (lambda: lookup.KeyValueTensorInitializer(["a"], [1], [tf.string]), TypeError, "is not a dtype"),
    (lambda: lookup.StrongHashSpec([1]), ValueError, "key must have size 2"),
    (lambda: lookup.StrongHashSpec(["a", "b"]), TypeError, "pass two integers"),
    (lambda: lookup.IdTableWithHashBuckets(None, 0), ValueError, "oov_buckets must be > 0"),
    (lambda: _table(key_dtype=tf.float32), TypeError, "Invalid key_dtype float32"),
    (lambda: _table(hasher_spec=1), TypeError, "must be of type HasherSpec"),
    (lambda: _table(hasher_spec=lookup.HasherSpec("mine", None)).lookup(tf.constant(["a"])), ValueError, "Unknown hasher"),
    (lambda: _table().lookup(tf.constant([1])), TypeError, "Keys must be dtype string, got int32"),
    (lambda: lookup.TableInitializerBase(tf.string, tf.int64).initialize(None), NotImplementedError, "no method initialize"),
    (lambda: lookup.LookupInterface(tf.string, tf.int64, "t").size(), NotImplementedError, "no method size"),
    (lambda: lookup.LookupInterface(tf.string, tf.int64, "t").lookup(tf.constant("a")), NotImplementedError, "method lookup")])
def test_what_is_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_a_monitored_session_fills_tables():
    tf.train.get_or_create_global_step()
    found = lookup.index_table_from_tensor(WORDS).lookup(tf.constant(["blue"]))
    with tf.train.MonitoredSession() as session:
        assert session.run(found).tolist() == [2]


def test_a_dataset_maps_words_by_a_table():
    table = lookup.index_table_from_tensor(WORDS)
    lines = tf.data.Dataset.from_tensor_slices(["blue red", "green"])
    data = lines.map(lambda line: tf.string_split([line]).values).map(table.lookup)
    iterator = data.make_initializable_iterator()
    following = iterator.get_next()
    with wb.Session() as session:
        session.run(tf.tables_initializer())
        session.run(iterator.initializer)
        assert [session.run(following).tolist() for _ in range(2)] == [[2, 0], [1]]


def test_tables_travel_in_graphs(words):
    with tf.Graph().as_default() as graph:
        lookup.index_table_from_file(words).lookup(tf.placeholder(tf.string, [None], name="words"), name="ids")
        lookup.index_table_from_tensor(WORDS).lookup(graph.get_tensor_by_name("words:0"), name="others")
        lookup.index_table_from_tensor(WORDS).size(name="size")
        lookup.tables_initializer()
    text = graph.as_graph_def()
    assert {node.op for node in text.node} >= {"HashTableV2", "InitializeTableV2", "InitializeTableFromTextFileV2",
                                               "LookupTableFindV2", "LookupTableSizeV2"}
    with tf.Graph().as_default():
        tf.import_graph_def(text, name="")
        with tf.Session() as session:
            session.run("init_all_tables")
            found = session.run(["ids:0", "others:0", "size:0"], {"words:0": ["blue", "black"]})
    assert [f.tolist() for f in found] == [[2, -1], [2, -1], 3]
