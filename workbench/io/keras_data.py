"""Data sets under Keras's names: files that are there, in WORKBENCH_DATA or in ~/.keras/datasets, or are downloaded once."""
from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.io import download as downloads
from workbench.io.datasets import Pair, find_mnist, read_mnist
from workbench.settings import settings
from workbench.train.keras import backend

__all__ = ["get_file", "get_word_index", "load_boston_housing", "load_cifar10", "load_cifar100", "load_mnist", "refused"]

_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_KERAS = "https://s3.amazonaws.com/"
_SIDE = 32 * 32 * 3      # the bytes of an image of CIFAR


def get_file(fname: str, origin: str, untar: bool = False, md5_hash: str | None = None, file_hash: str | None = None,
             cache_subdir: str = "datasets", hash_algorithm: str = "auto", extract: bool = False,
             archive_format: str | None = "auto", cache_dir: Any = None) -> str:
    """The path of a file: in WORKBENCH_DATA, or in `cache_subdir` of `cache_dir` (~/.keras), where it is downloaded once.

    `untar` unpacks fname.tar.gz and gives the folder `fname`; `extract` unpacks an archive beside itself. A hash (sha256 or
    md5) is compared. UnavailableError where it is not there and cannot be downloaded, DataLossError for an archive that
    cannot be unpacked, InvalidArgumentError for another algorithm.
    """
    if hash_algorithm not in ("auto", "md5", "sha256"):
        raise errors.InvalidArgumentError(f"get_file: hash_algorithm is {hash_algorithm!r}; use 'auto', 'md5' or 'sha256'")
    known = file_hash or md5_hash
    if known is not None:
        kind = hash_algorithm if hash_algorithm != "auto" else "sha256" if len(known) == 64 else "md5"
        known = f"{kind}:{known}"
    places = _places(cache_dir, cache_subdir)
    name = f"{fname}.tar.gz" if untar else fname
    folder = next((place for place in places if not downloads.damaged(place, {name: known}) or (
        untar and (place / fname).is_dir())), None)
    if folder is None:
        folder, (base, _, remote) = places[-1], origin.rpartition("/")
        downloads.fetch(folder, {remote: known}, [f"{base}/"])
        (folder / remote).replace(folder / name)
    if (untar and not (folder / fname).is_dir()) or extract:
        _unpack(folder / name, None if archive_format == "auto" else archive_format)
    return str(folder / fname)


def _unpack(path: Path, kind: str | None) -> None:
    kind = {"tar": "gztar"}.get(kind or "", kind) or ("zip" if path.suffix == ".zip" else None)
    try:
        if kind == "zip":
            shutil.unpack_archive(path, path.parent, kind)
        elif hasattr(tarfile, "data_filter"):
            shutil.unpack_archive(path, path.parent, kind, filter="data")
        else:
            with tarfile.open(path) as archive:
                archive.extractall(path.parent, list(_harmless(archive, path.parent.resolve())))
    except (OSError, ValueError, EOFError, tarfile.TarError) as error:
        raise errors.DataLossError(f"get_file: {path} cannot be unpacked ({error}); remove it, so that it is downloaded "
                                   "again") from None


def _harmless(archive: tarfile.TarFile, folder: Path) -> Iterator[tarfile.TarInfo]:
    """Files and folders below `folder`, ValueError for anything else: Pythons before 3.11.4 do not look themselves."""
    for member in archive.getmembers():
        if not (member.isfile() or member.isdir()) or not (folder / member.name).resolve().is_relative_to(folder):
            raise ValueError(f"{member.name!r} is outside of the folder, or neither a file nor a folder")
        yield member


def load_mnist(path: str = "mnist.npz") -> tuple[Pair, Pair]:
    """((images, digits), (images, digits)) of training and test: uint8 [n, 28, 28] and [n], of an .npz or MNIST's own files.

    UnavailableError where neither is there, nor can be downloaded.
    """
    for place in _places():
        if (place / path).is_file():      # an absolute path stands for itself
            with np.load(place / path, allow_pickle=False) as file:
                return (file["x_train"], file["y_train"]), (file["x_test"], file["y_test"])
    folder, tried = find_mnist()
    if folder is None:
        raise errors.UnavailableError(f"mnist.load_data: {path} is not in {' or '.join(map(str, _places()))}, nor are MNIST's "
                                      f"four files: {'; '.join(tried)}; put them there")
    return read_mnist(folder)


