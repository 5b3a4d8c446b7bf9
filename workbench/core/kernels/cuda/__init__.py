"""Kernels for CUDA devices, by family. Importing this registers them; CuPy and other libraries load when one first runs."""
from __future__ import annotations

from workbench.core.kernels.cuda import arrays, conv, elementwise, plain, pool, products, reductions, rows, softmax, state
from workbench.core.kernels.cuda import updates as _updates

__all__ = ["arrays", "conv", "elementwise", "plain", "pool", "products", "reductions", "rows", "softmax", "state"]

del _updates
