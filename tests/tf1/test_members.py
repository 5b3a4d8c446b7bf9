"""Members of public classes that programs of 2016-2018 use beside the commonest."""
from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.train import app

pytestmark = pytest.mark.usefixtures("graph")


def test_a_supervisor_answers_to_its_older_names(tmp_path):
    tf.get_variable("w", initializer=3.0)
    tf.train.get_or_create_global_step()
    tf.summary.scalar("loss", 2.0)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0,
                                     summary_op=tf.train.Supervisor.USE_DEFAULT)
    session = supervisor.PrepareSession()
    called = threading.Event()
    supervisor.Loop(None, called.set)
    supervisor.StartQueueRunners(session)
    assert called.wait(20) and supervisor.StartStandardServices(session) == [] and not supervisor.ShouldStop()
    supervisor.SummaryComputed(session, session.run(supervisor.summary_op))
    with supervisor.StopOnException():
        supervisor.RequestStop()
    supervisor.WaitForStop()
    supervisor.Stop()
    session.close()
    assert supervisor.ShouldStop()
    file, = tmp_path.glob("events.out.tfevents.*")
    tags = [value.tag for event in tf.train.summary_iterator(str(file)) for value in event.summary.value]
    assert "loss" in tags


def test_a_looper_thread_begins_and_ends_by_its_own_methods():
    seen = []

    class Thread(tf.train.LooperThread):
        def start_loop(self):
            seen.append("start")

        def run_loop(self):
            seen.append("run")
            coordinator.request_stop()

        def stop_loop(self):
            seen.append("stop")

    coordinator = tf.train.Coordinator()
    thread = Thread(coordinator, None)
    thread.start()
    coordinator.join([thread], stop_grace_period_secs=20)
    assert seen == ["start", "run", "stop"]


def test_collections_by_their_names():
    keys = tf.GraphKeys
    assert [keys.EVAL_STEP, keys.SAVEABLE_OBJECTS, keys.RESOURCES, keys.LOCAL_RESOURCES, keys.CONCATENATED_VARIABLES,
            keys.TRAINABLE_RESOURCE_VARIABLES, keys.COND_CONTEXT, keys.WHILE_CONTEXT, keys.TRAIN_OP] == [
        "eval_step", "saveable_objects", "resources", "local_resources", "concatenated_variables",
        "trainable_resource_variables", "cond_context", "while_context", "train_op"]


@pytest.mark.parametrize(("made", "wanted"), [
    (tf.zeros_initializer(tf.int32), {"dtype": "int32"}),
    (tf.constant_initializer(2.5), {"value": 2.5, "verify_shape": False, "dtype": "float32"}),
    (tf.random_normal_initializer(1.0, 2.0, seed=3), {"mean": 1.0, "stddev": 2.0, "seed": 3, "dtype": "float32"}),
    (tf.random_uniform_initializer(-1.0, 1.0), {"minval": -1.0, "maxval": 1.0, "seed": None, "dtype": "float32"}),
    (tf.orthogonal_initializer(gain=2.0, seed=1), {"gain": 2.0, "seed": 1, "dtype": "float32"}),
    (tf.glorot_uniform_initializer(seed=4),
     {"scale": 1.0, "mode": "fan_avg", "distribution": "uniform", "seed": 4, "dtype": "float32"})])
def test_initializers_tell_what_they_were_made_with(made, wanted):
    assert made.get_config() == wanted
    twin = type(made).from_config(made.get_config())
    assert twin.get_config() == wanted and type(twin) is type(made)


def test_flags_may_be_looked_at_before_they_are_read():
    flags = app.Flags()
    flags.define("rate", 0.5, "", float)
    assert vars(flags)["__flags"] == {"rate": 0.5} and not vars(flags)["__parsed"]
    flags.define("rate", 0.25, "", float)
    flags.parse(["--rate=2"])
    assert flags.rate == 2 and vars(flags)["__parsed"] and vars(flags)["__flags"] == {"rate": 2}
    del flags.rate
    flags.define("rate", 3.0, "", float)
    assert flags.rate == 3


