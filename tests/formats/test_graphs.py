"""GraphDef in and out: names, control flow, state, input_map, parts, files, and one error for whatever is wrong."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.core.graph.build import ops
from workbench.formats import graph_util


def made(function):
    """(GraphDef, what the function returned) of a graph of its own."""
    with tf.Graph().as_default() as graph:
        found = function()
        return graph.as_graph_def(), found


def ran(proto, fetches, feeds=None, before=()):
    """The values of `fetches` (names) in a session on the imported graph, after running `before` once."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, name="")
        with tf.Session(graph=graph) as session:
            session.run(list(before))
            return session.run(fetches, feeds)


def product():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    return tf.matmul(x, tf.constant([[1.0], [2.0]], name="w"), name="y")


def test_a_graph_and_its_text_compute_the_same():
    proto, _ = made(product)
    assert [(node.name, node.op) for node in proto.node] == [("x", "Placeholder"), ("w", "Const"), ("y", "MatMul")]
    text = tf.GraphDef.FromString(proto.SerializeToString())
    assert ran(text, "y:0", {"x:0": [[3, 4]]}).tolist() == [[11]]


def test_shapes_version_and_node_def():
    with tf.Graph().as_default() as graph:
        y = product()
        assert graph.version == 3
        assert [node.name for node in graph.as_graph_def(from_version=2).node] == ["y"]
        shape = graph.as_graph_def(add_shapes=True).node[-1].attr["_output_shapes"].list.shape[0]
        assert [d.size for d in shape.dim] == [-1, 1]
        assert y.op.node_def.op == "MatMul" and list(y.op.node_def.input) == ["x", "w"]


def test_returned_elements_and_replaced_inputs():
    proto, _ = made(product)
    with tf.Graph().as_default(), tf.Session() as session:
        y, op = tf.import_graph_def(proto, input_map={"x:0": tf.constant([[1.0, 1.0]])}, return_elements=["y:0", "y"])
        assert y.name == "import/y:0" and op is y.op
        again, = tf.import_graph_def(proto, {"x": [[2.0, 2.0]]}, ["y:0"], name="again")
        assert again.name == "again/y:0"
        assert [v.tolist() for v in session.run([y, again])] == [[[3]], [[6]]]


def test_loops_branches_and_variables_travel():
    def build():
        w = tf.get_variable("w", initializer=tf.constant(2.0))
        n = tf.placeholder(tf.int32, [], name="n")
        i, total = tf.while_loop(lambda i, t: i < n, lambda i, t: [i + 1, t * w], [tf.constant(0), tf.constant(1.0)])
        tf.identity(tf.cond(total > 5.0, lambda: -total, lambda: total), name="out")
        with tf.control_dependencies([tf.assign(w, 3.0, name="change")]):
            tf.identity(i, name="changed")
        return tf.global_variables_initializer().name
    proto, init = made(build)
    assert {"Enter", "Merge", "Switch", "NextIteration", "Exit", "VarHandleOp"} <= {node.op for node in proto.node}
    assert ran(proto, "out:0", {"n:0": 2}, [init]) == 4
    assert ran(proto, "out:0", {"n:0": 3}, [init]) == -8
    assert ran(proto, "out:0", {"n:0": 1}, [init, ]) == 2


