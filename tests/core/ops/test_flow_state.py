"""Variables and side effects in branches and loops: what runs, how often, and gradients of variables."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_evaluator import evaluate, evaluate_tokens, lowered
from workbench.core.grad import gradients
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.graph import Graph
from workbench.core.graph.subgraph import Subgraph
from workbench.core.state.container import Container


def structural(graph, feeds, fetches, container):
    return evaluate(graph, feeds, fetches, container)


def tokens(graph, feeds, fetches, container):
    return evaluate_tokens(*lowered(graph, feeds, fetches), container)


@pytest.fixture(params=[structural, tokens])
def run(request):
    """run(fetches, feeds) on one state that starts with the assignments in the collection "start"."""
    with Graph().as_default() as graph:
        container = Container()

        def call(fetches, feeds=None):
            start = graph.get_collection("start")
            graph.clear_collection("start")
            for op in start:
                evaluate(graph, {}, [op], container)
            return request.param(graph, feeds or {}, fetches, container)
        call.graph = graph
        yield call


class Variable:
    def __init__(self, graph, value, name="v"):
        value = np.asarray(value, np.float64)
        self.shape = value.shape
        self.handle = ops.variable(dtype="float64", shape=value.shape, name=name)
        graph.add_to_collection("start", ops.assign(self.handle, value))

    def read(self):
        return ops.read_variable(self.handle, dtype="float64", shape=self.shape)

    __tensor__ = read


def test_only_the_taken_branch_runs(run):
    a, b = Variable(run.graph, 0, "a"), Variable(run.graph, 0, "b")
    pred = ops.placeholder(dtype="bool", shape=())
    y = ops.cond(pred, lambda: ops.assign_add(a.handle, np.float64(1)),
                 lambda: ops.assign_add(b.handle, np.float64(10)))
    assert y.op.definition.stateful and not y.op.definition.blocking
    assert [float(run([y], {pred: np.asarray(p)})[0]) for p in (True, False, True)] == [1, 10, 2]
    assert [float(v) for v in run([a.read(), b.read()])] == [2, 10]


def test_branches_that_return_operations(run):
    a = Variable(run.graph, 0)
    pred = ops.placeholder(dtype="bool", shape=())
    done, value = ops.cond(pred, lambda: (ops.assign(a.handle, np.float64(5)).op, 1.0), lambda: (ops.no_op(), 2.0))
    assert done is value.op
    run([done], {pred: np.asarray(False)})
    assert run([a.read()])[0] == 0
    assert run([value, done], {pred: np.asarray(True)})[0] == 1
    assert run([a.read()])[0] == 5


def test_loop_updates_once_an_iteration(run):
    a = Variable(run.graph, 1)

    def body(i):
        with ops_graph().control_dependencies([ops.assign_add(a.handle, a.read())]):
            return i + 1
    i = ops.while_loop(lambda i: i < 3, body, [0])
    assert run([i])[0] == 3
    assert run([a.read()])[0] == 8


def ops_graph():
    from workbench.core.graph.graph import get_default_graph
    return get_default_graph()


def test_operations_wait_for_the_whole_body(run):
    """What is under control_dependencies of a loop or branch sees all its effects."""
    a = Variable(run.graph, 0)

    def body(i):
        with ops_graph().control_dependencies([ops.assign_add(a.handle, np.float64(1))]):
            return ops.cond(i > 1, lambda: i + 2, lambda: ops.identity(i) + 1)
    i = ops.while_loop(lambda i: i < 4, body, [0])
    with run.graph.control_dependencies([i]):
        after = a.read()
    assert run([after])[0] == 3


def test_loop_waits_for_what_is_before_it(run):
    a = Variable(run.graph, 0)
    with run.graph.control_dependencies([ops.assign(a.handle, np.float64(4))]):
        y = ops.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v + a.read()), [0, np.float64(0)])[1]
        z = ops.cond(ops.constant(True), lambda: a.read(), lambda: np.float64(0))
    assert [float(v) for v in run([y, z])] == [8, 4]


def test_random_numbers_differ_between_iterations(run):
    y = ops.map_fn(lambda v: ops.random_uniform([2]) + v, ops.zeros([3]))
    values, = run([y])
    assert len(set(np.ravel(values).tolist())) == 6


@pytest.mark.parametrize("flag", [True, False])
def test_gradient_of_a_variable_read_in_branches(run, flag):
    w, pred = Variable(run.graph, [1.0, 2.0]), ops.placeholder(dtype="bool", shape=())
    y = ops.cond(pred, lambda: ops.reduce_sum(w.read() ** 2.0), lambda: ops.constant(np.float64(1)))
    dw, = gradients(y, [w])
    np.testing.assert_allclose(run([dw], {pred: np.asarray(flag)})[0], [2, 4] if flag else [0, 0])


def test_gradient_of_a_variable_read_in_loops(run):
    w = Variable(run.graph, [1.0, 2.0])
    _, y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v + ops.reduce_sum(w.read() * w.read())),
                          [0, np.float64(0)])
    dw, = gradients(y, [w])
    second, = gradients(ops.reduce_sum(dw), [w])
    np.testing.assert_allclose(run([dw])[0], [6, 12])
    np.testing.assert_allclose(run([second])[0], [6, 6])


def test_slices_of_a_variable_stay_sparse(run):
    w = Variable(run.graph, np.arange(8.0).reshape(4, 2))
    _, y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (
        i + 1, v + ops.reduce_sum(ops.gather(w, ops.stack([i, i])) ** 2.0)), [0, np.float64(0)])
    pred = ops.placeholder(dtype="bool", shape=())
    z = ops.cond(pred, lambda: ops.reduce_sum(ops.gather(w.read(), [3]) * 5.0), lambda: np.float64(0))
    dy, dz = gradients(y, [w])[0], gradients(z, [w])[0]
    assert isinstance(dy, IndexedSlices) and isinstance(dz, IndexedSlices)
    values, indices = run([dy.values, dy.indices])
    assert values.shape == (6, 2) and sorted(indices.tolist()) == [0, 0, 1, 1, 2, 2]
    np.testing.assert_allclose(run([ops.densify(dy)])[0][:3], 4 * np.arange(6.0).reshape(3, 2))
    assert run([dz.values], {pred: np.asarray(False)})[0].shape == (0, 2)
    np.testing.assert_allclose(run([ops.densify(dz)], {pred: np.asarray(True)})[0][3], [5, 5])


def test_collections_are_shared(run):
    x = ops.placeholder(dtype="float32", shape=())
    ops.cond(x > 0.0, lambda: run.graph.add_to_collection("c", 1) or x,
             lambda: ops_graph().add_to_collection("c", 2) or x)
    assert isinstance(run.graph, Graph) and not isinstance(run.graph, Subgraph)
    assert run.graph.get_collection("c") == [1, 2]
