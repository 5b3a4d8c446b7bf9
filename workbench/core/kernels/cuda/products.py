"""Products of matrices by cuBLAS: float32 in float32 arithmetic, never TF32."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.arrays import wide
from workbench.core.kernels.cuda.values import REALS, cupy, kernel, library

__all__ = ["multiplied"]

cublas: Any = library("cupy_backends.cuda.libs.cublas")
_PRODUCTS = {"f": "sgemm", "d": "dgemm"}
_SCALARS = {char: (np.ones(1, char), np.zeros(1, char)) for char in _PRODUCTS}      # cuBLAS reads them where they lie
_LARGEST = 2**31 - 1


def multiplied(a: Any, b: Any, turn_a: bool = False, turn_b: bool = False) -> Any:
    """The product of matrices, either turned first, added up in the wide type, in the dtype of `a`.

    Two matrices in C order go to cuBLAS at once: CuPy's own way there costs the host four times as much.
    """
    if a.ndim == b.ndim == 2 and a.dtype.char in _PRODUCTS and a.flags.c_contiguous and b.flags.c_contiguous and (
            0 < min(a.size, b.size) <= max(a.size, b.size) <= _LARGEST):
        return _product(a, b, turn_a, turn_b)
    a, b = (x.swapaxes(-1, -2) if turn else x for x, turn in ((a, turn_a), (b, turn_b)))
    dtype = wide(a.dtype)
    return cupy.matmul(a.astype(dtype, copy=False), b.astype(dtype, copy=False)).astype(a.dtype, copy=False)


def _product(a: Any, b: Any, turn_a: bool, turn_b: bool) -> Any:
    """cuBLAS counts columns first, so it is given the product of the turned matrices, b first."""
    (m, k), n = a.shape[::-1] if turn_a else a.shape, b.shape[not turn_b]
    out = cupy.empty((m, n), a.dtype)
    one, zero = _SCALARS[a.dtype.char]
    getattr(cublas, _PRODUCTS[a.dtype.char])(
        cupy.cuda.device.get_cublas_handle(), int(turn_b), int(turn_a), n, m, k, one.ctypes.data, b.data.ptr, b.shape[1],
        a.data.ptr, a.shape[1], zero.ctypes.data, out.data.ptr, n)
    return out


@kernel("matmul", "batch_matmul", dtypes=REALS)
def _matmul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    return multiplied(a, b, transpose_a, transpose_b)
