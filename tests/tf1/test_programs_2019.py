"""What stopped programs of 2016 - 2019 that had not been run before: each test states the behaviour that they count on."""
from __future__ import annotations

import re

import numpy as np
import pytest
from workbench.tf1.contrib.framework.python.ops import arg_scope as scope_of_package
from workbench.tf1.contrib.framework.python.ops.arg_scope import add_arg_scope, arg_scope
from workbench.tf1.python.ops.rnn_cell_impl import _linear

import workbench.tf1 as tf
from workbench import errors
from workbench.tf1.missing import needs


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_operations_of_gradients_carry_the_whole_name_of_what_they_differentiate():
    x = tf.placeholder(tf.float32, [2, 3])
    with tf.variable_scope("policy"):
        y = tf.matmul(x, tf.get_variable("w", [3, 4]))
    [dw] = tf.gradients(y, tf.trainable_variables(), name="sampled")
    forward = re.search("sampled/(.+?)_grad", dw.op.name).group(1)
    assert forward == "policy/MatMul" and tf.get_default_graph().get_operation_by_name(forward).type == "MatMul"


def test_a_moving_average_takes_a_decay_that_only_the_step_knows(session):
    decay, value = tf.placeholder(tf.float32, []), tf.Variable(4.0)
    averages = tf.train.ExponentialMovingAverage(decay=tf.minimum(0.9, decay))
    update = averages.apply([value])
    session.run(tf.global_variables_initializer())
    session.run(value.assign(8.0))
    session.run(update, {decay: 0.5})
    assert session.run(averages.average(value)) == 6.0
    session.run(update, {decay: 1.0})
    np.testing.assert_allclose(session.run(averages.average(value)), 0.9 * 6 + 0.1 * 8, rtol=1e-6)
    with pytest.raises(ValueError, match="use a decay from 0 to 1"):
        tf.train.ExponentialMovingAverage(1.5)


def test_the_shape_of_a_sparse_placeholder_may_be_a_tensor(session):
    sparse = tf.sparse_placeholder(tf.float32, shape=tf.constant([2, 3], tf.int64))
    assert sparse.get_shape().as_list() == [2, 3] and sparse.indices.shape.as_list() == [None, 2]
    dense = session.run(tf.sparse_tensor_to_dense(sparse), {sparse: ([[0, 1]], [5.0], [2, 3])})
    assert dense.tolist() == [[0, 5, 0], [0, 0, 0]]


def test_softmax_of_a_sparse_tensor_whose_rank_only_the_step_knows(session):
    sparse = tf.sparse_placeholder(tf.float32)
    made, [dx] = tf.sparse_softmax(sparse), tf.gradients(tf.sparse_softmax(sparse).values[0], [sparse.values])
    indices = [[0, 0, 1], [0, 0, 2], [1, 1, 0]]
    found, slope = session.run([made, dx], {sparse: (indices, [1.0, 2.0, 3.0], [2, 2, 3])})
    first = 1 / (1 + np.e)
    np.testing.assert_allclose(found.values, [first, 1 - first, 1], rtol=1e-6)
    np.testing.assert_allclose(slope, [first * (1 - first), -first * (1 - first), 0], atol=1e-6)
    assert found.indices.tolist() == indices and found.dense_shape.tolist() == [2, 2, 3]
    with pytest.raises(errors.InvalidArgumentError, match="2 axes or more"):
        session.run(made, {sparse: ([[0]], [1.0], [3])})


def test_linear_takes_the_arguments_of_1_0(session):
    x = tf.ones([2, 3])
    with tf.variable_scope("first", initializer=tf.zeros_initializer()):
        named = _linear([x], 4, True, bias_start=0.5, scope="trans")
        placed = _linear([x, x], 2, True, 0.25)
    session.run(tf.global_variables_initializer())
    assert session.run(named).tolist() == [[0.5] * 4] * 2 and session.run(placed).tolist() == [[0.25] * 2] * 2
    assert [v.op.name for v in tf.global_variables()] == [
        "first/trans/kernel", "first/trans/bias", "first/kernel", "first/bias"]


def test_arg_scope_is_a_function_in_its_folder_and_a_file_below_it():
    @add_arg_scope
    def added(x, more=1):
        return x + more

    for entered in (scope_of_package, arg_scope):
        with entered([added], more=5):
            assert added(1) == 6
    assert added(1) == 2


def test_inner_attributes_of_operations():
    x = tf.constant([1.0, 2.0])
    with tf.control_dependencies([x]):
        y = tf.split(tf.identity(x), 2)
    assert y[0].op._outputs == y and y[0].op._inputs[0] is y[0].op.inputs[0]
    assert y[0].op._control_inputs == y[0].op.control_inputs


