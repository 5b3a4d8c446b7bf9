"""Feature columns: what each makes of a batch, layers and linear models over them, the elder names; wrong columns and features.

The hashes are those that TensorFlow gives for the same columns.
"""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from tests.running import run, value
from workbench import errors
from workbench.train.estimators import contrib_columns as elder
from workbench.train.estimators import feature_columns as fc
from workbench.train.estimators import feature_models as models
from workbench.train.estimators.feature_bases import Categorical, Column, Dense, Features
from workbench.train.input.examples import FixedLenFeature, VarLenFeature

pytestmark = pytest.mark.usefixtures("graph")


def batch():
    return {"age": np.float32([[18], [25], [70]]), "vec": np.float32([[1, 2], [3, 4], [5, 6]]),
            "word": wb.SparseTensor([[0, 0], [0, 1], [2, 0]], ["cat", "dog", "emu"], [3, 2]),
            "w": wb.SparseTensor([[0, 0], [0, 1], [2, 0]], np.float32([0.5, 2, 3]), [3, 2]),
            "dense": np.array([["a"], ["b"], [""]]), "id": np.array([[0], [3], [-1]])}


def layer(*columns):
    made = models.input_layer(batch(), columns)
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
    models.input_layer(batch(), columns)
    models.linear_model(batch(), [AGE, WORDS, fc.bucketized_column(AGE, [20])], units=2)
    assert {v.op.name: v.shape.as_list() for v in wb.global_variables()} == {
        "input_layer/word_embedding/embedding_weights": [5, 2], "linear_model/age/weights": [1, 2],
        "linear_model/age_bucketized/weights": [2, 2], "linear_model/word/weights": [5, 2], "linear_model/bias_weights": [2]}


def test_linear_models_are_sums_and_learn_rows():
    made = models.linear_model(batch(), [AGE, WORDS])
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
    models.input_layer(batch(), [one, other])
    assert [v.shape.as_list() for v in wb.global_variables()] == [[4, 3]]


def test_examples_are_read_as_columns_need(tmp_path):
    (tmp_path / "words").write_text("dog\ncat\nemu\n", encoding="utf-8")
    words = fc.categorical_column_with_vocabulary_file("word", str(tmp_path / "words"), 2)
    columns = [fc.bucketized_column(AGE, [20]), fc.embedding_column(words, 2), fc.crossed_column(["word", "city"], 9)]
    assert models.make_parse_example_spec(columns) == {
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
    (lambda: models.input_layer({}, [AGE]), "Feature age is not in features dictionary.; there are none"),
    (lambda: models.input_layer(batch(), [WORDS]), "wrap a categorical column with an embedding_column or indicator_column"),
    (lambda: models.input_layer(batch(), [AGE, AGE]), "Duplicate feature column name found for columns: [<Numeric"),
    (lambda: models.input_layer(batch(), [fc.numeric_column("word")]), "SparseTensor is not supported. key: word"),
    (lambda: fc.bucketized_column(AGE, [3, 1]), "boundaries must be a sorted list: [3, 1]"),
    (lambda: fc.bucketized_column(WORDS, [3]), "source_column must be a column generated with numeric_column()"),
    (lambda: fc.categorical_column_with_identity("id", 0), "num_buckets 0 < 1, column_name id"),
    (lambda: fc.categorical_column_with_identity("id", 3, 3), "default_value 3 not in range [0, 3), column_name id"),
    (lambda: fc.categorical_column_with_vocabulary_list("k", ["a", "a"]), "Duplicate keys in vocabulary_list"),
    (lambda: fc.categorical_column_with_vocabulary_list("k", ["a"], "int64"), "dtype int64 and vocabulary dtype string do not"),
    (lambda: fc.crossed_column(["a"], 3), "keys must be a list with length > 1. Given: ['a']"),
    (lambda: fc.crossed_column(["a", fc.categorical_column_with_hash_bucket("b", 3)], 3), "Unsupported key type."),
    (lambda: fc.shared_embedding_columns([WORDS, fc.categorical_column_with_identity("id", 4)], 3), "they have [5, 4]"),
    (lambda: layer(fc.indicator_column(fc.categorical_column_with_hash_bucket("age", 4))), "dtype must be string or integer."),
    (lambda: models.make_parse_example_spec([AGE, fc.numeric_column("age", 2)]), "contain different parse_spec for key age"),
    (lambda: layer(fc.indicator_column(fc.categorical_column_with_identity("id", 2))), "assert_less_than_num_buckets id")])
