"""Buffers share memory only when nobody needs both: offsets, lifetimes, and plans that run on poisoned memory."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench.core.ops  # noqa: F401
from tests.core.random_graphs import build, recipes
from tests.evaluate import evaluate
from tests.growth import growth
from workbench.core.compile.forms import Instruction
from workbench.core.compile.instance import Instance
from workbench.core.compile.memory import Block, assign_offsets
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.graph.shape import Shape
from workbench.core.kernels.choice import ALIGNMENT
from workbench.core.passes.pipeline import DEVICE_PASSES, run_passes
from workbench.core.passes.prune import prune
from workbench.core.run.session import Session
from workbench.core.state.container import Container

CPU = "/job:localhost/task:0/device:CPU:0"

lifetimes = st.builds(lambda size, first, length: (size, first, first + length), st.integers(0, 5000),
                      st.integers(0, 30), st.integers(0, 12))


@given(st.lists(lifetimes, max_size=40))
def test_blocks_alive_at_once_never_overlap(cases):
    blocks = [Block(key, *case) for key, case in enumerate(cases)]
    layout = assign_offsets(blocks)
    assert all(offset % ALIGNMENT == 0 for offset in layout.offsets.values())
    for one in blocks:
        assert layout.offsets[one.key] + one.nbytes <= layout.size
        for other in blocks:
            if one.key < other.key and one.first <= other.last and other.first <= one.last:
                a, b = layout.offsets[one.key], layout.offsets[other.key]
                assert a + one.nbytes <= b or b + other.nbytes <= a


@given(st.lists(lifetimes, min_size=1, max_size=40))
def test_the_arena_is_no_larger_than_all_blocks_and_no_smaller_than_the_busiest_moment(cases):
    blocks = [Block(key, *case) for key, case in enumerate(cases)]
    size = assign_offsets(blocks).size
    rounded = [(b, -(-b.nbytes // ALIGNMENT) * ALIGNMENT) for b in blocks]
    assert size <= sum(n for _, n in rounded)
    assert size >= max(sum(b.nbytes for b in blocks if b.first <= t <= b.last) for t in range(45))


def training(count: int) -> list[Block]:
    """Small blocks as training has them: activations live until their gradient, and each has short-lived neighbours."""
    sizes = np.random.default_rng(count).integers(1, 5000, 2 * count).tolist()
    kept = [Block(i, sizes[i], i, 2 * count - i) for i in range(count)]
    return kept + [Block(count + i, sizes[count + i], 2 * i, 2 * i + 3) for i in range(count)]


def busiest(blocks: list[Block]) -> int:
    """The bytes alive at the busiest moment: no arena is smaller."""
    change = np.zeros(max(b.last for b in blocks) + 2, np.int64)
    for b in blocks:
        change[b.first] += -(-b.nbytes // ALIGNMENT) * ALIGNMENT
        change[b.last + 1] -= -(-b.nbytes // ALIGNMENT) * ALIGNMENT
    return int(np.cumsum(change).max())


def test_many_blocks_never_overlap_and_waste_little():
    blocks = training(2000)
    layout = assign_offsets(blocks)
    ends = sorted((b.first, b.last, layout.offsets[b.key], b.nbytes) for b in blocks)
    start, stop = (np.array([e[2] for e in ends]), np.array([e[2] + e[3] for e in ends]))
    first, last = np.array([e[0] for e in ends]), np.array([e[1] for e in ends])
    for i in range(len(ends)):
        together = (first <= last[i]) & (first[i] <= last) & (start < stop[i]) & (start[i] < stop)
        assert np.flatnonzero(together).tolist() == [i]
    assert busiest(blocks) <= layout.size <= 1.05 * busiest(blocks)


def test_planning_memory_is_linear():
    assert growth(lambda size: functools.partial(assign_offsets, training(size)), 2000) < 2.3


def test_blocks_one_after_the_other_share_one_place():
    layout = assign_offsets([Block(i, 1000, 2 * i, 2 * i + 1) for i in range(10)])
    assert set(layout.offsets.values()) == {0} and layout.size == 1024


def plan_of(fetches: Any, feeds: dict[Any, Any], disabled: tuple[str, ...] = ()) -> Plan:
    graph = next(iter(feeds)).graph
    program = prune(graph, fetches, [], {t: Shape(np.shape(v)) for t, v in feeds.items()})
    program = run_passes(run_passes(program, disabled), disabled, stages=DEVICE_PASSES)
    return compile_plan(program)


def test_a_long_chain_needs_two_buffers_not_one_per_operation():
    with Graph().as_default():
        x = ops.placeholder("float32", [64, 64])
        y = x
        for _ in range(10):
            y = ops.matmul(y, x)
        plan = plan_of([y], {x: np.zeros((64, 64))})
    places = [offset for key, offset in plan.offsets.items() if "scratch" not in plan.values[key].name]
    assert len(places) == 9 and len(set(places)) == 2 and plan.arena_bytes < 3 * 64 * 64 * 4


class Poisoned(Instance):
    """Fills every byte that no live buffer holds with NaN, before the first line and after each.

    When a buffer lives is found here again, from the lines alone.
    """

    def __init__(self, plan: Plan, container: Container) -> None:
        lines = [line for code in plan.codes for line in code.block.lines]
        self._lives: dict[int, tuple[int, int]] = {}
        for position, line in enumerate(lines):
            assert isinstance(line, Instruction), "straight plans only"
            for value in line.values:
                self._live(value.roots, position)
        for code in plan.codes:
            for value in code.block.results:
                self._live(value.roots, len(lines))
        super().__init__(plan, container, CPU, traced=True)
        self.poison(-1)

    def _live(self, roots: Any, position: int) -> None:
        for key in roots:
            self._lives[key] = self._lives.get(key, (position,))[0], position

    def _objects(self) -> dict[str, Any]:
        return {**super()._objects(), "mark": lambda index, moment: self.poison(index)}

    def poison(self, done: int) -> None:
        free = np.ones(self.arena.memory.size, bool)
        for key, (first, last) in self._lives.items():
            if first <= done < last:
                start = self.plan.offsets[key]
                free[start:start + self.plan.values[key].spec.nbytes] = False
        self.arena.memory[free] = 0xFF


DISABLED = [(), ("fuse",), ("epilogue",), ("fold", "algebra", "cse", "join", "epilogue", "fuse")]


@settings(max_examples=40, deadline=None)
@given(recipes(), st.sampled_from(DISABLED))
def test_results_do_not_depend_on_dead_memory(recipe, disabled):
    with Graph().as_default():
        fetches, feeds = build(recipe)
        plan = plan_of(fetches, feeds, disabled)
    instance = Poisoned(plan, Container())
    expected = evaluate(fetches, feeds)
    for _ in range(2):
        results = instance.run(*feeds.values())
        instance.poison(1 << 30)
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(recipes(most=20), st.sampled_from(DISABLED[1:]))
def test_passes_off_and_on_agree(recipe, disabled):
    with Graph().as_default() as graph:
        fetches, feeds = build(recipe)
    with Session(graph=graph) as on, Session(graph=graph, disabled_passes=disabled) as off:
        for found, wanted in zip(on.run(fetches, feeds), off.run(fetches, feeds), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


# lifetimes around loops: the buffers are those of matmul, which is never written in place

@pytest.fixture
def squares():
    with Graph().as_default() as graph:
        x = ops.placeholder("float32", [2, 2])
        n = ops.placeholder("int32", [])
        yield graph, x, n


X = np.array([[0.5, -0.25], [0.125, 0.75]], np.float32)


def check(graph, fetch, feeds, expected):
    for lower_all in (False, True):
        with Session(graph=graph, lower_all=lower_all) as s:
            for _ in range(2):
                np.testing.assert_allclose(s.run(fetch, feeds), expected, rtol=1e-5)


def test_a_buffer_read_in_a_loop_lives_to_its_end(squares):
    graph, x, n = squares
    kept = ops.matmul(x, x)
    y = ops.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, ops.matmul(ops.matmul(a, kept), x)), [0, x])[1]
    c = X @ X
    check(graph, ops.matmul(y, y), {x: X, n: 3}, np.linalg.matrix_power(
        X @ np.linalg.matrix_power(c @ X, 3), 2))


def test_a_loop_may_exchange_its_variables(squares):
    graph, x, n = squares
    one, other = ops.matmul(x, x), ops.matmul(x + 1.0, x)
    a, b = ops.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a), [0, one, other])[1:]
    later = ops.matmul(ops.matmul(x, x + 2.0), x)
    for count in (0, 1, 2, 3):
        first, second = (X @ X, (X + 1) @ X) if count % 2 == 0 else ((X + 1) @ X, X @ X)
        check(graph, ops.matmul(ops.matmul(a, later), b), {x: X, n: count}, first @ (X @ (X + 2) @ X) @ second)


def test_a_loop_keeps_what_it_took_from_outside(squares):
    graph, x, n = squares
    kept = ops.matmul(x, x)
    y = ops.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, ops.transpose(kept)), [0, x])[1]
    later = ops.matmul(ops.matmul(kept, kept + 1.0), kept)
    c = X @ X
    check(graph, ops.matmul(y, later), {x: X, n: 2}, c.T @ (c @ (c + 1) @ c))


def test_branches_inside_loops(squares):
    graph, x, n = squares
    kept, spare = ops.matmul(x, x), ops.matmul(x, x + 1.0)
    y = ops.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, ops.cond(
        ops.equal(ops.floormod(i, 2), 0), lambda: ops.matmul(a, kept), lambda: spare)), [0, x])[1]
    later = ops.matmul(ops.matmul(x, x), ops.matmul(x + 3.0, x))
    after = {0: X, 1: X @ (X @ X), 2: X @ (X + 1), 3: X @ (X + 1) @ (X @ X)}
    for count, value in after.items():
        check(graph, ops.matmul(y, later), {x: X, n: count}, value @ (X @ X @ ((X + 3) @ X)))


def test_a_loop_may_end_with_a_view_made_before_it(squares):
    """The view is read before the loop as a line, and in the loop only as a result."""
    graph, x, n = squares
    view = ops.reshape(ops.reshape(x, [4]), [2, 2])
    first = ops.matmul(view, view)
    y = ops.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, view), [0, first])[1]
    for count, value in {0: X @ X, 2: X}.items():
        check(graph, ops.matmul(y, first), {x: X, n: count}, value @ (X @ X))
