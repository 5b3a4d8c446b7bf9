"""Feature columns: what each makes of a batch, layers and linear models over them, the elder names; wrong columns and features.

The hashes are those that TensorFlow gives for the same columns.
"""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.train.estimators import contrib_columns as elder
from workbench.train.estimators import feature_columns as fc
from workbench.train.input.examples import FixedLenFeature, VarLenFeature

pytestmark = pytest.mark.usefixtures("graph")


def batch():
    return {"age": np.float32([[18], [25], [70]]), "vec": np.float32([[1, 2], [3, 4], [5, 6]]),
            "word": wb.SparseTensor([[0, 0], [0, 1], [2, 0]], ["cat", "dog", "emu"], [3, 2]),
            "w": wb.SparseTensor([[0, 0], [0, 1], [2, 0]], np.float32([0.5, 2, 3]), [3, 2]),
            "dense": np.array([["a"], ["b"], [""]]), "id": np.array([[0], [3], [-1]])}


def layer(*columns):
    made = fc.input_layer(batch(), columns)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        return session.run(made).tolist()


def table(rows, width=2):
    return wb.constant_initializer(np.arange(rows * width, dtype=np.float32).reshape(rows, width))


AGE, WORDS = fc.numeric_column("age"), fc.categorical_column_with_vocabulary_list("word", ["dog", "cat"], num_oov_buckets=3)