def test_what_cannot_be(action, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        action()


# what programs derive, and say otherwise

class Lengths(Dense):
    """How long words are, as a program of the time writes it."""

    name = "lengths"
    _parse_example_spec = {"words": VarLenFeature("string")}       # noqa: RUF012      # as programs do
    _variable_shape = (1,)

    def _transform_feature(self, inputs):
        return wb.cast(wb.shape(inputs.get("words"))[1:], "float32")

    def _get_dense_tensor(self, inputs, weight_collections=None, trainable=None):
        assert trainable and "kept" in weight_collections
        return wb.ones([2, 1]) * inputs.get(self)


class Numbered(Categorical):
    """Identifiers and weights of two features."""

    name = "numbered"
    _parse_example_spec = {"ids": VarLenFeature("int64")}       # noqa: RUF012      # as programs do
    _num_buckets = 3

    def _transform_feature(self, inputs):
        return inputs.get("ids"), inputs.get("weights")

    def _get_sparse_tensors(self, inputs, weight_collections=None, trainable=None):
        return Categorical.IdWeightPair(*inputs.get(self))


def sparse(values, dtype="int64"):
    return wb.SparseTensorValue(np.array([[0, 0], [1, 0], [1, 1]]), np.array(values, dtype), np.array([2, 2]))


def test_columns_that_programs_derive_stand_beside_ours():
    batch_of_two = {"words": [["a", "b", "c"], ["d", "e", "f"]], "ids": sparse([0, 2, 1]),
                    "weights": sparse([1, 2, 3], "float32")}
    assert models.make_parse_example_spec([Lengths(), Numbered()]) == {
        "words": VarLenFeature("string"), "ids": VarLenFeature("int64")}
    layer = models.input_layer(batch_of_two, [Lengths(), fc.indicator_column(Numbered())], ["kept"])
    np.testing.assert_array_equal(value(layer), [[3, 1, 0, 0], [3, 0, 3, 2]])
    kept = {}
    made = models.linear_model(batch_of_two, [Numbered()], cols_to_vars=kept, weight_collections=["kept"])
    [weights], [bias] = [variables for key, variables in kept.items() if key != "bias"], kept["bias"]
    assert wb.get_collection("kept") == [*weights, bias]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(weights[0].assign([[1.0], [10.0], [100.0]]))
        np.testing.assert_allclose(session.run(made), [[1], [230]])


def test_our_columns_answer_the_words_of_derived_ones():
    numbers, words = fc.numeric_column("age", 2, [1.0, 2]), fc.categorical_column_with_hash_bucket("word", 5)
    assert numbers._variable_shape.as_list() == [2] and words._num_buckets == 5
    assert numbers._parse_example_spec == numbers.spec and numbers.default_value == (1.0, 2.0)
    features = Features({"age": [[1.0, 2.0]], "word": sparse(["a", "b", "c"], object)})
    assert features.get(words) is features.get(words)
    pair = words._get_sparse_tensors(features)
    assert pair.weight_tensor is None and value(pair.id_tensor.values).shape == (3,)
    found = models.transform_features({"age": [[1.0, 2.0]]}, [numbers])
    np.testing.assert_array_equal(value(found[numbers]), [[1, 2]])
    np.testing.assert_array_equal(value(numbers._get_dense_tensor(features)), [[1, 2]])


class Unfinished(Column):
    """A column that says only its name."""

    name = "unfinished"


@pytest.mark.parametrize(("action", "error", "text"), [
    (lambda: Features({}).get(3), TypeError, '"key" must be either a "str" or "_FeatureColumn". Provided: 3'),
    (lambda: Unfinished().spec, errors.UnimplementedError, "Unfinished: _parse_example_spec is missing; define it"),
    (lambda: Features({}).get(Unfinished()), errors.UnimplementedError, "_transform_feature(inputs) is missing"),
    (lambda: models.input_layer({"age": 3.0}, [AGE]), ValueError, "Feature (key: age) cannot have rank 0"),
    (lambda: models.input_layer({}, {"a": AGE}), ValueError, "Expected feature_columns to be iterable, found dict."),
    (lambda: models.linear_model({}, [Unfinished()]), ValueError, "must be either a _DenseColumn or _CategoricalColumn"),
    (lambda: models.linear_model({}, []), ValueError, "feature_columns must not be empty"),
    (lambda: models.input_layer({"age": [[1.0], [2.0]], "b": [[1.0]]}, [AGE, fc.numeric_column("b")]), ValueError,
     "Batch size of columns (age, b): (2, 1)"),
    (lambda: fc.numeric_column("x", [1.5]), TypeError, "shape dimensions must be integer"),
    (lambda: fc.numeric_column("x", 2, [1, 2, 3]), ValueError, "The shape of default_value must be equal to given shape"),
    (lambda: fc.numeric_column("x", default_value="a"), TypeError, "default_value must be compatible with dtype"),
    (lambda: fc.numeric_column("x", normalizer_fn="a"), TypeError, "normalizer_fn must be a callable"),
    (lambda: fc.categorical_column_with_hash_bucket("x", 3, "float32"), ValueError, "dtype must be string or integer"),
    (lambda: fc.categorical_column_with_vocabulary_list("x", [1.5]), ValueError, "vocabulary dtype must be string or integer"),
    (lambda: fc.categorical_column_with_vocabulary_list("x", ["a"], num_oov_buckets=-1), ValueError, "Invalid num_oov_buckets"),
    (lambda: fc.categorical_column_with_vocabulary_file("x", "", 3), ValueError, "Missing vocabulary_file"),
    (lambda: fc.categorical_column_with_vocabulary_file("x", "file", 0), ValueError, "Invalid vocabulary_size in x: 0"),
    (lambda: fc.embedding_column(WORDS, 2, initializer="ones"), ValueError, "initializer must be callable"),
    (lambda: fc.crossed_column(["a", "b"], 0), ValueError, "hash_bucket_size must be > 1. hash_bucket_size: 0")])
def test_wrong_columns_are_refused_in_words_that_programs_look_for(action, error, text: str):
    with pytest.raises(error, match=re.escape(text)):
        action()


@pytest.mark.parametrize("known", [True, False])
def test_an_example_of_another_width_is_no_part_of_its_neighbour(known: bool):
    """Two examples of one number are not one example of two."""
    ages = wb.placeholder("float32", [2, 1] if known else None)
    with pytest.raises(errors.Error, match="shape"):
        layer = models.input_layer({"age": ages}, [fc.numeric_column("age", 2)])
        with wb.Session() as session:
            session.run(layer, {ages: [[1.0], [5.0]]})


def test_a_vocabulary_is_read_when_it_is_needed(tmp_path):
    column = fc.categorical_column_with_vocabulary_file("word", tmp_path / "words", 2, num_oov_buckets=1)
    assert column.buckets == 3
    (tmp_path / "words").write_text("a\nb\nc\n")
    found, _ = column.identifiers(Features({"word": sparse(["b", "a", "z"], object)}))
    assert value(found.values).tolist() == [1, 0, 2]
    with pytest.raises(ValueError, match=r"Invalid vocab_size in word: 9, but .* has 3 lines"):
        fc.categorical_column_with_vocabulary_file("word", tmp_path / "words", 9).identifiers(
            Features({"word": sparse(["b", "a", "z"], object)}))


def test_an_initializer_is_told_that_a_variable_has_no_parts():
    table = fc.embedding_column(fc.categorical_column_with_identity("ids", 3), 2, initializer=(
        lambda shape, dtype, partition_info: wb.ones(shape, dtype) * (3.0 if partition_info is None else 0.0)))
    found = models.input_layer({"ids": sparse([0, 2, 1])}, [table])
    np.testing.assert_allclose(run(found), np.full((2, 2), 3.0))


def test_sparse_features_of_one_axis_are_one_value_an_example_and_unknown_words_weigh_nothing():
    features = {"word": wb.SparseTensor([[0], [2]], ["dog", "none"], [3]), "w": wb.SparseTensor([[0], [2]], [2.0, 4.0], [3]),
                "words": wb.SparseTensor([[0, 0], [0, 1], [0, 2]], ["none", "cat", "dog"], [1, 3]),
                "ws": wb.SparseTensor([[0, 0], [0, 1], [0, 2]], [1.0, 2.0, 4.0], [1, 3])}
    words = fc.categorical_column_with_vocabulary_list("word", ["dog", "cat"])
    np.testing.assert_array_equal(run(models.input_layer(features, [fc.indicator_column(words)])), [[1, 0], [0, 0], [0, 0]])
    weighted = fc.weighted_categorical_column(words, "w")
    np.testing.assert_array_equal(run(models.input_layer(features, [fc.indicator_column(weighted)])), [[2, 0], [0, 0], [0, 0]])
    several = fc.weighted_categorical_column(fc.categorical_column_with_vocabulary_list("words", ["dog", "cat"]), "ws")
    np.testing.assert_array_equal(run(models.input_layer(features, [fc.indicator_column(several)])), [[4, 2]])


def test_a_sparse_feature_of_unknown_rank_is_embedded():
    words = wb.sparse_placeholder("int64")
    table = fc.embedding_column(fc.categorical_column_with_identity("ids", 3), 2, initializer=wb.ones_initializer())
    found = models.input_layer({"ids": words}, [table])
    np.testing.assert_array_equal(run(found, {words: sparse([0, 2, 1])}), np.ones((2, 2)))


@pytest.mark.parametrize("parts", [None, 3])
def test_tables_begin_as_a_checkpoint_has_them(tmp_path, parts):
    known = np.arange(8, dtype=np.float32).reshape(4, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.Variable(known, name="words").initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    words = tf.feature_column.categorical_column_with_identity("w", 4)
    column = tf.feature_column.embedding_column(words, 2, ckpt_to_load_from=path, tensor_name_in_ckpt="words")
    shared = tf.feature_column.shared_embedding_columns(
        [words], 2, ckpt_to_load_from=str(tmp_path), tensor_name_in_ckpt="words")
    cut = None if parts is None else tf.fixed_size_partitioner(parts)
    with tf.Graph().as_default(), tf.Session() as session, tf.variable_scope("s", partitioner=cut):
        made = tf.feature_column.input_layer({"w": [[3], [1]]}, [column, *shared])
        session.run(tf.global_variables_initializer())
        assert session.run(made).tolist() == [[6, 7, 6, 7], [2, 3, 2, 3]]
        assert len(tf.trainable_variables()) == 2 * (parts or 1)
    with pytest.raises(ValueError, match="Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them"):
        tf.feature_column.embedding_column(words, 2, tensor_name_in_ckpt="words")
