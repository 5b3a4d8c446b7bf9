"""What a checkpoint keeps of a queue or an accumulator: a note and columns of arrays, as tensors and back."""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Kept"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Kept:
    """`note` is plain JSON; the arrays of a column have one dtype, each its own shape. `waiting` tells which operations waited
    then, and how many times; it is not kept."""

    note: Mapping[str, Any]
    columns: Sequence[Sequence[Array]]
    dtypes: Sequence[Any]
    waiting: Mapping[str, int] = field(default_factory=dict)

    def tensors(self, name: str) -> list[tuple[str, Array]]:
        """As tensors for a checkpoint: the note, then of each column all elements in one row, and their ranks and shapes."""
        text = json.dumps({**self.note, "columns": len(self.columns)}).encode()
        found = [(name, np.asarray(text, object))]
        for number, (column, dtype) in enumerate(zip(self.columns, self.dtypes)):
            rows = [np.asarray(array).reshape(-1) for array in column]
            shapes = [size for array in column for size in (np.ndim(array), *np.shape(array))]
            found.append((f"{name}:{number}", np.concatenate(rows) if rows else np.empty(0, dtype)))
            found.append((f"{name}:{number}:shapes", np.array(shapes, np.int64)))
        return found

    @staticmethod
    def of(name: str, read: Callable[[str], Array]) -> Kept:
        """What `tensors` made, from what `read` gives by name."""
        note = json.loads(read(name).item())
        columns, dtypes = [], []
        for number in range(note.pop("columns")):
            flat, shapes = read(f"{name}:{number}"), read(f"{name}:{number}:shapes").tolist()
            column, begin, at = [], 0, 0
            while at < len(shapes):
                shape = tuple(shapes[at + 1:at + 1 + shapes[at]])
                end = begin + int(np.prod(shape, dtype=np.int64))
                column.append(flat[begin:end].reshape(shape).copy())
                begin, at = end, at + 1 + shapes[at]
            columns.append(column)
            dtypes.append(flat.dtype)
        return Kept(note, columns, dtypes)
