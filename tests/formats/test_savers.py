"""Savers in the collection of a graph travel with it: their nodes, their variables, and what checkpoints call those."""
import pytest

import workbench.tf1 as tf


def two_savers(tf=tf):
    """A graph with one saver of all variables and one of `w` alone, which it calls "other"."""
    v, w = tf.get_variable("v", initializer=1.0), tf.get_variable("w", initializer=2.0)
    whole, part = tf.train.Saver(max_to_keep=2), tf.train.Saver({"other": w}, max_to_keep=7)
    tf.add_to_collection(tf.GraphKeys.SAVERS, whole)
    tf.add_to_collection(tf.GraphKeys.SAVERS, part)
    return v, w, whole, part


def told(proto):
    return [tf.train.SaverDef.FromString(data) for data in proto.collection_def["savers"].bytes_list.value]


@pytest.mark.parametrize("of_one", [False, True], ids=["export_meta_graph", "of a saver"])
def test_savers_are_written_with_their_nodes(of_one, caplog):
    with tf.Graph().as_default():
        *_, whole, _ = two_savers()
        proto = whole.export_meta_graph() if of_one else tf.train.export_meta_graph()
    assert [one.max_to_keep for one in told(proto)] == [2, 7] and not caplog.text
    nodes = {node.name: node.op for node in proto.graph_def.node}
    assert len(nodes) == len(proto.graph_def.node)
    for one in told(proto):
        assert nodes[one.restore_op_name] == "NoOp" and nodes[one.save_tensor_name.removesuffix(":0")] == "Identity"
    assert len([kind for kind in nodes.values() if kind == "SaveV2"]) == 2
    assert not of_one or proto.saver_def == told(proto)[0]


@pytest.mark.parametrize("scope", [None, "again"])
def test_savers_that_are_read_save_and_restore_what_they_did(scope, tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        _, w, whole, part = two_savers()
        session.run(tf.global_variables_initializer())
        session.run(w.assign(5.0))
        path = part.save(session, str(tmp_path / "part"))
        assert [name for name, _ in tf.train.list_variables(path)] == ["other"]
    with tf.Graph().as_default(), tf.Session() as session:
        main = tf.train.import_meta_graph(path + ".meta", import_scope=scope)
        whole, part = tf.get_collection(tf.GraphKeys.SAVERS)
        assert (whole.max_to_keep, part.max_to_keep) == (2, 7)
        session.run(tf.global_variables_initializer())
        for one in (main, part):      # of the one that wrote the file, and of that from the collection
            session.run(tf.global_variables_initializer())
            one.restore(session, path)
            assert session.run(tf.global_variables()) == [1.0, 5.0]
        again = whole.save(session, str(tmp_path / "whole"))
        assert [name for name, _ in tf.train.list_variables(again)] == ["v", "w"]


def test_messages_of_savers_stay_and_anything_else_is_refused():
    with tf.Graph().as_default() as graph:
        saver = tf.train.Saver([tf.get_variable("v", initializer=1.0)])
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver.to_proto())
        assert told(tf.train.export_meta_graph()) == [saver.to_proto()]
        graph.clear_collection(tf.GraphKeys.SAVERS)
        tf.add_to_collection(tf.GraphKeys.SAVERS, 3)
        with pytest.raises(TypeError, match="the collection 'savers': 3 is a int; pass a SaverDef"):
            tf.train.export_meta_graph()
