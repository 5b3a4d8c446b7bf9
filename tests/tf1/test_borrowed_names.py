"""What libraries borrow of inner modules: arguments of functions, files of events, specs, summaries, scatters by handle."""
from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench.tf1.python import eager, pywrap_tensorflow
from workbench.tf1.python.framework import ops, smart_cond, tensor_shape, tensor_spec, test_util
from workbench.tf1.python.ops import (
    array_ops,
    constant_op,
    gen_resource_variable_ops,
    inplace_ops,
    linalg,
    resource_variable_ops,
    summary_op_util,
    variable_scope,
)
from workbench.tf1.python.util import function_utils


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_arguments_that_a_call_still_has_to_give():
    class Called:
        def __call__(self, x, y=1, **more):
            return x, y, more

    def plain(features, labels, mode=None):
        return features, labels, mode

    assert function_utils.fn_args(plain) == ("features", "labels", "mode")
    assert function_utils.fn_args(functools.partial(plain, 1, mode="train")) == ("labels",)
    assert function_utils.fn_args(Called()) == ("x", "y") == function_utils.fn_args(Called().__call__)
    assert function_utils.has_kwargs(Called()) and not function_utils.has_kwargs(functools.partial(plain, 1))
    assert function_utils.get_func_name(functools.partial(plain)) == "plain"
    with pytest.raises(TypeError, match="function-like"):
        function_utils.has_kwargs(3)


def test_events_are_written_to_a_prefix_of_the_program(tmp_path):
    writer = pywrap_tensorflow.EventsWriter(tf.compat.as_bytes(str(tmp_path / "events")))
    writer.WriteEvent(tf.Event(wall_time=1.0, step=3, summary=tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=2.0)])))
    assert writer.Flush() and writer.Close()
    assert writer.FileName().decode().startswith(str(tmp_path / "events.out.tfevents."))
    first, second = tf.train.summary_iterator(writer.FileName().decode())
    assert first.file_version == "brain.Event:2" and (second.step, second.summary.value[0].simple_value) == (3, 2.0)


def test_specs_tell_what_tensors_are_to_be():
    spec = tensor_spec.TensorSpec([2, None], tf.float32, "x")
    assert spec == tensor_spec.TensorSpec((2, None), "float32") != tensor_spec.TensorSpec([2], tf.float32)
    assert spec.is_compatible_with(tf.zeros([2, 3])) and not spec.is_compatible_with(tf.zeros([3, 3]))
    assert tensor_spec.TensorSpec.from_tensor(tf.zeros([2], name="z")) == tensor_spec.TensorSpec([2], tf.float32)
    bounded = tensor_spec.BoundedTensorSpec([2], tf.int32, 0, [3, 4])
    assert bounded.minimum.dtype == np.int32 and bounded.maximum.tolist() == [3, 4]
    assert tensor_spec.BoundedTensorSpec.from_spec(bounded) == bounded != tensor_spec.BoundedTensorSpec([2], tf.int32, 0, 5)
    assert tf.contrib.framework.TensorSpec is tensor_spec.TensorSpec and len({spec, tensor_spec.TensorSpec([2, None])}) == 1
    with pytest.raises(ValueError, match="minimum and maximum must be provided"):
        tensor_spec.BoundedTensorSpec([], tf.int32, None, 1)


def test_shapes_as_tensors(session):
    assert session.run(array_ops.shape_internal(tf.zeros([2, 3]))).tolist() == [2, 3]
    assert array_ops.shape_internal(tf.zeros([2, 3])).op.type == "Const"
    open_ = tf.placeholder(tf.float32, [None])
    assert session.run(array_ops.shape_internal(open_, out_type=tf.int64), {open_: [1.0, 2.0]}).tolist() == [2]
    made = constant_op._tensor_shape_tensor_conversion_function(tf.TensorShape([4]))
    assert session.run(made).tolist() == [4] and made.dtype == tf.int32
    with pytest.raises(ValueError, match="partially known"):
        constant_op._tensor_shape_tensor_conversion_function(tf.TensorShape([None]))
    assert tensor_shape.dimension_value(tf.TensorShape([3])[0]) == 3


