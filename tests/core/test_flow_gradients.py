"""Gradients through cond, while_loop and lists, to second order, against numeric differences, by both evaluators."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_evaluator import evaluate, evaluate_tokens, lowered
from tests.core.flow_gradient_cases import CASES
from workbench.core.build import convert, ops
from workbench.core.grad import gradients
from workbench.core.graph import Graph


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
