"""Graphs: names, scopes, devices, control inputs, captures, and the errors of mixing graphs."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from workbench import errors
from workbench.core.graph.build import canonical, ops
from workbench.core.graph.graph import Graph, get_default_graph, reset_default_graph
from workbench.core.graph.subgraph import Subgraph
from workbench.core.run.session import Session


@pytest.fixture
def graph() -> Any:
    with Graph().as_default() as graph:
        yield graph


def test_names_are_unique_and_scoped(graph: Graph) -> None:
    first, second = ops.constant(1.0, name="a"), ops.constant(1.0, name="a")
    with graph.name_scope("layer"):
        third = ops.constant(1.0, name="a")
    with graph.name_scope("layer") as again:
        fourth = ops.constant(1.0, name="a")
    with graph.name_scope("layer/"):
        fifth = ops.constant(1.0, name="b")
    with graph.name_scope("x"), graph.name_scope(None):
        sixth = ops.constant(1.0, name="A")
    assert [t.op.name for t in (first, second, third, fourth, fifth, sixth)] == ["a", "a_1", "layer/a", "layer_1/a",
                                                                                 "layer/b", "A_2"]
    assert again == "layer_1/" and graph.scope == ""


def test_lookup(graph: Graph) -> None:
    x = ops.constant(1.0, name="x")
    assert graph.operation("x") is x.op and graph.tensor("x:0") is x and graph.as_graph_element("x:0") is x
    assert graph.as_graph_element("x") is x.op and graph.get_operations() == [x.op]
    with pytest.raises(errors.NotFoundError, match=r"graph: no operation 'y' among 1"):
        graph.operation("y")
    with pytest.raises(errors.NotFoundError, match=r"no tensor 'x:3'; 'x' has 1 outputs"):
        graph.tensor("x:3")
    with pytest.raises(errors.InvalidArgumentError, match=r"fetch: 3 is a int, not a tensor"):
        graph.as_graph_element(3)
    with pytest.raises(errors.InvalidArgumentError, match=r"'a b' is not an operation name"):
        ops.constant(1.0, name="a b")
    with pytest.raises(errors.InvalidArgumentError, match=r"'_x' is not a valid root scope name; use a letter"):
        ops.constant(1.0, name="_x")
    with pytest.raises(errors.InvalidArgumentError, match=r"'_s' is not a valid root scope name"):
        graph.name_scope("_s")
    with graph.name_scope("s"), graph.name_scope("_t"):
        assert ops.constant(1.0, name="_x").op.name == "s/_t/_x"


def test_graphs_do_not_mix(graph: Graph) -> None:
    x = ops.constant(1.0, name="x")
    with Graph().as_default() as other:
        with pytest.raises(errors.InvalidArgumentError, match=r"graph: x:0 belongs to another graph"):
            ops.negative(x)
        with pytest.raises(errors.InvalidArgumentError, match=r"fetch: x belongs to another graph"):
            other.as_graph_element(x.op)


def test_finalized_graphs_stay_as_they_are(graph: Graph) -> None:
    graph.finalize()
    with pytest.raises(errors.FailedPreconditionError, match=r"it is finalized but constant was added"):
        ops.constant(1.0)


def test_errors_carry_the_users_line(graph: Graph) -> None:
    a = ops.placeholder("float32", [2, 3], name="a")
    with pytest.raises(errors.ShapeError) as caught:
        ops.matmul(a, a, name="product")
    text = str(caught.value)
    assert "operation: 'product'" in text and "inputs: a:0 float32[2,3], a:0 float32[2,3]" in text
    assert f"built at: {__file__}:" in text


def test_devices_merge_inwards(graph: Graph) -> None:
    with graph.device("/job:ps/task:1"):
        a = ops.constant(1.0)
        with graph.device("/cpu:0"):
            b = ops.constant(1.0)
        with graph.device(None):
            c = ops.constant(1.0)
        with graph.device(lambda op: "/task:2" if op.type == "constant" else ""):
            d = ops.constant(1.0)
    assert [t.device for t in (a, b, c, d)] == ["/job:ps/task:1", "/job:ps/task:1/device:CPU:0", "", "/job:ps/task:2"]


def test_control_inputs_and_colocation(graph: Graph) -> None:
    a, b = ops.constant(1.0, name="a"), ops.constant(2.0, name="b")
    with graph.control_dependencies([a]), graph.control_dependencies([b.op]), graph.colocate_with(a):
        c = ops.negative(b)
        with graph.control_dependencies(None):
            d = ops.negative(b)
    assert c.op.controls == (a.op, b.op) and d.op.controls == () and d.op.control_inputs == [] and c.op.colocation == {"a"}
    with pytest.raises(errors.InvalidArgumentError, match=r"control_dependencies: 3 is neither a tensor nor an operation"), \
            graph.control_dependencies([3]):
        pass


def test_tensors_know_their_neighbours(graph: Graph) -> None:
    x = ops.placeholder("float32", [None, 2], name="x")
    y = ops.negative(x)
    assert x.consumers() == [y.op] and x.graph is graph and repr(x) == "<Tensor x:0 float32[?,2]>"
    x.set_shape([3, None])
    assert x.get_shape() == [3, 2] and len(list(x)) == 3
    with pytest.raises(errors.ShapeError, match=r"set_shape of x:0: \[3,2\] and \[4,2\] cannot be the same"):
        x.set_shape([4, 2])
    with pytest.raises(errors.InvalidArgumentError, match=r"bool: .* has no value while the graph is built"):
        bool(x)
    for convert, word in ((float, "float"), (int, "int")):
        with pytest.raises(TypeError, match=rf"{word}: <Tensor x:0 float32\[3,2\]> has no value while the graph is built; use"):
            convert(x)
    with pytest.raises(TypeError, match=r"iter: .* is not iterable: its first dimension is not known; use unstack"):
        iter(ops.placeholder("float32", [None]))
    with pytest.raises(errors.InvalidArgumentError, match="No default session is registered"):
        x.eval()


def test_subgraphs_capture(graph: Graph) -> None:
    x, two = ops.placeholder("float32", [2], name="x"), ops.constant(2.0, name="two")
    body = Subgraph(graph, "body")
    with body.as_default():
        y = x * two + x
    assert [outer for outer, _ in body.captures] == [x] and body.captures[0][1].op.type == "argument"
    assert y.graph is body and [op.type for op in body.operations].count("constant") == 1


def test_threads_have_their_own_scopes(graph: Graph) -> None:
    seen = []

    def build() -> None:
        with graph.as_default():
            seen.append(ops.constant(1.0, name="inner").op.name)
    with graph.name_scope("outer"):
        thread = threading.Thread(target=build)
        thread.start()
        thread.join(60)
    assert seen == ["inner"]


def test_default_graph() -> None:
    before = get_default_graph()
    reset_default_graph()
    assert get_default_graph() is not before
    with Graph().as_default() as inner:
        assert get_default_graph() is inner
        with pytest.raises(errors.FailedPreconditionError, match="a graph is in use"):
            reset_default_graph()


def test_collections(graph: Graph) -> None:
    x = ops.constant(1.0, name="layer/x")
    graph.add_to_collection("losses", x)
    assert graph.get_collection("losses") == [x] == graph.get_collection("losses", "layer")
    assert graph.get_collection("losses", "head") == [] == graph.get_collection("other")
    assert graph.get_collection_ref("losses") is graph.get_collection_ref("losses")


def test_attributes_are_canonical() -> None:
    assert canonical([1, np.int64(2), [np.float32(0.5)]]) == (1, 2, (0.5,)) and canonical(np.eye(2)) == ((1.0, 0.0),
                                                                                                         (0.0, 1.0))


def test_only_changes_of_what_plans_may_contain_are_counted(graph: Graph) -> None:
    x = ops.placeholder("float32", [None, 3])
    x.set_shape([None, 3])
    x.set_shape([4, None])
    assert graph.planning() == 0
    y = x + 1.0
    y.set_shape([4, 3])
    assert graph.mutations == 0, "nothing that was there has changed"
    z = ops.placeholder("float32", None)
    assert graph.planning() == 0
    z.set_shape([2])
    z.set_shape([2])
    assert graph.mutations == 1 and graph.planning() == 1


def test_what_may_be_fed_and_fetched_and_how_elements_are_found():
    graph = Graph()
    with graph.as_default():
        x = ops.constant(1.0, name="x")
    assert graph.is_feedable(x) and graph.is_fetchable(x)
    graph.prevent_feeding(x)
    graph.prevent_fetching(x.op)
    assert not (graph.is_feedable(x) or graph.is_fetchable(x) or graph.is_fetchable(x.op))
    with Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"feed of 'x:0': it may not be fed \(prevent_feeding\)"):
            session.run([], {x: 2.0})
        with pytest.raises(errors.InvalidArgumentError, match=r"fetch: 'x:0' may not be fetched \(prevent_fetching\)"):
            session.run(x)
    with pytest.raises(errors.InvalidArgumentError, match="'x' is an operation, which is not allowed here"):
        graph.as_graph_element("x", allow_operation=False)
    with pytest.raises(ValueError, match="'x' names an operation, not a tensor; write 'x:0'"):
        graph.get_tensor_by_name("x")
    with pytest.raises(TypeError, match="is a int, not a tensor or operation"):
        graph.as_graph_element(3)


def test_names_scopes_and_collections_by_their_methods():
    graph = Graph()
    with graph.name_scope("a"), graph.name_scope("b"):
        assert graph.get_name_scope() == "a/b"
    assert graph.get_name_scope() == "" and not graph.building_function
    assert [graph.unique_name("q", mark_as_used=False), graph.unique_name("q"), graph.unique_name("q")] == ["q", "q", "q_1"]
    with graph.name_scope("a"):
        assert graph.get_name_scope() == "a_1" and graph.unique_name("q") == "a_1/q"
        with graph.name_scope("-inner") as inner:      # only the outermost scope may not begin so
            assert inner == "a_1/-inner/"
    graph.add_to_collections(["x", "y", "x"], 1)
    assert graph.get_all_collection_keys() == ["x", "y"] and graph.get_collection("x") == [1]
    graph.clear_collection("x")
    assert graph.get_collection("x") == []
