"""`activation(a @ b + bias)` for a `b` of few columns, as the weight for the logits of ten classes, in compiled loops."""
from __future__ import annotations

import functools

from workbench.core.kernels.choice import Choice
from workbench.core.kernels.llvm import HEAVY, Program, bind, serves
from workbench.core.kernels.onednn_cost import seconds
from workbench.core.kernels.threads import SERIAL

__all__ = ["few_columns"]

LANES = 16
ROWS = 6              # at a time: with vectors of 256 bits their sums need two of 16 registers each
FEWEST_TERMS = 128    # of one sum: fewer are soon over, and each number of columns is compiled once
SHARE = 0.5           # of the time that a library takes for the product on one thread; measured with AVX2, 100x784 by 784x10


def few_columns(rows: int, terms: int, columns: int, bias: bool, activation: str) -> Choice | None:
    """(a [rows, terms], b [terms, columns], and with a `bias` [columns], out [rows, columns]); activation "none" or "relu".
    None where there is no LLVM, or so much to do that threads should share it."""
    small = SHARE * seconds("matmul", [(rows, terms), (terms, columns), (rows, columns)]) < SERIAL
    if not (small and 0 < columns <= LANES and terms >= FEWEST_TERMS) or not serves():
        return None
    program, count = Program((_source(columns, bias, activation),), "columns"), 3 if bias else 2
    return Choice("llvm", (None,) * count, (None,), lambda static: bind(program, (rows, terms), rows * terms > HEAVY),
                  scratch=4 * LANES * (_over(columns) + 2), note="product of few columns", source=program.sources[0])


def _over(columns: int) -> int:
    """So many rows at the end of `b` have no 16 numbers from their first one on."""
    return -(-LANES // columns) - 1


def _block(each: range, columns: int, activation: str) -> list[str]:
    """Lines that compute some rows, whose first one is `i`: 16 numbers from the beginning of a row of `b` on are the row and,
    where nobody looks, some of the next."""
    def added(place: str) -> list[str]:
        return [f"            y = load16(place({place}))",
                *(f"            sum{r} = sum{r} + spread16(a[(i + {r}) * terms + t]) * y" for r in each)]
    finish = "largest(sum{0} + extra, spread16(0.0))" if activation == "relu" else "sum{0} + extra"
    row = LANES * (_over(columns) + 1)
    return [*(f"        sum{r} = spread16(0.0)" for r in each),
            "        for t in range(safe):",
            *added(f"b, t * {columns}"),
            "        for t in range(safe, terms):",
            *added(f"spot, {LANES} * (t - safe)"),
            *(line for r in each for line in (
                f"        store16(place(spot, {row}), {finish.format(r)})",
                *(f"        out[(i + {r}) * {columns} + {j}] = spot[{row + j}]" for j in range(columns))))]


@functools.cache
def _source(columns: int, bias: bool, activation: str) -> str:
    """The spot holds the last rows of `b`, 16 apart, then the bias, then a row of the product."""
    over, given = _over(columns), "bias: floats32, " if bias else ""
    lines = ["@wide", "@fused",
             f"def columns(a: floats32, b: floats32, {given}out: floats32, spot: floats32, rows: int64, terms: int64):",
             f"    safe = terms - {over}",
             "    for t in range(safe, terms):",
             *(f"        spot[{LANES} * (t - safe) + {j}] = b[t * {columns} + {j}]" for j in range(columns)),
             f"    store16(place(spot, {LANES * over}), spread16(0.0))",
             *(f"    spot[{LANES * over + j}] = bias[{j}]" for j in range(columns) if bias),
             f"    extra = load16(place(spot, {LANES * over}))",
             f"    whole = rows // {ROWS} * {ROWS}",
             f"    for i in range(0, whole, {ROWS}):",
             *_block(range(ROWS), columns, activation),
             "    for i in range(whole, rows):",
             *_block(range(1), columns, activation)]
    return "\n".join(lines) + "\n"
