"""`w + sign * scale * a.T @ b` of few terms, as the gradient of a large weight by a small batch is, in compiled loops."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel
from workbench.core.kernels.llvm import Program, bind, serves
from workbench.core.kernels.team import shared_rows, worth_sharing

__all__ = ["MOST_TERMS", "few"]

Array = np.ndarray[Any, Any]
MOST_TERMS = 16       # so many are added to an element while memory brings the next ones
LARGE = 2 << 20       # elements of the weight: above the caches, where reading and writing it once is all that counts
LANES = 16
CHUNK = 64            # columns at a time, four registers' worth for each of two rows


def few(terms: int, rows: int, columns: int, sign: float) -> Choice | None:
    """(weight [rows, columns], a [terms, rows], b [terms, columns], scale, out), which may be the weight; None where it does
    not fit. An element's bits do not depend on who computes it."""
    fits = 0 < terms <= MOST_TERMS and rows * columns >= LARGE and columns % CHUNK == 0 and rows % 2 == 0
    if not fits or not serves():
        return None
    numbers = terms, columns

    def make(static: tuple[bool, ...]) -> Kernel:
        if worth_sharing(8 * rows * columns):
            loops = shared_rows(Program((_source(),), "few", "team"), rows // 2, numbers)
        else:
            loops = bind(Program((_source(),), "few"), (0, rows // 2, *numbers), True)

        def kernel(weight: Array, a: Array, b: Array, scale: Array, out: Array, spot: Array) -> None:
            room = spot.view(np.float32)
            left, right = (part.reshape(-1, terms, width) for part, width in zip(np.split(room, [a.size]), (2, CHUNK)))
            np.copyto(left, a.reshape(terms, -1, 2).transpose(1, 0, 2))
            np.multiply(b.reshape(terms, -1, CHUNK).transpose(1, 0, 2), np.float32(sign) * scale, out=right)
            loops(weight, left, right, out)
        return kernel
    return Choice("llvm", (None,) * 4, (None,), make, scratch=4 * terms * (rows + columns), inplace={0: 0},
                  note="product of few terms", source=_source())


@functools.cache
def _source() -> str:
    """Two rows of the weight at a time, by chunks. What a pair of rows and what a chunk of columns is multiplied by lies in one
    stretch each: rows of a power of two apart fall into the same places of a cache."""
    each = [(row, LANES * lane) for row in range(2) for lane in range(CHUNK // LANES)]
    lines = ["@wide", "@fused",
             "def few(weight: floats32, left: floats32, right: floats32, out: floats32, first: int64, last: int64, "
             "terms: int64, columns: int64):",
             "    for pair in range(first, last):",
             "        i = 2 * pair",
             f"        for c in range(0, columns, {CHUNK}):",
             "            at = i * columns + c",
             *(f"            sum{r}_{n} = load16(place(weight, at + {r} * columns + {n}))" for r, n in each),
             "            for t in range(terms):",
             *(f"                x{r} = spread16(left[i * terms + 2 * t + {r}])" for r in range(2)),
             *(f"                b{n} = load16(place(right, c * terms + t * {CHUNK} + {n}))" for r, n in each if not r),
             *(f"                sum{r}_{n} = sum{r}_{n} + x{r} * b{n}" for r, n in each),
             *(f"            store16(place(out, at + {r} * columns + {n}), sum{r}_{n})" for r, n in each)]
    return "\n".join(lines) + "\n"