def test_gradients_go_through_imported_loops():
    """Loops within loops too; what each exit was called it is called still."""
    def build():
        x, n = tf.placeholder(tf.float32, [2], name="x"), tf.placeholder(tf.int32, [], name="n")
        w = tf.get_variable("w", initializer=tf.constant([2.0, 3.0]))

        def outer(i, a):
            inner = tf.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, tf.sin(b) * w), [0, a])[1]
            return i + 1, inner + a * x
        y = tf.identity(tf.while_loop(lambda i, a: i < n, outer, [0, x])[1], name="y")
        slopes = tf.gradients(y, [x, w])
        for name, value in zip(("dx", "dw"), (*slopes, *tf.gradients(tf.reduce_sum(slopes[0] * slopes[0]), [x]))):
            tf.identity(value, name=name)
        return tf.global_variables_initializer().name
    with tf.Graph().as_default() as graph:
        start = build()
        with tf.Session() as session:
            session.run(start)
            wanted = session.run(["y:0", "dx:0", "dw:0"], {"x:0": [0.3, 0.7], "n:0": 3})
        proto = tf.graph_util.extract_sub_graph(graph.as_graph_def(), ["y", start])
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(proto, name="")
        assert not {op.kind for op in graph.get_operations()} & {"enter", "merge", "switch", "exit", "next_iteration"}
        y, x = graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0")
        slopes = tf.gradients(y, [x, graph.get_operation_by_name("w").outputs[0]])
        session.run(start)
        for found, exact in zip(session.run([y, *slopes], {x: [0.3, 0.7], "n:0": 3}), wanted):
            assert found.tolist() == pytest.approx(exact.tolist(), rel=1e-5)


def test_loops_stay_as_they_are_where_something_inside_is_asked_for():
    def build():
        x = tf.placeholder(tf.float32, [], name="x")
        tf.identity(tf.while_loop(lambda a: a < 9.0, lambda a: tf.cond(a > 4.0, lambda: a + 5.0, lambda: a * 2.0), [x]),
                    name="y")
        tf.identity(tf.while_loop(lambda a: a < 9.0, lambda a: a * 2.0, [x], name="plain"), name="z")
    proto, _ = made(build)
    test = next(node.name for node in proto.node if node.op == "LoopCond" and node.name.startswith("plain"))
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(proto, name="", return_elements=[test])
        assert [op.kind for op in graph.get_operations()].count("loop_cond") == 1
        assert session.run(["y:0", "z:0"], {"x:0": 3}) == [11, 12]
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(proto, name="")
        assert not {op.kind for op in graph.get_operations()} & {"loop_cond", "merge", "switch"}
        assert session.run(["y:0", "z:0"], {"x:0": 3}) == [11, 12]


def test_a_gradient_that_would_go_through_a_loop_that_stayed_as_it_is_is_refused():
    """Also where what comes around alone leads from x to y."""
    def build():
        w = tf.placeholder(tf.float32, [], name="w")
        tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a * w + 1.0)), [0, 0.5], name="around")
    proto, _ = made(build)
    [inside] = [node.name for node in proto.node if node.op == "Tanh"]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, name="", return_elements=[inside])
        [y] = [op.outputs[0] for op in graph.get_operations() if op.kind == "exit" and op.outputs[0].dtype == tf.float32]
        with pytest.raises(errors.UnimplementedError, match=r"\(exit\) has no gradient but lies between x and y"):
            tf.gradients(y, graph.get_tensor_by_name("w:0"))


def branching(x, w):
    """Branches within branches, of several results, one of which is what came in; the second time by the same predicate."""
    def body(i, a, b):
        large = tf.reduce_sum(a) > 3.0
        a, c = tf.cond(large, lambda: (tf.sin(a) * w, a), lambda: (tf.cond(b[0] > 0.5, lambda: a + x, lambda: a * w + 1.0), b))
        return i + 1, a, tf.cond(large, lambda: c * a, lambda: c + b)
    return tf.add_n(tf.while_loop(lambda i, *_: i < 4, body, [0, x, x])[1:])


def writing(x, w):
    """An array and a stack of the step, as TensorFlow writes them, in a loop that branches."""
    given, made = (ops.step_array(3, dtype=tf.float32, shape=[2]) for _ in range(2))
    flow = ops.step_array_scatter(given[0], tf.range(3), x * tf.ones([3, 1]), given[1])

    def body(i, a, flow_out):
        row = ops.step_array_read(given[0], i, flow, dtype=tf.float32, shape=[2])
        a = tf.cond(a[0] > 0.5, lambda: a * w, lambda: a + w) * row
        return i + 1, a, ops.step_array_write(made[0], i, a, flow_out)
    flow_out = tf.while_loop(lambda i, *_: i < 3, body, [0, x, made[1]])[2]
    count = ops.step_array_size(made[0], flow_out)
    return tf.reduce_sum(ops.step_array_gather(made[0], tf.range(count), flow_out, dtype=tf.float32, shape=[2]), 0)


