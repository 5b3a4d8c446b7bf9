"""Graphs of TensorFlow's front speak its language: default names inside, and how things print; native ones do not."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_operators_take_the_names_of_tensorflow_and_their_constants_stand_below_them(graph):
    x = tf.placeholder(tf.float32, [2, 3])
    made = [x + 1.0, x - x, x * 2.0, x / x, 3.0 + x, -x, x ** 2.0, x > 0.0, x[0]]
    assert [t.op.name for t in made] == ["add", "sub", "mul", "truediv", "add_1", "Neg", "pow", "Greater", "strided_slice"]
    assert [op.name for op in graph.get_operations() if op.type == "Const"][:5] == [
        "add/y", "mul/y", "add_1/x", "pow/y", "Greater/y"]
    assert tf.constant(1).op.name == "Const" and tf.constant(1).op.name == "Const_1"


def test_layers_and_losses_are_found_by_the_names_that_tensorflow_gives(graph):
    x = tf.placeholder(tf.float32, [4, 8, 8, 3])
    with tf.variable_scope("net"):
        y = tf.layers.conv2d(x, 2, 3, activation=tf.nn.relu, name="first")
        z = tf.contrib.layers.conv2d(y, 2, 3)
        pooled = tf.layers.max_pooling2d(z, 2, 2, name="pool")
        dropped = tf.nn.dropout(pooled, 0.5)
        flat = tf.contrib.layers.flatten(dropped)
        logits = tf.layers.dense(flat, 5, name="logits")
    tf.losses.softmax_cross_entropy(tf.one_hot([0, 1, 2, 3], 5), logits)
    assert [t.op.name for t in (y, z, pooled, dropped, logits)] == [
        "net/first/Relu", "net/Conv/Relu", "net/pool/MaxPool", "net/dropout/mul", "net/logits/BiasAdd"]
    names = {op.name for op in graph.get_operations()}
    assert {"net/first/Conv2D", "net/first/BiasAdd", "net/logits/MatMul", "softmax_cross_entropy_loss/value"} <= names


def test_bodies_of_branches_and_graphs_that_estimators_make_speak_the_language_of_theirs(graph):
    found = []
    tf.cond(tf.constant(True), lambda: found.append(tf.constant(1.0) + 1.0) or found[0], lambda: tf.constant(2.0))
    assert found[0].op.name.endswith("/add") and found[0].graph.fresh().__class__ is tf.Graph
    assert isinstance(graph.fresh(), tf.Graph) and not isinstance(wb.Graph().fresh(), tf.Graph)


def test_types_of_operations_are_those_of_tensorflow_for_all_that_ask(graph):
    asked = []
    with tf.device(lambda op: asked.append(op.type) or ""):
        x = tf.placeholder(tf.float32, [2, 3])
        y = tf.nn.relu(tf.matmul(x, tf.constant(np.ones((3, 4), np.float32))) + 1.0)
        z = tf.cond(tf.reduce_sum(y) > 1.0, lambda: y, lambda: tf.negative(y))
    tf.gradients(z, x)
    assert asked[:6] == ["Placeholder", "Const", "MatMul", "Const", "Add", "Relu"]
    assert {"Placeholder", "MatMul", "Relu", "Sum", "Greater"} <= {op.type for op in graph.get_operations()}
    assert all(op.type == op.node_def.op for op in graph.get_operations()[:6])
    assert [op.kind for op in graph.get_operations()][:3] == ["placeholder", "constant", "matmul"]
    assert wb.Graph().create("constant", attrs={"value": np.zeros(1), "dtype": wb.float64}).type == "constant"


def test_device_functions_of_programs_find_variables_by_their_type(graph):
    kinds = ["Variable", "VariableV2", "AutoReloadVariable"]
    for kind in (lambda op: op.type, lambda op: op.node_def.op, lambda op: op.op_def.name):
        with tf.device(lambda op, kind=kind: "/cpu:0" if kind(op) in kinds else "/gpu:0"):
            v = tf.Variable(1.0)
            y = v * 2.0
        assert v.device == "/device:CPU:0" and y.device == "/device:GPU:0"
    assert {"VarHandleOp", "ReadVariableOp"} <= {node.op for node in graph.as_graph_def().node}      # a read is a snapshot


def test_tensors_operations_and_variables_print_as_in_tensorflow(graph):
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.add(x, x)
    assert str(y) == 'Tensor("Add:0", shape=(?, 3), dtype=float32)'
    assert repr(y) == "<tf.Tensor 'Add:0' shape=(?, 3) dtype=float32>"
    with tf.device("/gpu:0"):
        assert str(tf.constant([1.0], name="c")) == 'Tensor("c:0", shape=(1,), dtype=float32, device=/device:GPU:0)'
    assert str(tf.placeholder(tf.int32, name="any")) == 'Tensor("any:0", dtype=int32)'
    v = tf.Variable(np.zeros(2, np.float32), name="v")
    assert str(v) == repr(v) == "<tf.Variable 'v:0' shape=(2,) dtype=float32_ref>"
    assert repr(y.op) == "<tf.Operation 'Add' type=Add>"
    assert 'name: "Add"' in str(y.op) and 'op: "Add"' in str(y.op)
    either = tf.cond(tf.constant(True), tf.no_op, tf.no_op, name="either").op.inputs[0].op
    assert repr(either).startswith("<tf.Operation 'either")


def test_shapes_dimensions_and_types_print_as_in_tensorflow(graph):
    shape = tf.placeholder(tf.float32, [None, 3]).get_shape()
    assert str(shape) == "(?, 3)" and repr(shape) == "TensorShape([Dimension(None), Dimension(3)])"
    assert str(tf.TensorShape([3])) == "(3,)" and str(tf.TensorShape([])) == "()"
    assert str(tf.TensorShape(None)) == "<unknown>" and repr(tf.TensorShape(None)) == "TensorShape(None)"
    assert str(shape[0]) == "?" and repr(shape[1]) == "Dimension(3)"
    assert str(tf.float32) == "<dtype: 'float32'>" and repr(tf.float32) == "tf.float32"
    assert f"{shape}" == "{}".format(shape) == "(?, 3)"      # noqa: UP032
    with pytest.raises(ValueError, match=r"\[\?,3\]"):      # messages of ours keep one way of writing shapes
        shape.merge_with([2, 4])


def test_native_graphs_keep_their_names_and_texts():
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [None, 3], name="x")
        y = x * 2.0
        assert y.op.name == "multiply" and repr(y) == str(y) == "<Tensor multiply:0 float32[?,3]>"
        assert str(x.shape) == "[?,3]" and str(wb.float32) == "wb.float32"
        assert wb.nn.dropout(x, 0.5).op.name == "multiply_1"


def test_a_new_default_graph_is_one_of_the_front_that_asked_for_it():
    tf.reset_default_graph()
    try:
        assert isinstance(tf.get_default_graph(), tf.Graph) and (tf.constant(1.0) + 1.0).op.name == "add"
    finally:
        wb.reset_default_graph()
    assert not isinstance(wb.get_default_graph(), tf.Graph)


def test_results_of_branches_and_loops_are_called_as_in_tensorflow(graph):
    p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])
    y = tf.cond(p, lambda: x * 2.0, lambda: x)
    pair = tf.cond(p, lambda: (x, x + 1.0), lambda: (x + 1.0, x), name="choice")
    i, z = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])
    assert [t.name for t in (y, *pair, i, z)] == ["cond/Merge:0", "choice/Merge:0", "choice/Merge_1:0", "while/Exit:0",
                                                  "while/Exit_1:0"]
    assert [y.op.type, z.op.type, tf.identity(y).op.type] == ["Merge", "Exit", "Identity"]
    with tf.Session() as session:
        found = session.run(["cond/Merge:0", "while/Exit_1:0", tf.gradients(z + y, x)[0]], {p: True, x: 3.0})
    assert found == [6.0, 81.0, 110.0]
    with wb.Graph().as_default():
        assert wb.cond(wb.constant(True), lambda: wb.constant(1), lambda: wb.constant(2)).op.kind == "if"


def test_operations_of_branches_and_loops_stand_in_the_scope_of_their_operation(graph):
    p, x, made = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [], name="x"), []

    def named(tensor):
        made.append(tensor.op.name)
        return tensor

    def first():
        with tf.name_scope("inner"):
            return named(named(x + 1.0) * tf.identity(x, name="x"))

    y = tf.cond(p, first, lambda: named(named(x + 2.0) - named(tf.constant(3.0))))
    z = tf.while_loop(lambda i: named(i < 3), lambda i: named(i + 1), [0])
    assert made == ["cond/inner/add", "cond/inner/mul", "cond/add", "cond/Const", "cond/sub", "while/Less", "while/add"]
    names = [node.name for node in graph.as_graph_def().node]
    assert {"cond/inner/add", "cond/inner/add/y", "cond/inner/x", "cond/add", "while/add"} <= set(names)
    assert len(names) == len(set(names))
    with tf.Session() as session:
        assert session.run([y, z, tf.gradients(y, x)[0]], {p: True, x: 4.0}) == [20.0, 3, 9.0]
        assert session.run([y, z, tf.gradients(y, x)[0]], {p: False, x: 4.0}) == [3.0, 3, 1.0]


def test_summaries_of_a_branch_have_the_tag_that_tensorflow_gives_them(graph):
    made = tf.cond(tf.constant(True), lambda: tf.summary.scalar("loss", 2.0), lambda: tf.summary.scalar("loss", 3.0))
    with tf.Session() as session:
        assert [value.tag for value in tf.Summary.FromString(session.run(made)).value] == ["cond/loss"]


def test_constants_of_arguments_stand_below_their_operation_in_scopes_too(graph):
    x = tf.placeholder(tf.float32, [])
    with tf.name_scope("outer"), tf.name_scope("inner"):
        assert [tensor.op.name for tensor in (x + 1.0).op.inputs] == ["Placeholder", "outer/inner/add/y"]
        assert tf.multiply(2.0, x, name="twice").op.inputs[0].op.name == "outer/inner/twice/x"


# the graph inside of a body

@pytest.mark.parametrize("found", [
    lambda graph: graph.get_tensor_by_name("x:0"), lambda graph: graph.as_graph_element("x:0"),
    lambda graph: graph.get_operation_by_name("x").outputs[0], lambda graph: graph.as_graph_element(graph.mine),
    lambda graph: graph.get_tensor_by_name("w:0"), lambda graph: graph.get_collection("kept")[0]])
def test_bodies_find_what_is_around_them_in_the_default_graph(found):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x, _ = tf.placeholder_with_default(3.0, [], name="x"), tf.Variable(3.0, name="w")
        graph.mine = x
        graph.add_to_collection("kept", x)
        session.run(tf.global_variables_initializer())

        def loop(start):
            return tf.while_loop(lambda i: i < 4, lambda i: i + found(tf.get_default_graph()), [start])
        assert session.run([loop(tf.constant(0.0)), tf.cond(x > 2, lambda: loop(x), lambda: x)]) == [6, 6]


def test_bodies_have_the_methods_of_the_programs_graphs_and_know_what_is_nowhere():
    def body(i):
        graph = tf.get_default_graph()
        graph._apply_device_functions(i.op)
        assert dict(graph._functions) == {} and not hasattr(graph, "theirs")
        with pytest.raises(KeyError, match="no operation 'nowhere'"):
            graph.get_tensor_by_name("nowhere:0")
        return i + 1
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.while_loop(lambda i: i < 4, body, [tf.constant(0)])) == 4


def test_a_body_is_the_programs_graph_and_no_other(graph):
    """Libraries keep the default graph and compare it at the next call."""
    found = [graph]

    def body(i):
        found.append(tf.get_default_graph())
        return i + 1
    tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    tf.cond(tf.constant(True), lambda: body(tf.constant(1)), lambda: tf.constant(1))
    assert found == [graph] * 3 and len(set(found)) == 1 and found[1] is not graph
    assert found[1] != tf.Graph() and tf.Graph() != found[1] and found[1] != "graph"


def test_what_stands_in_a_branch_is_said_to_stand_there(graph):
    inside = []
    tf.cond(tf.constant(True), lambda: inside.append(tf.no_op(name="update")) or tf.constant(1), lambda: tf.constant(1))
    said = r"stands in a branch or loop \(Operation .*update.* not fetchable"
    with tf.Session() as session, pytest.raises(ValueError, match=said):
        session.run(inside)


def test_branches_that_give_operations_have_the_predicate_as_their_result():
    with tf.Graph().as_default(), tf.Session() as session:
        v, pred = tf.Variable(1), tf.placeholder(tf.bool, [])
        one = tf.cond(pred, lambda: v.assign(2).op, tf.no_op)
        two = tf.cond(pred, lambda: [v.assign_add(5).op, tf.no_op()], lambda: [tf.no_op(), tf.group(v.assign(9))])
        assert one.dtype == tf.bool and one.shape == [] and one.op.name == "cond/Merge" and len(two) == 2
        session.run(v.initializer)
        assert session.run(one, {pred: False}) == False and session.run(v) == 1      # noqa: E712
        assert session.run(one, {pred: True}) == True and session.run(v) == 2      # noqa: E712
        with tf.control_dependencies([two[0]]):
            after = tf.identity(v)
        assert session.run(after, {pred: True}) == 7 and session.run([two[1], v], {pred: False})[0] == False      # noqa: E712