def test_options_travel_as_the_protocol_buffers_of_their_names():
    config = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2}, inter_op_parallelism_threads=3,
                            device_filters=["/job:ps"])
    config.gpu_options.allocator_type, config.gpu_options.per_process_gpu_memory_fraction = "BFC", 0.25
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    # fields 1 {CPU: 2}, 4, 5, 6 {1: 0.25, 2: "BFC"}, 7, 10 {3 {3: -1}}, as TensorFlow writes them
    wanted = (b"\n\x07\n\x03CPU\x10\x02" b"\"\x07/job:ps" b"(\x03" b"2\x0e\t\x00\x00\x00\x00\x00\x00\xd0?\x12\x03BFC" b"8\x01"
              b"R\x0d\x1a\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
    assert config.SerializeToString() == wanted and config.ByteSize() == len(wanted)
    twin = tf.ConfigProto.FromString(wanted)
    assert (twin.device_count, twin.gpu_options, twin.graph_options) == (config.device_count, config.gpu_options,
                                                                         config.graph_options)
    other = tf.ConfigProto(log_device_placement=True)
    other.MergeFrom(twin)
    assert other.log_device_placement and other.allow_soft_placement and other.gpu_options.allocator_type == "BFC"
    other.ParseFromString(wanted)
    assert not other.log_device_placement and other.SerializeToString() == wanted and other.IsInitialized()
    other.ClearField("gpu_options")
    assert other.gpu_options == tf.GPUOptions() and config.gpu_options.allocator_type == "BFC"
    with pytest.raises(errors.DataLossError, match="cannot be read as ConfigProto"):
        other.ParseFromString(b"\xff")
    assert tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE).SerializeToString() == b"\x08\x03"


def test_what_a_step_reported_is_kept_as_bytes():
    told, again = tf.RunMetadata(), tf.RunMetadata()
    with tf.Session() as sess:
        sess.run(tf.constant([[1.0]]) @ tf.placeholder_with_default([[2.0]], [1, 1]),
                 options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=told)
    again.ParseFromString(told.SerializeToString())
    names = [[node.node_name for node in device.node_stats] for device in told.step_stats.dev_stats]
    assert names == [[node.node_name for node in device.node_stats] for device in again.step_stats.dev_stats] and any(names)


def test_a_reader_goes_on_where_another_was(tmp_path):
    (tmp_path / "rows").write_text("a\nb\nc\n")
    queue = tf.train.string_input_producer([str(tmp_path / "rows")], num_epochs=1)
    reader, other = tf.TextLineReader(), tf.TextLineReader(skip_header_lines=1)
    _, value = reader.read(queue)
    state, given = reader.serialize_state(), tf.placeholder(tf.string, [])
    back, wrong = reader.restore_state(given), other.restore_state(given)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        assert sess.run(value) == b"a" and reader.supports_serialize
        kept = sess.run(state)
        assert [sess.run(value), sess.run(value)] == [b"b", b"c"]
        sess.run(back, {given: kept})
        assert [sess.run(value), sess.run(value)] == [b"b", b"c"]
        with pytest.raises(errors.InvalidArgumentError, match="restore it into the same kind"):
            sess.run(wrong, {given: kept})
        with pytest.raises(errors.InvalidArgumentError, match="is none of a reader"):
            sess.run(back, {given: b"{}"})
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)


def test_rows_of_a_sparse_tensor_as_a_data_set():
    sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 2]], [1.0, 2.0, 3.0], [3, 4])
    row = tf.data.Dataset.from_sparse_tensor_slices(sparse).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        rows = [sess.run(row) for _ in range(3)]
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(row)
    assert [one.indices.tolist() for one in rows] == [[[1]], [], [[0], [2]]]
    assert [one.values.tolist() for one in rows] == [[1], [], [2, 3]]
    assert all(one.dense_shape.tolist() == [4] for one in rows)
    with pytest.raises(TypeError, match=r"must be a `tf\.SparseTensor` object"):
        tf.data.Dataset.from_sparse_tensor_slices([1.0])