@pytest.mark.parametrize("program", [branching, writing])
def test_gradients_go_through_branches_and_arrays_of_imported_loops(program):
    """As steep as small changes say."""
    def build():
        w = tf.get_variable("w", initializer=tf.constant([1.2, 0.7]))
        tf.identity(program(tf.placeholder(tf.float32, [2], name="x"), w), name="y")
        return tf.global_variables_initializer().name
    proto, start = made(build)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(proto, name="")
        kinds = {op.kind for op in graph.get_operations()}
        assert not kinds & {"enter", "merge", "switch", "exit", "step_array", "step_array_write"} and "while" in kinds
        y, x, w = graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0"), graph.get_operation_by_name("w").outputs[0]
        session.run(start)
        slopes, steps = tf.gradients(y, [x, w]), np.eye(2, dtype="f") * 1e-2
        for point in ([0.2, 0.4], [1.2, 0.4]):
            point = np.float32(point)
            dx, dw = session.run(slopes, {x: point})
            near = [[session.run(y, {x: point + sign * step}).sum() for sign in (1, -1)] for step in steps]
            np.testing.assert_allclose(dx, [(up - down) / 2e-2 for up, down in near], 1e-2)
            assert dw.shape == (2,) and np.all(dw != 0)


def test_an_array_with_gradients_of_its_own_stays_one_of_the_step():
    def build():
        handle, flow = ops.step_array(2, dtype=tf.float32, shape=[])
        flow = ops.step_array_write(handle, 0, tf.placeholder(tf.float32, [], name="x"), flow)
        other = ops.step_array_gradient(handle, flow, source="gradients")
        flow = ops.step_array_write(other[0], 0, 3.0, other[1])
        tf.identity(ops.step_array_read(other[0], 0, flow, dtype=tf.float32, shape=[]), name="y")
    proto, _ = made(build)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(proto, name="")
        assert "step_array" in {op.kind for op in graph.get_operations()}
        assert session.run("y:0", {"x:0": 1.0}) == 3


def test_a_loop_variable_may_grow():
    def build():
        x = tf.placeholder(tf.float32, [None, 1], name="x")
        grown = tf.while_loop(lambda v: tf.shape(v)[0] < 5, lambda v: tf.concat([v, v], 0), [x],
                              shape_invariants=[tf.TensorShape([None, 1])])
        tf.identity(grown, name="out")
    proto, _ = made(build)
    assert ran(proto, "out:0", {"x:0": [[1], [2]]}).shape == (8, 1)


def test_queues_travel():
    def build():
        queue = tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[], []], name="queue")
        queue.enqueue_many([[1.0, 2.0, 3.0], [4, 5, 6]], name="fill")
        [tf.identity(t, name=f"part{i}") for i, t in enumerate(queue.dequeue_many(2))]
    proto, _ = made(build)
    assert [v.tolist() for v in ran(proto, ["part0:0", "part1:0"], None, ["fill"])] == [[1, 2], [4, 5]]


def test_devices_colocation_and_control_inputs_are_kept():
    def build():
        with tf.device("/job:ps/task:1"):
            a = tf.constant(1.0, name="a")
        with tf.colocate_with(a.op), tf.control_dependencies([a]):
            tf.constant(2.0, name="b")
    proto, _ = made(build)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, name="")
        b = graph.get_operation_by_name("b")
        assert graph.get_operation_by_name("a").device == "/job:ps/task:1"
        assert b.colocation == {"a"} and [c.name for c in b.control_inputs] == ["a"]


# parts

