"""A plan for the shapes that were fed knows them inside of branches and loops too, and what their lists hold."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.passes.prune import prune


def planned(fetches: Sequence[Tensor], feeds: dict[Tensor, Sequence[int]]) -> list[Operation]:
    """The operations of a step for feeds of these shapes, those of bodies among them."""
    program = prune(fetches[0].graph, fetches, [], {t: Shape(s) for t, s in feeds.items()})
    return list(inside(program.graph))


def inside(graph: Graph) -> Iterator[Operation]:
    for op in graph.operations:
        yield op
        for body in op.attrs.values():
            if isinstance(body, Subgraph):
                yield from inside(body)


def unknown(operations: Sequence[Operation]) -> list[str]:
    return [t.name for op in operations for t in op.outputs if not t.shape.known]


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("cell", ["BasicLSTMCell", "GRUCell"])
@pytest.mark.parametrize("time", [7, None])
def test_a_recurrence_over_any_batch_and_length_knows_both_in_its_plan(cell: str, time: int | None) -> None:
    """Its gradients too, whose loop reads what the first one pushed."""
    x = tf.placeholder(tf.float32, [None, time, 5])
    outputs, _ = tf.nn.dynamic_rnn(getattr(tf.nn.rnn_cell, cell)(3), x, dtype=tf.float32)
    assert outputs.shape.as_list() == [None, time, 3]      # the graph itself knows no more than before
    loss = tf.reduce_sum(outputs ** 2)
    fetches = [outputs, *tf.gradients(loss, tf.trainable_variables())]
    assert not unknown(planned(fetches, {x: [4, 7, 5]}))


def test_plans_of_open_shapes_stay_open() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.), (0, x))[1]
    assert [op.outputs[0].shape.sizes for op in planned([y], {x: [None, 2]}) if op.kind == "multiply"] == [(None, 2)]
    assert [op.outputs[0].shape.sizes for op in planned([y], {x: [6, 2]}) if op.kind == "multiply"] == [(6, 2)]


def test_what_a_loop_changes_stays_open() -> None:
    """The rows grow, the columns do not."""
    x = tf.placeholder(tf.float32, [None, None])
    y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.concat([v, v], 0)), (0, x),
                      shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])))[1]
    assert [op.outputs[0].shape.sizes for op in planned([y], {x: [6, 2]}) if op.kind == "concat"] == [(None, 2)]
    with tf.Session() as session:
        assert session.run(y, {x: np.ones((6, 2))}).shape == (48, 2)
        assert session.run(y, {x: np.ones((1, 3))}).shape == (8, 3)


def test_what_two_variables_hand_to_each_other_is_what_both_have() -> None:
    a, b = (tf.placeholder(tf.float32, [None, None]) for _ in range(2))
    swapped = tf.while_loop(lambda i, u, v: i < 3, lambda i, u, v: (i + 1, v, u), (0, a, b))[1:]
    with tf.Session() as session:
        for rows in (2, 5):
            first, second = session.run(swapped, {a: np.ones((2, 4)), b: np.zeros((rows, 4))})
            assert first.shape == (rows, 4) and second.shape == (2, 4)
    [loop] = [op for op in planned(swapped, {a: [2, 4], b: [5, 4]}) if op.kind == "while"]
    assert [t.shape.sizes for t in loop.outputs] == [(), (None, 4), (None, 4)]


def test_a_branch_that_is_not_for_these_shapes_is_left_as_it_is() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.cond(tf.equal(tf.shape(x)[0], 1), lambda: tf.squeeze(x, [0]), lambda: tf.reduce_sum(x, 0))
    z = tf.while_loop(lambda v: tf.shape(v)[0] < 1, lambda v: tf.reshape(v, [1, 3]) * 1., [x],
                      shape_invariants=[tf.TensorShape([None, 3])])
    with tf.Session() as session:
        for rows in (1, 4):
            value = np.arange(3. * rows).reshape(rows, 3)
            np.testing.assert_array_equal(session.run(y, {x: value}), value.sum(0))
            np.testing.assert_array_equal(session.run(z, {x: value}), value)


def test_arrays_of_a_loop_know_what_is_written_into_them() -> None:
    x = tf.placeholder(tf.float32, [None, None])
    steps = tf.shape(x)[0]
    rows = tf.TensorArray(tf.float32, steps).unstack(x)

    def body(i: Any, out: Any) -> Any:
        return i + 1, out.write(i, rows.read(i) * 2.)
    made = tf.while_loop(lambda i, out: i < steps, body, (0, tf.TensorArray(tf.float32, steps)))[1].stack()
    assert [op.outputs[0].shape.sizes for op in planned([made], {x: [6, 2]}) if op.kind == "multiply"] == [(2,)]
    assert [op.outputs[0].shape.sizes for op in planned([made], {x: [6, 2]}) if op.kind == "list_stack"] == [(None, 2)]
    with tf.Session() as session:
        value = np.arange(12.).reshape(6, 2)
        np.testing.assert_array_equal(session.run(made, {x: value}), 2 * value)


def test_lists_of_lists_and_second_derivatives() -> None:
    """What a loop in a loop saved for gradients is a list in a list; values are those of a graph that knows its shapes."""
    def network(x: Any) -> Any:
        def outer(i: Any, v: Any) -> Any:
            inner = tf.while_loop(lambda j, w: j < 3, lambda j, w: (j + 1, tf.tanh(w) * v), (0, v))[1]
            return i + 1, inner + v
        y = tf.while_loop(lambda i, v: i < 2, outer, (0, x))[1]
        [first] = tf.gradients(tf.reduce_sum(y ** 2), x)
        [second] = tf.gradients(tf.reduce_sum(first ** 2), x)
        return [y, first, second]
    value = np.random.default_rng(0).standard_normal((2, 3)).astype("f")
    left, known = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [2, 3])
    mine, theirs = network(left), network(known)
    assert not unknown(planned(mine, {left: [2, 3]}))
    with tf.Session() as session:
        for a, b in zip(session.run(mine, {left: value}), session.run(theirs, {known: value})):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_elements_of_several_shapes_have_what_they_share() -> None:
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 4])
    one = wb.ops.list_push(wb.ops.list_push(wb.ops.list_new(), x), y)
    back = tf.cond(tf.shape(x)[0] > 0, lambda: wb.ops.list_pop(one, dtype=wb.float32, shape=[None, None])[1], lambda: x)
    pops = [op for op in planned([back], {x: [2, 4], y: [3, 4]}) if op.kind == "list_pop"]
    assert [op.outputs[1].shape.sizes for op in pops] == [(None, 4)]
