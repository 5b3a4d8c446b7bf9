"""What programs of TensorFlow 1.x rely on about graphs and sessions: kinds of errors, forms of results, parts of operations."""
from __future__ import annotations

import collections
import inspect

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench.core.graph.slices import IndexedSlicesValue


@pytest.fixture(autouse=True)
def fresh():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_dictionary_that_is_fetched_keeps_its_class_and_order():
    a, b = tf.constant(1.0), tf.constant(2.0)
    with tf.Session() as session:
        found = session.run(collections.OrderedDict([("z", a), ("a", b)]))
        assert type(found) is collections.OrderedDict and list(found.items()) == [("z", 1.0), ("a", 2.0)]
        assert type(session.run({"z": a, "a": b})) is dict      # the same request in another form


def test_names_may_be_bytes_and_an_operation_names_itself_in_errors():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.check_numerics(x, "x is no number", name="y")
    with tf.Session() as session:
        assert session.run(b"x:0", {b"x:0": [1.0, 2.0]}).tolist() == [1.0, 2.0]
        with pytest.raises(tf.errors.OpError) as error:
            session.run(y, {x: [np.nan, 1.0]})
        assert error.value.op is y.op and error.value.error_code == tf.errors.INVALID_ARGUMENT


def test_slices_are_fed_and_sparse_tensors_without_their_shape():
    slices = tf.IndexedSlices(tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int64, [2]))
    sparse = tf.sparse_placeholder(tf.float32, [4, 2])
    with tf.Session() as session:
        value = session.run(-slices, {slices: IndexedSlicesValue([1.0, 2.0], [0, 3], None)})
        assert value.values.tolist() == [-1.0, -2.0] and value.indices.tolist() == [0, 3] and value.dense_shape is None
        total = session.run(tf.sparse_tensor_to_dense(sparse), {sparse: ([[1, 0]], [5.0])})
        assert total.tolist() == [[0, 0], [5, 0], [0, 0], [0, 0]]


def test_a_callable_may_take_options():
    x = tf.placeholder(tf.float32, [])
    with tf.Session() as session:
        step, told = session.make_callable(x * 2.0, [x], accept_options=True), tf.RunMetadata()
        assert step(4.0, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=told) == 8.0
        assert told.step_stats.dev_stats and session.make_callable(x + 1.0, [x], True)(1.0) == 2.0
        with pytest.raises(ValueError, match="shorter"):
            step()


@pytest.mark.parametrize(("wrong", "kind", "text"), [
    (lambda x: iter(x), TypeError, "is not iterable"),
    (lambda x: bool(x), TypeError, "has no value while the graph is built"),
    (lambda x: x.eval(), ValueError, "No default session is registered"),
    (lambda x: tf.Session().run(None), TypeError, "None has invalid type"),
    (lambda x: tf.Session().run(x, {x: tf.constant(1.0)}), TypeError, "cannot be a tf.Tensor object"),
    (lambda x: tf.Session().run(x, {x.op: 1.0}), TypeError, "Cannot interpret feed_dict key as Tensor"),
    (lambda x: tf.Session().run(tf.constant(1), {"Const:0": 2**40}), TypeError, "is not compatible with Tensor type int32"),
    (lambda x: tf.get_default_graph().as_graph_element(x, allow_tensor=False), TypeError, "which is not allowed here"),
    (lambda x: tf.get_default_graph().name_scope("a:0"), ValueError, "is not an operation name"),
    (lambda x: tf.Session("nowhere"), tf.errors.NotFoundError, "No session factory registered"),
])
def test_mistakes_raise_what_programs_catch(wrong, kind, text):
    x = tf.placeholder(tf.float32, [None], name="x")
    with pytest.raises(kind, match=text):
        wrong(x)


def test_control_inputs_by_name_and_of_slices(fresh):
    a = tf.constant(1.0, name="a")
    slices = tf.IndexedSlices(tf.identity(a, name="rows"), tf.constant(0))
    with tf.control_dependencies(["a", slices]):
        b = tf.constant(2.0)
    assert [op.name for op in b.op.control_inputs] == ["a", "rows"]
    with pytest.raises(TypeError, match="control_dependencies: 3 is neither a tensor nor an operation"):
        tf.control_dependencies([3]).__enter__()


def test_items_without_a_name_are_in_no_scope(fresh):
    tf.add_to_collection("things", 27)
    tf.add_to_collection("things", tf.constant(1.0, name="scope/a"))
    assert [t.op.name for t in tf.get_collection("things", "scope")] == ["scope/a"] == [
        t.op.name for t in tf.get_collection("things", ".*")]