def test_whatever_is_given_for_trainable_counts_as_true_or_false(session):
    named, fixed = tf.Variable(tf.ones([2]), "filter"), tf.Variable(1.0, 0)      # a name in the place of `trainable`
    assert named.trainable is True and fixed.trainable is False and tf.trainable_variables() == [named]
    assert tf.train.export_meta_graph().collection_def["trainable_variables"].bytes_list.value


def test_names_are_looked_for_in_files_that_begin_with_a_mark_of_their_encoding(tmp_path):
    path = tmp_path / "program.py"
    path.write_bytes("\ufeffimport tensorflow as tf\nx = tf.no_such_thing\n".encode())
    assert [need.name for need in needs(path, tf)] == ["tf.no_such_thing"]


def test_graphs_with_a_queue_of_files_are_written_in_operations_that_tensorflow_has(session):
    tf.train.string_input_producer(["a", "b"])
    types = {node.op for node in tf.get_default_graph().as_graph_def().node}
    assert not [name for name in types if name.islower() or "_" in name]
    empty = tf.placeholder(tf.string, [None])
    tf.train.string_input_producer(empty)
    fill = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[-1].enqueue_ops[0]
    with pytest.raises(errors.InvalidArgumentError, match="there are 0 strings; pass at least one file name"):
        session.run(fill, {empty: []})


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("axis", [-1, 0])
def test_sorted_values_travel_in_operations_that_tensorflow_has(session, dtype, axis):
    x = tf.placeholder(dtype, [None, 3], name="x")
    asked = [tf.sort(x, axis=axis), tf.sort(x, axis, "DESCENDING"), tf.argsort(x, axis), tf.argsort(x, axis, "DESCENDING")]
    given = np.array([[3, 1, 2], [0, 1, 200], [3, 3, 0]], dtype)
    expected = session.run(asked, {x: given})
    text = session.graph.as_graph_def()
    assert not [node.op for node in text.node if node.op.islower()]
    with tf.Graph().as_default(), tf.Session() as second:
        found = tf.import_graph_def(text, return_elements=["x:0", *(one.name for one in asked)], name="")
        for one, other in zip(expected, second.run(found[1:], {found[0]: given})):
            assert one.tolist() == other.tolist()


class _Looking(tf.nn.rnn_cell.RNNCell):
    """A cell whose words are always as likely as these, and that looks at the place with its step's number."""

    output_size, state_size = 3, tf.contrib.seq2seq.AttentionWrapperState(1, 1, 0, 4, ())

    def call(self, inputs, state):
        words = tf.log([[0.2, 0.5, 0.3]]) + tf.zeros([tf.shape(inputs)[0], 1])
        shares = tf.one_hot(tf.zeros([tf.shape(inputs)[0]], tf.int32) + state.time, 4, on_value=0.5)
        return words, state._replace(time=state.time + 1, alignments=shares)


def _searched(session, **options):
    parts = [tf.zeros([2, 1]), tf.zeros([2, 1]), tf.zeros([], tf.int32), tf.zeros([2, 4])]
    state = tf.contrib.seq2seq.AttentionWrapperState(*parts, ())
    decoder = tf.contrib.seq2seq.BeamSearchDecoder(_Looking(), tf.ones([3, 1]), [0], 1, state, 2, **options)
    return session.run(tf.contrib.seq2seq.dynamic_decode(decoder, maximum_iterations=2)[0].beam_search_decoder_output.scores)[0]


def test_beams_that_end_before_they_looked_at_everything_may_lose_by_it(session):
    """The first beam ends with its first word, having given the first of four places half of its attention."""
    free, weighed = _searched(session), _searched(session, coverage_penalty_weight=0.1)
    np.testing.assert_allclose(free, np.log([[0.5, 0.3], [0.5, 0.15]]), rtol=1e-5)
    np.testing.assert_allclose(weighed[1], [1.1 * np.log(0.5), np.log(0.15)], rtol=1e-5)
    with pytest.raises(ValueError, match="tells no attention"):
        cell = tf.nn.rnn_cell.GRUCell(3)
        tf.contrib.seq2seq.BeamSearchDecoder(cell, tf.ones([3, 1]), [0], 1, tf.zeros([2, 3]), 2,
                                             coverage_penalty_weight=0.1).initialize()


def test_elements_are_prefetched_to_a_device_by_apply(session):
    data = tf.data.Dataset.range(3).apply(tf.contrib.data.prefetch_to_device("/gpu:0", None))
    element = data.make_one_shot_iterator().get_next()
    assert [session.run(element) for _ in range(3)] == [0, 1, 2]
