"""Data sets for the tour and the tests: MNIST from files, cache or download, and a bundled stand-in."""
from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.io import download as downloads
from workbench.io.batches import DataSet
from workbench.io.idx import read_idx
from workbench.settings import settings

__all__ = ["DataSet", "FallbackDataWarning", "Mnist", "find_mnist", "load_mnist", "read_mnist"]

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]

ROLES = {"train images": "train-images-idx3-ubyte", "train labels": "train-labels-idx1-ubyte",
         "test images": "t10k-images-idx3-ubyte", "test labels": "t10k-labels-idx1-ubyte"}
CLASSES = 10


class FallbackDataWarning(UserWarning):
    """The wanted data set was not to be had and a smaller one stands in."""


@dataclass(frozen=True)
class Mnist:
    """Handwritten digits in three parts; images are float32 [n, 784] in 0..1, labels uint8 [n] or float32 [n, 10]."""

    train: DataSet
    validation: DataSet
    test: DataSet
    source: str = "mnist"            # "mnist", or "digits" for the bundled stand-in
    folder: Path | None = None       # where the files were found

    @property
    def name(self) -> str:
        """What people call it, for headlines."""
        return "MNIST" if self.source == "mnist" else "scikit-learn's digits"

    def __repr__(self) -> str:
        name = self.name if self.source == "mnist" else f"{self.name}, standing in for MNIST"
        parts = ", ".join(f"{len(part):,} {role}" for role, part in
                          (("training", self.train), ("validation", self.validation), ("test", self.test)))
        images, labels = self.train.images, self.train.labels
        return f"<{name}: {parts}; images {images.dtype}{list(images.shape[1:])}, labels {labels.dtype}" \
               f"{list(labels.shape[1:]) or ''}>"


def load_mnist(path: str | Path | None = None, one_hot: bool = False, validation: int = 5000, *,
               download: bool = True, seed: int = 0) -> Mnist:
    """MNIST: 60,000 - `validation` training, `validation` validation and 10,000 test digits.

    Looked for in `path` (and only there, when given), in `WORKBENCH_DATA`, in the user's cache; else downloaded once
    into the cache; else scikit-learn's 1,797 bundled digits stand in, with a FallbackDataWarning and
    `source == "digits"`. `one_hot` makes labels float32 [n, 10]. Files that are there but broken raise DataLossError.
    """
    folder, tried = find_mnist(path, download)
    if folder is not None:
        train, test = (_flat(*pair) for pair in read_mnist(folder))
        return _assemble(train, test, one_hot, validation, seed, "mnist", folder)
    warnings.warn("scikit-learn's 1,797 digits stand in for MNIST, and everything works with them. For MNIST, connect to "
                  "the network once, or set WORKBENCH_DATA to a folder with its four .gz files. MNIST was not found: "
                  f"{'; '.join(tried)}", FallbackDataWarning, stacklevel=2)
    train, test = _bundled_digits()
    scaled = validation * len(train[0]) // 60_000      # the same fraction of a smaller set
    return _assemble(train, test, one_hot, scaled, seed, "digits", None)


def find_mnist(path: str | Path | None = None, download: bool = True) -> tuple[Path | None, list[str]]:
    """(folder with the four files or None, what was tried in vain); NotFoundError if a given `path` lacks them."""
    if path is not None:
        folder = Path(path).expanduser()
        if missing := _missing(folder):
            raise errors.NotFoundError(f"load_mnist {folder}: {', '.join(missing)} not there (gzipped or not); put "
                                       "the four MNIST files there, or pass no path to search and download")
        return folder, []
    cache = downloads.cache_folder("mnist")
    tried: list[str] = []
    for folder in () if settings.data is None else (settings.data / "mnist", settings.data):
        if not (missing := _missing(folder)):
            return folder, tried
        tried.append(f"WORKBENCH_DATA {folder} lacks {_count(missing)}")
    damaged = [] if cache is None else downloads.damaged(cache)
    if cache is not None and not damaged:
        return cache, tried
    tried.append("this user has no home folder where a download could be kept" if cache is None
                 else f"the cache {cache} lacks {_count(damaged)}")
    if not download:
        return None, [*tried, "no download was wanted"]
    if cache is None:
        return None, tried
    try:
        downloads.fetch(cache)
    except errors.UnavailableError as problem:
        return None, [*tried, problem.message]
    return cache, tried


def _count(missing: list[str]) -> str:
    return "all four files" if len(missing) == len(ROLES) else ", ".join(missing)


def _file(folder: Path, stem: str) -> Path | None:
    """The file in any of the spellings in circulation."""
    spellings = (stem, stem.replace("-idx", ".idx"))
    return next((p for s in spellings for p in (folder / f"{s}.gz", folder / s) if p.is_file()), None)


def _missing(folder: Path) -> list[str]:
    return [stem for stem in ROLES.values() if _file(folder, stem) is None]


def read_mnist(folder: Path) -> tuple[Pair, Pair]:
    """((images, digits), (images, digits)) of training and test, uint8 [n, rows, columns] and [n], from a folder."""
    paths = {role: _file(folder, stem) for role, stem in ROLES.items()}
    return _pair(folder, paths, "train"), _pair(folder, paths, "test")


def _pair(folder: Path, paths: dict[str, Path | None], part: str) -> Pair:
    found = [paths[f"{part} {kind}"] for kind in ("images", "labels")]
    images, labels = (read_idx(p) for p in found if p is not None)
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels) or images.dtype != np.uint8:
        raise errors.DataLossError(
            f"load_mnist {folder}: the {part} images are {images.dtype}{list(images.shape)} and the labels "
            f"{labels.dtype}{list(labels.shape)}, but uint8 [n, rows, columns] and [n] belong together; "
            "get both files again")
    if len(labels) and labels.max() >= CLASSES:
        raise errors.DataLossError(f"load_mnist {folder}: a {part} label is {labels.max()} but digits are 0..9; "
                                   "get the labels file again")
    return images, labels


def _flat(images: Array, labels: Array) -> Pair:
    """Images as rows of floats in 0..1."""
    flat = images.reshape(len(images), -1).astype(np.float32)
    flat /= 255
    return flat, labels


def _bundled_digits() -> tuple[Pair, Pair]:
    """scikit-learn's 8x8 digits, enlarged to 28x28; the last fifth of a fixed shuffle is the test part."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    small = bundle.images / 16
    weights = np.maximum(0, 1 - abs(np.linspace(0, 7, 28)[:, None] - np.arange(8)))      # linear, [28, 8]
    images = (weights @ small @ weights.T).reshape(len(small), -1).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], bundle.target[order].astype(np.uint8)
    cut = len(images) * 4 // 5
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:])


def _assemble(train: Pair, test: Pair, one_hot: bool, validation: int, seed: int, source: str,
              folder: Path | None) -> Mnist:
    if not 0 <= validation < len(train[0]):
        raise errors.InvalidArgumentError(f"load_mnist: validation is {validation} but there are {len(train[0])} "
                                          f"training examples; pass 0 to {len(train[0]) - 1}")

    def part(pair: Pair, rows: slice) -> DataSet:
        labels = np.eye(CLASSES, dtype=np.float32)[pair[1][rows]] if one_hot else pair[1][rows]
        return DataSet(pair[0][rows], labels, seed)

    return Mnist(part(train, slice(validation, None)), part(train, slice(validation)), part(test, slice(None)),
                 source, folder)
