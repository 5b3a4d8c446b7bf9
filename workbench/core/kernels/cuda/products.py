"""Products of matrices by cuBLAS, through CuPy: float32 strictly, unless CUPY_TF32=1 allows TF32."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.arrays import wide
from workbench.core.kernels.cuda.values import REALS, cupy, kernel

__all__ = ["multiplied"]


def multiplied(a: Any, b: Any) -> Any:
    """The product of matrices, added up in the wide type, in the dtype of `a`."""
    dtype = wide(a.dtype)
    return cupy.matmul(a.astype(dtype, copy=False), b.astype(dtype, copy=False)).astype(a.dtype, copy=False)


def _turned(a: Any, flag: bool) -> Any:
    return a.swapaxes(-1, -2) if flag else a


@kernel("matmul", "batch_matmul", dtypes=REALS)
def _matmul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    return multiplied(_turned(a, transpose_a), _turned(b, transpose_b))
