"""One graph per device: what is sent, what is copied, control edges across, and the same results as on one device."""
from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

import workbench as wb
from tests.core.random_graphs import build, recipes
from workbench.core.compile.partition import Part, partition
from workbench.core.compile.place import place
from workbench.core.graph.check import verify
from workbench.core.passes.prune import prune

pytestmark = pytest.mark.usefixtures("graph")
DEVICES = [f"/job:localhost/task:0/device:CPU:{i}" for i in range(3)]


def parts_of(fetches, targets=(), feeds=None) -> list[Part]:
    program = prune((*fetches, *targets)[0].graph, fetches, targets, {t: t.shape for t in feeds or ()})
    found = partition(program, place(program, DEVICES))
    for part in found:
        verify(part.program, "partition")
    return found


def kinds(parts: list[Part]) -> list[Counter[str]]:
    return [Counter(op.type for op in part.program.graph.operations) for part in parts]


def sends(parts: list[Part]) -> list[tuple[str, str, str]]:
    return [tuple(op.attrs[k] for k in ("tensor", "source", "target"))
            for part in parts for op in part.program.graph.operations if op.type == "send"]


def test_one_device_keeps_the_graph():
    x = wb.placeholder("float32", [2], name="x")
    part, = parts_of([wb.exp(x, name="y")], feeds=[x])
    assert [op.name for op in part.program.graph.operations] == ["x", "y"]
    assert part.device == DEVICES[0] and part.feeds == [0] and part.fetches == [0]


def test_a_tensor_crosses_once_per_destination():
    x = wb.placeholder("float32", [2], name="x")
    y = wb.exp(x, name="y")
    users = []
    for device in (1, 1, 2):
        with wb.device(f"/cpu:{device}"):
            users.append(wb.sqrt(y) + wb.tanh(y))
    parts = parts_of(users, feeds=[x])
    assert sorted(sends(parts)) == [("y:0", DEVICES[0], DEVICES[1]), ("y:0", DEVICES[0], DEVICES[2])]
    assert [k["receive"] for k in kinds(parts)] == [0, 1, 1]


def test_constants_and_feeds_are_copied_not_sent():
    x, c = wb.placeholder("float32", [2], name="x"), wb.constant([1.0, 2.0], name="c")
    here = wb.add(x, c, name="here")
    with wb.device("/cpu:1"):
        there = wb.multiply(x, c, name="there")
    parts = parts_of([here, there], feeds=[x])
    assert sends(parts) == [] and [p.feeds for p in parts] == [[0], [0]] and [p.fetches for p in parts] == [[0], [1]]


def test_a_control_edge_crosses_as_a_token():
    x = wb.placeholder("float32", [], name="x")
    v = wb.Variable(0.0)
    first = wb.assign_add(v, x, name="first")
    with wb.device("/cpu:1"), wb.control_dependencies([first]):
        later = wb.exp(x, name="later")
        other = wb.sqrt(x, name="other")
    parts = parts_of([later, other], feeds=[x])
    assert sends(parts) == [("^first", DEVICES[0], DEVICES[1])]
    waits = {op.name: [c.type for c in op.controls] for op in parts[1].program.graph.operations}
    assert waits["later"] == waits["other"] == ["receive"]
    s = wb.Session(devices=2)
    s.run(v.initializer)
    s.run([later, other], {x: 2.0})
    assert s.run(v) == 2.0, "what is waited for runs although nothing reads it"


def test_targets_stay_where_they_are():
    v = wb.Variable(0.0)
    with wb.device("/cpu:1"):
        step = wb.group(wb.assign_add(v, 1.0).op)
    s = wb.Session(devices=2)
    s.run(v.initializer)
    assert s.run(step) is None and s.run(v) == 1.0


def test_what_is_fetched_on_another_device_comes_back():
    x = wb.placeholder("float32", [3])
    with wb.device("/cpu:1"):
        y = x * 2.0
    z = wb.reduce_sum(y)
    with wb.Session(devices=2) as s:
        found = s.run([z, y, x], {x: [1, 2, 3]})
    assert found[0] == 12.0
    np.testing.assert_array_equal(found[1], [2, 4, 6])
    np.testing.assert_array_equal(found[2], [1, 2, 3])


