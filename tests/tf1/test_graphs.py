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
