"""Variables in a library's layout: brought there when they were written, not in each step; a plan that writes them does not."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.interrupts import every_interrupt
from workbench.core.graph.dtype import float32
from workbench.core.graph.shape import Shape
from workbench.core.kernels.choice import Choice, Spec, reorders, selectors
from workbench.core.run.session import Session
from workbench.core.state.variables import VariableState
from workbench.settings import settings

W = np.arange(6, dtype=np.float32).reshape(2, 3)
X = np.array([[1, 2], [3, 4]], np.float32)


@dataclass(frozen=True)
class Backwards:
    """A layout: the elements from last to first."""

    nbytes: int
    library: str = "backwards"


@pytest.fixture(autouse=True)
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A library that multiplies by a weight from last to first; each time one is brought into that layout is noted."""
    noted: list[Any] = []

    def select(attrs: Any, inputs: Any, outputs: Any, free: Any) -> Choice | None:
        if attrs["transpose_a"] or attrs["transpose_b"]:
            return None

        def kernel(a: Any, b: Any, out: Any) -> None:
            np.matmul(a, b.view(np.float32)[::-1].reshape(inputs[1].shape), out=out)
        return Choice("backwards", (None, Backwards(inputs[1].nbytes)), (None,), lambda static: kernel)

    def reorder(source: Spec, target: Spec) -> Choice:
        def kernel(plain: Any, out: Any) -> None:
            noted.append(plain.tolist())
            out.view(np.float32)[:] = plain.reshape(-1)[::-1]
        return Choice("backwards", (source.layout,), (target.layout,), lambda static: kernel)
    monkeypatch.setitem(selectors, ("matmul", "CPU"), [("backwards", select)])
    monkeypatch.setitem(reorders, "backwards", reorder)
    monkeypatch.setattr(settings, "libraries", ("backwards",))
    return noted


@pytest.fixture
def model(graph: wb.Graph) -> Any:
    x, v = wb.placeholder("float32", [None, 2]), wb.Variable(W, name="v")
    return x, v, wb.matmul(x, v)


def test_a_weight_is_packed_when_it_was_written_and_for_all_batch_sizes(model, packed):
    x, v, y = model
    with Session() as session:
        session.run(v.initializer)
        for _ in range(3):
            np.testing.assert_array_equal(session.run(y, {x: X}), X @ W)
        np.testing.assert_array_equal(session.run(y, {x: X[:1]}), X[:1] @ W)
        assert len(packed) == 1
        v.load(2 * W, session)
        for _ in range(2):
            np.testing.assert_array_equal(session.run(y, {x: X}), X @ (2 * W))
        assert len(packed) == 2


def test_a_plan_that_writes_the_weight_packs_it_in_each_step(model, packed):
    x, v, y = model
    step = wb.train.GradientDescentOptimizer(1.0).minimize(wb.reduce_sum(y))
    with Session(disabled_passes=["epilogue"]) as session:
        session.run(v.initializer)
        expected = W
        for count in range(1, 4):
            np.testing.assert_array_equal(session.run([y, step], {x: X})[0], X @ expected)
            expected = expected - X.sum(0)[:, None]
            np.testing.assert_array_equal(session.run(y, {x: X}), X @ expected)
            assert packed[-1] == expected.tolist() and len(packed) >= 2 * count


def test_a_weight_that_is_read_in_a_loop_is_packed_before_it(graph, packed):
    x, square = wb.placeholder("float32", [2, 2]), wb.Variable(np.eye(2, dtype=np.float32))
    y = wb.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, wb.matmul(a, square)), [0, x])[1]
    with Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(2):
            np.testing.assert_array_equal(session.run(y, {x: X}), X)
    assert packed == [np.eye(2).tolist()]


def test_a_weight_that_a_loop_writes_is_packed_in_each_turn(graph, packed):
    x, v = wb.placeholder("float32", [2, 2]), wb.Variable(np.eye(2, dtype=np.float32))

    def body(i: Any, a: Any) -> Any:
        b = wb.matmul(a, v.read_value())
        with wb.control_dependencies([b]), wb.control_dependencies([v.assign_add(v.read_value()).op]):
            return i + 1, wb.identity(b)
    y = wb.while_loop(lambda i, a: i < 3, body, [0, x])[1]
    with Session() as session:
        session.run(wb.global_variables_initializer())
        np.testing.assert_array_equal(session.run(y, {x: X}), 8 * X)
        np.testing.assert_array_equal(session.run(y, {x: X}), 8 * 16 * 32 * X)


def state() -> VariableState:
    made = VariableState("v", float32, Shape((2, 3)))
    made.assign(W)
    return made


def test_a_value_that_was_replaced_meanwhile_is_packed_as_it_was_read():
    variable = state()
    old = variable.read()
    variable.assign(2 * W)
    assert variable.in_layout("turned", np.negative, old).tolist() == (-W).tolist()
    assert variable.in_layout("turned", np.negative, variable.read()).tolist() == (-2 * W).tolist()


def test_ctrl_c_in_an_assignment_leaves_no_packed_value_behind():
    variables: list[VariableState] = []

    def action() -> None:
        variables.append(state())
        variables[-1].in_layout("turned", np.negative, variables[-1].read())
        variables[-1].assign(3 * W)
    for _ in every_interrupt(action, "core/state/variables.py", "core/device/host.py"):
        if variables and variables[-1].initialized:
            now = variables[-1].read()
            assert variables[-1].in_layout("turned", np.negative, now).tolist() == (-now).tolist()