def _places(cache_dir: Any = None, cache_subdir: str = "datasets") -> list[Path]:
    """The folders where files are looked for; the last is where they are downloaded to."""
    own = Path(os.path.expanduser(cache_dir or "~/.keras")) / cache_subdir
    return [own] if settings.data is None else [settings.data, own]


def load_cifar10() -> tuple[Pair, Pair]:
    """((images, classes), (images, classes)): uint8 [n, 32, 32, 3], or with channels first, and [n, 1]; 50,000 and 10,000.

    From CIFAR-10's binary version: the other holds pickles, which could run code. UnavailableError where it cannot be had.
    """
    folder = get_file("cifar-10-batches-bin", f"{_CIFAR}cifar-10-binary.tar.gz", True, "c32a1d4ab5d03f1284b67883e8d87530")
    return _cifar(folder, [f"data_batch_{number}.bin" for number in range(1, 6)], 0), _cifar(folder, ["test_batch.bin"], 0)


def load_cifar100(label_mode: str = "fine") -> tuple[Pair, Pair]:
    """The same for CIFAR-100, with 100 "fine" or 20 "coarse" classes. InvalidArgumentError for another word."""
    if label_mode not in ("fine", "coarse"):
        raise errors.InvalidArgumentError(f"cifar100.load_data: label_mode is {label_mode!r}; label_mode must be one of fine "
                                          "coarse")
    folder = get_file("cifar-100-binary", f"{_CIFAR}cifar-100-binary.tar.gz", True, "03b5dce01913d631647c71ecec9e9cb8")
    train, test = (_cifar(folder, [name], int(label_mode == "fine"), 2) for name in ("train.bin", "test.bin"))
    return train, test


def _cifar(folder: str, files: Sequence[str], which: int, labels: int = 1) -> Pair:
    """Images and one of the labels before each. DataLossError for a file of another length."""
    found = np.concatenate([np.fromfile(os.path.join(folder, name), "uint8") for name in files])
    if len(found) % (_SIDE + labels):
        raise errors.DataLossError(f"load_data: the files {', '.join(files)} in {folder} have {len(found)} bytes, no multiple "
                                   f"of {_SIDE + labels}; remove the folder, so that it is downloaded again")
    rows = found.reshape(-1, _SIDE + labels)
    images = rows[:, labels:].reshape(-1, 3, 32, 32)
    return images if backend.image_data_format() == "channels_first" else images.transpose(0, 2, 3, 1), rows[:, which, None]


def load_boston_housing(path: str = "boston_housing.npz", seed: int = 113, test_split: float = 0.2) -> tuple[Pair, Pair]:
    """((rows, prices), (rows, prices)): 13 numbers of each, shuffled by `seed`; the last share `test_split` is for tests."""
    found = get_file(path, f"{_KERAS}keras-datasets/boston_housing.npz",
                     file_hash="f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5")
    with np.load(found, allow_pickle=False) as file:
        x, y = file["x"], file["y"]
    for array in (x, y):
        np.random.seed(seed)
        np.random.shuffle(array)
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def get_word_index(path: str) -> dict[str, int]:
    """The number of each word of the data sets imdb and reuters, from `path`, imdb_word_index.json for example."""
    with open(get_file(path, f"{_KERAS}text-datasets/{os.path.basename(path)}"), encoding="utf-8") as file:
        found: dict[str, int] = json.load(file)
    return found


def refused(name: str) -> Any:
    """load_data of a data set whose file holds pickles: UnimplementedError, which says what to do instead."""
    def load_data(path: str = f"{name}.npz", **_options: Any) -> Any:
        raise errors.UnimplementedError(f"{name}.load_data: {path} holds pickled lists, which could run code, and is not read; "
                                        "number the texts by preprocessing.text.Tokenizer")
    return load_data
