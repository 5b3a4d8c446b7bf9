"""NumPy arithmetic that families of operations share: sums wider than their elements, rows by number, parts by slices."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.ordered import product

__all__ = ["accumulated", "add_rows", "check_labels", "check_rows", "inside", "lengths", "multiplied", "reduced", "strided_key",
           "wide"]

Array = np.ndarray[Any, Any]
_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type to add up elements of `dtype` in: float32 for floats of 16 bits, whose sums stand still early.

    In bfloat16 256 + 1 is 256, in float16 2048 + 1 is 2048.
    """
    small = dtype.itemsize == 2 and dtype.kind not in "biuSUO"
    return np.dtype(np.float32) if small else dtype


def reduced(ufunc: Any, x: Array, axis: Any = None, keepdims: bool = False, out: Array | None = None) -> Any:
    """`ufunc` (add, multiply) over `axis`, in the wide type, given in that of `x` or written into `out`."""
    dtype = wide(x.dtype)
    if out is not None and dtype == x.dtype:
        return ufunc.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims, out=out)
    result = ufunc.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims).astype(x.dtype, copy=False)
    if out is None:
        return result
    np.copyto(out, result)      # NumPy itself would round to the type of `out` between blocks of its buffer
    return out


def accumulated(ufunc: Any, x: Array, axis: int) -> Array:
    """Running sums or products along `axis`, in the wide type, given in that of `x`."""
    return np.asarray(ufunc.accumulate(x, axis, dtype=wide(x.dtype))).astype(x.dtype, copy=False)


def multiplied(a: Array, b: Array, out: Array | None = None) -> Array:
    """The matrix product, added up in the wide type, given in that of `a` or written into `out`."""
    dtype = wide(a.dtype)
    if out is not None and dtype == a.dtype:
        return product(a, b, out)
    result = product(a.astype(dtype, copy=False), b.astype(dtype, copy=False)).astype(a.dtype, copy=False)
    if out is None:
        return result
    np.copyto(out, result)
    return out


def inside(indices: Array, size: Any) -> bool:
    """Are all indices, which are integers, within 0 … size - 1?"""
    if not indices.size:
        return True
    if size > 1 << 8 * indices.itemsize - 1:      # more than a number with sign can count
        return bool(int(indices.min()) >= 0 and int(indices.max()) < size)
    return bool(int(indices.view(_UNSIGNED[indices.itemsize]).max()) < size)      # below 0 is beyond, as a number without sign


def check_labels(where: str, labels: Array, classes: int) -> None:
    """InvalidArgumentError that names the first label outside 0 … classes - 1."""
    if not inside(labels, classes):
        at = int(np.argmax((labels < 0) | (labels >= classes)))
        raise errors.InvalidArgumentError(f"{where}: Received a label value of {labels[at]} which is outside the valid range "
                                          f"of [0, {classes}): it is labels[{at}], and logits has {classes} classes; use 0 … "
                                          f"{classes - 1}")


def check_rows(where: str, indices: Array, size: int, what: str = "the axis has {} elements") -> None:
    """InvalidArgumentError that names the first of `indices` outside 0 … size - 1; `what` says what has that size."""
    if inside(indices, size):
        return
    at = np.unravel_index(int(np.argmax((indices < 0) | (indices >= size))), indices.shape)
    place = f"[{','.join(map(str, at))}]" if at else ""
    raise errors.InvalidArgumentError(f"{where}: indices{place} = {indices[at]} is not in [0, {size}), since "
                                      f"{what.format(size)}; use 0 … {size - 1}")


def lengths(where: str, vector: Any) -> tuple[int, ...]:
    """The numbers of a vector as lengths of axes; InvalidArgumentError where one is below 0."""
    found = tuple(int(n) for n in np.asarray(vector).reshape(-1))
    if min(found, default=0) < 0:
        raise errors.InvalidArgumentError(f"{where}: a shape is {list(found)} but no axis has a length below 0; use 0 or more")
    return found


def rows_product(values: Array, rows: Array, columns: Array, count: int, b: Array) -> Array:
    """The sparse matrix [count, len(b)] of `values` at (rows, columns) times the matrix b, added up in the wide type."""
    from scipy.sparse import coo_array
    dtype = wide(b.dtype)
    matrix = coo_array((values.astype(dtype, copy=False), (rows, columns)), shape=(count, len(b)))
    return np.asarray(matrix @ b.astype(dtype, copy=False)).astype(b.dtype, copy=False)


def add_rows(out: Array, places: Any, rows: Array) -> None:
    """out[places] += rows in the wide type, where repeated places add up, one after the other in their order."""
    if wide(out.dtype) == out.dtype:
        _add_rows(out, places, rows)
        return
    total = out.astype(wide(out.dtype))
    _add_rows(total, places, rows.astype(total.dtype))
    np.copyto(out, total.astype(out.dtype))


def _add_rows(out: Array, places: Any, rows: Array) -> None:
    """np.add.at takes one element after the other; rows at different places are added together where that is less work."""
    whole = isinstance(places, np.ndarray) and places.ndim == 1 and np.shape(rows) == (*places.shape, *out.shape[1:])
    turns = _turns(places) if whole and out[:1].size >= 16 <= len(places) else []
    if not 0 < 4 * len(turns) <= len(rows):
        np.add.at(out, places, rows)
        return
    for turn in turns:
        out[places[turn]] += rows[turn]


def _turns(places: Array) -> list[Array]:
    """Positions in `places`, apart by how often their value came before: inside a turn no place is repeated."""
    order = np.argsort(places, kind="stable")
    first = np.ones(len(places), bool)
    np.not_equal(places[order[1:]], places[order[:-1]], out=first[1:])
    starts = np.flatnonzero(first)
    if len(starts) == len(places):
        return [np.arange(len(places))]
    before = np.empty(len(places), np.int64)
    before[order] = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
    by_turn = np.argsort(before, kind="stable")
    return np.split(by_turn, np.cumsum(np.bincount(before))[:-1])


def strided_key(begin: Sequence[Any], end: Sequence[Any], strides: Sequence[Any], begin_mask: int, end_mask: int,
                ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int) -> tuple[Any, ...]:
    """The NumPy index that the vectors and bit masks of a strided slice describe."""
    key: list[Any] = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(b)
        else:
            key.append(slice(None if begin_mask & bit else b, None if end_mask & bit else e, s))
    return tuple(key)
