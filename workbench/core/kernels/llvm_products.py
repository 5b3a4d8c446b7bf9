"""Products of matrices in compiled loops: with a bias and ReLU, added to a matrix, or folded into an update of a weight."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.kernels.choice import Choice, Kernel
from workbench.core.kernels.llvm import Program, bind, serves, wide
from workbench.core.kernels.onednn_cost import seconds
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.product_source import LANES, Form, source
from workbench.core.kernels.team import shared_rows
from workbench.core.kernels.threads import get_threads, threads_for

__all__ = ["Sizes", "block", "compiled", "usual"]

LIGHT = 1 << 18       # multiplications, up to which a kernel keeps the interpreter's lock
USUAL = range(64, 257)
"""Rows, or terms of a turned left side, with which these loops take 0.55 to 1.03 of the time that oneDNN takes with vectors of
256 bits (AMD, one and two threads, 128x128 to 4096x2048); with fewer or more, and other sides turned, up to 1.4."""
TURNED_WEIGHT = 1 << 18      # elements of the product of a turned left side, up to which that is so
WIDE_WEIGHT, WIDE_SHARED = 1 << 16, 784 * 512
"""Elements of a weight, up to which its update takes 0.57 to 0.97 of the time that oneDNN takes with vectors of 512 bits (AMD,
64 to 256 terms), on one thread and on several; larger ones up to 1.2, all other products 0.96 to 1.1."""
PANELS = 4            # so many for each thread share well: threads then pack no column twice


class Sizes:
    """Shapes of `op(a) @ op(b)`: `rows` x `depth` times `depth` x `columns`."""

    def __init__(self, attributes: Mapping[str, Any], a: Sequence[int], b: Sequence[int]) -> None:
        self.a, self.b = tuple(a), tuple(b)
        self.turn_a = bool(attributes.get("transpose_a", False))
        self.turn_b = bool(attributes.get("transpose_b", False))
        self.rows, self.depth = self.a[::-1] if self.turn_a else self.a
        self.columns = self.b[0 if self.turn_b else 1]


def compiled(product: Sizes, begin: str = "", relu: bool = False, sign: float = 0.0) -> Choice | None:
    """(a, b, out); with `begin` "bias" or "start" (a, b, what is added, out); with a `sign` (weight, a, b, scale, out), which
    may be the weight: weight + sign * scale * product. None where there is no LLVM.

    Bits depend on the number of terms alone: neither on threads, nor on the model of the processor.
    """
    rows, depth, columns = product.rows, product.depth, product.columns
    if not rows * depth * columns or not serves():
        return None
    form = Form(product.turn_a, product.turn_b, begin, relu, sign, *block(rows))
    panels, blocks = -(-columns // form.width), -(-rows // form.rows)
    shared = threads_for(seconds("matmul", [(rows, depth), (depth, columns), (rows, columns)])) > 1 and runtime() is not None
    by_rows = panels < PANELS * get_threads() and blocks > panels
    numbers = int(by_rows), rows, depth, columns

    def make(static: tuple[bool, ...]) -> Kernel:
        parts = blocks if by_rows else panels
        if shared:
            return shared_rows(Program((source(form),), "product", "team"), parts, numbers)
        return bind(Program((source(form),), "product"), (0, parts, *numbers), rows * depth * columns > LIGHT)
    count = 4 if sign else 3 if begin else 2
    return Choice("llvm", (None,) * count, (None,), make, inplace={0: 0} if sign else {}, note="compiled product",
                  source=source(form))


def usual(product: Sizes, update: bool = False) -> bool:
    """Do these loops serve where nothing was measured, for a product alone or for the `update` of a weight by it?"""
    terms, elements = product.depth if product.turn_a else product.rows, product.rows * product.columns
    if wide():
        fits = update and product.turn_a and elements <= (WIDE_SHARED if get_threads() > 1 else WIDE_WEIGHT)
    else:
        fits = not product.turn_a or (terms >= 128 and elements <= TURNED_WEIGHT)
    return terms in USUAL and fits and not product.turn_b and product.columns % LANES == 0


def block(rows: int) -> tuple[int, int]:
    """Rows and vectors of 16 columns of a block whose sums fill the registers."""
    if rows == 1:
        return 1, 4
    return (8, 2) if wide() else (4, 1)
