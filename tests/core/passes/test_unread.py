"""Loops lose the variables that serve nothing: values, gradients, effects and conditions stay."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import program as pruned
from workbench.core.graph.build import ops
from workbench.core.graph.check import verify
from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program
from workbench.core.passes.pipeline import PASSES, run_passes
from workbench.core.passes.prune import prune
from workbench.core.passes.unread import unread
from workbench.core.run.session import Session

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("graph")]
BEFORE = PASSES[:[name for name, _, _ in PASSES].index("unread")]


def loops(program: Program) -> list[Operation]:
    return [op for op in program.graph.operations if op.type == "while"]


def shortened(*fetches: Any, feeds: Any = ()) -> tuple[list[int], list[int]]:
    """How many variables each loop has before, and after."""
    before = run_passes(pruned(*fetches, feeds=feeds), stages=BEFORE)
    after = unread(before)
    verify(after, "unread")
    assert unread(after) is after
    return [len(op.outputs) for op in loops(before)], [len(op.outputs) for op in loops(after)]


def agree(fetches: Any, feeds: Any = None) -> None:
    with Session() as on, Session(disabled_passes=["unread"]) as off, Session(lower_all=True) as lowered:
        found = []
        for session in (on, off, lowered):
            session.run(wb.global_variables_initializer())
            found.append(session.run(fetches, feeds))
    for one, other, third in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        np.testing.assert_allclose(one, third, rtol=1e-5)


def test_a_variable_that_nobody_reads_goes_and_what_only_it_read_goes_with_it():
    x, other = wb.placeholder("float32", []), wb.placeholder("float32", [])
    _, y, _, _ = wb.while_loop(lambda i, y, z, w: i < 3, lambda i, y, z, w: (i + 1, y + 1.0, z * w, w + other),
                               (0, x, x, 2.0))
    before, after = shortened(y, feeds=[x, other])
    assert (before, after) == ([4], [2])
    with Session() as session:
        assert session.run(y, {x: 1.0, other: 5.0}) == 4.0


def test_what_the_condition_or_a_variable_that_is_read_needs_stays():
    x = wb.placeholder("float32", [])
    _, y, _ = wb.while_loop(lambda i, y, z: z < 20.0, lambda i, y, z: (i + 1, y + wb.cast(i, "float32"), z * 2.0), (0, x, 1.0))
    assert shortened(y, feeds=[x]) == ([3], [3])
    with Session() as session:
        assert session.run(y, {x: 1.0}) == 1.0 + 0 + 1 + 2 + 3 + 4


@pytest.mark.parametrize("effect", [
    lambda count, seen, z: count.assign_add(1.0) * z, lambda count, seen, z: wb.py_func(seen, [z], "float32"),
    lambda count, seen, z: wb.cond(z > 0.0, lambda: count.assign_add(1.0) * 1.0, lambda: z),
    lambda count, seen, z: wb.check_numerics(z, "finite") + wb.random_uniform([])],
    ids=["assign", "function of a user's", "in a branch", "check and random numbers"])
def test_what_acts_stays(effect):
    calls: list[float] = []

    def seen(z: Any) -> Any:
        calls.append(float(z))
        return np.float32(z + 1)

    count = wb.Variable(0.0)
    i, _ = wb.while_loop(lambda i, z: i < 4, lambda i, z: (i + 1, ops.reshape(effect(count, seen, z), [])), (0, 1.0))
    assert shortened(i) == ([2], [2])
    with Session() as session:
        session.run(count.initializer)
        assert session.run(i) == 4
        assert session.run(count) + len(calls) in (0.0, 4.0)


@pytest.mark.parametrize("cell", ["BasicLSTMCell", "GRUCell", "BasicRNNCell"])
def test_lists_of_which_a_gradient_needs_no_element(cell):
    """Weights, and what is multiplied by a constant, are listed when the gradient is built, and no element is read when passes
    have found what it is."""
    wb.set_random_seed(1)
    x = wb.placeholder("float32", [9, 3, 4])
    outputs, _ = wb.nn.dynamic_rnn(getattr(wb.nn.rnn_cell, cell)(5), x, dtype="float32", time_major=True)
    wanted = [outputs, *wb.gradients(wb.reduce_sum(wb.square(outputs)), [x, *wb.trainable_variables()])]
    before, after = shortened(*wanted, feeds=[x])
    assert after[0] < before[0] and after[1] < before[1], "in the loop and in that of its gradient"
    agree(wanted, {x: np.random.default_rng(0).standard_normal((9, 3, 4)).astype(np.float32)})


def test_loops_within_loops_and_second_derivatives():
    x = wb.placeholder("float32", [3])

    def inner(y: Any) -> Any:
        return wb.while_loop(lambda j, y, z: j < 2, lambda j, y, z: (j + 1, y * wb.sin(y), z + y), (0, y, y))[1]
    _, y, _ = wb.while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, inner(y) + x, z * y), (0, x, x))
    [slope] = wb.gradients(wb.reduce_sum(y), x)
    agree([y, slope, *wb.gradients(wb.reduce_sum(wb.square(slope)), x)], {x: np.float32([0.5, 1.0, 1.5])})


@pytest.mark.parametrize("how", ["waited for", "run"])
def test_a_loop_that_is_waited_for_or_run_for_itself_does_all_its_work(how):
    x = wb.placeholder("float32", [2, 2])
    loop = wb.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, wb.matmul(y, y)), (0, x))
    with wb.control_dependencies(loop):
        done = wb.identity(x)
    program = pruned(done, feeds=[x]) if how == "waited for" else prune(x.graph, [], [loop[1].op], {x: x.shape})
    assert unread(program) is program


def test_a_loop_that_is_only_waited_for_runs_and_one_that_ends_at_once_is_as_it_was():
    count = wb.Variable(0)
    i, _ = wb.while_loop(lambda i, z: i < 3, lambda i, z: (i + wb.minimum(1, count.assign_add(1)), z), (0, 1.0))
    with wb.control_dependencies([i]):
        done = wb.constant(7) + 0
    never = wb.while_loop(lambda a, b: False, lambda a, b: (b, a), (1.0, 2.0))
    with Session() as session:
        session.run(count.initializer)
        assert session.run([done, never[0]]) == [7, 1.0]
        assert session.run(count) == 3
