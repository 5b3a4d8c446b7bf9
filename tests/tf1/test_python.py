"""The inner modules of TensorFlow that programs of the time imported from."""
from __future__ import annotations

import json

import pytest
from workbench.tf1.python.layers import utils

import workbench.tf1 as tf
from workbench.tf1.python.client import device_lib, timeline
from workbench.tf1.python.framework import constant_op, dtypes, function, ops, tensor_shape, tensor_util
from workbench.tf1.python.ops import array_ops, control_flow_ops, data_flow_ops, math_ops, nn_ops, rnn_cell, variable_scope
from workbench.tf1.python.platform import flags, gfile, googletest, tf_logging
from workbench.tf1.python.training import moving_averages, saver, slot_creator, training_ops
from workbench.tf1.python.util import nest


@pytest.fixture(autouse=True)
def fresh():
    with tf.Graph().as_default():
        yield


def test_modules_offer_the_names_of_tf():
    assert (array_ops.reshape, math_ops.matmul, nn_ops.relu) == (tf.reshape, tf.matmul, tf.nn.relu)
    assert (variable_scope.get_variable, control_flow_ops.cond, data_flow_ops.FIFOQueue) == (
        tf.get_variable, tf.cond, tf.FIFOQueue)
    assert (ops.Graph, constant_op.constant, dtypes.float32, saver.Saver) == (
        tf.Graph, tf.constant, tf.float32, tf.train.Saver)
    assert (rnn_cell.LSTMCell, flags.FLAGS, gfile.Open, tf_logging.info, googletest.main) == (
        tf.nn.rnn_cell.LSTMCell, tf.app.flags.FLAGS, tf.gfile.Open, tf.logging.info, tf.test.main)
    assert nest.flatten([1, (2, 3)]) == [1, 2, 3]
    assert tensor_shape.unknown_shape(2).as_list() == [None, None] and tensor_shape.as_shape([3]) == [3]
    assert tensor_util.constant_value(tf.constant(3) + 1) == 4 and tensor_util.constant_value(tf.placeholder("int32")) is None
    assert device_lib.list_local_devices()[0].device_type == "CPU"


def test_a_trace_by_timeline():
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.matmul(tf.placeholder_with_default([[1.0]], [1, 1]), [[2.0]], name="product"),
                    options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    text = timeline.Timeline(step_stats=metadata.step_stats).generate_chrome_trace_format()
    assert '"name": "MatMul"' in text and "= MatMul(" in metadata.step_stats.dev_stats[0].node_stats[0].timeline_label
    assert "product" in {event["args"]["name"] for event in json.loads(text)["traceEvents"]}


def test_functions_handles_and_containers_by_tensorflows_names():
    @function.Defun(tf.float32)
    def square(x):
        return x * x

    with tf.container("there"), tf.Session() as session:
        assert tf.Variable(1.0).op.get_attr("container") == "there"
        kept = session.run(tf.get_session_handle(square(tf.constant(3.0))))
        assert kept.eval() == 9
        holder, delete = tf.delete_session_tensor(kept.handle)
        session.run(delete, feed_dict={holder: kept.handle})


def test_moving_averages_with_and_without_the_start_at_zero():
    plain, fresh = tf.Variable(0.0, name="plain"), tf.Variable(0.0, name="fresh")
    value = tf.placeholder(tf.float32, [])
    steps = [moving_averages.assign_moving_average(plain, value, 0.9, zero_debias=False),
             moving_averages.assign_moving_average(fresh, value, 0.9)]
    weighted = moving_averages.weighted_moving_average(value, 0.5, tf.constant(2.0))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(steps, {value: 2.0}) == pytest.approx([0.2, 2.0])
        assert session.run(steps, {value: 4.0}) == pytest.approx([0.58, (0.9 * 2 + 4) / 1.9])
        assert session.run(weighted, {value: 3.0}) == pytest.approx(3.0)
    assert [v.op.name for v in tf.global_variables()[2:4]] == ["fresh/biased", "fresh/local_step"]


