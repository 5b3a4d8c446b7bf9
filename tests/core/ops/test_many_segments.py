"""Sums of many rows by segment, sorted or not, are those of a loop over the rows."""
from __future__ import annotations

import numpy as np
import pytest

from tests.evaluate import evaluate
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype

pytestmark = pytest.mark.usefixtures("graph")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int8", "uint8", "int64", "complex64"])
@pytest.mark.parametrize("shape", [[20_000], [600, 4, 5]])
def test_sums_of_many_rows(dtype: str, shape: list[int]) -> None:
    rng = np.random.default_rng(8)
    data = rng.integers(0, 5, shape).astype(as_dtype(dtype).numpy)
    ids = rng.integers(-2, 40, shape[0])
    ids[ids == 7] = 8      # a segment without rows
    wanted = np.zeros([41, *shape[1:]], np.complex128 if dtype == "complex64" else np.float64)
    for row, k in zip(data, ids):
        if k >= 0:
            wanted[k] += row.astype(wanted.dtype)
    keep = np.sort(np.append(ids[ids >= 0], 40))[:-1]
    order = np.argsort(ids, kind="stable")[(ids < 0).sum():]
    any_order, sorted_ones = evaluate([ops.unsorted_segment_sum(data, ids, 41), ops.segment_sum(data[order], keep)])
    wanted = wanted.astype(np.int64).astype(data.dtype) if dtype.strip("u").startswith("int") else wanted.astype(data.dtype)
    assert any_order.dtype == sorted_ones.dtype == data.dtype
    assert np.array_equal(any_order, wanted) and np.array_equal(sorted_ones, wanted[:keep[-1] + 1])
