"""The largest k of a long axis: the same elements in the same order as the first k of all of it, sorted."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluate import evaluate
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype

pytestmark = pytest.mark.usefixtures("graph")
RNG = np.random.default_rng(3)


def first_of_all(x: Any, k: int) -> Any:
    """The positions in falling order, NaN first, of equals the first first: by Python's stable sort."""
    rows = [sorted(range(x.shape[-1]), key=lambda i: (0.0, 0.0) if row[i] != row[i] else (1.0, -float(row[i])))[:k]
            for row in x.reshape(-1, x.shape[-1])]
    return np.array(rows, np.int32).reshape(*x.shape[:-1], k)


@pytest.mark.parametrize("k", [0, 1, 4, 9, 20, 41])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("values", [2, 100], ids=["ties", "few ties"])
def test_the_largest_of_a_long_axis(dtype: str, k: int, values: int) -> None:
    x = RNG.integers(0, values, [2, 3, 41]).astype(as_dtype(dtype).numpy)
    found, places = evaluate(ops.top_k(x, k))
    assert np.array_equal(places, first_of_all(x, k)) and places.dtype == np.int32
    assert np.array_equal(found, np.take_along_axis(x, places, -1)) and found.dtype == x.dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, -0.0])
def test_what_is_no_number_keeps_its_place(dtype: str, odd: float) -> None:
    x = RNG.integers(-2, 2, [4, 50]).astype(dtype)
    x[0, [7, 30]], x[1, 49], x[2] = odd, odd, odd
    found, places = evaluate(ops.top_k(x, 3))
    assert np.array_equal(places, first_of_all(x, 3))
    assert np.array_equal(found, np.take_along_axis(x, places, -1), equal_nan=True)


def test_no_rows() -> None:
    found, places = evaluate(ops.top_k(np.zeros([0, 30], np.float32), 2))
    assert found.shape == places.shape == (0, 2)