def test_a_frozen_graph_needs_no_variables():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        w = tf.get_variable("w", initializer=tf.constant([[1.0], [2.0]]))
        rows = tf.get_variable("rows", initializer=tf.constant([[5.0], [6.0]]))
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.add(tf.matmul(x, w), tf.nn.embedding_lookup(rows, [1]), name="y")
        session.run(tf.global_variables_initializer())
        frozen = graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
        some = graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"], variable_names_blacklist=["w"])
    assert not {"VarHandleOp", "ReadVariableOp", "ResourceGather"} & {node.op for node in frozen.node}
    assert [node.name for node in some.node if node.op == "VarHandleOp"] == ["w"]
    assert ran(frozen, "y:0", {"x:0": [[3, 4]]}).tolist() == [[17]]
    lean = graph_util.remove_training_nodes(frozen, ["y"])
    assert len(lean.node) < len(frozen.node) and ran(lean, "y:0", {"x:0": [[3, 4]]}).tolist() == [[17]]


def test_nodes_of_savers_stay_on_their_side():
    with tf.Graph().as_default() as graph:
        tf.get_variable("w", initializer=tf.constant(1.0))
        before = [node.name for node in graph.as_graph_def().node]
        saver = tf.train.Saver()
        assert [node.name for node in graph.as_graph_def().node] == before
        proto = saver.export_meta_graph().graph_def
    assert "SaveV2" in {node.op for node in proto.node}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, name="")
        assert [op.name for op in graph.get_operations()] == before


def test_parts_of_a_graph():
    proto, _ = made(product)
    assert [node.name for node in graph_util.extract_sub_graph(proto, ["w"]).node] == ["w"]
    with pytest.raises(AssertionError, match="nowhere is not in graph"):
        graph_util.extract_sub_graph(proto, ["nowhere"])
    with pytest.raises(TypeError, match="dest_nodes is the text 'y'"):
        graph_util.extract_sub_graph(proto, "y")


@pytest.mark.parametrize(("name", "as_text"), [("graph.pbtxt", True), ("graph.pb", False)])
def test_files(tmp_path, name, as_text):
    with tf.Graph().as_default() as graph:
        product()
        path = tf.train.write_graph(graph, str(tmp_path / "new"), name, as_text=as_text)
    assert graph_util.read_graph(path) == graph.as_graph_def()
    with pytest.raises(errors.NotFoundError, match="there is no file"):
        graph_util.read_graph(path + ".other")
    again = tf.train.write_graph(graph, str(tmp_path), f"new/again-{name}", as_text=as_text)      # a name may have a folder
    assert graph_util.read_graph(again) == graph.as_graph_def() and sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        f"again-{name}", name]


def test_strings_that_tensorflow_adds_are_joined():
    proto = tf.GraphDef()
    for name in ("folder", "file"):
        node = proto.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = tf.string.as_datatype_enum
    proto.node.add(name="path", op="Add", input=["folder", "file"]).attr["T"].type = tf.string.as_datatype_enum
    assert ran(proto, "path:0", {"folder:0": "a/", "file:0": ["b", "c"]}).tolist() == [b"a/b", b"a/c"]


# whatever is wrong is one error, and the graph is as before

def broken(**changes):
    proto, _ = made(product)
    node = next(n for n in proto.node if n.name == "y")
    for key, value in changes.items():
        setattr(node, key, value)
    return proto, node