def test_rows_are_scattered_by_the_handle_of_a_variable(session):
    rows = variable_scope.variable(np.ones((3, 2), np.float32))
    session.run(rows.initializer)
    session.run(resource_variable_ops.resource_scatter_add(rows.handle, [0, 0, 2], np.full((3, 2), 2, np.float32)))
    assert session.run(rows).tolist() == [[5, 5], [1, 1], [3, 3]]
    session.run(resource_variable_ops.resource_scatter_update(rows.handle, [1], np.zeros((1, 2), np.float32)))
    assert session.run(rows).tolist() == [[5, 5], [0, 0], [3, 3]]


@pytest.mark.parametrize("module", [resource_variable_ops, gen_resource_variable_ops])
def test_variables_are_read_and_written_by_their_handles(module, session):
    rows = tf.get_variable("rows", initializer=[1.0, 2.0], use_resource=True)
    session.run(rows.initializer)
    assert session.run(module.read_variable_op(rows.handle, tf.float32)).tolist() == [1, 2]
    for add, wanted in ((module.assign_variable_op(rows.handle, [5.0, 6.0]), [5, 6]),
                        (module.assign_add_variable_op(resource=rows.handle, value=[1.0, 1.0]), [6, 7]),
                        (module.assign_sub_variable_op(rows.handle, value=[0.0, 2.0], name="less"), [6, 5])):
        assert isinstance(add, tf.Operation) and session.run(add) is None
        assert session.run(module.read_variable_op(resource=rows.handle, dtype=tf.float32)).tolist() == wanted
    assert session.run(module.resource_gather(rows.handle, [1, 0], tf.float32)).tolist() == [5, 6]
    assert session.run([module.var_is_initialized_op(rows.handle), module.variable_shape(rows.handle)[0]]) == [True, 2]
    handle = module.var_handle_op(tf.int32, [])
    with tf.control_dependencies([module.assign_variable_op(handle, tf.constant(1))]):
        assert session.run(module.read_variable_op(handle, dtype=tf.int32)) == 1
    with pytest.raises(ValueError, match=r"variable with wrong dtype\. Expected int32 got float32"):
        module.read_variable_op(handle, tf.float32)
    for wrong in (tf.constant(0.0), tf.constant([0])):
        with pytest.raises(ValueError):
            module.assign_variable_op(handle, wrong)


def test_rows_replaced_in_place_are_those_of_a_new_tensor(session):
    x = tf.constant([[1, 2], [3, 4], [5, 6]])
    assert session.run(inplace_ops.alias_inplace_update(x, 1, [7, 8])).tolist() == [[1, 2], [7, 8], [5, 6]]
    assert session.run(inplace_ops.alias_inplace_update(x, [0, 2], [[7, 8], [9, 9]])).tolist() == [[7, 8], [3, 4], [9, 9]]
    assert session.run(x).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_summaries_of_libraries_are_named_and_collected_as_ours():
    with summary_op_util.summary_scope("loss", family="train") as (tag, scope):
        assert (tag, scope) == ("train/train/loss", "train/loss/")
    made = tf.constant("")
    summary_op_util.collect(made, None, [tf.GraphKeys.SUMMARIES])
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [made] and not summary_op_util.skip_summary()


def test_what_tells_the_kinds_of_objects(session):
    assert ops.uid() < ops.uid() and not isinstance(tf.constant(1), ops.EagerTensor)
    assert ops.is_dense_tensor_like(tf.Variable(1)) and not ops.is_dense_tensor_like(3)
    assert ops._as_graph_element(3) is None and ops._as_graph_element(tf.Variable(1)) is not None
    with eager.context.graph_mode():
        assert session.run(smart_cond.smart_cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2))) == 1
    assert isinstance(tf.get_static_value(tf.constant([1, 2])), np.ndarray)
    assert linalg.linear_operator_diag.LinearOperatorDiag is tf.linalg.LinearOperatorDiag
    assert tf.contrib.linalg.LinearOperatorDiag is tf.linalg.LinearOperatorDiag


def test_memory_of_the_process_is_a_number_of_the_step(session):
    used, most, limit = session.run([tf.contrib.memory_stats.BytesInUse(), tf.contrib.memory_stats.MaxBytesInUse(),
                                     tf.contrib.memory_stats.BytesLimit()])
    assert 0 < used <= limit and 0 < most <= limit and used.dtype == np.int64


