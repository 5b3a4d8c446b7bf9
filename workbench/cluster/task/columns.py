"""A partition of a Dask collection as columns of rows: what the collection announced of them, and what is there."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.shape import Shape
from workbench.core.state.partitions import Columns
from workbench.train.input.data_structures import leaves

__all__ = ["Column", "Table", "columns_of"]


@dataclass(frozen=True)
class Column:
    """A component of a row: its dtype by name and its shape (None where that is open). `name` is that of a frame's column."""

    name: Any
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Table:
    """The columns of one collection, which errors call `name`. `like` is the structure of a bag's elements."""

    name: str
    kind: str      # "array" (also a series), "frame" or "bag"
    columns: tuple[Column, ...]
    like: Any = None


def columns_of(tables: Sequence[Table], pieces: Sequence[Any], number: int) -> Columns:
    """The columns of partition `number`, whose `pieces` are those of each collection.

    DtypeError, ShapeError and InvalidArgumentError where they are not what was announced, or differ in rows.
    """
    found: list[Sequence[Any]] = []
    for table, piece in zip(tables, pieces):
        where = f"from_dask: partition {number} of {table.name}"
        found += _of_bag(table, piece, where) if table.kind == "bag" else [
            _array(column, piece[column.name] if table.kind == "frame" else piece, where) for column in table.columns]
        if len(found[-1]) != len(found[0]):
            raise errors.InvalidArgumentError(f"{where} has {len(found[-1])} rows but that of {tables[0].name} "
                                              f"{len(found[0])}; partition them alike")
    return tuple(found)


def _array(column: Column, values: Any, where: str) -> Any:
    where += f", column {column.name!r}," if column.name is not None else ""
    array = _texts(values, where) if column.dtype == "string" else np.asarray(values)
    dtype = as_dtype(column.dtype)
    if array.dtype != dtype.numpy:
        raise errors.DtypeError(f"{where} holds {array.dtype} but {dtype.name} was announced; convert it with astype")
    return _shaped(column, array, array.shape[1:], where)


def _of_bag(table: Table, piece: Any, where: str) -> list[list[Any]]:
    rows = [_row(table, element, where) for element in piece]
    return [list(column) for column in zip(*rows)] or [[] for _ in table.columns]


def _row(table: Table, element: Any, where: str) -> list[Any]:
    try:
        parts = leaves(table.like, element)
    except (TypeError, KeyError):
        parts = []
    if len(parts) != len(table.columns) or (isinstance(table.like, tuple) and len(element) != len(table.like)):
        raise errors.InvalidArgumentError(f"{where} has the element {element!r}, which is not like {table.like!r}; "
                                          "map it to one")
    return [_element(column, part, where) for column, part in zip(table.columns, parts)]


def _element(column: Column, value: Any, where: str) -> Any:
    try:
        array = _texts(value, where) if column.dtype == "string" else np.asarray(value, as_dtype(column.dtype).numpy)
    except (TypeError, ValueError):
        raise errors.InvalidArgumentError(f"{where} has the element {value!r}, which is not {column.dtype}; map it to "
                                          "one") from None
    return _shaped(column, array, array.shape, where)


def _shaped(column: Column, array: Any, shape: tuple[int, ...], where: str) -> Any:
    if not Shape(column.shape).compatible(Shape(shape)):
        raise errors.ShapeError(f"{where} has rows of shape {list(shape)} but {Shape(column.shape)} was announced; reshape "
                                "them")
    return array


def _texts(values: Any, where: str) -> Any:
    """Text as tensors hold it: bytes. DtypeError for what is none, a missing value too."""
    given = np.asarray(values, object)
    made = np.empty(given.shape, object)
    for place, text in np.ndenumerate(given):
        made[place] = text.encode() if isinstance(text, str) else text
        if not isinstance(made[place], bytes):
            raise errors.DtypeError(f"{where} holds {text!r} among its text; fill it, or convert the column")
    return made
