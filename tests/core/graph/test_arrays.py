"""Rows that are added to others by number: every row counts, in the order of the rows, however often a place is named."""
from __future__ import annotations

import numpy as np
import pytest

from workbench.core.graph.arrays import add_rows, inside

random = np.random.default_rng(3)


@pytest.mark.parametrize("places", [
    np.arange(40), np.zeros(40, np.int64), random.integers(0, 50, 300), random.integers(0, 3, 200),
    np.array([], np.int64), np.array([7]), np.tile(np.arange(20), 2).astype(np.int32)],
    ids=["all different", "all one", "few repeated", "most repeated", "none", "one", "twice each"])
@pytest.mark.parametrize("width", [(), (3,), (32,), (4, 8)], ids=str)
def test_rows_add_up_as_one_after_the_other(places, width):
    out = random.standard_normal((50, *width)).astype(np.float32)
    rows = random.standard_normal((len(places), *width)).astype(np.float32)
    wanted = out.copy()
    for place, row in zip(places, rows):
        wanted[place] += row
    add_rows(out, places, rows)
    np.testing.assert_array_equal(out, wanted)


def test_sums_of_half_precision_are_rounded_once():
    out = np.zeros((50, 32), np.float16)
    add_rows(out, np.zeros(4000, np.int64), np.full((4000, 32), 0.25, np.float16))
    assert out[0].tolist() == [1000.0] * 32


def test_one_row_for_all_places_and_places_on_two_axes():
    out = np.zeros((50, 32), np.float32)
    add_rows(out, np.arange(20), np.ones(32, np.float32))
    add_rows(out, (np.array([0, 0]), np.array([1, 1])), np.array([1.0, 2.0], np.float32))
    assert out[:20].sum() == 20 * 32 + 3 and out[0, 1] == 4


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_indices_of_every_integer_type_are_looked_at_from_both_ends(dtype):
    ends = [0, 1, 99, 100, 127, np.iinfo(dtype).min, np.iinfo(dtype).max]
    for number in ends:
        for found in (np.array(number, dtype), np.array([[5, number], [0, 7]], dtype).T, np.array([3, number], dtype)[::-1]):
            assert inside(found, 100) == (0 <= number < 100) and inside(found, 2 ** 63) == (0 <= number < 2 ** 63)
    assert inside(np.empty(0, dtype), 0)
