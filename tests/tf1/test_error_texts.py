"""What TensorFlow's own tests look for in errors: the class and the words, beside our place, values and fix."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as tf

Z, F = np.int32, np.float32


def fed(build: Callable[..., Any], *values: Any) -> Any:
    """A run of what `build` makes of placeholders of unknown shape that these values are fed for."""
    given = [tf.placeholder(np.asarray(v).dtype if np.asarray(v).dtype.kind not in "SUO" else tf.string) for v in values]
    made = build(*given)
    return lambda: run(made, dict(zip(given, values)))


def run(fetched: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetched, feeds)


def sparse(indices: Any, values: Any, shape: Any) -> Any:
    return tf.SparseTensor(np.array(indices, np.int64).reshape(-1, len(shape)), np.array(values), np.array(shape, np.int64))


def _reused() -> Any:
    with tf.variable_scope("scope", reuse=True):
        return tf.get_variable("missing", [1])


D = tf.contrib.distributions

BUILDING = {
    "components of other types": (lambda: D.Mixture(D.Categorical([0.3, 0.2]), [D.Normal([1.0], [2.0]), D.Normal(
        np.ones(1), np.ones(1))]), TypeError, "same dtype"),
    "classes without components": (lambda: D.Mixture(D.Categorical([0.1, 0.5]), [D.Normal(1.0, 2.0)]), ValueError,
                                   "cat.num_classes != len"),
    "a covariance that is none": (lambda: D.MultivariateNormalFullCovariance(np.zeros(2), [[1.0, 0.5], [0.2, 1.0]], True),
                                  ValueError, "not symmetric"),
    "an operation": (lambda: tf.convert_to_tensor(tf.no_op()), TypeError, "Can't convert Operation 'NoOp' to Tensor"),
    "an integer as a scale": (lambda: tf.contrib.layers.l1_regularizer(0), ValueError, "scale cannot be an integer: 0"),
    "decay without steps": (lambda: tf.contrib.layers.optimize_loss(
        tf.Variable(1.0), None, 0.1, "SGD", learning_rate_decay_fn=lambda rate, step: rate), ValueError,
        "global_step is required for learning_rate_decay_fn"),
    "shapes that differ": (lambda: tf.TensorShape([3, 3]).assert_is_compatible_with([5, 3]), ValueError,
                           r"Shapes .*are incompatible"),
    "another rank": (lambda: tf.TensorShape([5]).with_rank(2), ValueError, "Shape .* must have rank 2"),
    "a shape with an unknown length": (lambda: tf.TensorShape([None]).assert_is_fully_defined(), ValueError,
                                       "Shape .* is not fully defined"),
    "a variable that is not there": (_reused, ValueError, r"does not exist, or was not created with tf.get_variable\(\)"),
    "instance_norm": (lambda: tf.contrib.layers.instance_norm(tf.placeholder(F)), ValueError, "undefined rank"),
    "matmul": (lambda: tf.matmul(np.zeros((2, 3)), np.zeros((2, 3))), ValueError, "Dimensions must be equal, but are 3 and 2"),
    "conv2d": (lambda: tf.nn.conv2d(tf.placeholder(F), tf.placeholder(F), [2, 1, 1, 1], "SAME"), tf.errors.InvalidArgumentError,
               "strides in the batch and depth"),
    "max_pool": (lambda: tf.nn.max_pool(tf.placeholder(F), [1, 1, 1, 1], [2, 1, 1, 1], "SAME"), tf.errors.UnimplementedError,
                 "Pooling is not yet supported on the batch"),
    "floats of a sparse tensor": (lambda: tf.assert_same_float_dtype([sparse([[0]], [1.0], [2])], tf.float32), ValueError,
                                  "float64 but float32"),
    "an axis beyond the rank": (lambda: tf.reduce_sum(np.zeros((2, 5), F), [-3]), ValueError, "Invalid reduction dimension -3"),
    "a running sum along no axis": (lambda: tf.cumsum(np.zeros((2, 5), F), 2), tf.errors.InvalidArgumentError,
                                    r"Expected scan axis in the range \[-2, 2\)"),
    "stack": (lambda: tf.stack([np.zeros(2), np.zeros(2)], -3), ValueError, r"axis = -3 not in \[-2, 2\)"),
    "unstack": (lambda: tf.unstack(np.zeros((2, 2)), axis=2), ValueError, r"axis = 2 not in \[-2, 2\)"),
    "unstack of unknown length": (lambda: tf.unstack(tf.placeholder(F, (None,))), ValueError,
                                  r"Cannot infer num from shape \(\?,\)"),
    "unstack of unknown rank": (lambda: tf.unstack(tf.placeholder(F)), ValueError, "Cannot infer num from shape <unknown>"),
    "transpose": (lambda: tf.transpose(np.zeros((2, 3, 5)), [0, 1, 1]), ValueError, "2 is missing"),
    "norm of an order": (lambda: tf.norm(np.zeros(3), ord="fro"), ValueError, "'ord' must be a supported vector norm"),
    "norm along axes": (lambda: tf.norm(np.zeros(3), axis=[]), ValueError,
                        "'axis' must be None, an integer, or a tuple of 2 unique integers"),
    "fft": (lambda: tf.fft(np.zeros((), np.complex64)), ValueError, "Shape must be .*rank 1.*"),
    "iteration": (lambda: list(tf.constant(5.0)), TypeError, "'Tensor' object is not iterable"),
    "an object that is no tensor": (lambda: tf.constant([[10.0]]) + object(), TypeError, "Expected float"),
    "scatter_nd of other rows": (lambda: tf.scatter_nd(np.zeros((3, 2, 2), Z), np.zeros((2, 2, 2), Z), [2, 2, 2]), ValueError,
                                 r"The outer \d+ dimensions of indices\.shape="),
    "scatter_nd of other slices": (lambda: tf.scatter_nd(np.zeros((2, 2, 1), Z), np.zeros((2, 2), Z), [2, 2, 2]), ValueError,
                                   r"The inner \d+ dimensions of (input|output)\.shape="),
    "scatter_nd into nothing": (lambda: tf.scatter_nd(np.zeros((2, 2, 2), Z), np.zeros((2, 2, 2), Z), [0, 3, 2]), ValueError,
                                "Indices and updates specified for empty output shape"),
    "scatter_nd_update of other slices": (lambda: tf.scatter_nd_update(
        tf.Variable(np.zeros((2, 2, 2), Z)), np.zeros((2, 2, 1), Z), np.zeros((2, 2), Z)), ValueError,
        r"The inner \d+ dimensions of input\.shape="),
    "strings of other shapes": (lambda: tf.string_join([["a"], ["b", "c"]]), ValueError, "string_join"),
    "a sparse tensor of another size": (lambda: tf.sparse_reshape(sparse([[0, 1]], [1], [5, 6]), [4, 7]), ValueError,
                                        "Cannot reshape"),
    "a sparse tensor made smaller": (lambda: tf.sparse_reset_shape(sparse([[0, 1]], [1], [5, 6]), [4, 7]), ValueError,
                                     "should have dimension sizes"),
    "sparse_split by position": (lambda: tf.sparse_split(sparse([[0]], [1], [2]), 1, 0), ValueError,
                                 "Keyword arguments are required"),
    "a key of one number": (lambda: tf.string_to_hash_bucket_strong(["a"], 10, [98765]), ValueError,
                            "Key must have 2 elements"),
    "data sets of other structures": (lambda: tf.data.Dataset.range(2).concatenate(tf.data.Dataset.zip(
        (tf.data.Dataset.range(2), tf.data.Dataset.range(2)))), ValueError, "don't have the same number of elements"),
    "data sets of other types": (lambda: tf.data.Dataset.range(2).concatenate(tf.data.Dataset.from_tensors(1.0)), TypeError,
                                 "have different types"),
    "a matrix of texts": (lambda: tf.matmul([["a"]], [["b"]]), TypeError, "has DataType string not in list of allowed values"),
    "weights of another length": (lambda: tf.metrics.mean_iou(np.ones(10), np.ones(10), 2, weights=np.zeros(9)), ValueError,
                                  "weights"),
}


@pytest.mark.parametrize("name", BUILDING)
def test_errors_while_building_have_tensorflows_words(name: str) -> None:
    build, kind, words = BUILDING[name]
    with tf.Graph().as_default(), pytest.raises(kind, match=words):
        build()


def base64_less_a_letter() -> Any:
    return fed(tf.decode_base64, [b"lg54E"])


RUNNING = {
    "argmin of nothing": (lambda: fed(lambda x: tf.argmin(x, 0), np.zeros(0, F)), r"Reduction axis 0 is empty in shape \[0\]"),
    "as_string of two formats": (lambda: fed(lambda x: tf.as_string(x, scientific=True, shortest=True), np.ones(1)),
                                 "Cannot select both"),
    "as_string of whole numbers": (lambda: fed(lambda x: tf.as_string(x, precision=2), np.ones(1, Z)),
                                "precision not supported"),
    "base64": (base64_less_a_letter, "1 modulo 4"),
    "bitcast": (lambda: fed(lambda x: tf.bitcast(x, tf.int32), np.zeros((1, 1), np.int8)), "Cannot bitcast due to shape"),
    "case": (lambda: fed(lambda x: tf.case([(x > 0, lambda: tf.constant(1)), (x > 1, lambda: tf.constant(2))],
                                           lambda: tf.constant(3), exclusive=True), np.int32(2)),
             "More than one condition evaluated as True but exclusive=True."),
    "decode_raw": (lambda: fed(lambda x: tf.decode_raw(x, tf.int16), [b"123"]),
                   "Input to DecodeRaw has length 3 that is not a multiple of 2, the size of int16"),
    "decode_raw of other lengths": (lambda: fed(lambda x: tf.decode_raw(x, tf.uint8), [b"123456", b"12345"]),
                                    "DecodeRaw requires input strings to all be the same size, but element 1 has size 5 != 6"),
    "dynamic_partition": (lambda: fed(lambda x: tf.dynamic_partition(np.zeros(5, F), x, 4)[0], np.array([0, 1, 99, 2, 2], Z)),
                          r"partitions\[2\] = 99 is not in \[0, 4\)"),
    "gather_nd": (lambda: fed(lambda x: tf.gather_nd(np.zeros(3, F), x), np.array([[[0], [7]], [[1], [1]]], Z)),
                  r"flat indices\[1, :\] = \[7\] does not index into param \(shape: \[3\]\)"),
    "gather_nd of nothing": (lambda: fed(lambda x: tf.gather_nd(np.zeros((0, 3), F), x), np.zeros((1, 2), Z)),
                             "Requested more than 0 entries, but params is empty."),
    "a label below 0": (lambda: fed(lambda x: tf.confusion_matrix(x, [1, 2], 3), np.array([-1, 0], Z)),
                        "`labels`.*negative values"),
    "a label too large": (lambda: fed(lambda x: tf.confusion_matrix([1, 2], x, 3), np.array([3, 0], Z)),
                          "`predictions`.*x < y"),
    "matrix_diag": (lambda: fed(tf.matrix_diag, F(1)), "input must be at least 1-dim"),
    "fill": (lambda: fed(lambda x: tf.fill(x, 1), np.int32(3)), "dims must be a vector"),
    "labels of a number": (lambda: fed(lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=x, logits=[[7.0]]),
                                       np.int32(0)), "labels must be 1-D"),
    "multinomial": (lambda: fed(lambda x: tf.multinomial(x, 2), np.zeros((5, 0), F)), "num_classes should be positive"),
    "numbers of texts": (lambda: fed(lambda x: tf.string_to_number(x, tf.int32), [b"2.9"]),
                         "StringToNumberOp could not correctly convert string: 2.9"),
    "transpose": (lambda: fed(tf.transpose, np.zeros((2, 3, 5)), np.array([0, 1, 1], Z)), "2 is missing"),
    "sparse_reshape": (lambda: fed(lambda x: tf.sparse_reshape(sparse([[0, 1]], [1], [5, 6]), x).indices, np.array([4, -1], Z)),
                       "requested shape requires a multiple"),
    "sparse_reshape of two unknowns": (lambda: fed(lambda x: tf.sparse_reshape(sparse([[0, 1]], [1], [5, 6]), x).indices,
                                                   np.array([4, -1, -1], Z)), "only one output shape size may be -1"),
    "sparse_reset_shape": (lambda: fed(lambda x: tf.sparse_reset_shape(sparse([[0, 1]], [1], [5, 6]), x).dense_shape,
                                       np.array([4, 7], Z)), "x <= y did not hold element-wise"),
    "sparse_reset_shape of a rank": (lambda: fed(lambda x: tf.sparse_reset_shape(sparse([[0, 1]], [1], [5, 6]), x).dense_shape,
                                                 np.array([4, 7, 8], Z)), "x == y did not hold element-wise"),
    "sparse_tensor_dense_matmul": (lambda: fed(lambda x: tf.sparse_tensor_dense_matmul(
        tf.SparseTensor(x, [1.0], [3, 2]), np.ones((2, 1), F)), np.array([[1, 10]], np.int64)),
        r"k .10. from index.0,1. out of bounds .>=2."),
    "sparse strings": (lambda: fed(lambda x: tf.deserialize_many_sparse(x, tf.int32, 1).indices, [[b"a", b"b", b"c"]]),
                       r"Could not parse serialized_sparse\[0, 0\]"),
    "an element of a generator": (lambda: (lambda made: lambda: run(made))(tf.data.Dataset.from_generator(
        lambda: iter(["ERROR"]), tf.int64).make_one_shot_iterator().get_next()), "invalid literal for"),
}


@pytest.mark.parametrize("name", RUNNING)
def test_errors_of_steps_have_tensorflows_words(name: str) -> None:
    build, words = RUNNING[name]
    with tf.Graph().as_default():
        step = build()
        with pytest.raises(tf.errors.OpError) as found:
            step()
    assert re.search(words, str(found.value), re.DOTALL)


ASSERTIONS = {"assert_less": ([1], [1]), "assert_less_equal": ([2], [1]), "assert_greater": ([1], [1]),
              "assert_greater_equal": ([1], [2]), "assert_none_equal": ([3], [3]), "assert_positive": ([-1],),
              "assert_negative": ([1],), "assert_non_negative": ([-1],), "assert_non_positive": ([2],)}


@pytest.mark.parametrize("name", ASSERTIONS)
def test_assertions_about_constants_fail_in_the_step(name: str) -> None:
    """As in TensorFlow 1.4, where only assert_equal looks at constants."""
    with tf.Graph().as_default():
        with tf.control_dependencies([getattr(tf, name)(*ASSERTIONS[name], message="fail")]):
            out = tf.identity(1)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)fail.*did not hold"):
            run(out)
        with pytest.raises(ValueError, match="fail"):
            tf.assert_equal([1], [2], message="fail")


@pytest.mark.parametrize(("build", "feed", "name", "kind"), [
    (lambda p: tf.add(p, [1.0, 2.0], name="ad"), [1, 2, 3], "ad", "Add"),
    (lambda p: tf.matmul(tf.reshape(p, [1, -1]), tf.ones([2, 2]), name="mm"), [1, 2, 3], "mm", "MatMul"),
    (lambda p: p * 2.0, None, "p", "Placeholder")])
def test_an_error_of_a_step_has_its_operation(build, feed, name, kind):
    """Also where it is seen as soon as shapes are fed, or because nothing is."""
    with tf.Graph().as_default(), tf.Session() as session:
        p = tf.placeholder(tf.float32, [None], name="p")
        y = build(p)
        with pytest.raises(tf.errors.InvalidArgumentError) as failed:
            session.run(y, {} if feed is None else {p: feed})
        assert (failed.value.op.name, failed.value.op.type, failed.value.node_def.name) == (name, kind, name)


@pytest.mark.parametrize("ask", ["get_tensor_by_name", "get_operation_by_name"])
def test_a_name_is_a_text(ask):
    with tf.Graph().as_default() as graph, pytest.raises(TypeError, match="names are strings"):
        getattr(graph, ask)(5)
