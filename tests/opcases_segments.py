"""Rows of the segment families and of scattered and counted values, by loops over the rows."""
from __future__ import annotations

import numpy as np

from tests.opcase import A, Array, case, ints, reals

DATA, IDS, MIXED = reals(5, 2), ints(0, 0, 1, 3, 3), ints(2, 0, -1, 2, 4)
REDUCE = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean,
          "sqrt_n": lambda rows, axis: rows.sum(axis) / np.sqrt(len(rows))}
SORTED_EMPTY = {"prod": 1.0}


def by_segment(kind: str, rows: Array, ids: Array, count: int, empty: float) -> Array:
    out = np.full((count, *rows.shape[1:]), empty)
    for k in range(count):
        if (ids == k).any():
            out[k] = REDUCE[kind](rows[ids == k], axis=0)
    return out


for _kind in ("sum", "prod", "max", "min", "mean"):
    case(f"segment_{_kind}", DATA, IDS, partial=True,
         value=lambda x, i, k=_kind: by_segment(k, x, i, 4, SORTED_EMPTY.get(k, 0.0)))
for _kind in REDUCE:
    case(f"unsorted_segment_{_kind}", DATA, ints(1, 0, -1, 1, 0), attrs={"num_segments": 2},
         value=lambda x, i, k=_kind: by_segment(k, x, i, 2, 0.0))
    if _kind not in ("max", "min"):      # an empty one is then the lowest or highest number of each type
        case(f"unsorted_segment_{_kind}", DATA, MIXED, attrs={"num_segments": 5}, order=1, small=False, label="empty",
             value=lambda x, i, k=_kind: by_segment(k, x, i, 5, SORTED_EMPTY.get(k, 0.0)))
    case(f"unsorted_segment_{_kind}", A, ints([0, 1, 0], [1, 1, 0]), attrs={"num_segments": 2}, label="matrix",
         value=lambda x, i, k=_kind: by_segment(k, x.reshape(-1), i.reshape(-1), 2, 0.0))
case("segment_mean", ints([1, 2], [4, 5], [-7, 1]), ints(0, 0, 2), partial=True, label="int",
     value=lambda x, i: np.array([[2, 3], [0, 0], [-7, 1]]))
case("segment_prod", np.array([[2.0, 0], [0, 0], [3, 5]]), ints(0, 0, 0), partial=True, order=1, label="zeros",
     value=lambda x, i: x.prod(0, keepdims=True))
case("chosen_rows", DATA, ints(4, 0, 0), value=lambda x, i: x[i])
for _kind in ("sum", "mean", "sqrt_n"):
    case(f"sparse_segment_{_kind}", DATA, ints(4, 0, 2, 4), ints(0, 0, 1, 3), partial=True,
         value=lambda x, i, s, k=_kind: by_segment(k, x[i], s, 4, 0.0))
    case(f"sparse_segment_{_kind}", DATA, ints(4, 0, 2, 4), ints(0, 0, 1, 3), attrs={"num_segments": 6}, label="count",
         value=lambda x, i, s, k=_kind: by_segment(k, x[i], s, 6, 0.0))
