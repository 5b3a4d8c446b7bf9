"""Names of TensorFlow 1.4 with its parameters: inverses of adjoints, variables in parts, readers of names, examples as JSON."""
from __future__ import annotations

import json

import numpy as np
import pytest

import workbench.tf1 as tf


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_the_inverse_of_an_adjoint(session):
    x = np.array([[1 + 2j, 2], [0, 3 - 1j]], np.complex64)
    np.testing.assert_allclose(session.run(tf.matrix_inverse(x, adjoint=True)), np.linalg.inv(x.conj().T), 1e-5)
    np.testing.assert_allclose(session.run(tf.linalg.inv(input=x)), np.linalg.inv(x), 1e-5)


def test_functions_take_the_parameters_of_that_time(session):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert session.run(tf.strided_slice(input_=x, begin=[0, 1], end=[2, 2], var=None)).tolist() == [[2], [4]]
    assert session.run(tf.spectral.rfft(input=x, fft_length=[2])).shape == (2, 2)
    assert session.run(tf.image.rgb_to_hsv(images=tf.zeros([1, 1, 3]))).shape == (1, 1, 3)
    with tf.variable_op_scope([x], None, "made") as scope:
        assert scope.name == "made"


def test_a_reader_of_names_opens_no_file(session):
    queue = tf.FIFOQueue(3, tf.string)
    session.run([queue.enqueue_many([["no such file", "nor this"]])])
    reader = tf.IdentityReader()
    key, value = reader.read(queue)
    assert [session.run([key, value]) for _ in range(2)] == [[b"no such file"] * 2, [b"nor this"] * 2]
    assert session.run(reader.num_records_produced()) == 2


def test_examples_are_read_from_json(session):
    text = json.dumps({"features": {"feature": {"age": {"int64List": {"value": [7]}}}}})
    made = tf.decode_json_example(tf.constant([text]))
    found = tf.parse_example(made, {"age": tf.FixedLenFeature([], tf.int64)})
    assert session.run(found["age"]).tolist() == [7]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Error while parsing JSON"):
        session.run(tf.decode_json_example("{no"))


def test_errors_are_made_by_position_or_by_name():
    error = tf.errors.NotFoundError(node_def=None, op="op", message="gone")
    assert (error.message, error.op, error.error_code) == ("gone", "op", tf.errors.NOT_FOUND)
    assert tf.errors.UnknownError(None, None, "odd", 99).error_code == 99
    assert str(tf.errors.InvalidArgumentError("only a text")) == "only a text"


def test_rounding_to_few_bits_is_offered(session):
    x = tf.constant([-7.0, 0.1, 7.0])
    found = session.run(tf.fake_quant_with_min_max_args(x))
    assert np.isclose(found[2] - found[0], 12, atol=1e-5) and abs(found[1] - 0.1) < 12 / 255
    assert tf.fake_quant_with_min_max_args(x).op.name == "FakeQuantWithMinMaxArgs_1"
