"""The value of fetched IndexedSlices."""
from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["IndexedSlicesValue"]


class IndexedSlicesValue(NamedTuple):
    """Rows, their indices, and the dense shape (or None)."""

    values: Any
    indices: Any
    dense_shape: Any = None
