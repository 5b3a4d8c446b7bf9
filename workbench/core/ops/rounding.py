"""Rounding of float32 to the numbers of 16 bits, which stay float32; passes/widen.py makes it, users cast."""
from __future__ import annotations

import ml_dtypes
import numpy as np

from workbench.core.graph.opdef import op


def _into(x, out):
    np.copyto(out, x, casting="unsafe")


_SIGNATURE, _TYPES = "x[...] -> [...]", "float32 -> float32"


@op(_SIGNATURE, types=_TYPES, elementwise="bfloat16(x)", differentiable=False)
def rounded_to_bfloat16(x):
    """The nearest number of bfloat16, halves to the even one: what a cast there and back gives."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


@op(_SIGNATURE, types=_TYPES, elementwise="float16(x)", differentiable=False)
def rounded_to_float16(x):
    """The nearest number of float16, halves to the even one: what a cast there and back gives, with infinities from 65520."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


@op(_SIGNATURE, types="float32 -> bfloat16", elementwise="bfloat16(x)", into=_into, differentiable=False)
def bfloat16_of(x):
    """The nearest number of bfloat16, halves to the even one: a cast that joins what computes x."""
    return x.astype(ml_dtypes.bfloat16)


@op(_SIGNATURE, types="bfloat16 -> float32", elementwise="x", into=_into, differentiable=False)
def float32_of(x):
    """The same numbers in float32: a cast that joins what reads it."""
    return x.astype(np.float32)
