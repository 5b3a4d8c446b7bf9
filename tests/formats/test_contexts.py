"""Loops and branches in collections of meta graphs: what TensorFlow's gradients need to go through them."""
import pytest

import workbench.tf1 as tf
from workbench.formats.messages import message

NAMES = ("context_name", "pivot_name", "pivot_for_pred_name", "pivot_for_body_name", "pred_name", "branch")


def exported(build):
    with tf.Graph().as_default():
        build(tf.placeholder(tf.float32, [2], name="x"))
        return tf.train.export_meta_graph()


def told(proto, key, kind):
    return [message(kind).FromString(data) for data in proto.collection_def[key].bytes_list.value]


def loops(proto):
    return told(proto, tf.GraphKeys.WHILE_CONTEXT, "WhileContextDef")


def branches(proto):
    return told(proto, tf.GraphKeys.COND_CONTEXT, "CondContextDef")


def loop(x):
    return tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * x), [0, x], parallel_iterations=4)[1]


def test_a_loop_names_its_variables_and_what_decides():
    proto = exported(loop)
    nodes = {node.name: node for node in proto.graph_def.node}
    [context] = loops(proto)
    assert context.parallel_iterations == 4 and context.back_prop
    kinds = [nodes[name.removesuffix(":0")].op for name in (
        context.pivot_name, context.pivot_for_pred_name, context.pivot_for_body_name)]
    assert kinds == ["LoopCond", "Merge", "Identity"]
    entered, left = list(context.loop_enter_names), list(context.loop_exit_names)
    assert [nodes[name.removesuffix(":0")].op for name in (*entered, *left)] == ["Enter"] * 2 + ["Exit"] * 2
    assert {nodes[name.removesuffix(":0")].attr["frame_name"].s.decode() for name in entered} == {context.context_name}
    inside = {name.partition(":")[0] for name in context.values_def.values}
    assert {node.name for node in nodes.values() if node.op in ("Merge", "Switch", "NextIteration", "Less", "Mul")} <= inside
    assert "x" not in inside and not branches(proto)


def test_what_a_loop_goes_on_with_has_one_reader():
    proto = exported(lambda x: tf.while_loop(lambda v: tf.reduce_sum(v) < 9.0, lambda v: [v * v + tf.sin(v)], [x]))
    switches = [node.name for node in proto.graph_def.node if node.op == "Switch" and len(set(node.input)) == 2]
    assert switches
    for name in switches:
        assert [node.op for node in proto.graph_def.node if f"{name}:1" in node.input] == ["Identity"]


def test_both_sides_of_a_branch_have_own_switches():
    proto = exported(lambda x: tf.cond(x[0] > 1.0, lambda: x * x, lambda: tf.sin(x)))
    sides = sorted(branches(proto), key=lambda one: one.branch)
    assert [one.branch for one in sides] == [0, 1] and sides[0].pred_name == sides[1].pred_name
    assert sides[0].pivot_name != sides[1].pivot_name and sides[0].context_name != sides[1].context_name
    inside = [set(one.values_def.values) - {one.pred_name} for one in sides]
    assert not inside[0] & inside[1]
    for context, kind in zip(sides, ("Sin", "Mul")):
        [node] = [node for node in proto.graph_def.node if node.op == kind]
        assert f"{node.name}:0" in context.values_def.values
        assert context.values_def.external_values[context.pred_name] == context.pred_name


def test_what_is_within_stands_in_what_is_around():
    proto = exported(lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, v: (
        i + 1, tf.cond(v[0] > 1.0, lambda: loop(v), lambda: v)), [0, x]))
    [context] = loops(proto)
    assert not branches(proto) and {one.WhichOneof("ctxt") for one in context.nested_contexts} == {"cond_ctxt"}
    inner = [one for side in context.nested_contexts for one in side.cond_ctxt.nested_contexts]
    assert [one.WhichOneof("ctxt") for one in inner] == ["while_ctxt"]


def test_a_graph_without_loops_and_a_list_without_their_names_have_none():
    assert not {"while_context", "cond_context"} & {*exported(lambda x: x * x).collection_def}
    with tf.Graph().as_default():
        loop(tf.placeholder(tf.float32, [2]))
        assert "while_context" not in tf.train.export_meta_graph(collection_list=["losses"]).collection_def
        assert "while_context" in tf.train.export_meta_graph(collection_list=["while_context"]).collection_def


@pytest.mark.parametrize("scope", [None, "again"])
def test_what_was_read_is_told_again(scope):
    proto = exported(lambda x: tf.identity(loop(tf.cond(x[0] > 1.0, lambda: x * x, lambda: tf.sin(x))), name="y"))
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(proto, import_scope=scope)
        prefix = f"{scope}/" if scope else ""
        slope = tf.gradients(graph.get_tensor_by_name(prefix + "y:0"), graph.get_tensor_by_name(prefix + "x:0"))[0]
        assert session.run(slope, {prefix + "x:0": [2.0, 1.0]}).tolist() == [8 * 2.0 ** 7, 8.0]
        again = tf.train.export_meta_graph(collection_list=["while_context", "cond_context"])
    assert len(loops(again)) >= 1 and len(branches(again)) >= 2
