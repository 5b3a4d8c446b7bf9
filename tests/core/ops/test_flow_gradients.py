"""Gradients through cond, while_loop and lists, to second order, against numeric differences, by both evaluators."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_evaluator import evaluate, evaluate_tokens, lowered
from tests.core.flow_gradient_cases import CASES
from workbench.core.grad import gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph


def feed(point):
    kind = {bool: "bool", int: "int32"}.get(type(point), "float64")
    return ops.placeholder(dtype=kind, shape=np.shape(point))


def numeric(run, points, step=1e-5):
    """Central differences of `run(points)` (scalar) with respect to each float point."""
    found = []
    for index in floats(points):
        result = np.zeros(np.shape(points[index]))
        for place in np.ndindex(*result.shape):
            values = []
            for sign in (1, -1):
                moved = [p.copy() if isinstance(p, np.ndarray) else p for p in points]
                moved[index][place] += sign * step
                values.append(float(run(moved)))
            result[place] = (values[0] - values[1]) / (2 * step)
        found.append(result)
    return found


def floats(points):
    return [i for i, p in enumerate(points) if isinstance(p, np.ndarray)]


def feeds_of(places, points):
    return {t: np.asarray(p, t.dtype.numpy) for t, p in zip(places, points)}


def sloped(y, xs):
    """The gradients of y, zeros where there is no path, and a scalar made of them."""
    grads = gradients(y, xs)
    grads = [ops.zeros_like(x) if g is None else convert(g) for g, x in zip(grads, xs)]
    weights = [np.cos(np.arange(max(1, x.shape.num_elements()))).reshape(x.shape.static) for x in xs]
    return grads, ops.add_n([ops.reduce_sum(g * w) for g, w in zip(grads, weights)])


def compare(graph, places, points, value, grads):
    wanted = numeric(lambda moved: evaluate(graph, feeds_of(places, moved), [value])[0], points)
    feeds = feeds_of(places, points)
    for found in (evaluate(graph, feeds, grads), evaluate_tokens(*lowered(graph, feeds, grads))):
        for value, number in zip(found, wanted, strict=True):
            np.testing.assert_allclose(value, number, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    function, points = CASES[name]
    with Graph().as_default() as graph:
        places = [feed(p) for p in points]
        xs = [places[i] for i in floats(points)]
        y = function(*places)
        grads, slope = sloped(y, xs)
        compare(graph, places, points, y, grads)
        second, _ = sloped(slope, xs)
        compare(graph, places, points, slope, second)


@pytest.mark.parametrize("name", CASES)
def test_constants_that_bodies_use_have_the_gradients_of_values_that_are_fed(name):
    function, points = CASES[name]
    with Graph().as_default() as graph:
        fed = [feed(p) for p in points]
        fixed = [ops.constant(p) if isinstance(p, np.ndarray) else at for p, at in zip(points, fed)]
        (first, slope), (again, bend) = (sloped(function(*at), [at[i] for i in floats(points)]) for at in (fed, fixed))
        wanted = first + sloped(slope, [fed[i] for i in floats(points)])[0]
        found = again + sloped(bend, [fixed[i] for i in floats(points)])[0]
        values = evaluate(graph, feeds_of(fed, points), [*found, *wanted])
    for value, number in zip(values, values[len(found):]):
        np.testing.assert_allclose(value, number, rtol=1e-12)
    for position, op in enumerate(graph.operations):
        assert op.id == position and all(t.op.id < position for t in op.inputs)


@pytest.fixture
def x():
    with Graph().as_default():
        yield ops.placeholder(dtype="float64", shape=())


def value(tensor, feeds):
    found = evaluate(tensor.graph, feeds, [tensor])[0]
    again = evaluate_tokens(*lowered(tensor.graph, feeds, [tensor]))[0]
    np.testing.assert_allclose(found, again)
    return float(found)


def test_third_order(x):
    y = ops.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * v * x), [0, x])[1]       # x ** 7
    z = ops.cond(x > 0.0, lambda: y * x, lambda: x)                                           # x ** 8
    for power, factor in ((7, 8), (6, 56), (5, 336)):
        z = gradients(z, x)[0]
        assert value(z, {x: np.float64(1.1)}) == pytest.approx(factor * 1.1 ** power)


def test_no_path_is_none(x):
    z = ops.placeholder(dtype="float64", shape=())
    n = ops.placeholder(dtype="int32", shape=())
    i, y, kept = ops.while_loop(lambda i, v, w: i < n, lambda i, v, w: (i + 1, v * 2.0, w), [0, x, z])
    assert gradients(y, [z, n]) == [None, None]
    assert gradients(kept, [x]) == [None]
    assert gradients(ops.cond(x > 0.0, lambda: x, lambda: -x), [z, n]) == [None, None]
    assert gradients(ops.cast(ops.cond(x > 0.0, lambda: i, lambda: n), "float64"), [x, n]) == [None, None]


def test_back_prop_false_stops(x):
    y = ops.while_loop(lambda v: v < 9.0, lambda v: v * x, [x], back_prop=False)
    assert gradients(y, x) == [None]


def test_only_what_is_asked_for_is_computed(x):
    w = ops.placeholder(dtype="float64", shape=())
    y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, ops.sin(v) * w), [0, x])[1]
    dx, = gradients(y, x)
    body = dx.op.attrs["body_graph"]
    assert len(dx.op.outputs) == 3      # the count, dx, and the list of v: nothing for w
    assert sum(op.type == "list_pop" for op in body.operations) == 1


def test_gradients_of_one_loop_share_its_lists(x):
    y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, ops.sin(v) * x), [0, x])[1]
    first = gradients(y, x)[0]
    size = len(y.op.outputs)
    again = gradients(y * 2.0, x)[0]
    assert len(y.op.outputs) == size
    at = {x: np.float64(0.8)}
    assert value(again, at) == pytest.approx(2 * value(first, at))


def test_construction_order_stays_topological(x):
    y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, ops.sin(v) * x), [0, x])[1]
    gradients(ops.cond(x > 0.0, lambda: ops.sin(y) * y, lambda: y), x)
    seen = set()
    for position, op in enumerate(x.graph.operations):
        assert op.id == position and all(t.op in seen for t in op.inputs)
        seen.add(op)


@pytest.mark.parametrize("planned", [True, False])
def test_extending_an_operation_counts_when_a_plan_may_contain_it(x, planned):
    y = ops.cond(x > 0.0, lambda: ops.sin(x) * x, lambda: x)
    before = x.graph.planning() if planned else x.graph.mutations
    outputs = y.op.outputs
    gradients(y, x)
    assert (x.graph.mutations > before) is planned and y.op.outputs[:1] == outputs


def test_bodies_are_not_changed_in_place(x):
    """A copy of the graph shares the attributes: extending one must not touch the other."""
    y = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, ops.sin(v) * x), [0, x])[1]
    bodies = y.op.attrs["body_graph"], y.op.attrs["cond_graph"]
    sizes = [(len(b.operations), len(b.arguments), len(b.results)) for b in bodies]
    gradients(y, x)
    assert [(len(b.operations), len(b.arguments), len(b.results)) for b in bodies] == sizes
    assert y.op.attrs["body_graph"] is not bodies[0]


def test_seeds_that_are_forward_values(x):
    """One tensor comes in as gradient and as a value of the forward pass."""
    y = ops.cond(x > 0.0, lambda: ops.sin(x), lambda: x)
    dx, = gradients(y, x, grad_ys=y)
    at = 0.6
    assert value(dx, {x: np.float64(at)}) == pytest.approx(np.sin(at) * np.cos(at))
    dx, = gradients(y, x, grad_ys=x)
    assert value(dx, {x: np.float64(at)}) == pytest.approx(at * np.cos(at))


def test_gradients_inside_a_body_reach_tensors_outside():
    """Directly, through what the body captures, and from a loop inside a branch."""
    x, choice = ops.placeholder("float64", []), ops.placeholder("bool", [])
    square = ops.square(x)

    def turn(i, total):
        return i + 1, total + gradients(square * x * total, x)[0]      # of total too, but that is not asked
    cases = {
        12.0: lambda: gradients(x * x * 3.0, x)[0],
        4.0: lambda: gradients(square, x)[0],
        20.0: lambda: gradients(square * x + square * 2.0, x)[0],
        13.0: lambda: ops.while_loop(lambda i, t: i < 1, turn, [0, ops.constant(1.0, "float64")])[1],
    }
    for wanted, body in cases.items():
        y = ops.cond(choice, body, lambda: x)
        for truth, value in ((True, wanted), (False, 2.0)):
            assert float(evaluate(y.graph, {x: np.float64(2), choice: np.asarray(truth)}, [y])[0]) == value
    by_other = gradients(ops.cond(choice, lambda: gradients(x * x, x)[0], lambda: x), x)[0]
    assert float(evaluate(x.graph, {x: np.float64(3), choice: np.asarray(True)}, [by_other])[0]) == 2


def test_gradients_of_nothing():
    assert gradients([], [ops.placeholder("float32", [])]) == [None]


def test_what_a_loop_depends_on_without_a_gradient_has_zeros():
    """As in TensorFlow: a variable of the loop counts as used, something from outside of it does not."""
    x, y, z = (ops.placeholder("float64", []) for _ in range(3))

    def turn(x, y):
        still = ops.stop_gradient(y * y)
        return x * x + still + ops.stop_gradient(z), still
    rx, ry = ops.while_loop(lambda x, y: x < 100.0, turn, [x, ops.exp(y)])
    places = {x: np.float64(3), y: np.float64(0.5), z: np.float64(1.5)}
    dx, dy, dz = gradients(rx, [x, y, z])
    assert dz is None and evaluate(x.graph, places, [dy]) == [0]
    assert float(evaluate(x.graph, places, [dx])[0]) == pytest.approx(4 * 3 * (9 + np.exp(1) + 1.5))
    assert gradients(ry, x) == [None] and evaluate(x.graph, places, gradients(ry, y)) == [0]
    rx, _ = ops.while_loop(lambda x, y: x < 100.0, lambda x, y: (x * x, y * 2.0), [x, y])
    assert gradients(rx, y) == [None]
