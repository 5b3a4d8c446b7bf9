"""`a.T @ b` for a narrow `b`, as the gradient of a narrow weight is, in compiled loops: alone, or added to the weight."""
from __future__ import annotations

import functools

from workbench.core.kernels.choice import Choice
from workbench.core.kernels.llvm import HEAVY, Program, bind, serves
from workbench.core.kernels.onednn_cost import seconds
from workbench.core.kernels.threads import SERIAL

__all__ = ["COLUMNS", "narrow"]

COLUMNS = 16          # one register holds 16 rows of a column of the product: so many that there are enough of them
MOST_TERMS = 256      # of one sum: more are worth threads, of which these loops have one
USUAL_TERMS = 64      # whether loops serve does not depend on how many there are, so that another batch compiles nothing
LANES = 16
BLOCK = 5             # columns at a time: with vectors of 256 bits they need two of 16 registers each


def narrow(terms: int, rows: int, columns: int, sign: float = 0.0) -> Choice | None:
    """(a [terms, rows], b [terms, columns], out [rows, columns]), or with a `sign` (weight, a, b, scale, out), which may be the
    weight: weight + sign * scale * product. None where there is no LLVM, or so much to do that threads should share it."""
    small = seconds("matmul", [(rows, USUAL_TERMS), (USUAL_TERMS, columns), (rows, columns)]) < SERIAL
    fits = small and 0 < columns <= COLUMNS and rows >= LANES and 0 < terms <= MOST_TERMS
    if not fits or not serves():
        return None
    program, count = Program((_source(columns, sign),), "narrow"), 4 if sign else 2
    return Choice("llvm", (None,) * count, (None,), lambda static: bind(program, (terms, rows), rows * terms > HEAVY),
                  scratch=4 * LANES * columns, inplace={0: 0} if sign else {}, note="narrow product", source=program.sources[0])


def _block(each: range, columns: int) -> list[str]:
    """Lines that leave 16 rows of some columns at their spots."""
    return [*(f"        sum{j} = spread16(0.0)" for j in each),
            "        for t in range(terms):",
            "            x = load16(place(a, t * rows + i))",
            *(f"            sum{j} = sum{j} + x * spread16(b[t * {columns} + {j}])" for j in each),
            *(f"        store16(place(spot, {LANES * j}), sum{j})" for j in each)]


@functools.cache
def _source(columns: int, sign: float) -> str:
    """16 rows of the product at a time: a register a column, to which 16 neighbours of `a` times one of `b` are added."""
    each, added = range(columns), "weight: floats32, " if sign else ""
    place = f"(i + n) * {columns} + "
    old, factor = (f"weight[{place}{{0}}] + factor * ", f"{sign} * scale[0]") if sign else ("", "1.0")
    lines = ["@wide", "@fused",
             f"def narrow({added}a: floats32, b: floats32, {'scale: floats32, ' if sign else ''}out: floats32, spot: floats32, "
             "terms: int64, rows: int64):",
             f"    factor: float32 = {factor}",
             f"    whole = rows // {LANES} * {LANES}",
             f"    for i in range(0, whole, {LANES}):",
             *(line for first in each[::BLOCK] for line in _block(each[first:first + BLOCK], columns)),
             f"        for n in range({LANES}):",      # stores to places apart are slower in vectors
             *(f"            out[{place}{j}] = {old.format(j)}spot[{LANES * j} + n]" for j in each),
             "    n = 0",
             "    for i in range(whole, rows):",
             *(f"        one{j}: float32 = 0.0" for j in each),
             "        for t in range(terms):",
             *(f"            one{j} = one{j} + a[t * rows + i] * b[t * {columns} + {j}]" for j in each),
             *(f"        out[{place}{j}] = {old.format(j)}one{j}" for j in each)]
    return "\n".join(lines) + "\n"