def test_the_parts_of_an_operation(fresh):
    a = tf.constant([1.0, 2.0], name="a")
    with tf.name_scope("s"), tf.colocate_with(a.op):
        total = tf.add(a, a, name="total")
    line = inspect.currentframe().f_lineno - 1
    assert total.op.values() == total.op.outputs == (total,) and total.value_index == 0
    assert a.op.colocation_groups() == [b"loc:@a"] == total.op.colocation_groups()
    definition = total.op.op_def
    assert definition.name == "Add" and len(definition.input_arg) == 2 and definition.output_arg[0].type == 1
    (file, number, _, text), = total.op.traceback
    assert (file, number) == (__file__, line) and text.startswith('total = tf.add(a, a, name="total")')
    with tf.Session() as session:
        assert [node.name for node in session.graph_def.node] == ["a", "s/total"]


def test_operations_are_made_by_their_type(fresh):
    a = tf.constant([[1.0, 2.0]], name="a")
    yes = tf.AttrValue(b=True)
    with tf.name_scope("s"):
        made = fresh.create_op("MatMul", [a, a], [tf.float32], attrs={"transpose_b": yes}, name="product")
    assert made.name == "s/product" and made.node_def.op == "MatMul" and made.outputs[0].shape == [1, 1]
    assert fresh.create_op("MatMul", [a, a], [tf.float32], attrs={"transpose_b": yes}).name == "MatMul"
    assert fresh.create_op("NoOp", [], [], name="literal/").name == "literal"
    with tf.Session() as session:
        assert session.run(made.outputs[0]).tolist() == [[5.0]]
    with pytest.raises(tf.errors.NotFoundError, match="Op type not registered 'Nothing'"), tf.Session(graph=fresh) as session:
        session.run(fresh.create_op("Nothing", [], []))
    with pytest.raises(TypeError, match=r"NoOp 'NoOp' has outputs of \[\] but dtypes are \['float32'\]"):
        fresh.create_op("NoOp", [], [tf.float32])


def test_a_function_of_the_device_says_it_all(fresh):
    with tf.device(lambda op: "/job:overwrite"), tf.device("/job:ps"):
        assert tf.constant(1.0).op.device == "/job:overwrite"
    seen = []
    with tf.device("/job:worker"), tf.device(lambda op: seen.append(op.device) or "/cpu:1"), tf.device("/task:3"):
        assert tf.constant(1.0).op.device == "/job:worker/device:CPU:1" and seen == ["/task:3"]
        with tf.device(None), tf.device("/cpu:0"):
            assert tf.constant(1.0).op.device == "/device:CPU:0"
    spec = tf.train.ClusterSpec({"ps": ["a:1", "b:2"], "worker": ["c:3"]})
    assert tf.train.ClusterSpec(spec.as_cluster_def()) == spec
    sparse = tf.train.ClusterSpec({"ps": {3: "a:1"}})
    assert tf.train.ClusterSpec(sparse.as_cluster_def()).as_dict() == {"ps": {3: "a:1"}}
    with tf.device(tf.train.replica_device_setter(cluster=spec.as_cluster_def())):
        with tf.device("/job:moon"):      # the number of a server means nothing to another job
            assert tf.Variable(1.0).op.device == "/job:moon"
        assert [tf.Variable(1.0).op.device for _ in range(2)] == ["/job:ps/task:0", "/job:ps/task:1"]
        with tf.device("/cpu:0"):
            assert tf.constant(1.0).op.device == "/job:worker/device:CPU:0"
    with tf.device(tf.train.replica_device_setter(2, merge_devices=False)), tf.device("/cpu:0"):
        assert tf.Variable(1.0).op.device == "/device:CPU:0"


def test_partial_steps_and_names_say_what_tensorflow_says():
    a = tf.placeholder(tf.float32, [], name="a")
    b = tf.add(a, 1.0, name="b")
    with tf.Session() as session:
        with pytest.raises(ValueError, match="specify at least one target to fetch or execute"):
            session.partial_run_setup([], [a])
        with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor 'a'"):
            session.run(b)
        with pytest.raises(ValueError, match=r"the name 'c:0' refers to an Operation not in the graph"):
            session.run("c:0")
        assert not tf.RunMetadata().HasField("step_stats") and tf.RunMetadata().step_stats.dev_stats == []


