"""Linear models, sequences and placeholders over the feature columns of tf.contrib.layers."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.running import value

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
LAYERS = tf.contrib.layers


def words(values, shape=None, places=None):
    return tf.SparseTensor(places or [[i, 0] for i in range(len(values))], values, shape or [len(values), 1])


WORD = LAYERS.sparse_column_with_keys("word", ["a", "b", "c"])
NUMBER = LAYERS.sparse_column_with_integerized_feature("number", 4)
SIZE = LAYERS.real_valued_column("size", 2)


def test_a_linear_model_and_its_variables():
    features = {"word": words(["b", "zz"]), "size": tf.constant([[1.0, 2.0], [3.0, 4.0]])}
    found, variables, bias = LAYERS.weighted_sum_from_feature_columns(features, [WORD, SIZE], 2, scope="line")
    assert set(variables) == {WORD, SIZE} and bias.op.name == "line/bias_weight"
    assert [v.op.name for v in (variables[WORD][0], variables[SIZE][0])] == ["line/word/weights", "line/size/weight"]
    steps = [variables[WORD][0].assign([[1, 2], [3, 4], [5, 6]]), variables[SIZE][0].assign([[10, 0], [0, 10]]),
             bias.assign([100, 200])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(found).tolist() == [[0, 0], [0, 0]]
        session.run(steps)
        assert session.run(found).tolist() == [[113, 224], [130, 240]]


def test_all_identifiers_in_one_table():
    features = {"word": words(["b", "c"]), "number": words(np.int64([3, 5]))}
    found, [table], _ = LAYERS.joint_weighted_sum_from_feature_columns(features, [WORD, NUMBER], 1)
    assert table.shape.as_list() == [7, 1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(table.assign(np.arange(7, dtype=np.float32)[:, None]))
        assert session.run(found).tolist() == [[3 + 5], [1 + 6]]      # numbers first, by their names
    with pytest.raises(NotImplementedError, match="Real-valued columns are not supported"):
        LAYERS.joint_weighted_sum_from_feature_columns({"size": tf.ones([1, 2])}, [SIZE], 1)


def test_columns_that_were_computed_before():
    features = {"word": words(["c", "a"])}
    early = LAYERS.transform_features({**features, "size": tf.ones([2, 2])}, [WORD, SIZE])
    assert set(early) == {WORD, SIZE} and value(early[WORD].values).tolist() == [2, 0]
    hot = LAYERS.one_hot_column(WORD)
    assert value(LAYERS.input_from_feature_columns({WORD: early[WORD]}, [hot])).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_sequences_side_by_side():
    steps = {"size": tf.reshape(tf.range(12.0), [2, 3, 2]), "word": tf.SparseTensor(
        [[0, 0], [0, 2], [1, 1]], ["a", "c", "b"], [2, 3])}
    found = LAYERS.sequence_input_from_feature_columns(steps, [SIZE, LAYERS.one_hot_column(WORD), LAYERS.embedding_column(
        WORD, 4, initializer=tf.ones_initializer())])
    assert found.shape.as_list()[2] in (9, None)
    rows = value(found)
    assert rows.shape == (2, 3, 9) and rows[1, 1].tolist() == [8, 9, 1, 1, 1, 1, 0, 1, 0]
    for bad, text in ((LAYERS.bucketized_column(LAYERS.real_valued_column("x"), [0.0]), "that is not supported for sequences"),
                      (WORD, "is not currently supported for sequence data")):
        with pytest.raises(ValueError, match=text):
            LAYERS.sequence_input_from_feature_columns(steps, [bad])


def test_sequences_of_records():
    def numbers(*values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    example = tf.train.SequenceExample(
        context=tf.train.Features(feature={"size": numbers(5, 6)}),
        feature_lists=tf.train.FeatureLists(feature_list={"step": tf.train.FeatureList(feature=[numbers(1), numbers(2)])}))
    context, sequence = LAYERS.parse_feature_columns_from_sequence_examples(
        example.SerializeToString(), [SIZE], [LAYERS.real_valued_column("step")])
    assert value(context["size"]).tolist() == [5, 6] and value(sequence["step"]).tolist() == [[1], [2]]


def test_steps_are_as_wide_as_they_come():
    column = LAYERS.real_valued_column("size")
    found = LAYERS.sequence_input_from_feature_columns({"size": tf.ones([4, 8, 3, 2])}, [column])
    assert found.shape.as_list() == [4, 8, 6]


def test_variables_are_also_in_collections_of_the_programs():
    column = LAYERS.embedding_column(WORD, 3)
    LAYERS.input_from_feature_columns({"word": words(["a"])}, [column], weight_collections=["mine"])
    LAYERS.sequence_input_from_feature_columns({"word": words(["a"])}, [column], ["mine"])
    assert [v.shape.as_list() for v in tf.get_collection("mine")] == [[3, 3], [3, 3]]


def test_columns_are_inferred_of_tensors():
    found = LAYERS.infer_real_valued_columns({"b": tf.zeros([3, 2]), "a": tf.zeros([3], tf.int32)})
    assert [(c.key, c.dimension, c.dtype) for c in found] == [("a", 1, tf.int32), ("b", 2, tf.float32)]
    for bad, text in ((tf.constant(["a"]), "Non integer or non floating types are not supported"),
                      (words(["a"]), "SparseTensor is not supported for auto detection")):
        with pytest.raises(ValueError, match=text):
            LAYERS.infer_real_valued_columns(bad)


def test_examples_are_parsed_and_transformed():
    example = tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5])),
        "word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"c"]))})).SerializeToString()
    price = LAYERS.bucketized_column(LAYERS.real_valued_column("x"), [0.0, 1.0, 1.0, 2.0])
    found = LAYERS.parse_feature_columns_from_examples([example], [price, WORD])
    assert set(found) == {"x", "word", price, WORD} and value(found[WORD].values, found[price].values) == [[2], [2]]
    assert price.config == {"x": tf.FixedLenFeature((1,), tf.float32)} and WORD.bucket_size == WORD.length == 3
    assert LAYERS.embedding_column(WORD, 2).sparse_id_column is WORD


@pytest.mark.parametrize(("action", "text"), [
    (lambda: LAYERS.input_from_feature_columns({}, [WORD]), "Error creating input layer for column: word"),
    (lambda: LAYERS.weighted_sum_from_feature_columns({}, [LAYERS.embedding_column(WORD, 2)], 1),
     "Error creating weighted sum for column: word_embedding"),
    (lambda: LAYERS.bucketized_column(WORD, [0.0]), "source_column must be an instance of _RealValuedColumn")])
def test_what_columns_refuse(action, text):
    with pytest.raises(ValueError, match=text):
        action()


def test_placeholders_of_what_columns_read():
    found = LAYERS.make_place_holder_tensors_for_base_features([WORD, SIZE])
    assert isinstance(found["word"], tf.SparseTensor) and found["size"].shape.as_list() == [None, 2]


@pytest.mark.parametrize(("given", "text"), [
    ({"a": SIZE}, "Expected feature_columns to be iterable, found dict."),
    ([SIZE, SIZE], "Duplicate feature column key found")])
def test_what_no_columns_are(given, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        LAYERS.check_feature_columns(given)