@pytest.mark.parametrize(("change", "error", "text"), [
    (lambda p, n: setattr(n, "op", "MatMulX"), errors.UnimplementedError, r"not offered: MatMulX \(node 'y'\)"),
    (lambda p, n: n.input.append("w"), errors.InvalidArgumentError, r"node 'y' \(MatMul\): it has 3 inputs; 2 are needed"),
    (lambda p, n: n.input.pop(), errors.InvalidArgumentError, r"node 'y' \(MatMul\): it has 1 inputs; 2 are needed"),
    (lambda p, n: n.input.append("^nowhere"), errors.InvalidArgumentError, "there is no node 'nowhere'"),
    (lambda p, n: n.input.__setitem__(0, "w:1"), errors.InvalidArgumentError, "reads 'w:1', but 'w' \\(Const\\) has 1 outputs"),
    (lambda p, n: p.node[0].input.append("y"), errors.InvalidArgumentError, "nodes x, y wait for each other in a circle"),
    (lambda p, n: setattr(p.node[0], "name", "w"), errors.InvalidArgumentError, "two nodes are called 'w'"),
    (lambda p, n: p.node[1].attr.pop("value"), errors.InvalidArgumentError, r"'w' \(Const\): attribute 'value' is missing"),
    (lambda p, n: p.node[1].attr["value"].tensor.tensor_shape.dim[0].__setattr__("size", 9), errors.DataLossError,
     r"attribute 'value': float32\[9,1\] has 36 bytes but the tensor holds 8"),
    (lambda p, n: p.node[1].attr["dtype"].__setattr__("type", 24), errors.UnimplementedError, r"element type 24 \(unknown\)"),
    (lambda p, n: n.attr["transpose_b"].__setattr__("b", True), errors.ShapeError, r"node 'y' \(MatMul\): matmul: "),
    (lambda p, n: setattr(n, "device", "nonsense"), errors.InvalidArgumentError, "node 'y': "),
    (lambda p, n: setattr(n, "op", "MatMulX"), ValueError, "No op named MatMulX in defined operations"),
    (lambda p, n: setattr(n, "name", "a b"), errors.InvalidArgumentError, r"'a b' \(MatMul\) is not a valid node name"),
    (lambda p, n: setattr(n, "name", ""), errors.InvalidArgumentError, r"'' \(MatMul\) is not a valid node name"),
    (lambda p, n: n.attr["T"].__setattr__("type", 2), errors.InvalidArgumentError,
     "type T is float64 but it was passed float32, float32"),
    (lambda p, n: n.attr["_class"].list.s.append(b"loc:@no"), errors.InvalidArgumentError, "colocated with unknown node 'no'"),
    (lambda p, n: setattr(p.versions, "min_consumer", tf.GRAPH_DEF_VERSION + 1), errors.InvalidArgumentError,
     "GraphDef min consumer version 23 above current version 22; write the graph anew"),
    (lambda p, n: p.versions.bad_consumers.append(tf.GRAPH_DEF_VERSION), ValueError,
     "GraphDef disallows consumer version 22"),
    (lambda p, n: setattr(p.versions, "producer", -1), ValueError, "GraphDef producer version -1 below min producer 0"),
    (lambda p, n: n.input.insert(0, "^x"), errors.InvalidArgumentError,
     r"node 'y' reads \['\^x', 'x', 'w'\]: control dependencies must come after regular dependencies; put '\^x' last"),
    (lambda p, n: p.node.add(name="z", op="Identity", input=["w", "w"]), errors.InvalidArgumentError,
     r"node 'z' \(Identity\): it has 2 inputs; 1 is needed"),
])
def test_a_wrong_graph_is_one_error(change, error, text):
    proto, _ = made(product)
    change(proto, proto.node[2])
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="before")
        with pytest.raises(error, match=text):
            tf.import_graph_def(proto)
        assert [op.name for op in graph.get_operations()] == ["before"]


def test_versions_that_admit_ours_are_read():
    proto, _ = made(product)
    proto.versions.bad_consumers.append(tf.GRAPH_DEF_VERSION - 1)
    proto.versions.producer, proto.versions.min_consumer = 100_000, tf.GRAPH_DEF_VERSION
    with tf.Graph().as_default():
        assert tf.import_graph_def(proto, return_elements=["y"])[0].type == "MatMul"


