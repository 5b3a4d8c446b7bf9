"""Small tables by the names of contrib.learn.datasets: CSV files with and without a header, iris, houses in Boston."""
from __future__ import annotations

import csv
import os
import shutil
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.io.mnist_tutorial import read_data_sets
from workbench.settings import settings

__all__ = ["DATASETS", "Dataset", "Datasets", "load_boston", "load_csv_with_header", "load_csv_without_header", "load_dataset",
           "load_iris", "load_mnist", "maybe_download", "read_data_sets"]

Array = np.ndarray[Any, Any]


class Dataset(NamedTuple):
    """Features [n, ...] and targets [n]."""

    data: Any
    target: Any


class Datasets(NamedTuple):
    """Three data sets of one kind."""

    train: Any
    validation: Any
    test: Any


def _rows(filename: Any) -> list[list[str]]:
    try:
        with open(os.fsdecode(filename), newline="", encoding="utf-8") as file:
            return [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise errors.NotFoundError(f"load_csv: {os.fsdecode(filename)!r} does not exist; check the path") from None


def _split(filename: Any, rows: list[list[str]], target_dtype: Any, features_dtype: Any, column: int) -> Dataset:
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise errors.DataLossError(f"load_csv: {os.fsdecode(filename)!r} has rows of {', '.join(map(str, sorted(widths)))} "
                                   "fields; all must have the same number")
    try:
        target = np.array([row[column] for row in rows], getattr(target_dtype, "numpy", target_dtype))
        data = np.array([[cell for i, cell in enumerate(row) if i != column % len(row)] for row in rows],
                        getattr(features_dtype, "numpy", features_dtype))
    except ValueError as error:
        raise errors.DataLossError(f"load_csv: {os.fsdecode(filename)!r} holds other data ({error}); check the file and the "
                                   "dtypes") from None
    return Dataset(data, target)


def load_csv_with_header(filename: Any, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Features [n, m] and targets [n] of a file whose first line begins with the numbers n and m.

    NotFoundError when it is missing, DataLossError when it holds something else.
    """
    header, *rows = _rows(filename) or [[]]
    if len(header) < 2 or not (header[0].isdigit() and header[1].isdigit()):
        raise errors.DataLossError(f"load_csv_with_header: {os.fsdecode(filename)!r} begins with {','.join(header)[:40]!r} but "
                                   "the numbers of rows and features are needed; use load_csv_without_header")
    if len(rows) != int(header[0]) or any(len(row) != int(header[1]) + 1 for row in rows):
        raise errors.DataLossError(f"load_csv_with_header: {os.fsdecode(filename)!r} announces {header[0]} rows of {header[1]} "
                                   f"features but has {len(rows)} rows; get the file again")
    return _split(filename, rows, target_dtype, features_dtype, target_column)


def load_csv_without_header(filename: Any, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Features [n, m] and targets [n] of a file; errors as for load_csv_with_header."""
    return _split(filename, _rows(filename), target_dtype, features_dtype, target_column)


def load_iris(data_path: Any = None) -> Dataset:
    """Fisher's iris: float64 [150, 4] in cm and int64 [150] species, from scikit-learn or a CSV file with a header."""
    if data_path is not None:
        return load_csv_with_header(data_path, np.int64, np.float64)
    from sklearn.datasets import load_iris as bundled
    found = bundled()
    return Dataset(found.data.astype(np.float64), found.target.astype(np.int64))


def load_boston(data_path: Any = None) -> Dataset:
    """Houses in Boston: float64 [506, 13] and their prices float64 [506], from a CSV file with a header that you have.

    Without a path it is boston_house_prices.csv in the folder WORKBENCH_DATA. Nothing is downloaded: NotFoundError says where
    the file was looked for.
    """
    found = data_path if data_path is not None else None if settings.data is None else Path(settings.data) / _BOSTON
    if found is None:
        raise errors.NotFoundError(f"load_boston: data_path is None and WORKBENCH_DATA is not set; give the path of {_BOSTON}, "
                                   "or set WORKBENCH_DATA to its folder")
    return load_csv_with_header(found, np.float64, np.float64)


_BOSTON = "boston_house_prices.csv"


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """The data set "iris" or "boston", or "mnist" in its three parts, from the folder MNIST-data if it is there.

    InvalidArgumentError (a ValueError) for another name, UnimplementedError for made-up data.
    """
    if test_with_fake_data or size not in ("small", ""):
        raise errors.UnimplementedError(f"load_dataset: size={size!r} and test_with_fake_data={test_with_fake_data} are not "
                                        "offered; leave them out")
    if name not in DATASETS:
        raise errors.InvalidArgumentError(f"load_dataset: there is no data set {name!r}; there is {', '.join(DATASETS)}")
    return DATASETS[name]()


def load_mnist(train_dir: str = "MNIST-data") -> Any:
    """MNIST as read_data_sets gives it."""
    return read_data_sets(train_dir)


DATASETS = {"boston": load_boston, "iris": load_iris, "mnist": load_mnist}
"""Name -> what loads the data set."""


def maybe_download(filename: str, work_directory: Any, source_url: str) -> str:
    """The path of a file in a folder (made where there is none), fetched from `source_url` unless it is there."""
    folder = Path(work_directory)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / filename
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file, urllib.request.urlopen(source_url) as there:
            shutil.copyfileobj(there, file)
        os.replace(file.name, path)
        print("Successfully downloaded", filename, path.stat().st_size, "bytes.")
    return str(path)