@pytest.mark.parametrize(("column", "expected"), [
    (fc.numeric_column("vec", 2, normalizer_fn=lambda v: v * 10.0), [[10, 20], [30, 40], [50, 60]]),
    (fc.bucketized_column(AGE, [20, 30]), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    (fc.bucketized_column(fc.numeric_column("vec", 2), [2.5]), [[1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 0, 1]]),
    (fc.indicator_column(fc.categorical_column_with_identity("id", 4)), [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]),
    (fc.indicator_column(fc.categorical_column_with_identity("id", 3, 1)), [[1, 0, 0], [0, 1, 0], [0, 0, 0]]),
    (fc.indicator_column(fc.weighted_categorical_column(WORDS, "w")), [[2, 0.5, 0, 0, 0], [0] * 5, [0, 0, 3, 0, 0]]),
    (fc.embedding_column(WORDS, 2, initializer=table(5)), [[1, 2], [0, 0], [4, 5]]),
    (fc.embedding_column(WORDS, 2, "sum", initializer=table(5)), [[2, 4], [0, 0], [4, 5]])])
def test_what_columns_make_of_a_batch(column, expected):
    np.testing.assert_allclose(layer(column), expected)


@pytest.mark.parametrize(("column", "places"), [
    (fc.crossed_column(["word", "dense"], 1000), [[0, 95], [0, 195], [2, 212]]),
    (fc.crossed_column([fc.bucketized_column(AGE, [20, 30]), "dense", fc.categorical_column_with_identity("id", 4)], 50),
     [[0, 33], [1, 40]])])
def test_hashes_are_tensorflows(column, places):
    assert np.argwhere(layer(fc.indicator_column(column))).tolist() == places


def test_variables_are_named_as_checkpoints_have_them():
    columns = [AGE, fc.embedding_column(WORDS, 2)]
    fc.input_layer(batch(), columns)
    fc.linear_model(batch(), [AGE, WORDS, fc.bucketized_column(AGE, [20])], units=2)
    assert {v.op.name: v.shape.as_list() for v in wb.global_variables()} == {
        "input_layer/word_embedding/embedding_weights": [5, 2], "linear_model/age/weights": [1, 2],
        "linear_model/age_bucketized/weights": [2, 2], "linear_model/word/weights": [5, 2], "linear_model/bias_weights": [2]}


def test_linear_models_are_sums_and_learn_rows():
    made = fc.linear_model(batch(), [AGE, WORDS])
    by_name = {v.op.name: v for v in wb.global_variables()}
    words = by_name["linear_model/word/weights"]
    [slopes] = wb.gradients(made, [words])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run([by_name["linear_model/age/weights"].assign([[2.0]]), by_name["linear_model/bias_weights"].assign([1.0]),
                     words.assign([[10.0], [20], [30], [40], [50]])])
        np.testing.assert_allclose(session.run(made), [[67], [51], [171]])
        assert sorted(session.run(slopes.indices).tolist())[-3:] == [0, 1, 2]


def test_columns_share_a_table():
    one, other = fc.shared_embedding_columns([fc.categorical_column_with_identity("id", 4, 0),
                                              fc.categorical_column_with_hash_bucket("word", 4)], 3)
    fc.input_layer(batch(), [one, other])
    assert [v.shape.as_list() for v in wb.global_variables()] == [[4, 3]]


def test_examples_are_read_as_columns_need(tmp_path):
    (tmp_path / "words").write_text("dog\ncat\nemu\n", encoding="utf-8")
    words = fc.categorical_column_with_vocabulary_file("word", str(tmp_path / "words"), 2)
    columns = [fc.bucketized_column(AGE, [20]), fc.embedding_column(words, 2), fc.crossed_column(["word", "city"], 9)]
    assert fc.make_parse_example_spec(columns) == {
        "age": FixedLenFeature((1,), wb.float32), "word": VarLenFeature(wb.string), "city": VarLenFeature(wb.string)}
    assert words.buckets == 2


def test_elder_names():
    ids = elder.sparse_column_with_integerized_feature("id", 2, combiner="mean")
    words = elder.sparse_column_with_keys("word", ["dog", "cat"])
    made = elder.input_from_feature_columns(batch(), [elder.one_hot_column(ids), elder.one_hot_column(words), AGE])
    with wb.Session() as session:
        assert session.run(made).tolist() == [[18, 1, 0, 1, 1], [25, 0, 1, 0, 0], [70, 0, 0, 0, 0]]
    crossed = elder.crossed_column([elder.sparse_column_with_hash_bucket("word", 9), words], 20)
    assert crossed.keys == ("word", words) and ids.combiner == "mean"


@pytest.mark.parametrize(("action", "text"), [
    (lambda: fc.input_layer({}, [AGE]), "Feature age is not in features dictionary.; there are none"),
    (lambda: fc.input_layer(batch(), [WORDS]), "wrap a categorical column with an embedding_column or indicator_column"),
    (lambda: fc.input_layer(batch(), [AGE, AGE]), "feature_columns are ['age', 'age']; pass at least one, each once"),
    (lambda: fc.input_layer(batch(), [fc.numeric_column("word")]), "SparseTensor is not supported. key: word"),
    (lambda: fc.bucketized_column(AGE, [3, 1]), "boundaries must be a sorted list: [3, 1]"),
    (lambda: fc.bucketized_column(WORDS, [3]), "source_column must be a column generated with numeric_column()"),
    (lambda: fc.categorical_column_with_identity("id", 0), "num_buckets must be at least 1, it is 0"),
    (lambda: fc.categorical_column_with_identity("id", 3, 3), "default_value 3 not in range [0, 3), column_name id"),
    (lambda: fc.categorical_column_with_vocabulary_list("k", ["a", "a"]), "is empty or has duplicates; give each word once"),
    (lambda: fc.categorical_column_with_vocabulary_list("k", ["a"], "int64"), "dtype int64 and vocabulary dtype string do not"),
    (lambda: fc.crossed_column(["a"], 3), "keys must be a list with length > 1. Given: ['a']"),
    (lambda: fc.crossed_column(["a", fc.categorical_column_with_hash_bucket("b", 3)], 3), "cross a name, or a column that is"),
    (lambda: fc.shared_embedding_columns([WORDS, fc.categorical_column_with_identity("id", 4)], 3), "they have [5, 4]"),
    (lambda: layer(fc.indicator_column(fc.categorical_column_with_hash_bucket("age", 4))), "must be compatible. key: age"),
    (lambda: fc.make_parse_example_spec([AGE, fc.numeric_column("age", 2)]), "contain different parse_spec for key age"),
    (lambda: layer(fc.indicator_column(fc.categorical_column_with_identity("id", 2))), "assert_less_than_num_buckets id")])
def test_what_cannot_be(action, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        action()
