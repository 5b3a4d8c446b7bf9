"""Rows by number: taken, and added up by the number of their segment, always in the same order."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from workbench.core.graph.arrays import check_rows
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import registry
from workbench.core.kernels.cuda.text import PREAMBLE, TYPES
from workbench.core.kernels.cuda.values import ALL, cupy, down, kernel, on_device, up

__all__ = ["FOLDS", "by_segment"]

FOLDS = {"sum": "total + v", "prod": "total * v", "max": "largest(total, v)", "min": "smallest(total, v)"}
"""How a row joins those before it."""


def source(fold: str, dtype: str) -> str:
    """Element `i` of the result: the rows `order[starts[k]:starts[k + 1]]` of segment k, one after the other."""
    number = TYPES[dtype]
    return f"""
        long long k = i / width, j = i % width;
        {number} total = ({number})out;
        for (long long at = starts[k]; at < starts[k + 1]; at++) {{
            {number} v = ({number})rows[order[at] * width + j];
            total = {FOLDS[fold]};
        }}
        out = total;"""


@functools.cache
def _kernel(fold: str, dtype: str) -> Any:
    return cupy.ElementwiseKernel(f"raw {dtype} rows, raw int64 order, raw int64 starts, int64 width", f"{dtype} out",
                                  source(fold, dtype), f"wb_segment_{fold}", preamble=PREAMBLE)


def by_segment(fold: str, out: Any, ids: Any, rows: Any) -> None:
    """Row ids[i] of `out` [count, ...] is joined with row i of `rows`, in the order of i; ids below 0 are left out.

    The order makes the sums the same in every run, which additions in memory would not be.
    """
    width = out[0].size if len(out) else 0
    if not width or not ids.size:
        return
    library = cupy if on_device(ids) else np
    flat = ids.reshape(-1).astype(np.int64, copy=False)
    order = library.argsort(flat, kind="stable")
    starts = library.searchsorted(flat[order], library.arange(len(out) + 1))
    order, starts = (up(each.astype(np.int64, copy=False)) for each in (order, starts))
    _kernel(fold, out.dtype.name)(rows, order, starts, width, out)


def _unsorted(fold: str) -> None:
    name = f"unsorted_segment_{fold}"
    empty = {"sum": lambda dtype: 0, "prod": lambda dtype: 1, "max": lambda dtype: as_dtype(dtype).min,
             "min": lambda dtype: as_dtype(dtype).max}[fold]

    @kernel(name, either=("segment_ids",), host=("num_segments",))
    def run(data: Any, segment_ids: Any, num_segments: Any) -> Any:
        count = int(num_segments)
        if segment_ids.size and int(segment_ids.max()) >= count:
            return registry[name].reference(down(data), down(segment_ids), num_segments)      # says so
        out = cupy.full((count, *data.shape[segment_ids.ndim:]), empty(data.dtype), data.dtype)
        by_segment(fold, out, segment_ids, data)
        return out


for _fold in FOLDS:
    _unsorted(_fold)


@kernel("gather", dtypes=ALL, either=("indices",))
def _gather(params: Any, indices: Any, *, axis: int) -> Any:
    check_rows("gather", indices, params.shape[axis])      # indices of the device are waited for
    return cupy.take(up(params), up(indices), axis)
