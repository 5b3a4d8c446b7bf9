"""The reader of `tensorflow.examples.tutorials.mnist.input_data`, for course material that imports it."""
from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.io.datasets import DataSet, Mnist, find_mnist, load_mnist

__all__ = ["read_data_sets"]

SIDE = 28


def read_data_sets(train_dir: str | os.PathLike[str], fake_data: bool = False, one_hot: bool = False,
                   dtype: Any = np.float32, reshape: bool = True, validation_size: int = 5000,
                   seed: int | None = None) -> Mnist:
    """MNIST as `.train`, `.validation` and `.test`, each with `images`, `labels`, `num_examples`, `next_batch`.

    `train_dir` is used when it holds the four files; otherwise the usual search and download take over, and nothing
    is written into it. `dtype` is float32 (0..1) or uint8 (0..255); `reshape=False` gives images [n, 28, 28, 1].
    `fake_data=True` gives ones, for programs that test themselves.
    """
    element = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    if element not in (np.dtype(np.float32), np.dtype(np.uint8)):
        raise errors.DtypeError(f"read_data_sets: dtype is {element} but images come as float32 or uint8; choose one")
    if fake_data:
        return _fake(element, reshape, one_hot)
    here = Path(train_dir)
    path = here if here.is_dir() and _complete(here) else None
    found = load_mnist(path, one_hot, validation_size, seed=0 if seed is None else seed)
    parts = (found.train, found.validation, found.test)
    train, validation, test = (_convert(part, element, reshape) for part in parts)
    return replace(found, train=train, validation=validation, test=test)


def _complete(folder: Path) -> bool:
    try:
        return find_mnist(folder) is not None
    except errors.NotFoundError:
        return False


def _convert(data: DataSet, element: np.dtype[Any], reshape: bool) -> DataSet:
    images = data.images if reshape else data.images.reshape(-1, SIDE, SIDE, 1)
    if element == np.uint8:
        images = np.rint(images * 255).astype(np.uint8)
    return DataSet(images, data.labels, data.seed)


def _fake(element: np.dtype[Any], reshape: bool, one_hot: bool, count: int = 10_000) -> Mnist:
    shape = (count, SIDE * SIDE) if reshape else (count, SIDE, SIDE, 1)
    labels = np.zeros((count, 10), np.float32) if one_hot else np.zeros(count, np.uint8)
    if one_hot:
        labels[:, 0] = 1
    data = DataSet(np.ones(shape, element), labels)
    return Mnist(data, data, data, source="fake")
