"""Weights of a model in files: NumPy's .npz, or HDF5 as Keras writes it where the library h5py is installed."""
from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench import errors
from workbench.train.keras.optimizers import set_all

__all__ = ["load_weights", "read_arrays", "save_weights", "write_arrays"]

Arrays = dict[str, list[np.ndarray]]


def save_weights(model: Any, path: Any, overwrite: bool = True) -> None:
    """Write the weights of each layer. AlreadyExistsError where the file is there and `overwrite` is false."""
    if not overwrite and os.path.exists(path):
        raise errors.AlreadyExistsError(f"save_weights: {path} exists; pass overwrite=True or another path")
    write_arrays(path, {layer.name: layer.get_weights() for layer in model.layers})


def load_weights(model: Any, path: Any, by_name: bool = False) -> None:
    """Give the layers the weights of a file: in order, or with `by_name` to the layers of the same names.

    InvalidArgumentError where their number or a shape differs; NotFoundError without the file.
    """
    found = read_arrays(path)
    if by_name:
        for layer in model.layers:
            if layer.name in found:
                set_all(layer.weights, found[layer.name], layer.name)
        return
    full = {name: arrays for name, arrays in found.items() if arrays}
    layers = [layer for layer in model.layers if layer.weights]
    if len(full) != len(layers):
        raise errors.InvalidArgumentError(f"load_weights: {path} has {len(full)} layers with weights, {model.name} "
                                          f"{len(layers)}; load it into a model of the same layers, or by_name=True")
    for layer, arrays in zip(layers, full.values()):
        set_all(layer.weights, arrays, layer.name)


def _is_hdf5(path: Any) -> bool:
    return str(path).endswith((".h5", ".hdf5"))


def _h5py(path: Any) -> Any:
    try:
        return importlib.import_module("h5py")
    except ImportError:
        raise errors.UnimplementedError(f"keras: {path} is HDF5, for which the library h5py must be installed; install it, or "
                                        "name the file .npz") from None


def write_arrays(path: Any, arrays: Mapping[str, list[np.ndarray]]) -> None:
    """Write lists of arrays by name."""
    if _is_hdf5(path):
        with _h5py(path).File(path, "w") as file:
            _write_hdf5(file, arrays)
        return
    flat: dict[str, Any] = {f"{place}/{number}/{name}": array for place, (name, one) in enumerate(arrays.items())
            for number, array in enumerate(one)}
    with open(path, "wb") as file:
        np.savez(file, **flat)


def _write_hdf5(file: Any, arrays: Mapping[str, list[np.ndarray]]) -> None:
    file.attrs["layer_names"] = [name.encode() for name in arrays]
    file.attrs["backend"], file.attrs["keras_version"] = b"tensorflow", b"2.0.8-tf"
    for name, one in arrays.items():
        group = file.create_group(name)
        titles = [f"{name}/weight_{number}" for number in range(len(one))]
        group.attrs["weight_names"] = [title.encode() for title in titles]
        for title, array in zip(titles, one):
            group.create_dataset(title, data=array)


def read_arrays(path: Any) -> Arrays:
    """Lists of arrays by name. NotFoundError without the file, DataLossError where it is damaged."""
    if not os.path.exists(path):
        raise errors.NotFoundError(f"load_weights: there is no file {path}; save_weights writes it")
    if _is_hdf5(path):
        with _h5py(path).File(path, "r") as file:
            group = file if "layer_names" in file.attrs else file["model_weights"]
            named = {_text(name): group[_text(name)] for name in group.attrs["layer_names"]}
            return {name: [np.asarray(one[_text(title)]) for title in one.attrs["weight_names"]] for name, one in named.items()}
    try:
        with np.load(path, allow_pickle=False) as file:
            titles = sorted((title.split("/", 2) for title in file.files), key=lambda parts: (int(parts[0]), int(parts[1])))
            found: Arrays = {}
            for place, number, name in titles:
                found.setdefault(name, []).append(file[f"{place}/{number}/{name}"])
            return found
    except (ValueError, OSError, EOFError) as error:
        raise errors.DataLossError(f"load_weights: {path} is no file that save_weights wrote ({error}); save the weights "
                                   "again") from None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
