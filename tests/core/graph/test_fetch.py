"""Fetch arguments: their keys in the cache, their flat form, and results in the form that was asked for."""
from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.fetch import IndexedSlicesValue, fetch_key, flatten

Point = namedtuple("Point", "x y")


@pytest.fixture
def world():
    with wb.Graph().as_default() as graph:
        yield graph, wb.constant(1.0, name="a"), wb.constant(2.0, name="b")


def test_equal_requests_have_equal_keys(world):
    _, a, b = world
    for make in (lambda: [a, (b, "a:0")], lambda: {"x": [a], "y": b}, lambda: Point(a, [b]), lambda: "a:0"):
        assert fetch_key(make()) == fetch_key(make()) and hash(fetch_key(make())) is not None


def test_requests_of_another_form_have_other_keys(world):
    _, a, b = world
    keys = [fetch_key(f) for f in ([a, b], (a, b), [b, a], Point(a, b), {"x": a, "y": b}, {"y": b, "x": a}, [[a], b], a)]
    assert len(set(keys)) == len(keys)


def test_flat_tensors_are_distinct_and_in_the_order_of_their_names(world):
    graph, a, b = world
    plan = flatten(graph, [b, {"k": a}, "b:0", b.op, a.op, (a,), "a"])
    assert plan.tensors == [a, b] and plan.operations == [a.op, b.op]
    assert plan.build(["A", "B"]) == ["B", {"k": "A"}, "B", None, None, ("A",), None]


def test_structures_keep_their_type(world):
    graph, a, b = world
    assert flatten(graph, Point(a, Point(b, a))).build([1, 2]) == Point(1, Point(2, 1))
    assert flatten(graph, OrderedDict([("z", a), ("y", b)])).build([1, 2]) == {"z": 1, "y": 2}
    assert flatten(graph, []).build([]) == [] and flatten(graph, {}).build([]) == {}


def test_values_without_axes_are_scalars_and_texts(world):
    _, a, _ = world
    with wb.Session() as session:
        found = session.run([a, wb.constant("text"), {"n": wb.constant(3)}, wb.constant([1.0])])
    assert [type(v) for v in (*found[:2], found[2]["n"], found[3])] == [np.float32, bytes, np.int32, np.ndarray]
    assert found[1] == b"text" and {found[2]["n"]: 1} == {3: 1}


def test_slices_are_fetched_as_slices(world):
    graph, a, b = world
    slices = wb.IndexedSlices(a, b)
    plan = flatten(graph, [slices])
    assert plan.tensors == [a, b] and plan.build(["v", "i"]) == [IndexedSlicesValue("v", "i", None)]


def test_sets_cannot_be_fetched(world):
    _, a, _ = world
    with pytest.raises(errors.InvalidArgumentError) as error:
        fetch_key({a})
    assert str(error.value) == ("fetch: {<Tensor a:0 float32[]>} is a set; pass tensors, operations, names or (nested) lists, "
                                "tuples and dicts of them")
    with pytest.raises(errors.InvalidArgumentError, match="is a ndarray; pass tensors"):
        fetch_key([np.zeros(2)])
