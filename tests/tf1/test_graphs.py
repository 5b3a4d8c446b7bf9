"""What `tf` offers of graphs as data: device names in parts, tensor protos, comparisons of GraphDefs."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf


@pytest.fixture(autouse=True)
def fresh():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_device_in_parts():
    spec = tf.DeviceSpec(job="worker", replica=0, task=1, device_type="CPU", device_index=0)
    assert spec.to_string() == "/job:worker/replica:0/task:1/device:CPU:0" == str(spec)
    assert tf.DeviceSpec.from_string("/job:ps/replica:2/gpu:*") == tf.DeviceSpec("ps", 2, None, "GPU")
    spec.merge_from(tf.DeviceSpec(task=3, device_type="GPU"))
    assert spec.to_string() == "/job:worker/replica:0/task:3/device:GPU:*" and spec != "other"
    with tf.device(tf.DeviceSpec(job="ps", task=1)):
        assert tf.constant(1).op.device == "/job:ps/task:1" and len({spec, tf.DeviceSpec.from_string(str(spec))}) == 1
    with pytest.raises(ValueError, match="has the part 'jub:x'"):
        tf.DeviceSpec.from_string("/jub:x")


def test_values_as_tensor_protos():
    proto = tf.make_tensor_proto([1, 2], dtype=tf.float32, shape=[2, 2])
    assert tf.make_ndarray(proto).tolist() == [[1, 2], [2, 2]] and proto.dtype == 1
    assert tf.make_ndarray(tf.make_tensor_proto("text")) == b"text" and tf.make_ndarray(
        tf.make_tensor_proto(np.zeros((0, 3), np.int64))).shape == (0, 3)
    with pytest.raises(ValueError, match=r"Too many elements provided. Needed at most 1, but received 3"):
        tf.make_tensor_proto([1, 2, 3], shape=[1])
    with pytest.raises(TypeError, match=r"Expected Tensor's shape: \(2, 2\), got \(2,\)"):
        tf.make_tensor_proto([1, 2], shape=[2, 2], verify_shape=True)


def test_graph_defs_are_compared_node_by_node(fresh):
    tf.constant(1.0, name="one")
    first = fresh.as_graph_def()
    tf.constant(2.0, name="two")
    second = fresh.as_graph_def()
    tf.test.assert_equal_graph_def(first, first)
    with pytest.raises(AssertionError, match="node 'two' is\nNone"):
        tf.test.assert_equal_graph_def(first, second)
    with pytest.raises(TypeError, match=r"Expected tf.GraphDef for actual, got Graph"):
        tf.test.assert_equal_graph_def(fresh, first)
    assert fresh.graph_def_versions.producer == tf.GRAPH_DEF_VERSION == first.versions.producer
    server = tf.train.ServerDef(job_name="ps", cluster=tf.train.ClusterDef(job=[tf.train.JobDef(name="ps", tasks={0: "a:1"})]))
    assert server.cluster.job[0].tasks[0] == "a:1" and tf.ClusterDef is tf.train.ClusterDef


def test_a_graph_is_imported_twice_under_no_name(fresh):
    """As in TensorFlow, what is there already keeps its name, and what comes gets a number."""
    x = tf.placeholder(tf.float32, [], name="x")
    tf.add(tf.multiply(x, 2.0, name="y"), x, name="z")
    graph_def = fresh.as_graph_def()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        names = ["x:0", "z:0"]
        first, second, third = (tf.import_graph_def(graph_def, name="", return_elements=names) for _ in range(3))
        assert [[t.name for t in found] for found in (first, second, third)] == [
            ["x:0", "z:0"], ["x_1:0", "z_1:0"], ["x_2:0", "z_2:0"]]
        assert session.run([first[1], third[1]], {first[0]: 1.0, third[0]: 5.0}) == [3.0, 15.0]
        assert graph.get_operation_by_name("y_2").name == "y_2"
    with tf.Graph().as_default():
        mapped = tf.import_graph_def(graph_def, name="", input_map={"x:0": tf.constant(4.0, name="x")}, return_elements=["z:0"])
        with tf.Session() as session:
            assert session.run(mapped) == [12.0]


@pytest.mark.parametrize(("value", "dtype", "field", "items"), [
    (10.0, tf.float32, "float_val", [10.0]), ([7], tf.int64, "int64_val", [7]), (3, tf.uint8, "int_val", [3]),
    (True, tf.bool, "bool_val", [True]), (1 + 2j, tf.complex64, "scomplex_val", [1.0, 2.0]),
    (1.0, tf.float16, "half_val", [15360]),
    ([b"a", b"b"], tf.string, "string_val", [b"a", b"b"])])
def test_one_number_stands_in_the_list_of_its_kind(value, dtype, field, items):
    proto = tf.make_tensor_proto(value, dtype)
    assert list(getattr(proto, field)) == items and not proto.tensor_content
    np.testing.assert_array_equal(tf.make_ndarray(proto), np.array(value, dtype.as_numpy_dtype))
    assert tf.constant(value, dtype).op.node_def.attr["value"].tensor == proto


def test_shapes_as_protocol_buffers():
    for shape in (None, [], [2, None, 3]):
        assert tf.TensorShape(tf.TensorShape(shape).as_proto()) == tf.TensorShape(shape)
    assert tf.TensorShape(tf.placeholder("int32", [None, 2]).op.node_def.attr["shape"].shape).as_list() == [None, 2]
    with pytest.raises(ValueError, match=r"as_list\(\) is not defined on an unknown TensorShape"):
        tf.TensorShape(None).as_list()


def test_values_known_while_building():
    value, unknown = np.ones((2, 3)), tf.placeholder(tf.float64)
    assert tf.contrib.util.constant_value(tf.stack([value, unknown])) is None
    assert tf.contrib.util.constant_value(tf.stack([value, unknown], 1), partial=True) is None
    assert tf.contrib.util.constant_value(tf.stack([unknown, unknown]), partial=True) is None
    known, missing = tf.contrib.util.constant_value(tf.stack([value, unknown]), partial=True)
    assert known.tolist() == value.tolist() and missing is None


def test_names_of_collections_devices_and_elements(fresh):
    tf.add_to_collection("mine", 1)
    assert fresh.collections == ["mine"] == fresh.get_all_collection_keys()

    class Holder:
        def __init__(self, element):
            self._element = element

        def _as_graph_element(self):
            return self._element
    one = tf.constant(1.0, name="one")
    assert fresh.as_graph_element(Holder(one)) is one
    with tf.control_dependencies([Holder(one)]):
        assert tf.no_op().control_inputs == [one.op] and one.op.control_inputs == []
    with fresh.device(tf.DeviceSpec(job="ps", task=1)):
        assert fresh.create_op("NoOp", [], []).device == "/job:ps/task:1"
    with fresh.device("/job:ps/replica:0"), fresh.device("/task:1"), fresh.device("/cpu:0"):
        kept = fresh.create_op("NoOp", [], [])
    assert kept.device == kept.node_def.device == "/job:ps/replica:0/task:1/device:CPU:0"
    with tf.Session() as session:
        assert [(d, d.name, d.device_type) for d in session.list_devices()] == [
            ("/job:localhost/task:0/device:CPU:0", "/job:localhost/task:0/device:CPU:0", "CPU")]


def test_a_name_scope_builds_in_the_graph_of_its_values(fresh):
    other = tf.Graph()
    with other.as_default():
        operation, sparse = tf.no_op(), tf.SparseTensor([[0]], [1.0], [1])
    for value in (operation, sparse, sparse.values):
        with tf.name_scope("there", values=[value]):
            assert tf.get_default_graph() is other
    with pytest.raises(ValueError, match="must be from the same graph"), tf.name_scope("x", values=[tf.no_op(), operation]):
        pass


def test_a_function_with_its_own_gradient_is_written_and_read():
    @tf.custom_gradient
    def twice(x, y):
        return (x * 2, y * 2), lambda *dys: [dys[0] * 10, dys[1] * 20]
    found = twice(tf.placeholder_with_default(3.0, [], name="x"), tf.constant(4.0))
    tf.add(*found, name="sum")
    proto = tf.get_default_graph().as_graph_def()
    assert "IdentityN" in {node.op for node in proto.node}
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.import_graph_def(proto, return_elements=["sum:0"], name=""), {"x:0": 5.0}) == [18.0]


def test_operations_of_types_that_nobody_knows_stand_in_graphs():
    graph, yes = tf.Graph(), tf.AttrValue(b=True)
    with graph.device("/job:worker/replica:2"):
        first = graph.create_op("an_op", [], [tf.float32, tf.string], attrs={"yes": yes})
    with graph.control_dependencies([first]), graph.name_scope("bar") as scope:
        second = graph.create_op("other", list(first.outputs)[::-1], [], name=scope)
    assert [op.name for op in graph.get_operations()] == ["an_op", "bar"] and first.type == "an_op"
    assert [t.dtype for t in first.outputs] == [tf.float32, tf.string] and first.get_attr("yes") is True
    assert first.node_def == tf.NodeDef(name="an_op", op="an_op", device="/job:worker/replica:2", attr={"yes": yes})
    assert list(second.node_def.input) == ["an_op:1", "an_op", "^an_op"]
    assert [node.op for node in graph.as_graph_def().node] == ["an_op", "other"]
    with tf.Session(graph=graph) as session, pytest.raises(tf.errors.NotFoundError, match="Op type not registered 'third'"):
        session.run(graph.create_op("third", [], [tf.float32]).outputs[0])


def test_enumerations_of_messages_and_types_of_operations():
    types = tf.core.framework.types_pb2
    assert types.DataType.Name(1) == "DT_FLOAT" and types.DataType.Value("DT_INT32") == types.DT_INT32 == 3
    assert {"DT_STRING", "DT_BOOL"} <= set(types.DataType.keys()) and 7 in types.DataType.values()
    with tf.Graph().as_default():
        x, _ = tf.nn.top_k([[1.0, 2.0]])
        assert x.op._output_types == [types.DT_FLOAT, types.DT_INT32] and x.op._input_types == [tf.float32]
        assert x._shape_tuple() == (1, 1) and tf.placeholder(tf.float32)._shape_tuple() is None


@pytest.mark.parametrize("around", ["loop", "branch"])
def test_scopes_of_the_program_s_graph_hold_inside_bodies(fresh, around):
    """A program knows one graph: what it enters on it inside a body holds for what it builds there."""
    made, counted, place = [], tf.Variable(0.0), tf.constant(0.0, name="place")
    tf.RegisterGradient(f"Tenfold_{around}")(lambda op, dy: dy * 10.0)

    def body(x):
        with fresh.device("/cpu:1"), fresh.name_scope("inner"), fresh.colocate_with(place.op):
            made.append((x + 1.0).op)
        with fresh.gradient_override_map({"Square": f"Tenfold_{around}"}), fresh.control_dependencies([
                tf.assign_add(counted, 1.0)]):
            return tf.square(x)

    x = tf.constant(1.0)
    if around == "loop":
        y = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, body(a)), [0, x])[1]
    else:
        y = tf.cond(tf.placeholder_with_default(True, []), lambda: body(x), lambda: x)
    assert made[0].device == "/device:CPU:1" and "/inner/" in made[0].name
    assert made[0].colocation_groups() == [b"loc:@place"]
    [slope] = tf.gradients(y, x)
    with tf.Session() as session:
        session.run(counted.initializer)
        assert session.run([y, slope]) == [1.0, 100.0 if around == "loop" else 10.0]
        assert session.run(counted) == (2.0 if around == "loop" else 1.0)


def test_an_operation_is_created_inside_a_body(fresh):
    def body(i, a):
        return i + 1, fresh.create_op("Square", [a], [tf.float32]).outputs[0]
    with tf.Session() as session:
        assert session.run(tf.while_loop(lambda i, a: i < 2, body, [0, tf.constant(2.0)])[1]) == 16.0


def test_registered_gradients_travel_with_the_graph(fresh):
    tf.RegisterGradient("Travels")(lambda op, dy: dy * 100.0)
    x = tf.placeholder(tf.float32, [], name="x")
    with fresh.gradient_override_map({"Square": "Travels"}):
        y = tf.square(x, name="y")
    assert y.op.node_def.attr["_gradient_op_type"].s == b"Travels"
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(fresh.as_graph_def(), name="")
        [slope] = tf.gradients(graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0"))
        assert session.run(slope, {"x:0": 3.0}) == 100.0


def test_gradients_that_are_none(fresh):
    """A type that was declared not differentiable, where an operation shall have its gradient."""
    tf.NotDifferentiable("NothingAtAll")
    x = tf.constant(3.0)
    with fresh.gradient_override_map({"Square": "NothingAtAll"}):
        y = tf.square(x)
    assert tf.gradients(y, x) == [None]
    with tf.Session() as session:
        assert session.run(tf.gradients(y * x, x)) == [9.0]
    for wrong in ([], {1: 2}):
        with pytest.raises(TypeError, match="is not a map of names to names"):
            fresh.gradient_override_map(wrong)
    with pytest.raises(ValueError, match=r"has shape \[\] but its grad_ys \[2\]"):
        tf.gradients(y, x, grad_ys=[[1.0, 2.0]])
