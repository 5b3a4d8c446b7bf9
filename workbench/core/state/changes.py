"""When which rows of a variable changed last, so that a checkpoint writes again only what did."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["Changes", "told_apart"]

Array = np.ndarray[Any, Any]

BLOCK_BYTES = 4 << 20      # rows are told apart in blocks of about so many bytes


def told_apart(value: Array) -> bool:
    """Are changes of some rows of it told apart?"""
    return value.nbytes >= 2 * BLOCK_BYTES


class Changes:
    """The versions in which a variable changed last: as a whole, and each block of rows since its rows are updated alone.

    A change is noted before it happens, by the one writer that there is. So what is noted no later than the version that
    somebody read is all that he has, and what is noted later he may or may not have.
    """

    def __init__(self) -> None:
        self.whole, self.rows, self._blocks = 0, 0, np.zeros(0, np.int64)      # rows: in a block; 0, nothing is told apart

    def note(self, version: int, value: Array | None, rows: Any = None) -> None:
        """`version` is about to differ from what it follows in these rows of `value` (None: everywhere)."""
        if rows is None or value is None or not told_apart(value):
            self.whole = version
            return
        height = value.shape[0]
        count = max(1, BLOCK_BYTES // (value.nbytes // height))
        if (count, -(-height // count)) != (self.rows, len(self._blocks)):
            self.rows, self._blocks = count, np.zeros(-(-height // count), np.int64)
        self._blocks[rows // self.rows] = version

    def blocks(self, shape: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """(first row, end, version of the last change) of each block of a value of this shape; one of all rows when none are
        told apart."""
        if not shape or not self.rows or math.ceil(shape[0] / self.rows) != len(self._blocks):
            return [(0, shape[0] if shape else 0, self.whole)]
        return [(first, min(first + self.rows, shape[0]), max(self.whole, version))
                for first, version in zip(range(0, shape[0], self.rows), self._blocks.tolist())]
