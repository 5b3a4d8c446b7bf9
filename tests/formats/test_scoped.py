"""Parts of a graph below one name scope as meta graphs, and variables, queue runners and savers as messages of their own."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.tf1.python.framework import meta_graph


def tower():
    """A layer in the scope "tower" that reads a placeholder and an operation outside of it."""
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    first = tf.no_op(name="first")
    with tf.variable_scope("tower"), tf.device("/cpu:0"), tf.control_dependencies([first]):
        w = tf.get_variable("w", initializer=tf.constant([[2.0], [3.0]]))
        turns = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.0), [0, tf.matmul(x, w)])
        tf.add_to_collection("outs", tf.identity(turns[1], name="out"))
    tf.get_variable("other", initializer=1.0)
    tf.add_to_collection("outs", x)


def test_a_scope_is_imported_into_another_with_its_variables(tmp_path):
    with tf.Graph().as_default():
        tower()
        proto, kept = meta_graph.export_scoped_meta_graph(str(tmp_path / "part.meta"), export_scope="tower", clear_devices=True)
    assert list(kept) == ["w:0"] and not any(node.device for node in proto.graph_def.node)
    assert not any(node.name.startswith("tower") or node.name == "other" for node in proto.graph_def.node)
    needed = proto.collection_def["unbound_inputs"].bytes_list.value
    assert set(needed) == {b"$unbound_inputs_x", b"^$unbound_inputs_first"}
    assert list(proto.collection_def["outs"].node_list.value) == ["out:0"]
    with tf.Graph().as_default() as graph, tf.Session() as session:
        given, ready = tf.constant([[1.0, 1.0]]), tf.no_op()
        found = meta_graph.import_scoped_meta_graph(str(tmp_path / "part.meta"), import_scope="new", input_map={
            "$unbound_inputs_x": given, "^$unbound_inputs_first": ready})
        assert {name: variable.name for name, variable in found.items()} == {"w:0": "new/w:0"}
        session.run(tf.global_variables_initializer())
        assert session.run("new/out:0").tolist() == [[40.0]]
        assert graph.get_collection("unbound_inputs") == []


def test_what_is_missing_is_named_before_anything_is_added():
    with tf.Graph().as_default():
        tower()
        proto = tf.train.export_meta_graph(export_scope="tower")
        assert not proto.HasField("saver_def")
        assert not tf.train.Saver().export_meta_graph(export_scope="tower").HasField("saver_def")
    with tf.Graph().as_default() as graph:
        with pytest.raises(errors.InvalidArgumentError, match=r"Graph contains unbound inputs: .*unbound_inputs_x"):
            tf.train.import_meta_graph(proto)
        assert not graph.get_operations()


def test_messages_of_variables_runners_and_savers():
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.name_scope("old"):
            variable = tf.Variable([1.0, 2.0], trainable=False, name="v")
            queue = tf.FIFOQueue(4, tf.int32, shapes=[], name="queue")
            runner = tf.train.QueueRunner(queue, [queue.enqueue(7)])
        session.run(tf.global_variables_initializer())
        whole, short = variable.to_proto(), variable.to_proto(export_scope="old")
        assert (whole.variable_name, short.variable_name) == ("old/v:0", "v:0")
        assert variable.to_proto(export_scope="ol") is None and runner.to_proto(export_scope="ol") is None
        for again in (tf.Variable.from_proto(whole), tf.Variable.from_proto(short, import_scope="old")):
            assert again.name == "old/v:0" and not again.trainable
            np.testing.assert_array_equal(session.run(again), [1.0, 2.0])
        told = runner.to_proto(export_scope="old")
        assert told.queue_name == "queue" and told.close_op_name == runner.close_op.name.removeprefix("old/")
        again = tf.train.QueueRunner.from_proto(told, import_scope="old")
        assert [op.name for op in again.enqueue_ops] == [runner.enqueue_ops[0].name]
        saver = tf.train.Saver(max_to_keep=3, write_version=tf.train.SaverDef.V2)
        assert saver.to_proto(export_scope="old") is None
        again = tf.train.Saver.from_proto(saver.to_proto(), import_scope="old")
        assert again.max_to_keep == 3 and again.to_proto().version == tf.train.SaverDef.V2
        with pytest.raises(errors.Error):
            tf.Variable.from_proto(short, import_scope="nowhere")