def test_shapes_of_the_parameters_that_samples_ask_for():
    normal = tf.distributions.Normal
    assert normal.param_static_shapes([2, 3]) == {"loc": tf.TensorShape([2, 3]), "scale": tf.TensorShape([2, 3])}
    with tf.Session() as sess:
        found = sess.run(tf.distributions.StudentT.param_shapes([4]))
    assert {key: value.tolist() for key, value in found.items()} == {"df": [4], "loc": [4], "scale": [4]}
    with pytest.raises(ValueError, match="fully-defined"):
        normal.param_static_shapes(tf.placeholder(tf.int32, [2]))
    with pytest.raises(NotImplementedError, match="Multinomial"):
        tf.distributions.Multinomial.param_shapes([2])


def test_a_saver_takes_over_the_checkpoints_that_are_there(tmp_path):
    w = tf.get_variable("w", initializer=1.0)
    first = tf.train.Saver(max_to_keep=2)
    with tf.Session() as sess:
        sess.run(w.initializer)
        paths = [first.save(sess, str(tmp_path / "model"), step) for step in (1, 2)]
        second = tf.train.Saver(max_to_keep=2)
        second.recover_last_checkpoints([str(tmp_path / "gone"), *paths])
        assert second.last_checkpoints == paths and second._var_list == [w]
        second.set_last_checkpoints_with_time([(path, 5.0) for path in paths])
        newest = second.save(sess, str(tmp_path / "model"), 3)
    assert second.last_checkpoints == [paths[1], newest] and not os.path.exists(paths[0] + ".manifest.json")


def test_arrays_and_shapes_tell_what_they_know(capsys):
    array = tf.TensorArray(tf.float32, 2, dynamic_size=True, element_shape=[None, 3])
    assert array.dynamic_size and array.infer_shape and array.element_shape.as_list() == [None, 3]
    assert tf.TensorShape([2, 3]).most_specific_compatible_shape([2, 4]).as_list() == [2, None]
    assert tf.TensorShape([2]).most_specific_compatible_shape([2, 4]).ndims is None
    with tf.variable_scope("s") as scope:
        scope.set_use_resource(True)
        assert scope.use_resource and tf.get_variable("w", [1]).op.name == "s/w"
    with tf.device("/cpu:0"):
        assert tf.IndexedSlices(tf.constant([1.0]), tf.constant([0])).device == "/device:CPU:0"
    tf.test.Benchmark().report_benchmark(iters=3, wall_time=0.5, name="mine")
    assert "{'iters': 3, 'wall_time': 0.5, 'name': 'mine'}" in capsys.readouterr().out


def test_a_config_of_this_kind_runs_a_step():
    options = tf.GPUOptions(allocator_type="BFC", force_gpu_compatible=True)
    with tf.Session(config=tf.ConfigProto(gpu_options=options)) as sess:
        np.testing.assert_array_equal(sess.run(tf.ones([2])), [1, 1])


def test_a_library_asks_which_device_the_scopes_ask_for():
    class Capture:
        device = None

        def _set_device(self, device):
            self.device = device

    def asked():
        capture = Capture()
        graph._apply_device_functions(capture)
        return capture.device

    with tf.Graph().as_default() as graph:
        assert asked() is None
        with tf.device("/job:worker"), tf.device("/gpu:1"):
            assert (asked().job, asked().device_type, asked().device_index) == ("worker", "GPU", 1)


def test_barriers_are_where_programs_import_them_from():
    from workbench.tf1.python.ops import data_flow_ops

    barrier = data_flow_ops.Barrier(tf.float32, shapes=())
    put, (_, keys, values) = barrier.insert_many(0, ["a", "b"], [1.0, 2.0]), barrier.take_many(2)
    with tf.Session() as sess:
        sess.run(put)
        assert dict(zip(*sess.run([keys, values[0]]))) == {b"a": 1, b"b": 2}


def test_an_error_in_a_step_tells_its_node():
    checked = tf.check_numerics(tf.placeholder_with_default([float("nan")], [1]), "bad", name="checked")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as error:
        session.run(checked)
    assert (error.value.op.name, error.value.node_def.op, error.value.node_def.name) == ("checked", "CheckNumerics", "checked")


