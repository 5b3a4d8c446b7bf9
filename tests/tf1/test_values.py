"""What TensorFlow's functions take beyond ours: values of several kinds where the graph is built, and what they give."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import workbench.tf1 as tf


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_branches_and_loops_pass_sparse_tensors_around(session: tf.Session) -> None:
    wanted = tf.placeholder(tf.bool)
    one = tf.SparseTensor([[0, 1]], [2.0], [2, 3])
    chosen = tf.cond(wanted, lambda: one, lambda: tf.SparseTensor([[0, 0], [1, 1]], [1.0, 5.0], [2, 3]))
    _, grown = tf.while_loop(lambda i, sparse: i < 3, lambda i, sparse: (i + 1, sparse * 2.0), [tf.constant(0), one])
    assert session.run(chosen, {wanted: False}).values.tolist() == [1, 5]
    assert session.run(chosen, {wanted: True}).indices.tolist() == [[0, 1]]
    assert session.run(grown).values.tolist() == [16]


def test_a_branch_may_give_the_only_result_in_a_list(session: tf.Session) -> None:
    wanted, x = tf.placeholder(tf.bool), tf.constant([1.0])
    chosen = tf.cond(wanted, lambda: (x,), lambda: [x + 1])
    assert isinstance(chosen, tf.Tensor) and session.run(chosen, {wanted: False}).tolist() == [2]
    strict = tf.cond(wanted, lambda: [x], lambda: [x + 1], strict=True)
    assert isinstance(strict, list) and session.run(strict, {wanted: True})[0].tolist() == [1]


    first = tf.case([(wanted, lambda: [x])], lambda: (x + 1,))
    assert session.run(first, {wanted: False}).tolist() == [2]


def test_where_numbers_are_not_zero(session: tf.Session) -> None:
    for dtype in ("int32", "float64", "complex64", "uint8"):
        assert session.run(tf.where(np.array([[0, 2], [1, 0]], dtype))).tolist() == [[0, 1], [1, 0]]


def test_dropout_keeps_the_shape_whatever_is_known_of_keep_prob(session: tf.Session) -> None:
    keep = tf.placeholder(tf.float32)
    dropped = tf.nn.dropout(tf.ones([4, 3]), keep)
    assert dropped.shape.as_list() == [4, 3] and session.run(dropped, {keep: 1.0}).tolist() == [[1] * 3] * 4


@pytest.mark.parametrize(("count", "index"), [(5, 7), (5, -3), (-3, 1), (0, 1)])
def test_shards_that_are_none_are_refused(count: int, index: int) -> None:
    with pytest.raises(ValueError, match=f"index is {index} and num_shards {count}; num_shards must be >= 1"):
        tf.data.Dataset.range(10).shard(count, index)


def test_a_file_opened_to_be_read_and_written_is_made(tmp_path: Path) -> None:
    with tf.gfile.GFile(str(tmp_path / "new"), "r+") as file:
        file.write("text")
        assert file.read(2) == "te" and file.tell() == 2
    with tf.gfile.GFile(str(tmp_path / "new"), "r+") as file:
        assert file.read() == "text"


def test_nothing_scattered_gives_nothing(session: tf.Session) -> None:
    empty = np.zeros([0], np.int32)
    assert session.run(tf.scatter_nd(empty, empty, [0])).shape == (0,)


def test_a_range_of_data_has_steps(session: tf.Session) -> None:
    step = tf.placeholder(tf.int64, [])
    iterator = tf.data.Dataset.range(2, 10, step).make_initializable_iterator()
    element = iterator.get_next()
    with pytest.raises(tf.errors.InvalidArgumentError, match="step must be a non-zero integer; it is 0"):
        session.run(iterator.initializer, {step: 0})
        session.run(element)


def test_shapes_in_messages_of_queues_are_written_as_tensorflow_writes_them(session: tf.Session) -> None:
    value = tf.placeholder(tf.int32)
    add = tf.PaddingFIFOQueue(10, tf.int32, [[None, 3]]).enqueue(value)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected \[\?,3\], got \[3,4\]; reshape it"):
        session.run(add, {value: np.zeros([3, 4], np.int32)})


# arrays where another type is asked for

def test_arrays_of_numpy_take_the_type_that_is_asked_for(session):
    x = tf.constant([[1, 2, 3], [4, 5, 6]])
    assert session.run(x + np.array([1.9, 1.0, 1.0])).tolist() == [[2, 3, 4], [5, 6, 7]]
    assert session.run(np.float64(2.5) * x).tolist() == [[2, 4, 6], [8, 10, 12]]
    assert session.run(tf.equal(x, np.array([[1.0, 2, 3], [4, 5, 7]]))).tolist() == [[True] * 3, [True, True, False]]
    assert session.run(tf.convert_to_tensor(np.array([1.5, -1.5]), tf.int64)).tolist() == [1, -1]
    assert session.run(tf.constant(np.array([300]), tf.uint8)).tolist() == [44]
    assert session.run(tf.constant(np.array([2, 0]), tf.bool)).tolist() == [True, False]
    assert session.run(tf.Variable(np.array([True]), dtype=tf.float32).initial_value).tolist() == [1]
    assert tf.make_ndarray(tf.make_tensor_proto(np.array([1.5]), tf.int32)).tolist() == [1]


def test_truth_values_of_python_are_numbers_where_numbers_are_asked_for(session):
    assert session.run(tf.constant(True, tf.float32)) == 1
    assert session.run(tf.constant([[True, False]], "int32")).tolist() == [[1, 0]]
    assert session.run(tf.constant(2.0) * True) == 2


def test_sizes_may_stand_in_an_array_of_floats(session):
    x, sizes = tf.constant([[1, 2, 3], [4, 5, 6]]), np.array([3.0, 2.0])
    assert session.run(tf.reshape(x, sizes)).tolist() == [[1, 2], [3, 4], [5, 6]] and tf.reshape(x, sizes).shape == [3, 2]
    assert tf.tile(x, np.array([1.0, 2.0])).shape == [2, 6] and tf.fill(sizes, 1).shape == [3, 2]
    assert tf.pad(x, np.array([[1.0, 0.0], [0.0, 0.0]])).shape == [3, 3]
    for wrong in (lambda: tf.gather(x, np.array([1.0])), lambda: tf.reshape(x, [3.0, 2.0])):
        with pytest.raises(TypeError, match="float"):
            wrong()


@pytest.mark.parametrize("wrong", [lambda: tf.constant(1.5, tf.int32), lambda: tf.constant([1.5], tf.int64),
                                   lambda: tf.constant([1, 2]) * 1.5])
def test_numbers_of_python_are_not_cast(wrong):
    with pytest.raises(TypeError, match=r"1.5.* is float64 but int.. was wanted"):
        wrong()


def test_codes_are_made_of_values_that_only_the_step_knows(session):
    sure, rest = tf.placeholder_with_default(0.75, []), tf.placeholder_with_default(0.25, [])
    assert session.run(tf.one_hot([0, 2], 3, sure, rest)).tolist() == [[0.75, 0.25, 0.25], [0.25, 0.25, 0.75]]
    assert session.run(tf.one_hot([0, 3], 2, on_value=sure)).tolist() == [[0.75, 0], [0, 0]]
    first = tf.one_hot([[0], [1]], 2, sure, 0.5, axis=0)
    assert first.shape == [2, 2, 1] and session.run(first).tolist() == [[[0.75], [0.5]], [[0.5], [0.75]]]
    assert tf.gradients(tf.one_hot([0], 2, sure), sure) == [None]      # as in TensorFlow
    for value in (sure, np.float32(0.5)):
        with pytest.raises(TypeError, match="on_value is float32 but int32 is asked for"):
            tf.one_hot([0], 2, value, dtype=tf.int32)


# variables and what they are read as

def test_what_a_variable_is_converted_to_stands_for_it_in_gradients(session):
    v = tf.Variable([1.0, 2.0])
    read = tf.convert_to_tensor(v)
    of = [tf.gradients(v * v, read), tf.gradients(read * v, v), tf.gradients(v * v.value(), [read, v.value()]),
          tf.gradients(v, read), tf.hessians(tf.reduce_sum(v * v * v), read)]
    once = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x * v), [0, read])[1]
    session.run(v.initializer)
    assert [[g.tolist() for g in each] for each in session.run(of)] == [
        [[2, 4]], [[2, 4]], [[2, 4]] * 2, [[1, 1]], [[[6, 0], [0, 12]]]]
    assert session.run(tf.gradients(once, read))[0].tolist() == [3, 12]
    assert session.run(tf.convert_to_tensor(tf.gradients(tf.nn.embedding_lookup(v, [1]), read)[0])).tolist() == [0, 1]


def test_read_value_stands_for_itself_alone(session):
    v = tf.Variable([1.0, 2.0])
    alone = v.read_value()
    session.run(v.initializer)
    assert tf.gradients(v * v, alone) == [None]
    assert [g.tolist() for g in session.run(tf.gradients(v * alone, [alone, v]))] == [[1, 2], [2, 4]]


def test_a_program_may_say_less_of_a_shape_than_is_known(session):
    """So Tensor2Tensor lets what a loop keeps grow."""
    kept = tf.zeros([2, 0, 3])
    kept._shape = tf.TensorShape([2, None, 3])
    grown = tf.while_loop(lambda i, k: i < 4, lambda i, k: (i + 1, tf.concat([k, tf.ones([2, 1, 3])], 1)), [0, kept])[1]
    assert kept._shape == kept.get_shape() == [2, None, 3] and grown.shape == [2, None, 3]
    assert session.run(grown).shape == (2, 4, 3)