def test_a_variable_by_its_tensor_and_graphs_of_any_message(fresh, tmp_path):
    v = tf.Variable(1.0, name="v")
    ready = tf.is_variable_initialized(fresh.get_tensor_by_name("v:0"))
    with tf.Session() as session:
        assert not session.run(ready)
        session.run(v.initializer)
        assert session.run(ready)
    path = tf.train.write_graph(tf.train.export_meta_graph(), str(tmp_path), "meta.pbtxt")
    assert "meta_info_def" in (tmp_path / "meta.pbtxt").read_text() and path == str(tmp_path / "meta.pbtxt")


def test_imported_graphs_take_names_as_bytes_and_tensors_that_nobody_reads(fresh):
    graph = tf.Graph()
    with graph.as_default():
        tf.add(tf.constant(1.0, name="a"), tf.constant(2.0, name="b"), name="c")
    three = tf.constant(3.0)
    c, = tf.import_graph_def(graph.as_graph_def(), {b"a:0": three, "c:0": three}, [b"c:0"], name="again")
    with tf.Session() as session:
        assert session.run(c) == 5.0
    for given, kind, text in (({"input_map": [three]}, TypeError, "input_map must be a dictionary mapping strings"),
                              ({"return_elements": [7]}, TypeError, "return_elements must be a list of strings"),
                              ({"input_map": {"c:2": three}}, ValueError, r"not found in graph_def: \[c:2\]"),
                              ({"return_elements": ["d"]}, ValueError, "return_element 'd' not found in graph_def")):
        with pytest.raises(kind, match=text):
            tf.import_graph_def(graph.as_graph_def(), **given)


def test_partitioned_variables_are_one_tensor_in_a_checkpoint(tmp_path):
    rows = tf.get_variable("rows", [4, 3], initializer=tf.constant_initializer(2.0),
                           partitioner=tf.variable_axis_size_partitioner(16, axis=1))
    assert len(list(rows)) > 1
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver([rows]).save(session, str(tmp_path / "m"))
        assert tf.train.list_variables(path) == [("rows", [4, 3])]
        session.run([part.assign(tf.zeros_like(part)) for part in rows])
        tf.train.Saver({"rows": rows}).restore(session, path)
        assert session.run(rows.as_tensor()).tolist() == [[2.0] * 3] * 4


def test_readiness_may_be_an_operation_that_fails(fresh):
    v = tf.Variable(1.0, name="v")
    manager = tf.train.SessionManager(ready_op=tf.assert_variables_initialized([v]))
    assert manager.prepare_session("", init_op=v.initializer).run(v) == 1.0
    with pytest.raises(RuntimeError, match=r"Init operations did not make model ready.*uninitialized value v"):
        manager.prepare_session("", init_op=tf.no_op())


def test_attributes_by_tensorflow_s_names(fresh):
    total = tf.reduce_sum(tf.ones([2, 3], name="ones"), 1, keep_dims=True)
    assert total.op.get_attr("keep_dims") is True and total.op.get_attr("T") == tf.float32
    with pytest.raises(ValueError, match="get_attr: No attr named '_class' in"):
        total.op.get_attr("_class")


def test_numbers_behind_names_skip_those_that_are_taken(fresh):
    assert [fresh.unique_name(name) for name in ("foo_2", "foo", "foo", "foo", "foo_2")] == [
        "foo_2", "foo", "foo_1", "foo_3", "foo_2_1"]


def test_a_name_scope_is_in_the_graph_of_its_values(fresh):
    with tf.Graph().as_default() as other:
        a = tf.constant(1.0)
    with tf.name_scope(None, "scope", [a, 3]) as scope:
        assert tf.get_default_graph() is other and scope == "scope/"
    assert tf.get_default_graph() is fresh
    with pytest.raises(ValueError, match="must be from the same graph"), tf.name_scope("x", values=[a, tf.constant(1.0)]):
        pass
    with pytest.raises(ValueError, match=r"At least one of name \(None\) and default_name \(None\) must be provided"), \
            tf.name_scope(None, None, []):
        pass
    one = tf.constant(1)
    i = tf.while_loop(lambda i: i < 3, lambda i: _named(i, one), [tf.constant(0)])
    with tf.Session() as session:
        assert session.run(i) == 3


def _named(i, one):
    with tf.name_scope("body", values=[i, one]):      # the body of a loop is no other graph
        return i + one


