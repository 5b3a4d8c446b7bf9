"""Products of arrays in compiled loops, for what reference kernels multiply in deterministic processes."""
from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Kernel
from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import HEAVY, Program, bind, usable
from workbench.core.kernels.llvm_products import Sizes, compiled
from workbench.core.kernels.team import shared_rows, worth_sharing
from workbench.settings import settings

__all__ = ["ordered"]

Array = np.ndarray[Any, Any]
FEW = 4096           # multiplications of a product in a batch, below which a call for each costs more than they take


def ordered(a: Array, b: Array) -> Array | None:
    """a · b of float32 or float64 matrices in the last two axes, the others broadcast; None where these loops do not serve.

    An element adds up its terms in their order, so its bits depend on their number alone, not on threads.
    """
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    small = rows * depth * columns < FEW and math.prod(lead) > 1
    if small or a.dtype != b.dtype or a.dtype.char not in "fd" or not usable():
        return None
    out = np.empty((*lead, rows, columns), a.dtype)
    left, right = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    for place in itertools.product(*map(range, lead)):
        _into(left[place], right[place], out[place])
    return out


def _into(a: Array, b: Array, out: Array) -> None:
    if a.dtype.char == "d":
        _doubles(*a.shape, b.shape[1], settings.threads)(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
        return
    (x, turn_a), (y, turn_b) = _plain(a), _plain(b)
    _floats(x.shape, y.shape, turn_a, turn_b)(x, y, out)


def _plain(x: Array) -> tuple[Array, bool]:
    """A C-contiguous array, and whether it is the other one turned."""
    if x.flags.f_contiguous and not x.flags.c_contiguous:
        return x.T, True
    return np.ascontiguousarray(x), False


@functools.lru_cache(maxsize=512)
def _floats(a: tuple[int, ...], b: tuple[int, ...], turn_a: bool, turn_b: bool) -> Kernel:
    choice = compiled(Sizes({"transpose_a": turn_a, "transpose_b": turn_b}, a, b))
    assert choice is not None  # there is an LLVM, and no shape is empty
    return choice.make((False,) * 3)


@functools.lru_cache(maxsize=512)
def _doubles(rows: int, depth: int, columns: int, threads: int) -> Kernel:
    text, work = library_source("program_doubles.py"), rows * depth * columns
    if worth_sharing(8 * (rows * depth + depth * columns + rows * columns), work / 4e9):
        return shared_rows(Program((text,), "product", "team"), rows, (depth, columns))
    return bind(Program((text,), "product"), (0, rows, depth, columns), work > HEAVY)
