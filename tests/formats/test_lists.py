"""Lists, arrays of tensors and loops with their gradients, as GraphDef and back: values, checks, models that go on."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.core.flow_evaluator import evaluate
from tests.core.flow_gradient_cases import CASES
from tests.core.ops.test_flow_gradients import feed, feeds_of, floats, sloped
from tests.formats.array_programs import PROGRAMS, Cell, built, computed, values
from workbench import errors
from workbench.core.graph.build import ops
from workbench.formats.elements import element_dtypes
from workbench.formats.reader import import_graph_def
from workbench.formats.writer import graph_def


def differentiated(name):
    """(GraphDef, names, feeds, values) of a case with its gradients of two orders."""
    function, points = CASES[name]
    with tf.Graph().as_default() as graph:
        places = [feed(p) for p in points]
        xs = [places[i] for i in floats(points)]
        y = function(*places)
        first, scalar = sloped(y, xs)
        fetches = [ops.identity(t, name=f"result{i}") for i, t in enumerate([y, *first, *sloped(scalar, xs)[0]])]
        feeds = feeds_of(places, points)
        wanted = evaluate(graph, feeds, fetches)
        return graph_def(graph), [t.name for t in fetches], {t.name: v for t, v in feeds.items()}, wanted


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_loops_and_lists_are_read_again(name):
    proto, names, feeds, wanted = differentiated(name)
    with tf.Graph().as_default(), tf.Session() as session:
        import_graph_def(proto, name="")
        for again, value in zip(session.run(names, feeds), wanted, strict=True):
            np.testing.assert_allclose(again, value, 1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_arrays_are_read_again(name):
    for again, value in zip(values(tf, *built(tf, name)), computed(tf, name), strict=True):
        np.testing.assert_allclose(again, value, 1e-6)


def test_what_lists_hold_is_found_through_loops_and_lists_of_lists():
    with tf.Graph().as_default() as graph:
        numbers, nobody = ops.list_new(), ops.list_new()
        lists = ops.list_push(ops.list_new(), numbers)
        _, inner = ops.list_pop(lists, dtype="variant", shape=())
        ops.list_pop(inner, dtype="int64", shape=())
        found = element_dtypes(graph)
        assert [found[t].name for t in (numbers, inner, lists, nobody)] == ["int64", "int64", "variant", "float32"]


def test_checks_of_arrays_travel():
    def build(*places):
        array = tf.TensorArray(tf.float32, 2)
        for place in places:
            array = array.write(place, 1.0)
        tf.identity(array.stack(), name="out")
        tf.identity(array.read(tf.placeholder_with_default(5, [], name="at")), name="element")
    for places, fetch, text in (([0, 0], "out:0", "index 0 because it has already been written"),
                                ([0, 2], "out:0", "write to index 2 but array is not resizeable and size is: 2"),
                                ([0, 1], "element:0", "Tried to read from index 5 but array size is: 2")):
        with tf.Graph().as_default() as graph:
            build(*places)
            proto = graph.as_graph_def()
        for _ in range(2):      # and once more
            with tf.Graph().as_default() as graph, tf.Session() as session:
                tf.import_graph_def(proto, name="")
                with pytest.raises(errors.InvalidArgumentError, match=text):
                    session.run(fetch)
                proto = graph.as_graph_def()


def test_arrays_and_stacks_of_a_step_are_written_as_theirs():
    with tf.Graph().as_default() as graph:
        handle, flow = ops.step_array(tf.constant(2), dtype="float32", shape=[1])
        stack = ops.step_stack(-1, dtype="resource")
        with tf.control_dependencies([ops.step_stack_push(stack, handle)]):
            popped = ops.step_stack_pop(stack, dtype="variant", shape=[])
        flow = ops.step_array_write(popped, 1, tf.placeholder(tf.float32, [1], name="x"), flow)
        ops.step_array_gather(handle, [0, 1], flow, dtype="float32", shape=[1], name="y")
        proto = graph.as_graph_def()
    types = {node.op: {key: node.attr[key].type for key in ("T", "elem_type") if key in node.attr} for node in proto.node}
    assert [types[op] for op in ("StackV2", "StackPushV2", "StackPopV2", "TensorArrayWriteV3")] == [
        {"elem_type": 20}, {"T": 20}, {"elem_type": 20}, {"T": 1}]      # 20: resource
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(proto, name="")
        assert session.run("y:0", {"x:0": [3.0]}).tolist() == [[0], [3]]
        assert {node.name: node for node in graph.as_graph_def().node} == {node.name: node for node in proto.node}


def test_a_list_that_does_not_grow_travels_with_its_check():
    with tf.Graph().as_default() as graph:
        three = ops.list_from_tensor(tf.constant([1.0, 2.0, 3.0]))
        changed = ops.list_set(three, tf.placeholder(tf.int32, [1], name="at")[0], tf.constant(7.0), grows=False)
        ops.list_stack(changed, dtype="float32", shape=[], name="out")
        proto = graph.as_graph_def()
    assert "TensorListResize" not in [node.op for node in proto.node]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        assert session.run("out:0", {"at:0": [2]}).tolist() == [1, 2, 7]
        with pytest.raises(errors.InvalidArgumentError, match="Trying to modify element 3 in a list with 3 elements"):
            session.run("out:0", {"at:0": [3]})


def test_elements_never_written():
    with tf.Graph().as_default(), tf.Session() as session:
        holes = ops.list_drop(ops.list_new(), -2)
        assert session.run(ops.list_pop(holes, dtype="float32", shape=[2])[1]).tolist() == [0, 0]
        with pytest.raises(errors.FailedPreconditionError, match="list_pop: the element was never written"):
            session.run(ops.list_pop(holes, dtype="float32")[1])
        assert session.run(ops.list_sizes(ops.list_push(ops.list_new(), [1.0, 2.0]))).tolist() == [2]
        assert session.run(ops.list_length(ops.list_top(ops.list_extend(holes, holes), 3))) == 3


def recurrent_model(tf):
    x, y = tf.placeholder(tf.float32, [None, 4, 2], name="x"), tf.placeholder(tf.float32, [None, 2], name="y")
    outputs, _ = tf.nn.dynamic_rnn(Cell(tf), x, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(outputs[:, -1] - y), name="loss")
    tf.train.AdamOptimizer(0.1).minimize(loss, name="train")
    return outputs[:, -1]


ROWS = {"x:0": np.random.default_rng(0).normal(size=(5, 4, 2)).astype("f"), "y:0": np.full((5, 2), 0.5, "f")}


def losses(session, count):
    return [session.run(["loss:0", "train"], ROWS)[0] for _ in range(count)]


def test_training_of_a_recurrent_model_goes_on_from_its_meta_graph_and_saved_model(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        last = recurrent_model(tf)
        session.run(tf.global_variables_initializer())
        losses(session, 3)
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
        tf.saved_model.simple_save(session, str(tmp_path / "served"), {"x": tf.get_default_graph().get_tensor_by_name("x:0")},
                                   {"last": last})
        given = session.run(last, ROWS)
        wanted = losses(session, 4)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(path + ".meta").restore(session, path)
        np.testing.assert_allclose(losses(session, 4), wanted, 1e-5)
    with tf.Graph().as_default(), tf.Session() as session:
        told = tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "served")).signature_def["serving_default"]
        found = session.run(told.outputs["last"].name, {told.inputs["x"].name: ROWS["x:0"]})
    np.testing.assert_allclose(found, given, 1e-6)
