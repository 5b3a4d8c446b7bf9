"""Barriers: elements by key that are given out once all their components are there."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.shape import Shape
from workbench.core.state.barriers import Barrier as State
from workbench.train.input.barriers import Barrier
from workbench.train.saving.checkpoints import Checkpointer

pytestmark = pytest.mark.usefixtures("graph")
FIRST = -(2**63)


def state(*shapes: Any) -> State:
    return State("b", [as_dtype("float32")] * len(shapes), [Shape(shape) for shape in shapes])


def put(barrier: State, component: int, keys: str, values: Any) -> None:
    barrier.insert_many(component, np.array([*keys.encode().split(), None], object)[:-1], np.asarray(values, np.float32))


class Taker:
    """What a take was told."""

    def __init__(self, barrier: State, count: int, small: bool = False) -> None:
        self.told: Any = None
        self.withdraw = barrier.take_many(count, small, self._done, self._done)

    def _done(self, *told: Any) -> None:
        assert self.told is None
        self.told = told[0] if isinstance(told[0], Exception) else [part.tolist() for part in told]


def test_elements_come_in_the_order_of_their_first_component():
    barrier = Barrier((wb.float32, wb.int32), shapes=((), (2,)))
    steps = [barrier.insert_many(0, ["a", "b"], [1.0, 2.0]), barrier.insert_many(1, ["a"], [[1, 1]]),
             barrier.insert_many(0, ["c"], [3.0]), barrier.insert_many(1, ["c"], [[3, 3]]),
             barrier.insert_many(1, ["b"], [[2, 2]])]
    numbers, keys, (x, y) = barrier.take_many(2)
    assert (numbers.shape.as_list(), x.shape.as_list(), y.shape.as_list()) == ([2], [2], [2, 2])
    with wb.Session() as session:
        for step in steps:
            session.run(step)
        assert session.run([barrier.ready_size(), barrier.incomplete_size()]) == [3, 0]
        found = session.run([numbers, keys, x, y])
        assert [part.tolist() for part in found] == [[FIRST, FIRST], [b"a", b"b"], [1, 2], [[1, 1], [2, 2]]]
        assert [part.tolist() for part in session.run(barrier.take_many(1)[:2])] == [[FIRST + 1], [b"c"]]


def test_a_take_waits_until_enough_are_complete():
    barrier = state((), ())
    first, second = Taker(barrier, 2), Taker(barrier, 1)
    put(barrier, 0, "a b c", [1, 2, 3])
    put(barrier, 1, "c", [30])
    assert first.told is second.told is None and barrier.sizes() == (1, 2)
    put(barrier, 1, "b a", [20, 10])
    assert first.told == [[FIRST] * 2, [b"c", b"b"], [3, 2], [30, 20]]
    assert second.told == [[FIRST], [b"a"], [1], [10]]
    third = Taker(barrier, 1)
    third.withdraw()
    put(barrier, 0, "a", [5])
    put(barrier, 1, "a", [50])
    assert third.told is None and barrier.sizes() == (1, 0)


def test_a_closed_barrier_takes_what_completes_it_and_gives_what_it_has():
    barrier = state((), ())
    waiting, small = Taker(barrier, 3), Taker(barrier, 5, small=True)
    put(barrier, 0, "a b", [1, 2])
    barrier.close()
    assert isinstance(waiting.told, errors.OutOfRangeError) and "requested 3, total size 2" in str(waiting.told)
    assert small.told is None
    put(barrier, 1, "a", [10])
    assert small.told == [[FIRST], [b"a"], [1], [10]]
    with pytest.raises(errors.CancelledError, match="is closed, so nothing new can be inserted"):
        put(barrier, 0, "c", [3])
    put(barrier, 0, "", np.zeros([0]))
    with pytest.raises(errors.CancelledError, match="already closed"):
        barrier.close()
    barrier.close(cancel_pending=True)
    with pytest.raises(errors.CancelledError, match="is closed"):
        put(barrier, 1, "b", [20])
    assert barrier.sizes() == (0, 0) and "insufficient elements" in str(Taker(barrier, 1).told)


def test_who_waits_when_the_session_ends_is_told():
    barrier = state(())
    waiting = Taker(barrier, 1)
    barrier.abandon()
    assert isinstance(waiting.told, errors.CancelledError) and isinstance(Taker(barrier, 1).told, errors.CancelledError)
    with pytest.raises(errors.CancelledError):
        put(barrier, 0, "a", [1])


@pytest.mark.parametrize(("component", "keys", "values", "text"), [
    (2, "a", [1], "component_index 2 is out of range, there are 2 components"),
    (0, "a b", [1], r"keys have shape \[2\] and values \[1\]"),
    (0, "a", 1, r"keys have shape \[1\] and values \[\]"),
    (0, "a a", [1, 2], "key b'a' already has a value for component 0"),
    (0, "k", [1], "key b'k' already has a value for component 0"),
    (0, "a", [[1, 2]], r"Shape mismatch in component 0: values have rows \[2\]"),
    (1, "a", [[]], "Tensors with no elements are not supported")])
def test_what_does_not_fit_is_not_inserted(component, keys, values, text):
    barrier = state((), None)
    put(barrier, 0, "k", [1])
    with pytest.raises(errors.InvalidArgumentError, match=text):
        put(barrier, component, keys, values)
    with pytest.raises(errors.InvalidArgumentError, match="values are int64 but component 0 is float32"):
        barrier.insert_many(0, np.array([b"z"], object), np.array([1]))
    assert barrier.sizes() == (0, 1)


def test_elements_of_several_shapes_make_no_batch():
    barrier = state(None)
    put(barrier, 0, "a", [[1, 2]])
    put(barrier, 0, "b", [[3]])
    assert "make no batch" in str(Taker(barrier, 2).told)


def test_misuse_is_told_when_the_graph_is_built():
    with pytest.raises(ValueError, match=r"Empty tensors are not supported, but received shape '\(0,\)' at index 1"):
        Barrier((wb.float32, wb.float32), shapes=((1,), (0,)))
    barrier = Barrier(wb.float32, shapes=())
    with pytest.raises(errors.InvalidArgumentError, match="component_index 1 is out of range"):
        barrier.insert_many(1, ["a"], [1.0])
    with pytest.raises(errors.UnimplementedError, match="timeout"):
        barrier.take_many(1, timeout=3)
    shared = [Barrier(kind, shapes=shape, shared_name="s") for kind, shape in (
        (wb.float32, ()), (wb.int32, ()), (wb.float32, (2,)))]
    with wb.Session() as session:
        session.run(shared[0].ready_size())
        with pytest.raises(errors.InvalidArgumentError, match="component types"):
            session.run(shared[1].ready_size())
        with pytest.raises(errors.InvalidArgumentError, match="component shapes"):
            session.run(shared[2].ready_size())
        with pytest.raises(errors.InvalidArgumentError, match="0 elements were asked"):
            session.run(shared[0].take_many(0)[0])


def test_a_checkpoint_keeps_what_is_inside(tmp_path: Path):
    def build() -> tuple[Any, ...]:
        barrier = Barrier((wb.string, wb.float32), shapes=((), (2,)))
        wb.Variable(1.0, name="w")
        steps = [barrier.insert_many(0, ["a", "b", "c"], ["x", "y", "z"]), barrier.insert_many(1, ["b"], [[2.0, 2.0]])]
        return barrier, steps, barrier.insert_many(1, ["a", "c"], [[1.0, 1.0], [3.0, 3.0]]), barrier.take_many(3), Checkpointer(
            tmp_path / "m")
    _, steps, _, _, saver = build()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for step in steps:
            session.run(step)
        saver.save(session, 1)
        saver.wait()
    with wb.Graph().as_default():
        barrier, _, rest, (numbers, keys, (text, rows)), saver = build()
        with wb.Session() as session:
            assert saver.restore_newest(session) == str(tmp_path / "m-1")
            assert session.run([barrier.ready_size(), barrier.incomplete_size()]) == [1, 2]
            session.run(rest)
            found = dict(zip(*session.run([keys, text])))
            assert found == {b"a": b"x", b"b": b"y", b"c": b"z"}
    assert numbers.shape.as_list() == [3] and rows.shape.as_list() == [3, 2]