def test_arguments_of_layers_and_the_lengths_that_follow_from_them():
    assert [utils.convert_data_format("channels_first", rank) for rank in (3, 4, 5)] == ["NCW", "NCHW", "NCDHW"]
    assert [utils.convert_data_format("Channels_Last", rank) for rank in (3, 4, 5)] == ["NWC", "NHWC", "NDHWC"]
    assert utils.normalize_tuple(2, 3, "strides") == (2, 2, 2) and utils.normalize_tuple([1, 2], 2, "strides") == (1, 2)
    assert (utils.normalize_padding("SAME"), utils.normalize_data_format("CHANNELS_FIRST")) == ("same", "channels_first")
    assert [utils.conv_output_length(7, 3, padding, 2, 2) for padding in ("valid", "same", "full")] == [2, 4, 6]
    assert [utils.conv_input_length(4, 3, padding, 2) for padding in ("valid", "same", "full")] == [9, 7, 5]
    assert [utils.deconv_output_length(4, 3, padding, 2) for padding in ("valid", "same", "full")] == [9, 8, 5]
    assert utils.conv_output_length(None, 3, "same", 1) is utils.deconv_output_length(None, 3, "same", 1) is None
    assert utils.conv_input_length(None, 3, "same", 1) is None
    for call in (lambda: utils.normalize_tuple([1, "x"], 2, "strides"), lambda: utils.normalize_tuple(None, 2, "strides"),
                 lambda: utils.normalize_padding("full"), lambda: utils.convert_data_format("channels_last", 2),
                 lambda: utils.conv_output_length(4, 2, "round", 1)):
        with pytest.raises(ValueError, match="layers: "):
            call()


def test_rules_of_optimizers_take_variables():
    w, slot = tf.Variable([1.0, 2.0], name="w"), slot_creator.create_zeros_slot(tf.Variable([0.0, 0.0], name="x"), "slot")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(training_ops.apply_momentum(w, slot, 0.5, [1.0, 2.0], 0.9, use_locking=True)).tolist() == [0.5, 1.0]
        assert session.run(training_ops.sparse_apply_gradient_descent(w, 0.5, [2.0], [1])).tolist() == [0.5, 0.0]
        assert session.run(slot).tolist() == [1.0, 2.0]


def test_one_shape_stands_for_a_sparse_tensor_or_slices_in_a_loop():
    def longer(step, table):
        return step + 1, tf.SparseTensor(tf.concat([table.indices, [[1, 1]]], 0), tf.concat([table.values, [5.0]], 0),
                                         table.dense_shape)

    def twice(step, rows):
        return step + 1, tf.IndexedSlices(tf.concat([rows.values] * 2, 0), tf.concat([rows.indices] * 2, 0))
    unknown = tf.TensorShape([])
    _, table = tf.while_loop(lambda step, table: step < 2, longer, [0, tf.SparseTensor([[0, 0]], [1.0], [3, 4])],
                             shape_invariants=[unknown, tf.TensorShape([2])])
    _, rows = tf.while_loop(lambda step, rows: step < 2, twice, [0, tf.IndexedSlices(tf.zeros([1, 2]), tf.constant([7]))],
                            shape_invariants=[unknown, tf.TensorShape([None, 2])])
    assert table.values.shape.as_list() == [None] and table.indices.shape.as_list() == [None, 2]
    assert rows.values.shape.as_list() == [None, 2]
    with tf.Session() as session:
        assert session.run(table).values.tolist() == [1.0, 5.0, 5.0] and session.run(rows.indices).tolist() == [7] * 4


def test_names_come_by_position_too():
    x = tf.constant([[1.0, 3.0]])
    assert [t.op.name for t in (tf.argmax(x, 1, "largest"), tf.argmin(x, 1), tf.bitcast(x, tf.int32, None), tf.equal("a", "b"),
                                tf.bitcast(x, tf.int32, "bits"), tf.reduce_sum(x, 0, False, "sum"))] == [
        "largest", "ArgMin", "Bitcast", "Equal", "bits", "sum"]
    assert tf.argmax(x, dimension=1, output_type=tf.int32).dtype == tf.int32
    with pytest.raises(ValueError, match="axis and dimension are one argument"):
        tf.argmax(x, 1, dimension=1)


def test_padded_shapes_given_as_constant_tensors_are_known():
    data = tf.data.Dataset.range(3).map(lambda x: tf.fill([x], 1)).padded_batch(2, tf.constant([5], tf.int64))
    assert data.output_shapes.as_list() == [None, 5]


def test_dims_of_a_shape_are_dimensions():
    """Libraries of the time read `shape.dims[i].value`, of unknown ones too."""
    shape = tf.placeholder(tf.float32, [2, None]).get_shape()
    assert [one.value for one in shape.dims] == [2, None] and shape.dims[0] + 1 == 3
    assert tf.placeholder(tf.float32).get_shape().dims is None


def test_a_star_import_leaves_print_to_programs():
    names: dict[str, object] = {}
    exec("from workbench.tf1 import *", names)
    assert "print" not in names and {"abs", "Print", "Session", "placeholder"} < names.keys()


def test_names_may_be_bytes():
    assert tf.constant(1.0, name=b"one").name == "one:0"
    with tf.name_scope("scope"):
        assert tf.constant(1.0, name=b"two").op.name == "scope/two"