def test_tests_for_both_modes_run_once():
    class Case(tf.test.TestCase):
        runs = 0

        @test_util.run_in_graph_and_eager_modes()
        def test_one(self):
            type(self).runs += 1
            self.assertAllEqual(tf.constant(2).eval(), 2)

        @test_util.run_in_graph_and_eager_modes
        def test_other(self):
            type(self).runs += 1

    for name in ("test_one", "test_other"):
        thread = threading.Thread(target=Case(name).debug)      # where no graph is in use
        thread.start()
        thread.join()
    assert Case.runs == 2


def test_arguments_in_force_can_be_entered_again():
    @tf.contrib.framework.add_arg_scope
    def layer(x, size=1):
        return x, size

    with tf.contrib.framework.arg_scope([layer], size=5):
        held = tf.contrib.framework.current_arg_scope()
    with tf.contrib.framework.arg_scope(held):
        assert layer(0) == (0, 5)
    assert layer(0) == (0, 1)


def test_boxes_below_a_score_do_not_count_and_places_are_filled(session):
    boxes = tf.constant([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 4, 1, 5]], tf.float32)
    scores = tf.constant([0.9, 0.8, 0.4, 0.7])
    assert session.run(tf.image.non_max_suppression(boxes, scores, 4, 0.5, score_threshold=0.5)).tolist() == [0, 3]
    assert session.run(tf.image.non_max_suppression(boxes, scores, 4, 0.5)).tolist() == [0, 3, 2]
    overlap, least = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    told = tf.image.non_max_suppression(boxes, scores, tf.constant(4), overlap, score_threshold=least)
    assert session.run(told, {overlap: 0.5, least: 0.5}).tolist() == [0, 3]
    assert session.run(told, {overlap: 0.95, least: -np.inf}).tolist() == [0, 1, 3, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"iou_threshold must be in \[0, 1\]"):
        session.run(told, {overlap: 1.5, least: 0.5})
    kept, count = tf.image.non_max_suppression_padded(boxes, scores, 5, 0.5, 0.5, pad_to_max_output_size=True)
    assert kept.shape == [5] and session.run([kept, count])[0].tolist() == [0, 3, 0, 0, 0] and session.run(count) == 2


def test_channels_of_sequences_are_filtered_apart_and_mixed(session):
    x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    layer = tf.layers.SeparableConv1D(4, 3, depth_multiplier=2, padding="same", name="s")
    y = layer.apply(tf.constant(x))
    session.run(tf.global_variables_initializer())
    deep, mixing, bias = session.run(tf.trainable_variables())
    assert [v.op.name for v in tf.trainable_variables()] == ["s/depthwise_kernel", "s/pointwise_kernel", "s/bias"]
    assert (deep.shape, mixing.shape, bias.shape) == ((3, 3, 2), (1, 6, 4), (4,))
    wide = np.pad(x, [(0, 0), (1, 1), (0, 0)])
    each = sum(wide[:, k:k + 7, :, None] * deep[k] for k in range(3)).reshape(2, 7, 6)
    np.testing.assert_allclose(session.run(y), each @ mixing[0] + bias, rtol=1e-4, atol=1e-5)
    strided = tf.layers.separable_conv1d(tf.constant(x), 2, 3, strides=2, data_format="channels_last")
    assert strided.shape == [2, 3, 2]


def test_operations_of_a_graph_stand_by_their_names(session):
    assert list(tf.get_default_graph()._nodes_by_name) == []      # nothing built, as Edward asks before it sets a seed
    one = tf.constant(1.0, name="one")
    assert tf.get_default_graph()._nodes_by_name == {"one": one.op}


def test_a_cell_keeps_its_arguments_by_the_names_of_tensorflow(session):
    cell = tf.contrib.rnn.LSTMCell(4, use_peepholes=True, cell_clip=2.0, num_proj=3, proj_clip=1.0, num_unit_shards=2,
                                   num_proj_shards=1)
    assert (cell._num_units, cell._use_peepholes, cell._cell_clip, cell._num_proj, cell._proj_clip) == (4, True, 2.0, 3, 1.0)
    assert (cell._num_unit_shards, cell._num_proj_shards, cell._forget_bias, cell._state_is_tuple) == (2, 1, 1.0, True)
