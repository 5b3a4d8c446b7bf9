"""Files of graphs made one with their checkpoints, as scripts of the time called tensorflow.python.tools for it."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.python.tools import freeze_graph as tool
from workbench.tf1.python.tools import inspect_checkpoint, optimize_for_inference_lib, strip_unused_lib

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph


def trained(folder):
    """(path of the graph as text, path of the checkpoint) of y = w x + b with w = [2, 3], b = 5; `fill` makes b 7."""
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.Variable([[2.0], [3.0]], name="w")
    b = tf.Variable([5.0], name="b")
    tf.assign(b, [7.0], name="fill")
    tf.identity(tf.check_numerics(tf.matmul(x, w) + b, "no number"), name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        checkpoint = tf.train.Saver().save(session, str(folder / "model"), write_meta_graph=True)
        tf.train.write_graph(session.graph_def, str(folder), "graph.pb", as_text=False)
        return tf.train.write_graph(session.graph_def, str(folder), "graph.pbtxt"), checkpoint


def answers(proto):
    """y of a GraphDef for x = [[1, 1]]."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        return session.run("y:0", {"x:0": np.ones((1, 2))}).tolist()


@pytest.mark.parametrize("binary", [False, True], ids=["text", "bytes"])
def test_a_graph_is_frozen_with_its_checkpoint(binary, tmp_path):
    text, checkpoint = trained(tmp_path)
    out = str(tmp_path / "frozen.pb")
    tool.freeze_graph(text.replace(".pbtxt", ".pb") if binary else text, "", binary, checkpoint, "y", "save/restore_all",
                      "save/Const:0", out, True, "")
    proto = tf.GraphDef.FromString((tmp_path / "frozen.pb").read_bytes())
    assert not any("Var" in node.op for node in proto.node) and answers(proto) == [[10.0]]
    slim = optimize_for_inference_lib.optimize_for_inference(proto, ["x"], ["y"], tf.float32.as_datatype_enum)
    assert len(slim.node) < len(proto.node) and answers(slim) == [[10.0]]


def test_operations_run_before_it_is_frozen_and_meta_graphs_and_saved_models_are_too(tmp_path, capsys):
    text, checkpoint = trained(tmp_path)
    made = tool.freeze_graph(text, None, False, checkpoint, "y", None, None, None, True, "fill")
    assert answers(made) == [[12.0]]
    made = tool.freeze_graph(None, None, True, checkpoint, "y", None, None, None, True, "",
                             input_meta_graph=checkpoint + ".meta")
    assert answers(made) == [[10.0]]
    with tf.Session() as session:
        tf.train.Saver().restore(session, checkpoint)
        tf.saved_model.simple_save(session, str(tmp_path / "served"), {"x": tf.get_default_graph().get_tensor_by_name("x:0")},
                                   {"y": tf.get_default_graph().get_tensor_by_name("y:0")})
    made = tool.freeze_graph(None, None, True, None, "y", None, None, None, True, "", input_saved_model_dir=str(
        tmp_path / "served"))
    assert answers(made) == [[10.0]]
    assert tool.freeze_graph(text, None, False, str(tmp_path / "none"), "y", None, None, None, True, "") == -1
    assert "doesn't exist" in capsys.readouterr().out


def test_parts_are_stripped_off_and_checkpoints_printed(tmp_path, capsys):
    text, checkpoint = trained(tmp_path)
    proto = tool.freeze_graph(text, None, False, checkpoint, "y", None, None, None, True, "")
    part = strip_unused_lib.strip_unused(proto, ["CheckNumerics"], ["y"], tf.float32.as_datatype_enum)
    assert [(node.name, node.op) for node in part.node] == [("CheckNumerics", "Placeholder"), ("y", "Identity")]
    with pytest.raises(KeyError, match="not found"):
        strip_unused_lib.strip_unused(proto, ["nothing"], ["y"], 1)
    inspect_checkpoint.print_tensors_in_checkpoint_file(checkpoint, "b", False)
    inspect_checkpoint.print_tensors_in_checkpoint_file(checkpoint, None, True)
    inspect_checkpoint.print_tensors_in_checkpoint_file(checkpoint, None, False)
    assert capsys.readouterr().out.count("[5.]") == 2


def test_variables_that_a_loop_reads_are_frozen():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        w, x = tf.get_variable("w", initializer=2.0), tf.placeholder(tf.float32, [], name="x")
        y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.cond(i > 0, lambda: a * w, lambda: a + w)), [0, x])[1]
        tf.identity(y, name="y")
        session.run(w.initializer)
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        assert session.run("y:0", {"x:0": 1.0}) == 12.0
        assert not any("Var" in node.op for node in frozen.node)
