"""Tables of keys and values in memory that steps add to: numbers, strings or whole tensors by keys of one shape."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType

__all__ = ["GrowingTable"]

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


class GrowingTable:
    """Values of shape `value_shape` by keys of shape `key_shape`; `reserved` is a key that nobody may use, None without."""

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType, key_shape: Sizes, value_shape: Sizes,
                 reserved: Array | None) -> None:
        self.name, self.key_dtype, self.value_dtype = name, key_dtype, value_dtype
        self.key_shape, self.value_shape = key_shape, value_shape
        self._reserved = None if reserved is None else self._frozen(np.asarray(reserved, key_dtype.numpy))
        self._found: dict[Any, tuple[Any, Array]] = {}
        self._lock = threading.Lock()

    def size(self) -> int:
        """How many keys it has."""
        return len(self._found)

    def find(self, keys: Array, default: Array) -> Array:
        """The value of each key, `default` where it has none."""
        lead, items = self._keys(keys)
        values = np.empty((len(items), *self.value_shape), self.value_dtype.numpy)
        with self._lock:
            for number, item in enumerate(items):
                known = self._found.get(self._frozen(item))
                values[number] = default if known is None else known[1]
        return values.reshape(*lead, *self.value_shape)

    def insert(self, keys: Array, values: Array) -> None:
        """Take keys and their values; a key that it has gets the new one. InvalidArgumentError for other shapes."""
        found = self._paired(keys, values)
        with self._lock:
            self._found.update(found)

    def replace(self, keys: Array, values: Array) -> None:
        """Hold these keys and their values alone. InvalidArgumentError for other shapes; then it holds what it held."""
        found = self._paired(keys, values)
        with self._lock:
            self._found = found

    def _paired(self, keys: Array, values: Array) -> dict[Any, tuple[Any, Array]]:
        lead, items = self._keys(keys)
        if np.shape(values) != (*lead, *self.value_shape):
            raise errors.InvalidArgumentError(f"table {self.name!r}: Expected shape {[*lead, *self.value_shape]} for value, "
                                              f"got {list(np.shape(values))}; give each key one value")
        parts = np.asarray(values).reshape(len(items), *self.value_shape)
        return {self._frozen(item): (item, part) for item, part in zip(items, parts)}

    def export(self) -> tuple[Array, Array]:
        """All keys and their values, in the order in which they came."""
        with self._lock:
            pairs = list(self._found.values())
        found = [np.empty((len(pairs), *shape), dtype.numpy) for shape, dtype in (
            (self.key_shape, self.key_dtype), (self.value_shape, self.value_dtype))]
        for number, pair in enumerate(pairs):
            found[0][number], found[1][number] = pair
        return found[0], found[1]

    def _keys(self, keys: Array) -> tuple[Sizes, Array]:
        array = np.asarray(keys)
        lead = array.shape[:array.ndim - len(self.key_shape)]
        if array.shape[len(lead):] != self.key_shape or (self._reserved is not None and len(lead) != 1):
            raise errors.InvalidArgumentError(f"table {self.name!r}: Expected key shape {list(self.key_shape)}, got "
                                              f"{list(array.shape)}; give a list of keys")
        items = array.reshape(int(np.prod(lead)), *self.key_shape)
        if self._reserved is not None and any(self._frozen(item) == self._reserved for item in items):
            raise errors.InvalidArgumentError(f"table {self.name!r}: Using the empty_key as a table key is not allowed; "
                                              "make the table with another empty_key")
        return lead, items

    def _frozen(self, item: Any) -> Any:
        return tuple(np.asarray(item).reshape(-1).tolist()) if self.key_shape else np.asarray(item).item() if isinstance(
            item, (np.ndarray, np.generic)) else item
