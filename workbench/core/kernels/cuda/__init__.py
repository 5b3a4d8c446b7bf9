"""Kernels for CUDA devices, by family. Importing this registers them; CuPy and other libraries load when one first runs."""
from __future__ import annotations

from workbench.core.kernels.cuda import (
    arrays,
    conv,
    elementwise,
    plain,
    pool,
    products,
    reductions,
    rows,
    softmax,
    state,
    updates,
)

__all__ = ["arrays", "conv", "elementwise", "plain", "pool", "products", "reductions", "rows", "softmax", "state", "updates"]
