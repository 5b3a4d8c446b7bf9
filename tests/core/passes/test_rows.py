"""Rows of a large tensor: the same memory, and one matrix again where gradients of all of them meet."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds, program
from workbench.core.graph.build import ops
from workbench.core.passes.rows import FEWEST, rows

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("graph")]
WIDTH = 64
SIZE = 2 * FEWEST // WIDTH + 3
CUTS = [(slice(None, SIZE // 2), True), (slice(3, -1), True), (slice(None, SIZE // 2, 2), False), (slice(1, 3), False),
        ((slice(None), slice(1, None)), False), ((slice(4, None), slice(None)), True), (slice(None, None, -1), False),
        ((slice(4, None), None), False)]


def source():
    return ops.placeholder("float32", [SIZE, WIDTH]), np.arange(SIZE * WIDTH, dtype=np.float32).reshape(SIZE, WIDTH)


@pytest.mark.parametrize(("key", "whole"), CUTS, ids=str)
def test_whole_rows_are_the_same_memory_and_all_else_is_copied(key, whole):
    x, value = source()
    taken = x[key]
    assert kinds(rows(program(taken, feeds={x: value})))["row_block"] == whole
    with wb.Session() as session:
        np.testing.assert_array_equal(session.run(taken, {x: value}), value[key])


def test_a_fetched_slice_is_the_callers_own():
    x, value = source()
    with wb.Session() as session:
        run = session.make_callable(x[1:], [x])
        first = run(value)
        first[:] = 0.0
        np.testing.assert_array_equal(run(value), value[1:])


@pytest.mark.parametrize(("cuts", "joined"), [([10, 40], True), ([10], True), ([], False)])
def test_gradients_of_all_rows_are_put_together(cuts, joined):
    x, value = source()
    bounds = [0, *cuts, SIZE]
    parts = [x[a:b] for a, b in itertools.pairwise(bounds)]
    dx, = wb.gradients([ops.reduce_sum(ops.sin(part) * (i + 2.0)) for i, part in enumerate(parts[::-1])], [x])
    after = kinds(rows(program(dx, feeds={x: value})))
    assert (after["concat"], after["strided_slice_grad"]) == ((1, 0) if joined else (0, 1))
    with wb.Session() as on, wb.Session(disabled_passes=["rows"]) as off:
        np.testing.assert_array_equal(on.run(dx, {x: value}), off.run(dx, {x: value}))


@pytest.mark.parametrize("bounds", [[(0, 40), (30, SIZE)], [(0, 30), (40, SIZE)]])
def test_gradients_that_overlap_or_leave_rows_out_are_added(bounds):
    x, value = source()
    dx, = wb.gradients([ops.reduce_sum(ops.sin(x[a:b])) for a, b in bounds], [x])
    assert kinds(rows(program(dx, feeds={x: value})))["strided_slice_grad"] == 2
    with wb.Session() as session:
        wanted = sum(np.pad(np.cos(value[a:b]), ((a, SIZE - b), (0, 0))) for a, b in bounds)
        np.testing.assert_allclose(session.run(dx, {x: value}), wanted, rtol=1e-5, atol=1e-5)
