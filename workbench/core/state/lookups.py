"""Tables of keys and values in memory: filled once, from tensors or a file, and looked up from then on."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType

__all__ = ["LINE_NUMBER", "WHOLE_LINE", "Table"]

Array = np.ndarray[Any, Any]
WHOLE_LINE, LINE_NUMBER = -2, -1      # what of a line is a key or a value, beside its columns 0, 1, …


class Table:
    """Values of dtype `value_dtype` by keys of dtype `key_dtype` (strings are bytes)."""

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType) -> None:
        self.name, self.key_dtype, self.value_dtype = name, key_dtype, value_dtype
        self._found: dict[Any, Any] | None = None
        self._lock = threading.Lock()

    def size(self) -> int:
        """How many keys it has. FailedPreconditionError before it is filled."""
        return len(self._filled())

    def find(self, keys: Array, default: Any) -> Array:
        """The value of each key, `default` where it has none, in the shape of `keys`. FailedPreconditionError before it is
        filled."""
        found, other = self._filled(), default.item() if isinstance(default, np.ndarray) else default
        flat = np.asarray(keys).reshape(-1).tolist()
        values = np.empty(len(flat), self.value_dtype.numpy)
        values[:] = [found.get(key, other) for key in flat]
        return values.reshape(np.shape(keys))

    def fill(self, keys: Array, values: Array) -> None:
        """Take keys [n] and their values [n]; the same ones again change nothing. FailedPreconditionError where it has others
        already, or one key has two values."""
        if np.shape(keys) != np.shape(values):
            raise errors.InvalidArgumentError(f"table {self.name!r}: {np.size(keys)} keys have {np.size(values)} values; give "
                                              "each key one value")
        self._take(list(zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist())), False)

    def fill_from(self, path: str, key: int, value: int, most: int, delimiter: str) -> None:
        """Take the lines of a text file, the first `most` of them unless that is -1: of each line its columns `key` and
        `value`, WHOLE_LINE or LINE_NUMBER. A table that is filled already stays as it is.

        NotFoundError where there is no such file, InvalidArgumentError where it has too few lines, too few columns or no
        numbers where numbers are wanted.
        """
        if self._found is None:
            lines = list(_lines(path, most))
            if most >= 0 and len(lines) < most:
                raise errors.InvalidArgumentError(f"table {self.name!r}: Invalid vocab_size: it is {most} but {path!r} has "
                                                  f"{len(lines)} lines; leave it out")
            self._take([(_part(path, number, line, key, delimiter, self.key_dtype),
                         _part(path, number, line, value, delimiter, self.value_dtype))
                        for number, line in enumerate(lines)], True)

    def _take(self, pairs: list[tuple[Any, Any]], again: bool) -> None:
        if not pairs:
            raise errors.InvalidArgumentError(f"table {self.name!r}: keys and values cannot be empty; give at least one")
        found: dict[Any, Any] = {}
        for key, value in pairs:
            if found.setdefault(key, value) != value:
                raise errors.FailedPreconditionError(f"table {self.name!r}: HashTable has different value for same key. "
                                                     f"Key {key!r} has {found[key]!r} and trying to add value {value!r}; keep "
                                                     "one")
        with self._lock:
            if self._found not in (None, found) and not again:
                raise errors.FailedPreconditionError(f"table {self.name!r}: Table already initialized with different data; "
                                                     "make a table for each")
            self._found = found if self._found is None else self._found

    def _filled(self) -> dict[Any, Any]:
        if self._found is None:
            raise errors.FailedPreconditionError(f"table {self.name!r}: Table not initialized; run its initializer, or "
                                                 "tables_initializer(), first")
        return self._found


def _lines(path: str, most: int) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file):
                if number == most:
                    return
                yield line.removesuffix(b"\n").replace(b"\r", b"")
    except OSError as error:
        raise errors.NotFoundError(f"table: {path!r} cannot be read ({error.strerror}); check the path") from None


def _part(path: str, number: int, line: bytes, index: int, delimiter: str, dtype: DType) -> Any:
    if index == LINE_NUMBER:
        return number
    columns = [line] if index == WHOLE_LINE else line.split(delimiter.encode())
    if index >= len(columns):
        raise errors.InvalidArgumentError(f"table: Invalid number of columns in {path!r}, line {number} ({line!r}): it has "
                                          f"{len(columns)} but column {index} is asked for; count from 0")
    text = columns[max(index, 0)]
    if dtype.kind == "string":
        return text
    try:
        return int(text) if dtype.kind == "int" else float(text)
    except ValueError:
        raise errors.InvalidArgumentError(f"table: Field {text!r} in line {number} of {path!r} is not a valid {dtype.name}; "
                                          "name another column") from None
