"""Rounding of float32 to the numbers of 16 bits, which stay float32; passes/widen.py makes it, users cast."""
from __future__ import annotations

import ml_dtypes
import numpy as np

from workbench.core.graph.opdef import op

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
