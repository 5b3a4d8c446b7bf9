"""Rows that a query of an SQL database gives, as elements of a dataset; the database is only read."""
from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.state.passing import Element, Found, Program, Run

__all__ = ["CHECKS", "KINDS"]

_NUMBER = re.compile(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _rows(run: Run, driver: Program, source: Program, query: Program, names: Sequence[str]) -> Iterator[Found]:
    _check_driver(run, driver)
    place, text = _text(run, source), _text(run, query)
    dtypes = [as_dtype(name) for name in names]
    with contextlib.closing(_opened(place)) as connection:
        connection.text_factory = bytes
        try:
            found = connection.execute(text)
            _check(text, len(found.description or ()), len(dtypes))
            for row in found:
                yield _element(row, dtypes)
        except sqlite3.Error as problem:
            if problem.sqlite_errorname == "SQLITE_READONLY":
                raise errors.InvalidArgumentError(f"SqlDataset: {text!r} changes {place!r} and gives no columns; pass a query "
                                                  "that selects") from None
            raise errors.UnknownError(f"SqlDataset: {text!r} of {place!r}: {problem}; mend the query") from None


def _text(run: Run, given: Program) -> str:
    return str(np.asarray(run.value(given), object).item().decode())


def _check_driver(run: Run, driver: Program, *more: Any) -> None:
    kind = _text(run, driver)
    if kind != "sqlite":
        raise errors.InvalidArgumentError(f"SqlDataset: The database type, {kind}, is not supported by SqlDataset; use "
                                          "'sqlite'")


def _opened(place: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(f"file:{quote(place)}?mode=ro", uri=True, check_same_thread=False)
    except sqlite3.Error as problem:
        raise errors.UnknownError(f"SqlDataset: {place!r} cannot be read ({problem}); check the path") from None


def _check(text: str, given: int, wanted: int) -> None:
    if given != wanted:
        raise errors.InvalidArgumentError(f"SqlDataset: {text!r} gives {given} columns but {wanted} output_types were passed "
                                          "(the number of columns in query must match the number of elements in output_types)")


def _element(row: Sequence[Any], dtypes: Sequence[DType]) -> Element:
    return tuple(_part(value, dtype) for value, dtype in zip(row, dtypes))


def _part(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A value as SQLite gives one column as another type: nothing is 0, and text as far as it is a number."""
    if dtype.kind == "string":
        text = b"" if value is None else value if isinstance(value, bytes) else str(value).encode()
        return np.array(text, object)
    number: float = _number(value) if isinstance(value, bytes) else value or 0
    try:
        return np.asarray(number if dtype.is_floating else bool(number) if dtype.kind == "bool" else int(number), dtype.numpy)
    except OverflowError:
        raise errors.InvalidArgumentError(f"SqlDataset: {number} does not fit into a column of {dtype.name}; ask for "
                                          "int64") from None


def _number(text: bytes) -> float:
    found = _NUMBER.match(text)
    if found is None:
        return 0
    whole = found[0].strip()
    return int(whole) if whole.lstrip(b"+-").isdigit() else float(whole)


KINDS: dict[str, Callable[..., Iterator[Found]]] = {"rows": _rows}
CHECKS: dict[str, Callable[..., Any]] = {"rows": _check_driver}
