"""tf.Example and tf.SequenceExample messages become tensors: every kind of feature, and what is wrong with a message."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.train.input.examples import compression_of

pytestmark = pytest.mark.usefixtures("graph")
PROTO = {"float": "float_list", "int64": "int64_list", "bytes": "bytes_list"}


def feature(kind: str, values):
    lists = {"float": wb.train.FloatList, "int64": wb.train.Int64List, "bytes": wb.train.BytesList}
    return wb.train.Feature(**{PROTO[kind]: lists[kind](value=values)})


def features(**named):
    return wb.train.Features(feature={name: feature(*given) for name, given in named.items()})


def example(**named) -> bytes:
    return wb.train.Example(features=features(**named)).SerializeToString()


def batch(*messages: bytes):
    return np.array([*messages, None], object)[:-1]


FIRST = example(x=("float", [1, 2]), n=("int64", [5, 6]), t=("bytes", [b"a"]))
SECOND = example(x=("float", [3, 4]))


def test_dense_and_sparse_features():
    found = run(wb.parse_example(batch(FIRST, SECOND), {
        "x": wb.FixedLenFeature([2], wb.float32), "n": wb.VarLenFeature(wb.int64),
        "t": wb.FixedLenFeature([], wb.string, default_value="none")}))
    assert found["x"].tolist() == [[1, 2], [3, 4]] and found["t"].tolist() == [b"a", b"none"]
    assert found["n"].values.tolist() == [5, 6] and found["n"].dense_shape.tolist() == [2, 2]


def test_features_of_any_length_are_filled_up():
    made = wb.parse_example(batch(FIRST, SECOND, example(n=("int64", [7, 8, 9, 1]))), {
        "n": wb.FixedLenSequenceFeature([2], wb.int64, allow_missing=True),
        "t": wb.FixedLenSequenceFeature([], wb.string, allow_missing=True),
        "x": wb.FixedLenSequenceFeature([1], wb.float32, allow_missing=True, default_value=-1.0)})
    assert made["n"].shape.as_list() == [3, None, 2] and made["t"].shape.as_list() == [3, None]
    found = run(made)
    assert found["n"].tolist() == [[[5, 6], [0, 0]], [[0, 0], [0, 0]], [[7, 8], [9, 1]]]
    assert found["t"].tolist() == [[b"a"], [b""], [b""]] and found["x"][2].tolist() == [[-1], [-1]]


def test_two_features_are_one_sparse_matrix():
    messages = batch(example(i=("int64", [3, 0]), v=("float", [1, 2])), example(), example(i=("int64", [4]), v=("float", [3])))
    found = run(wb.parse_example(messages, {"s": wb.SparseFeature("i", "v", wb.float32, 6), "i": wb.VarLenFeature(wb.int64)}))
    assert found["s"].indices.tolist() == [[0, 0], [0, 3], [2, 4]] and found["s"].values.tolist() == [2, 1, 3]
    assert found["s"].dense_shape.tolist() == [3, 6] and found["i"].values.tolist() == [3, 0, 4]


def test_one_example_has_no_batch_dimension():
    made = wb.parse_single_example(FIRST, {"x": wb.FixedLenFeature([2, 1], wb.float32), "n": wb.VarLenFeature(wb.int64)})
    assert made["x"].shape == [2, 1]
    found = run(made)
    assert found["x"].tolist() == [[1], [2]] and found["n"].indices.tolist() == [[0], [1]]


def sequence() -> bytes:
    steps = {"tokens": [feature("int64", [3]), feature("int64", [4]), feature("int64", [5])],
             "parts": [feature("bytes", [b"a", b"b"]), feature("bytes", [])]}
    return wb.train.SequenceExample(
        context=features(length=("int64", [3]), tags=("bytes", [b"x", b"y"])),
        feature_lists=wb.train.FeatureLists(feature_list={
            name: wb.train.FeatureList(feature=listed) for name, listed in steps.items()})).SerializeToString()


def test_sequences():
    context, steps = wb.parse_single_sequence_example(
        sequence(), {"length": wb.FixedLenFeature([], wb.int64), "tags": wb.VarLenFeature(wb.string),
                     "more": wb.FixedLenFeature([2], wb.float32, 0.5)},
        {"tokens": wb.FixedLenSequenceFeature([], wb.int64), "parts": wb.VarLenFeature(wb.string),
         "none": wb.FixedLenSequenceFeature([3], wb.float32, allow_missing=True)})
    assert steps["tokens"].shape.as_list() == [None] and context["length"].shape == []
    context, steps = run((context, steps))
    assert context["length"] == 3 and context["tags"].values.tolist() == [b"x", b"y"] and context["more"].tolist() == [0.5, 0.5]
    assert context["tags"].dense_shape.tolist() == [2] and steps["tokens"].tolist() == [3, 4, 5]
    assert steps["parts"].indices.tolist() == [[0, 0], [0, 1]] and steps["parts"].dense_shape.tolist() == [2, 2]
    assert steps["none"].shape == (0, 3)


# bad input

@pytest.mark.parametrize(("asked", "text"), [
    ({"n": wb.FixedLenFeature([2], wb.int64)},
     "Name: second, Feature: n (data type: int64) is required but could not be found; give it a default_value"),
    ({"x": wb.FixedLenFeature([3], wb.float32)},
     "Name: first, Key: x, Index: 0.  Number of float values != expected.  values size: 2 but output shape: [3]"),
    ({"x": wb.VarLenFeature(wb.int64)},
     "Name: first, Key: x, Index: 0.  Data types don't match.  Data type: float but expected type: int64"),
    ({"x": wb.FixedLenSequenceFeature([3], wb.float32, True)},
     "Name: first, Key: x, Index: 0.  Number of float values is not a multiple of stride length")])
def test_examples_that_are_otherwise_are_named(asked, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        run(wb.parse_example(batch(FIRST, SECOND), asked, example_names=["first", "second"]))


def test_bytes_that_are_no_message():
    asked = {"x": wb.VarLenFeature(wb.float32)}
    with pytest.raises(errors.InvalidArgumentError, match="example input, message 1: 3 bytes cannot be read as Example"):
        run(wb.parse_example(batch(FIRST, b"\xff\xff\xff"), asked))
    with pytest.raises(errors.InvalidArgumentError, match="Could not parse example input: 3 bytes cannot be read as Sequence"):
        run(wb.parse_single_sequence_example(b"\xff\xff\xff", asked)[0])
    with pytest.raises(errors.InvalidArgumentError, match="there are 1 example_names for 2 messages; give one for each"):
        run(wb.parse_example(batch(FIRST, SECOND), asked, example_names=["a"]))


def test_a_sequence_that_is_not_there():
    with pytest.raises(errors.InvalidArgumentError, match="Feature list 'none' is required but could not be found"):
        run(wb.parse_single_sequence_example(sequence(), None, {"none": wb.FixedLenSequenceFeature([], wb.int64)})[1])


@pytest.mark.parametrize(("asked", "kind", "text"), [
    ({"x": wb.FixedLenFeature([], wb.int32)}, errors.DtypeError, "feature 'x' is asked as int32; examples hold float32, int64"),
    ({"x": 3}, ValueError, "feature 'x' may be a VarLenFeature, FixedLenFeature, SparseFeature, FixedLenSequenceFeature"),
    ({"x": wb.FixedLenFeature([2, None], wb.int64)}, ValueError, "All dimensions of shape for feature x need to be known"),
    ({"x": wb.FixedLenFeature([None], wb.int64)}, ValueError, "First dimension of shape for feature x unknown"),
    ({"x": wb.FixedLenFeature(None, wb.int64)}, ValueError, "Missing shape for feature x; say which one"),
    ({"x": wb.FixedLenSequenceFeature([], wb.int64, True, [])}, ValueError, "Cannot reshape a tensor with 0 elements to shape"),
    ({"x": wb.FixedLenFeature([2], wb.int64, [1, 2, 3])}, ValueError, "has 3 elements but its shape is [2]; give one for each"),
    ({"x": wb.FixedLenSequenceFeature([], wb.int64)}, ValueError, "requires allow_missing to be True"),
    ({"a": wb.SparseFeature("i", "v", wb.int64, 3), "v": wb.VarLenFeature(wb.string)}, ValueError, "asked for twice"),
    ({}, ValueError, "features are empty"), (None, ValueError, "Missing: features was None.")])
def test_features_that_cannot_be(asked, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        wb.parse_example(batch(FIRST), asked)


def test_compressions_by_name():
    with pytest.raises(errors.InvalidArgumentError, match=r"here: compression type 'LZ4' is none of '', 'ZLIB' and 'GZIP'"):
        compression_of("here", "LZ4")


def test_steps_of_a_sequence_that_hold_something_else_are_named():
    lists = wb.train.FeatureLists(feature_list={"a": wb.train.FeatureList(feature=[feature("int64", [1, 2]),
                                                                                   feature("float", [3, 4])])})
    message = wb.train.SequenceExample(feature_lists=lists).SerializeToString()
    with pytest.raises(errors.InvalidArgumentError, match=r"Name: s, Feature list: a, Index: 1\.  Data types don't match\. "
                                                          "Expected type: int64  Feature is: float_list; ask for what was"):
        run(wb.parse_single_sequence_example(message, None, {"a": wb.FixedLenSequenceFeature(2, wb.int64)}, "s")[1])


# tensors as bytes

@pytest.mark.parametrize("value", [np.float32([[1.5, -2]]), np.array([b"a", b""], object), np.int64(7), np.array([True]),
                                   np.zeros([0, 3], np.uint8), np.complex64([1 + 2j])])
def test_tensors_as_bytes_and_back(value):
    tensor = wb.convert_to_tensor(value)
    found, again = run([wb.serialize_tensor(tensor), wb.parse_tensor(wb.serialize_tensor(tensor), tensor.dtype)])
    assert isinstance(found, bytes) and np.array_equal(again, value) and np.shape(again) == np.shape(value)


@pytest.mark.parametrize(("given", "text"), [
    (b"bogus", "Could not parse `serialized` as TensorProto: 'bogus'"),
    ([b"bogus"], r"Expected `serialized` to be a scalar, got shape: [1]"),
    (None, "Type mismatch between parsed tensor (float32) and dtype (int32); ask for what was written")])
def test_bytes_that_are_no_such_tensor(given, text):
    given = wb.serialize_tensor(np.float32([1])) if given is None else given
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        run(wb.parse_tensor(given, wb.int32))
