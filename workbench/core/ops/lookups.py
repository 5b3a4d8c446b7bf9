"""Lookup tables as operations: the handle, what fills it, what it finds."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.state.container import Context
from workbench.core.state.growing_tables import GrowingTable
from workbench.core.state.lookups import Table

Array = np.ndarray[Any, Any]
TABLE: dict[str, Any] = {"stateful": True, "differentiable": False}


@op("-> []", types="-> resource", context=True, **TABLE)
def hash_table(context: Context, *, key_dtype: Any, value_dtype: Any, shared_name: str = "", container: str = "") -> Table:
    """The handle of a table of values by keys, empty until it is filled; one of a `shared_name` is the same everywhere."""
    name = shared_name or context.node
    return context.container.get(name, Table, lambda: Table(name, as_dtype(key_dtype), as_dtype(value_dtype)), container)


@op("handle[] keys[n] values[n] ->", types="resource any any ->", **TABLE)
def table_fill(handle: Table, keys: Array, values: Array) -> None:
    """Fill a table with keys and values. FailedPreconditionError where it has others, or one key has two."""
    handle.fill(keys, values)


@op("handle[] filename[] ->", types="resource string ->", **TABLE)
def table_fill_from_file(handle: Table, filename: Any, *, key_index: int = -2, value_index: int = -1, vocab_size: int = -1,
                         delimiter: str = "\t") -> None:
    """Fill a table with the lines of a text file, the first `vocab_size` of them (-1: all): columns from 0 on, -1 the line's
    number, -2 the whole line. A table that is filled stays as it is. NotFoundError without such a file, InvalidArgumentError
    where its lines do not fit."""
    name = filename.item() if isinstance(filename, np.ndarray) else filename
    handle.fill_from(name.decode("utf-8", "surrogateescape"), key_index, value_index, vocab_size, delimiter)


@op("handle[] keys[...] default_value[] -> [...]", types="resource any any -> @value_dtype", **TABLE)
def table_find(handle: Table, keys: Array, default_value: Any, *, value_dtype: Any) -> Array:
    """The value of each key, the default where there is none. FailedPreconditionError before the table is filled."""
    return handle.find(keys, default_value)


@op("handle[] -> []", types="resource -> int64", **TABLE)
def table_size(handle: Table | GrowingTable) -> Array:
    """How many keys a table has. FailedPreconditionError before it is filled."""
    return np.asarray(handle.size(), np.int64)


# tables that steps add to

@op("-> []", types="-> resource", context=True, **TABLE)
def growing_table(context: Context, *, key_dtype: Any, value_dtype: Any, key_shape: Any = (), value_shape: Any = (),
                  empty_key: Any = None, buckets: int | None = None, shared_name: str = "",
                  container: str = "") -> GrowingTable:
    """The handle of a table that begins empty and that steps add to. InvalidArgumentError for a number of buckets that is no
    power of two."""
    if buckets is not None and (buckets < 1 or buckets & (buckets - 1)):
        raise errors.InvalidArgumentError(f"growing_table: Number of buckets must be a power of 2, got {buckets}")
    name = shared_name or context.node
    return context.container.get(name, GrowingTable, lambda: GrowingTable(
        name, as_dtype(key_dtype), as_dtype(value_dtype), tuple(key_shape), tuple(value_shape), empty_key), container)


def _values(inputs: Any, attrs: Any) -> list[Shape]:
    keys, inner = inputs[1].shape, len(attrs["key_shape"])
    if keys.rank is None or keys.rank < inner:
        return [Shape(None)]
    return [keys[:keys.rank - inner] + as_shape(attrs["value_shape"])]


@op("handle[] keys? default_value? -> ?", types="resource any any -> @value_dtype", shape=_values, **TABLE)
def growing_table_find(handle: GrowingTable, keys: Array, default_value: Any, *, value_dtype: Any, key_shape: Any = (),
                       value_shape: Any = ()) -> Array:
    """The value of each key, the default where there is none."""
    return handle.find(keys, default_value)


@op("handle[] keys? values? ->", types="resource any any ->", keeps=True, **TABLE)
def growing_table_insert(handle: GrowingTable, keys: Array, values: Array) -> None:
    """Add keys with their values, in the place of those that they had."""
    handle.insert(keys, values)


@op("handle[] keys? values? ->", types="resource any any ->", keeps=True, **TABLE)
def growing_table_import(handle: GrowingTable, keys: Array, values: Array) -> None:
    """Hold these keys with their values, and no others."""
    handle.replace(keys, values)


def _all(inputs: Any, attrs: Any) -> list[Shape]:
    return [Shape([None]) + as_shape(attrs[name]) for name in ("key_shape", "value_shape")]


@op("handle[] -> ? ?", types="resource -> @key_dtype @value_dtype", shape=_all, **TABLE)
def growing_table_export(handle: GrowingTable, *, key_dtype: Any, value_dtype: Any, key_shape: Any = (),
                         value_shape: Any = ()) -> tuple[Array, Array]:
    """All keys and all values."""
    return handle.export()