@pytest.mark.parametrize("short", [False, True])
def test_numbers_that_travel_between_tasks_are_short_where_asked_for(short: bool):
    """In half the bytes; counts, and what stays within a task, as it is."""
    devices = [f"/job:{task}/device:CPU:{i}" for task in ("ps/task:0", "worker/task:0") for i in range(2)]
    x, n = wb.placeholder("float32", [2], name="x"), wb.placeholder("int32", [], name="n")
    with wb.device(devices[0]):
        y, m = wb.exp(x, name="y"), n + 1
    with wb.device(devices[1]):
        near = wb.tanh(y)
    with wb.device(devices[2]):
        far = wb.tanh(y) * wb.cast(m, "float32")
    program = prune(y.graph, [near, far], [], {x: x.shape, n: n.shape})
    parts = partition(program, place(program, devices), short)
    for part in parts:
        verify(part.program, "partition")
    told = {(op.attrs["target"], op.attrs["tensor"]): op.attrs["dtype"].name for part in parts
            for op in part.program.graph.operations if op.type == "receive"}
    assert told == {(devices[1], "y:0"): "float32", (devices[2], "y:0"): "bfloat16" if short else "float32",
                    (devices[2], m.name): "int32"}
    assert [k["cast"] for k in kinds(parts)] == ([1, 0, 2] if short else [0, 0, 1])


def training(devices: int) -> list[float]:
    """Losses of ten steps of a small network whose layers and variables lie on `devices` devices."""
    with wb.Graph().as_default():
        rng = np.random.default_rng(0)
        x, labels = wb.placeholder("float32", [16, 8]), wb.placeholder("float32", [16, 3])
        h = x
        variables = []
        for i, (rows, columns) in enumerate([(8, 6), (6, 3)]):
            with wb.device(f"/cpu:{i % devices}"):
                variables.append(wb.Variable(rng.normal(size=(rows, columns)).astype(np.float32)))
                h = wb.matmul(wb.tanh(h), variables[-1])
        loss = wb.reduce_mean(wb.nn.softmax_cross_entropy_with_logits(labels=labels, logits=h))
        updates = [wb.assign_sub(v, 0.5 * g) for v, g in zip(variables, wb.gradients(loss, variables))]
        data = rng.normal(size=(16, 8)).astype(np.float32), np.eye(3, dtype=np.float32)[rng.integers(0, 3, 16)]
        with wb.Session(devices=devices) as s:
            s.run(wb.global_variables_initializer())
            return [float(s.run([loss, *updates], dict(zip((x, labels), data)))[0]) for _ in range(10)]


def test_training_on_two_devices_gives_the_losses_of_one():
    one, two = training(1), training(2)
    assert one[-1] < one[0]
    np.testing.assert_allclose(two, one, rtol=1e-5)


def test_a_value_that_another_device_answers_is_sent_before_the_answer_is_used():
    """There and back within one elementwise chain: the chain may not become one kernel."""
    x = wb.placeholder("float32", [1000])
    there = wb.tanh(x * 2.0)
    with wb.device("/cpu:1"):
        back = wb.exp(there)
    with wb.Session(devices=2) as s:
        data = np.linspace(-1, 1, 1000, dtype=np.float32)
        expected = np.tanh(np.exp(np.tanh(2 * data)) + np.tanh(2 * data))
        np.testing.assert_allclose(s.run(wb.tanh(back + there), {x: data}), expected, rtol=1e-4)


@settings(max_examples=25, deadline=None)
@given(recipes())
def test_random_placements_give_the_results_of_one_device(recipe):
    with wb.Graph().as_default() as graph:
        fetches, feeds = build(recipe, placed=True)
    with wb.Graph().as_default() as plain:
        same, plain_feeds = build(recipe)
    with wb.Session(graph=graph, devices=3) as s:
        found = s.run(fetches, feeds)
    with wb.Session(graph=plain) as s:
        expected = s.run(same, plain_feeds)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_a_group_of_operations_elsewhere_waits_for_nothing():
    members = []
    for device in range(3):
        with wb.device(f"/cpu:{device}"):
            v = wb.Variable(1.0, name=f"v{device}")
            members.append(v.assign_add(1.0).op)
    with wb.device("/cpu:1"):
        inner = wb.group(*members[:2], name="inner")
        outer = wb.group(inner, members[2], name="outer")
        with wb.control_dependencies([inner]):
            after = wb.no_op(name="after")
    parts = parts_of([], [outer])
    assert sends(parts) == [] and [part.device for part in parts] == DEVICES
    assert [[op.type for op in part.program.targets] for part in parts] == [["assign_add"]] * 3
    assert len(sends(parts_of([], [outer, after]))) == 1      # who comes after a group waits for all of it