def test_a_step_function_ends_the_block_and_a_finalized_graph_is_enough(fresh):
    v = tf.Variable(0)
    with tf.train.MonitoredSession() as session:
        with pytest.raises(ValueError, match="`step_fn` may either have one `step_context` argument"):
            session.run_step_fn(lambda step_context, more: None)
        session.run_step_fn(lambda step_context: step_context.request_stop())
        raise AssertionError("request_stop ends the block")
    assert session.should_stop()
    tf.train.Scaffold().finalize()
    with tf.train.MonitoredSession() as session:
        assert session.run(v) == 0
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
        tf.constant(1.0)


def test_a_monitored_session_finalizes_its_graph_until_it_ends():
    with tf.Graph().as_default() as graph:
        w = tf.get_variable("w", initializer=1.0)
        with tf.train.MonitoredSession() as session:
            assert graph.finalized and session.run(w) == 1
            with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
                tf.constant(1)
        assert not graph.finalized
        graph.finalize()
        with pytest.raises(RuntimeError):      # of one that made nothing before it was finalized
            tf.train.MonitoredSession()
        assert graph.finalized


@pytest.mark.parametrize("use", ["none", "run", "close"])
def test_a_monitored_session_that_was_closed_says_so(use):
    with tf.Graph().as_default():
        w = tf.get_variable("w", initializer=1.0)
        with pytest.raises(RuntimeError, match="Session is already closed"), tf.train.MonitoredSession() as session:
            session.close()
            if use != "none":
                session.run(w) if use == "run" else session.close()


def test_what_trains_is_in_the_collection_of_train_ops():
    with tf.Graph().as_default():
        w = tf.get_variable("w", initializer=1.0)
        step = tf.train.get_or_create_global_step()
        first = tf.train.GradientDescentOptimizer(0.1).minimize(w * w, step)
        adam = tf.train.AdamOptimizer()
        second = adam.apply_gradients(adam.compute_gradients(w * w))
        assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [first, second]
        nodes = tf.train.export_meta_graph().collection_def["train_op"].node_list.value
        assert list(nodes) == [first.name, second.name]


def test_what_ran_on_each_device_is_told_with_what_crosses():
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        x = tf.placeholder(tf.float32, [3], name="x")
        with tf.device("/cpu:0"):
            a = tf.exp(x, name="a")
        with tf.device("/cpu:1"):
            b = tf.cond(a[0] > 1.0, lambda: tf.cumsum(a), lambda: a, name="b")
        told, silent = tf.RunMetadata(), tf.RunMetadata()
        session.run(b, {x: [1, 2, 3]}, options=tf.RunOptions(output_partition_graphs=True), run_metadata=told)
        session.run(b, {x: [1, 2, 3]}, run_metadata=silent)
    assert silent.partition_graphs == [] and silent.step_stats.dev_stats
    first, second = told.partition_graphs
    assert {node.device for graph in told.partition_graphs for node in graph.node} == {
        f"/job:localhost/task:0/device:CPU:{i}" for i in range(2)}
    assert "Exp" in {node.op for node in first.node} and "Cumsum" in {node.op for node in second.node}
    [sent], [received] = ([node for node in graph.node if node.op == op] for graph, op in ((first, "_Send"), (second, "_Recv")))
    for key in ("tensor_name", "send_device", "recv_device"):
        assert sent.attr[key].s == received.attr[key].s != b""
    assert sent.attr["recv_device"].s.decode().endswith("CPU:1") and sent.attr["T"].type == received.attr["tensor_type"].type
    again = tf.RunMetadata.FromString(told.SerializeToString())
    assert list(again.partition_graphs) == told.partition_graphs


def test_a_graph_of_a_program_s_own_session_creator_stays_open(fresh):
    """As in TensorFlow, where the scaffold of a creator finalizes it."""
    class Creator(tf.train.SessionCreator):
        def create_session(self):
            return tf.Session()
    with tf.train.MonitoredSession(session_creator=Creator()) as session:
        assert session.run(tf.constant(2.0)) == 2.0 and not tf.get_default_graph().finalized


def test_a_saving_hook_needs_an_interval(tmp_path):
    with pytest.raises(ValueError, match="Either every_secs or every_steps should be provided"):
        tf.train.CheckpointSaverHook(str(tmp_path))


def test_a_server_says_what_it_is():
    server = tf.train.Server({"worker": ["localhost:0"], "ps": ["localhost:0"]}, "ps", 0, start=False)
    found = server.server_def
    assert (found.job_name, found.task_index, found.protocol) == ("ps", 0, "grpc")
    assert sorted(job.name for job in found.cluster.job) == ["ps", "worker"]
    assert tf.train.Server(found, start=False).server_def == found