@pytest.mark.parametrize("shape", [None, [None], [2]])
def test_a_negative_size_that_is_known_is_refused(shape):
    with tf.Graph().as_default() as graph:
        tf.reshape(tf.placeholder(tf.float32, shape, name="x"), [2, -1], name="y")
        proto = graph.as_graph_def()
    node = next(node for node in proto.node if node.name == "y/shape")
    node.attr["value"].CopyFrom(attr_value([2, -3]))
    with tf.Graph().as_default() as graph:
        with pytest.raises(errors.ShapeError, match=r"node 'y' \(Reshape\): reshape: \[2, -3\] is not a shape; write -1 at "
                           "most once and no other negative number .Invalid value in tensor used for shape."):
            tf.import_graph_def(proto)
        assert not graph.get_operations()


def attr_value(numbers):
    with tf.Graph().as_default() as graph:
        tf.constant(numbers, tf.int32, name="c")
        return graph.as_graph_def().node[0].attr["value"]


def test_wrong_arguments():
    proto, _ = made(product)
    with tf.Graph().as_default() as graph:
        with pytest.raises(errors.InvalidArgumentError, match=r"input_map names what .* not found in graph_def: \[z:0\]"):
            tf.import_graph_def(proto, {"z": 1.0})
        with pytest.raises(errors.InvalidArgumentError, match="return_elements names 'y:7', but 'y' has 1 outputs"):
            tf.import_graph_def(proto, return_elements=["y:7"])
        with pytest.raises(errors.DataLossError, match="import_graph_def: 3 bytes cannot be read as GraphDef"):
            tf.import_graph_def(b"\xff\xff\xff")
        with pytest.raises(TypeError, match="pass a GraphDef, or its bytes"):
            tf.import_graph_def(7)
        assert not graph.get_operations()


def test_what_tensorflow_has_not_is_a_node_of_ours():
    from workbench.core.graph.build import ops
    with tf.Graph().as_default() as graph:
        ops.list_top(ops.list_new(), 1, name="kept")
        proto = graph.as_graph_def()
    assert [node.op for node in proto.node if node.name == "kept"] == ["Workbenchlist_top"]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, name="")
        assert graph.get_operation_by_name("kept").inputs[1].op.type == "Const"


def test_large_claims_of_small_files_are_refused():
    proto = tf.GraphDef()
    node = proto.node.add(name="a", op="Const")
    node.attr["dtype"].type = node.attr["value"].tensor.dtype = 1
    node.attr["value"].tensor.tensor_shape.dim.add(size=2**40)
    node.attr["value"].tensor.float_val.append(1.0)
    with tf.Graph().as_default(), pytest.raises(errors.DataLossError, match="would repeat one value"):
        tf.import_graph_def(proto)


def test_variables_are_read_in_the_frame_and_branch_that_read_them():
    """Each iteration sees what the one before assigned; a branch that is not taken reads nothing."""
    def build():
        v, unset = tf.get_variable("v", initializer=1.0), tf.get_variable("unset", initializer=5.0)

        def body(i, total):
            read = tf.identity(v.read_value())
            with tf.control_dependencies([read]):
                change = v.assign_add(1.0)
            with tf.control_dependencies([change]):
                return i + 1, total + read
        tf.identity(tf.while_loop(lambda i, t: i < 4, body, [0, 0.0], parallel_iterations=1)[1], name="total")
        chosen = tf.placeholder(tf.bool, [], name="chosen")
        tf.identity(tf.cond(chosen, lambda: unset.read_value(), lambda: 2.0), name="out")
        return v.initializer.name
    proto, start = made(build)
    assert ran(proto, ["total:0", "out:0"], {"chosen:0": False}, [start]) == [10, 2]


def test_the_gradient_of_a_sum_over_no_axis_is_a_node_too():
    def slope():
        x = tf.placeholder(tf.float32, [2], name="x")
        return tf.gradients(tf.reduce_sum(x * x, axis=[]), x, name="dx")[0]
    proto, dx = made(slope)
    assert ran(proto, dx.name, {"x:0": [1, 3]}).tolist() == [2, 6]
