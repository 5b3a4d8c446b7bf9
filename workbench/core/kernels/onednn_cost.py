"""How long a primitive would take on one thread, by its shapes: whether sharing it between threads can pay."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

__all__ = ["seconds"]

OPERATIONS: Final = 50e9
"""Multiplications and additions of one core in a second: between AVX2 and AVX-512, and the same on every machine, so that
the plan of a graph does not depend on the instruction set."""
BYTES: Final = 10e9
"""Bytes that one core reads and writes in a second."""


def seconds(family: str, shapes: Sequence[tuple[int, ...]]) -> float:
    """`shapes` are those of the primitive's descriptors in the order of its C constructor, absent ones left out."""
    moved = 4 * sum(map(math.prod, shapes))
    return _operations(family, shapes) / OPERATIONS + moved / BYTES


def _operations(family: str, shapes: Sequence[tuple[int, ...]]) -> float:
    if family == "matmul":
        return 2.0 * math.prod(shapes[0]) * shapes[1][-1]
    if family.startswith("inner_product"):
        return 2.0 * math.prod(shapes[0]) * shapes[1][0]
    if family.startswith("convolution"):
        groups = len(shapes[1]) - len(shapes[0])      # filters of grouped convolutions have an axis more
        return 2.0 * math.prod(shapes[-1]) * math.prod(shapes[1][1 + groups:])
    return 0.0
