"""What every pass must leave as it is: fetched values, names, state, control edges, feeds; and what each removes."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import workbench as wb
from tests.core.random_graphs import build, recipes
from tests.evaluate import evaluate
from workbench.core.graph.build import ops
from workbench.core.graph.check import verify
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.graph.text import to_text
from workbench.core.passes.algebra import algebra
from workbench.core.passes.cse import cse
from workbench.core.passes.epilogue import epilogue
from workbench.core.passes.fold import fold
from workbench.core.passes.fuse import fuse
from workbench.core.passes.join import join
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES, run_passes
from workbench.core.passes.prune import prune
from workbench.core.run.session import Session

pytestmark = pytest.mark.usefixtures("graph")
EVERY = pytest.mark.parametrize("step", [f for _, f, _ in PASSES + DEVICE_PASSES], ids=lambda f: f.__name__)
Step = Callable[[Program], Program]


def program(*fetches: Any, feeds: Any = (), targets: Any = ()) -> Program:
    shapes = {t: t.shape for t in feeds}
    return prune((*fetches, *targets)[0].graph, fetches, [getattr(t, "op", t) for t in targets], shapes)


def kinds(p: Program) -> Counter[str]:
    """Types of the operations the program needs."""
    found, stack = set(), list(p.roots)
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack += [t.op for t in op.inputs] + list(op.control_inputs)
    return Counter(op.type for op in found)


def values(p: Program, feeds: Any = ()) -> list[Any]:
    return evaluate(p.fetches, dict(zip(p.feeds, feeds)))


# all passes

@settings(max_examples=60, deadline=None)
@given(recipes(most=20))
def test_no_pass_changes_a_fetched_value(recipe):
    with wb.Graph().as_default() as graph:
        fetches, feeds = build(recipe)
        p = prune(graph, fetches, [], {t: Shape(v.shape) for t, v in feeds.items()})
    expected = values(p, feeds.values())
    for name, function, _ in PASSES + DEVICE_PASSES:
        p = function(p)
        verify(p, name)
        assert [t.name for t in p.feeds] == [t.name for t in feeds]
        for found, wanted in zip(values(p, feeds.values()), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def fetched_names() -> tuple[Program, set[str]]:
    x = wb.placeholder("float32", [40, 40], name="x")
    names = {"sum": x + 0.0, "same": wb.identity(x), "product": x * 1.0, "chain": wb.exp(wb.tanh(x * 3.0) + 1.0),
             "layer": wb.nn.relu(wb.matmul(x, x) + x[0])}
    fetches = [wb.identity(t, name=n) for n, t in names.items()] + [wb.add(x, 0.0, name="nothing")]
    fetches.append(wb.multiply(wb.constant(2.0), wb.constant(3.0), name="six"))
    return program(*fetches, feeds=[x]), {*names, "nothing", "six"}


@EVERY
def test_fetched_operations_keep_their_names_and_places(step):
    p, names = fetched_names()
    after = step(p)
    if step is not cse:      # which shares what two names stand for
        assert {t.op.name for t in after.fetches} == names
    assert all(op.source and op.source == p.graph.operation(op.name).source for op in after.graph.operations
               if p.graph.has(op.name))


def test_a_name_that_a_pass_would_like_may_be_taken():
    x = wb.placeholder("float32", [50], name="x")
    ones = wb.constant(np.full(50, 2.0, np.float32), name="c")
    taken = wb.exp(x, name="c_scalar")
    left, _ = wb.split(wb.constant([1.0, 2.0]), 2, name="halves")
    also = wb.exp(left, name="halves/output_1")
    p = program(x * ones, taken, also, x[:1] + left, feeds=[x])
    for step in (fold, algebra, cse, join, epilogue, fuse):
        p = step(p)
        verify(p, step.__name__)


@EVERY
def test_stateful_operations_stay_as_many(step):
    a, b = (wb.random_uniform([300], seed=7) for _ in range(2))
    v = wb.Variable(np.zeros(300, np.float32))
    more = [wb.assign_add(v, wb.ones([300])) for _ in range(2)]
    p = program(a + b, feeds=[], targets=[*more, v.read_value(), v.read_value()])
    before = kinds(p)
    after = kinds(step(p))
    for kind in ("random_uniform", "assign_add"):
        assert after[kind] == before[kind] == 2
    assert (before["read_variable"], after["read_variable"]) == (2, 1 if step is cse else 2), "nothing lies between the reads"


@EVERY
def test_control_edges_survive(step):
    """A counter that must run first hangs on operations that each pass would replace."""
    x = wb.placeholder("float32", [40, 40], name="x")
    v = wb.Variable(0.0, name="v")
    count = wb.assign_add(v, 1.0, name="count")
    with wb.control_dependencies([count]):
        held = [wb.identity(x), x + 0.0, wb.constant(2.0) * wb.constant(3.0), wb.tanh(x), wb.tanh(x),
                wb.matmul(x, x) + x[0]]
    loose = [wb.identity(x), wb.tanh(x), wb.exp(wb.tanh(x) * 2.0 + 1.0), wb.nn.relu(wb.matmul(x, x) + x[0])]
    with wb.control_dependencies([t.op for t in loose]):
        late = wb.assign_add(v, 10.0, name="late")
    for fetch in (*held, late):
        p = step(program(wb.identity(fetch), feeds=[x]))
        verify(p, step.__name__)
        reached = kinds(p)
        assert reached["assign_add"] == 1
        if fetch is late:
            waits = p.graph.operation("late").control_inputs
            assert waits, "the last update still waits"
    with Session() as s:
        s.run(v.initializer)
        for number, fetch in enumerate(held, 1):
            s.run(fetch, {x: np.ones((40, 40))})
            assert s.run(v) == number
        assert s.run(late, {x: np.ones((40, 40))}) == len(held) + 10


@EVERY
def test_what_is_fed_is_not_computed(step):
    c = wb.constant([1.0, 2.0], name="c")
    y = wb.multiply(c, 3.0, name="y")
    z = wb.add(y, 1.0, name="z")
    p = step(program(z, y, feeds=[y]))
    np.testing.assert_array_equal(values(p, [np.array([10.0, 20.0], np.float32)]), [[11, 21], [10, 20]])


def test_a_product_that_is_fed_keeps_its_bias_apart():
    x = wb.placeholder("float32", [4, 4])
    product = wb.matmul(x, x)
    y = wb.nn.relu(product + wb.constant([1.0, 2.0, 3.0, -9.0]))
    with Session() as s:
        fed = np.full((4, 4), 2.0)
        np.testing.assert_array_equal(s.run(y, {product: fed}), np.tile([3, 4, 5, 0], (4, 1)))


# each pass

def test_prune_keeps_what_the_fetches_need():
    x = wb.placeholder("float32", [2], name="x")
    y = wb.exp(x, name="y")
    wb.tanh(y, name="unused")
    assert sorted(op.name for op in program(y, feeds=[x]).graph.operations) == ["x", "y"]


def test_prune_makes_shapes_concrete_from_the_feeds(graph):
    x = wb.placeholder("float32", [None, 3])
    y = wb.matmul(x, x, transpose_b=True)
    p = prune(graph, [y], [], {x: Shape((5, 3))})
    assert y.shape.sizes == (None, None) and p.fetches[0].shape.static == (5, 5)


def test_fold_computes_constants_and_known_shapes():
    x = wb.placeholder("float32", [4, 5], name="x")
    y = x * (wb.constant(2.0) + 3.0) + wb.cast(wb.size(x), "float32")
    assert kinds(fold(program(y, feeds=[x]))) == {"argument": 1, "multiply": 1, "add": 1, "constant": 2}


def test_fold_leaves_large_results_to_run_time():
    y = wb.tanh(wb.fill([600, 600], 1.0)) + 1.0
    assert kinds(fold(program(y)))["fill"] == 1


@pytest.mark.parametrize("like, number", [(wb.zeros_like, 0.0), (wb.ones_like, 1.0)])
def test_a_large_tensor_of_one_number_is_that_number_where_it_is_read_element_by_element(like, number):
    x = wb.placeholder("float32", [600, 600], name="x")
    p = program(wb.where(x > 0.5, like(x), x), like(x), feeds=[x])
    folded = algebra(fold(p))
    select = next(op for op in folded.graph.operations if op.type == "select")
    assert select.inputs[1].shape == Shape(()) and float(select.inputs[1].op.attrs["value"]) == number
    given = np.linspace(0, 1, 360_000, dtype=np.float32).reshape(600, 600)
    for before, after in zip(values(p, [given]), values(folded, [given]), strict=True):
        np.testing.assert_array_equal(before, after)


def test_fold_leaves_what_fails_to_run_time():
    y = wb.gather(wb.constant([1.0]), wb.constant(3))
    assert kinds(fold(program(y)))["gather"] == 1


@pytest.mark.parametrize("build_", [
    lambda x: x + 0.0, lambda x: 0.0 + x, lambda x: x - 0.0, lambda x: x * 1.0, lambda x: x / 1.0,
    lambda x: ops.negative(-x), wb.identity, wb.stop_gradient, lambda x: ops.add_n([x])])
def test_algebra_removes_what_changes_nothing(build_):
    x = wb.placeholder("float32", [3], name="x")
    assert kinds(algebra(program(wb.exp(build_(x)), feeds=[x]))) == {"argument": 1, "exp": 1}


@pytest.mark.parametrize("build_", [
    lambda x: 0.0 - x, lambda x: 1.0 / x, lambda x: x + wb.zeros([2, 3]), lambda x: x * 2.0,
    lambda x: wb.cast(x, "float64")])
def test_algebra_keeps_what_changes_something(build_):
    x = wb.placeholder("float32", [3], name="x")
    p = program(wb.reduce_sum(build_(x)), feeds=[x])
    before, = values(p, [np.array([1, 2, 3], np.float32)])
    after, = values(algebra(p), [np.array([1, 2, 3], np.float32)])
    np.testing.assert_array_equal(before, after)
    assert len(kinds(algebra(p))) > 2


@pytest.mark.parametrize("build_", [
    lambda x: ops.transpose(x, (0, 1)), lambda x: ops.transpose(ops.transpose(x, (1, 0)), (1, 0)),
    lambda x: ops.transpose(ops.transpose(x)), lambda x: ops.reshape(x, [4, 3]), lambda x: ops.slice(x, [0, 0], [4, 3]),
    lambda x: ops.tile(x, [1, 1]), lambda x: ops.pad(x, [[0, 0], [0, 0]]), lambda x: ops.broadcast_to(x, [4, 3])])
def test_algebra_removes_what_moves_nothing(build_):
    x = wb.placeholder("float32", [4, 3])
    assert kinds(algebra(fold(program(wb.exp(build_(x)), feeds=[x])))) == {"argument": 1, "exp": 1}


@pytest.mark.parametrize("build_", [
    lambda x, n: ops.transpose(x, (1, 0)), lambda x, n: ops.reshape(x, n), lambda x, n: ops.slice(x, n - 3, [3, 3]),
    lambda x, n: ops.transpose(ops.transpose(ops.reshape(x, [3, 3, 1]), (1, 2, 0)), (1, 2, 0))])
def test_algebra_keeps_what_moves_something_or_only_the_step_knows(build_):
    x, n = wb.placeholder("float32", [3, 3]), wb.placeholder("int32", [2])
    before = program(wb.exp(build_(x, n)), feeds=[x, n])
    after, given = algebra(fold(before)), [np.arange(9, dtype=np.float32).reshape(3, 3), np.array([3, 3], np.int32)]
    assert len(kinds(after)) > 2
    np.testing.assert_array_equal(*values(after, given), *values(before, given))


def test_algebra_removes_what_changes_nothing_where_a_body_ends():
    """Nobody asks for it by name there; an argument that is a result stays apart."""
    x = wb.placeholder("float32", [4, 3])
    y, z = ops.while_loop(lambda y, z: wb.reduce_sum(y) < 9.0,
                          lambda y, z: (ops.reshape(wb.exp(z), [4, 3]), ops.reshape(y, [4, 3])), [x, x])
    [loop] = [op for op in run_passes(program(y, z, feeds=[x])).graph.operations if op.type == "while"]
    assert [t.op.type for t in loop.attrs["body_graph"].results] == ["exp", "reshape"]


def test_cse_shares_equal_work_in_either_order():
    x, y = wb.placeholder("float32", [3], name="x"), wb.placeholder("float32", [3], name="y")
    z = wb.exp(x + y) * wb.exp(y + x)
    assert kinds(cse(program(z, feeds=[x, y]))) == {"argument": 2, "add": 1, "exp": 1, "multiply": 1}


@pytest.mark.parametrize("pair", [
    lambda x: (x - 1.0, 1.0 - x), lambda x: (wb.reduce_sum(x, axis=0), wb.reduce_sum(x, axis=1)),
    lambda x: (wb.cast(x, "int32"), wb.cast(x, "int64"))])
def test_cse_keeps_different_work_apart(pair):
    x = wb.placeholder("float32", [3, 3], name="x")
    a, b = pair(x)
    after = kinds(cse(program(a, b, feeds=[x])))
    assert after[a.op.type] == 2


def test_cse_reads_a_variable_once_as_long_as_nothing_writes_it():
    v = wb.Variable([1.0, 2.0], dtype="float32")
    early = [v.read_value() * 2.0, v.read_value() * 3.0]
    after = kinds(cse(program(*early)))
    assert (after["read_variable"], after["variable"]) == (1, 1)
    v.assign([5.0, 6.0])
    again = v.read_value()
    assert kinds(cse(program(*early, again)))["read_variable"] == 1, "the assignment is not part of this program"
    with wb.control_dependencies([v.assign_add([1.0, 1.0])]):
        late = v.read_value()
    assert kinds(cse(program(*early, late)))["read_variable"] == 2
    with Session() as session:
        session.run(wb.global_variables_initializer())
        assert [x.tolist() for x in session.run([*early, late])] == [[2.0, 4.0], [3.0, 6.0], [2.0, 3.0]]


def test_a_read_that_was_built_behind_an_update_is_one_of_its_own():
    v = wb.Variable([1.0, 2.0], dtype="float32")
    before, update = v.read_value() * 2.0, v.assign_add([1.0, 1.0])
    after = v.read_value() * 2.0
    assert kinds(cse(program(before, update, after)))["read_variable"] >= 2


def test_cse_keeps_devices_apart():
    x = wb.placeholder("float32", [3], name="x")
    a = wb.exp(x)
    with wb.device("/cpu:1"):
        b = wb.exp(x)
    assert kinds(cse(program(a, b, feeds=[x])))["exp"] == 2


def layer(activation=True, reader=False, bias=None) -> Program:
    x, b = wb.placeholder("float32", [8, 8], name="x"), wb.placeholder("float32", bias or [8], name="b")
    product = wb.matmul(x, x)
    y = product + b
    y = wb.nn.relu(y) if activation else y
    return program(*([y, product] if reader else [y]), feeds=[x, b])


def test_epilogue_takes_bias_and_relu_into_the_product():
    assert kinds(epilogue(layer())) == {"argument": 2, "fused_matmul": 1}
    assert kinds(epilogue(layer(activation=False))) == {"argument": 2, "fused_matmul": 1}


def test_epilogue_leaves_a_product_that_others_read():
    assert kinds(epilogue(layer(reader=True))) == {"argument": 2, "matmul": 1, "add": 1, "relu": 1}


def test_epilogue_leaves_a_bias_that_is_no_row():
    assert kinds(epilogue(layer(bias=[8, 8])))["fused_matmul"] == 0


def test_epilogue_updates_a_weight_with_the_product_of_its_gradient():
    x = wb.placeholder("float32", [4, 8], name="x")
    v = wb.Variable(np.ones((8, 3), np.float32))
    loss = wb.reduce_sum(wb.matmul(x, v) * 2.0)
    slope, = wb.gradients(loss, [v])
    step = wb.train.GradientDescentOptimizer(0.5).apply_gradients([(slope, v)])
    p = run_passes(program(loss, feeds=[x], targets=[step]))
    after = kinds(epilogue(p))
    assert after["apply_matmul_descent"] == 1 and after["apply_gradient_descent"] == 0
    with Session() as on, Session(disabled_passes=["epilogue"]) as off:
        data = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
        for s in (on, off):
            s.run(v.initializer)
            for _ in range(3):
                s.run([loss, step], {x: data})
        np.testing.assert_allclose(on.run(v), off.run(v), rtol=1e-5)


def test_fuse_joins_a_chain_and_keeps_a_value_that_leaves_it():
    x = wb.placeholder("float32", [100, 100], name="x")
    middle = wb.tanh(x * 2.0) + 1.0
    y = wb.exp(middle) * x
    p = fuse(program(y, middle, feeds=[x]))
    fused, = (op for op in p.graph.operations if op.type == "fused")
    assert len(fused.outputs) == 2 and kinds(p)["fused"] == 1 and kinds(p)["tanh"] == 0


def test_fuse_does_not_close_a_cycle():
    """exp(x) feeds a product that comes back: joining exp and the sum would make the group wait for itself."""
    x = wb.placeholder("float32", [64, 64], name="x")
    a = wb.exp(wb.tanh(x))
    y = wb.tanh(wb.exp(a + wb.matmul(a, a)) * 0.1)
    p = fuse(program(y, feeds=[x]))
    verify(p, "fuse")
    assert kinds(p)["matmul"] == 1
    data = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) * 0.01
    np.testing.assert_allclose(values(p, [data])[0], evaluate([y], {x: data})[0], rtol=1e-4)


def test_fuse_beside_a_loop_that_is_taken_apart():
    x, n = wb.placeholder("float32", [100, 100]), wb.placeholder("int32", [])
    start = wb.exp(wb.tanh(x) * 0.5) - 1.0
    y = wb.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, wb.exp(wb.tanh(a) * 0.5) - 1.0), [0, start])[1]
    data = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    expected = data
    for _ in range(4):
        expected = np.exp(np.tanh(expected) * 0.5) - 1
    with Session(lower_all=True) as s:
        np.testing.assert_allclose(s.run(y, {x: data, n: 3}), expected, rtol=1e-4, atol=1e-6)
        assert "fused" in to_text(next(iter(s.plans)).runner.plans[0][1].program)


def test_fuse_makes_nobody_wait_for_more_than_before():
    """The queue is filled with what the same step adds to the value it takes: one kernel for both would never start."""
    x = wb.placeholder("float32", [100, 100])
    queue = wb.FIFOQueue(1, ["float32"], shapes=[[100, 100]])
    middle = wb.tanh(x * 2.0)
    put, last = queue.enqueue([middle]), wb.exp(queue.dequeue() * middle) * 0.5
    p = fuse(program(last, feeds=[x], targets=[put]))
    assert [len(op.attrs["steps"]) for op in p.graph.operations if op.type == "fused"] == [2, 3]
    with Session() as s:
        data = np.random.default_rng(0).uniform(-1, 1, (100, 100)).astype(np.float32)
        expected = np.exp(np.tanh(data * 2) ** 2) / 2
        np.testing.assert_allclose(s.run([last, put], {x: data})[0], expected, rtol=1e-4)


def test_fuse_lets_what_nobody_else_reads_wait_for_more():
    x = wb.placeholder("float32", [100, 100])
    queue = wb.FIFOQueue(1, ["float32"], shapes=[[100, 100]])
    last = wb.exp(queue.dequeue() * wb.tanh(x * 2.0)) * 0.5
    p = fuse(program(last, feeds=[x]))
    assert [len(op.attrs["steps"]) for op in p.graph.operations if op.type == "fused"] == [5]


def test_fuse_kills_nothing_that_lives_outside_a_branch():
    x, taken = wb.placeholder("float32", [100, 100]), wb.placeholder("bool", [])
    alive, other = wb.tanh(x * 2.0), wb.placeholder("float32", [100, 100])
    inside = wb.exp(ops.switch(other, taken)[1] * alive) * 0.5
    data = np.random.default_rng(0).uniform(-1, 1, (100, 100)).astype(np.float32)
    with Session() as s:
        found = s.run(alive, {x: data, other: data, taken: False}), s.run([alive, inside], {x: data, other: data, taken: True})
        np.testing.assert_allclose(found[0], np.tanh(data * 2), rtol=1e-4)
        np.testing.assert_allclose(found[1][1], np.exp(np.tanh(data * 2) * data) / 2, rtol=1e-4)
        late = ops.merge([inside, ops.switch(other, taken)[0]])[0]
        one, both = s.run([alive, late], {x: data, other: data, taken: False})
        np.testing.assert_allclose(one, np.tanh(data * 2), rtol=1e-4)
        np.testing.assert_array_equal(both, data)


def test_fuse_stays_on_one_device():
    x = wb.placeholder("float32", [200, 200], name="x")
    a = wb.exp(wb.tanh(x) * 2.0)
    with wb.device("/cpu:1"):
        b = wb.exp(wb.tanh(a) * 2.0)
    with Session(devices=2) as two, Session() as one:
        data = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
        expected = np.exp(np.tanh(np.exp(np.tanh(data) * 2)) * 2)
        np.testing.assert_allclose(two.run(b, {x: data}), expected, rtol=1e-4)
        with pytest.raises(wb.errors.PlacementError):
            one.run(b, {x: data})


@pytest.mark.parametrize("build_", [lambda x, ones: x + (ones - ones), lambda x, ones: x * ones, lambda x, ones: x / ones,
                                    lambda x, ones: (ones - ones) + x, lambda x, ones: x ** ones])
def test_what_has_an_unknown_rank_may_be_made_larger_by_ones(build_):
    """A scalar that came through a condition was taken for the whole vector: a loss counted one weight instead of two."""
    with wb.Graph().as_default(), wb.Session() as session:
        fed = wb.placeholder("float32", None)
        x = wb.cond(wb.equal(wb.rank(fed), 1), lambda: wb.reduce_sum(fed), lambda: fed)
        x.set_shape(None)
        counted = wb.reduce_sum(wb.cast(wb.not_equal(build_(x, wb.ones([3])), 0.0), "float32"))
        assert session.run([counted, counted + 1.0], {fed: 2.0}) == [3.0, 4.0]