def test_queues_name_their_operations():
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(3, tf.float32, shapes=[[]])
        made = [queue.enqueue(1.0), queue.enqueue_many([[1.0]]), queue.dequeue().op, queue.dequeue_many(1).op,
                queue.dequeue_up_to(1).op, queue.size().op, queue.close(), queue.enqueue(1.0), queue.dequeue(name="mine").op]
    assert [op.name for op in made] == ["fifo_queue_" + what for what in (
        "enqueue", "EnqueueMany", "Dequeue", "DequeueMany", "DequeueUpTo", "Size", "Close", "enqueue_1")] + ["mine"]


def test_values_that_are_no_number_and_numbers_that_need_their_digits(capfd):
    with tf.Session() as session:
        values, places = session.run(tf.unique(tf.constant([1.0, np.nan, np.nan, 1.0])))
        assert len(values) == 3 and places.tolist() == [0, 1, 2, 0]
        third = tf.constant([1 / 3, 0.25, 1e20, np.nan])
        session.run(tf.Print(third, [third, tf.constant(1 / 3, tf.float64)], "n: ", summarize=4))
    assert capfd.readouterr().err == "n: [0.333333343 0.25 1e+20 nan][0.33333333333333331]\n"


@pytest.mark.parametrize(("made", "text"), [
    (lambda: tf.train.GradientDescentOptimizer(0.1).compute_gradients(tf.Variable(1.0) * 2.0, gate_gradients=7),
     "gate_gradients must be one of: Optimizer.GATE_NONE"),
    (lambda: tf.Session().run(tf.TensorArray(tf.float32, 1).write(0, 1.0).concat()), "Concat saw a scalar shape")])
def test_what_tensorflow_refuses(made, text):
    with pytest.raises(ValueError, match=text):
        made()


def test_a_shape_of_one_number():
    assert tf.TensorShape(3).as_list() == [3]


def test_parameters_have_tensorflows_names():
    graph, v = tf.get_default_graph(), tf.Variable([1.0, 2.0])
    with graph.control_dependencies(control_inputs=[v.initializer]), graph.device(device_name_or_function="/cpu:0"):
        made = tf.constant(1.0)
    assert made.op.control_inputs == [v.initializer] and made.device == "/device:CPU:0"
    less = v.scatter_sub(sparse_delta=tf.IndexedSlices(tf.constant([0.5]), tf.constant([1])), use_locking=True)
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(less).tolist() == [1.0, 1.5]
    tf.Session.reset(target="", containers=["none"], config=tf.ConfigProto())
    assert tf.errors.exception_type_from_error_code(error_code=5) is tf.errors.NotFoundError
    assert tf.errors.error_code_from_exception_type(cls=tf.errors.AbortedError) == 10
    assert tf.ConditionalAccumulator(tf.float32, name="gathered").name == "gathered"


@pytest.mark.parametrize(("layer", "given", "wanted"), [
    (tf.keras.layers.Conv1D, (4, 3, 1, "valid", 2, "relu", False, "zeros"), {"dilation_rate": (2,), "use_bias": False}),
    (tf.keras.layers.Conv2DTranspose, (4, 3, 1, "same", None, None, True, "zeros", "ones"), {"padding": "same"}),
    (tf.keras.layers.LSTM, (4, "tanh", "sigmoid", True, "zeros", "ones", "zeros", False, "l2"), {"unit_forget_bias": False}),
    (tf.keras.layers.GRU, (4, "tanh", "sigmoid", False, "zeros", "ones"), {"use_bias": False}),
    (tf.keras.layers.ConvLSTM2D, (4, 3, 1, "same", None, 1, "tanh", "sigmoid", True, "zeros", "ones", "zeros", False),
     {"unit_forget_bias": False})])
def test_layers_of_keras_take_their_arguments_in_keras_order(layer, given, wanted):
    config = layer(*given).get_config()
    assert {name: config[name] for name in wanted} == {
        name: list(value) if isinstance(config[name], list) else value for name, value in wanted.items()}
    assert config["kernel_initializer"]["class_name"] == "Zeros"
    assert layer.from_config(config).get_config() == config
