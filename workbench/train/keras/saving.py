"""Models and their weights in files: NumPy's .npz, or HDF5 as Keras writes it where the library h5py is installed."""
from __future__ import annotations

import importlib
import json
import os
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.train.keras.optimizers import TFOptimizer, set_all
from workbench.train.keras.registry import described

__all__ = ["Saved", "load_weights", "put_weights", "read", "save_model", "save_weights"]

_HDF5, _ZIP = b"\x89HDF\r\n\x1a\n", b"PK"      # what files begin with


class Saved(NamedTuple):
    """What a file holds: arrays by layer; of a whole model also its configurations as JSON and its optimizer's state."""

    weights: Mapping[str, Sequence[np.ndarray]]
    texts: Mapping[str, str] = {}
    state: Sequence[np.ndarray] = ()


def save_weights(model: Any, path: Any, overwrite: bool = True) -> None:
    """Write the weights of each layer. AlreadyExistsError where the file is there and `overwrite` is false."""
    _write(path, Saved({layer.name: layer.get_weights() for layer in model.layers}), overwrite)


def save_model(model: Any, filepath: Any, overwrite: bool = True, include_optimizer: bool = True) -> None:
    """Write a model: its layers and weights, and after compile, unless told otherwise, how it trains, its optimizer too.

    AlreadyExistsError where the file is there and `overwrite` is false; UnimplementedError for HDF5 without h5py.
    """
    texts, state = {"model_config": model.to_json()}, []
    if include_optimizer and isinstance(model.optimizer, TFOptimizer):
        warnings.warn(f"save_model: {type(model.optimizer.optimizer).__name__} has no configuration; {filepath} will not say "
                      "how the model trains: compile it again after loading", stacklevel=2)
    elif include_optimizer and model.optimizer is not None:
        texts["training_config"] = json.dumps({"optimizer_config": described(model.optimizer), **{
            name: described(getattr(model, name)) for name in ("loss", "metrics", "sample_weight_mode", "loss_weights")}})
        state = model.optimizer.get_weights()
    _write(filepath, Saved({layer.name: layer.get_weights() for layer in model.layers}, texts, state), overwrite)


def load_weights(model: Any, path: Any, by_name: bool = False) -> None:
    """Give the layers the weights of a file: in order, or with `by_name` to the layers of the same names.

    InvalidArgumentError where their number or a shape differs; NotFoundError without the file.
    """
    found = read(path).weights
    if not by_name:
        put_weights(model, found, path)
        return
    for layer in model.layers:
        if layer.name in found:
            set_all(layer.weights, found[layer.name], layer.name)


def put_weights(model: Any, weights: Mapping[str, Sequence[np.ndarray]], path: Any) -> None:
    """Give the layers that have weights those of a file, in order. InvalidArgumentError where number or shape differ."""
    full = {name: arrays for name, arrays in weights.items() if len(arrays)}
    layers = [layer for layer in model.layers if layer.weights]
    if len(full) != len(layers):
        raise errors.InvalidArgumentError(f"load_weights: {path} has {len(full)} layers with weights, {model.name} "
                                          f"{len(layers)}; load it into a model of the same layers, or by_name=True")
    for layer, arrays in zip(layers, full.values()):
        set_all(layer.weights, arrays, layer.name)


def _h5py(path: Any) -> Any:
    try:
        return importlib.import_module("h5py")
    except ImportError:
        raise errors.UnimplementedError(f"keras: {path} is HDF5, for which the library h5py must be installed; install it, or "
                                        "name the file .npz") from None


def _write(path: Any, saved: Saved, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise errors.AlreadyExistsError(f"keras: {path} exists; pass overwrite=True or another path")
    if str(path).endswith((".h5", ".hdf5")):
        with _h5py(path).File(path, "w") as file:
            _write_hdf5(file, saved)
        return
    flat = {f"{place}/{number}/{name}": array for place, (name, one) in enumerate(saved.weights.items())
            for number, array in enumerate(one)}
    flat |= {f"optimizer/{number}": array for number, array in enumerate(saved.state)}
    with open(path, "wb") as file:
        np.savez(file, **flat, **{name: np.array(text) for name, text in saved.texts.items()})      # type: ignore[arg-type]


def _write_hdf5(file: Any, saved: Saved) -> None:
    def put(group: Any, before: str, arrays: Sequence[np.ndarray]) -> None:
        titles = [f"{before}/weight_{number}" for number in range(len(arrays))]
        group.attrs["weight_names"] = [title.encode() for title in titles]
        for title, array in zip(titles, arrays):
            group.create_dataset(title, data=array)
    for name, text in saved.texts.items():
        file.attrs[name] = text.encode()
    group = file.create_group("model_weights") if saved.texts else file
    for one in {file, group}:
        one.attrs["backend"], one.attrs["keras_version"] = b"tensorflow", b"2.0.8-tf"
    group.attrs["layer_names"] = [name.encode() for name in saved.weights]
    for name, arrays in saved.weights.items():
        put(group.create_group(name), name, arrays)
    if len(saved.state):
        put(file.create_group("optimizer_weights"), "optimizer", saved.state)


def read(path: Any) -> Saved:
    """What a file holds, whatever its name. NotFoundError without the file, DataLossError where it is damaged."""
    if not os.path.exists(path):
        raise errors.NotFoundError(f"keras: there is no file {path}; save and save_weights write it")
    try:
        with open(path, "rb") as file:
            begin = file.read(len(_HDF5))
            file.seek(0)
            if begin.startswith(_ZIP):
                return _read_arrays(np.load(file, allow_pickle=False))
        if begin != _HDF5:
            raise ValueError(f"it begins with {begin!r}")
        with _h5py(path).File(path, "r") as file:
            return _read_hdf5(file)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise errors.DataLossError(f"keras: {path} is not a file that save or save_weights wrote ({error}); write it "
                                   "again") from None


def _read_hdf5(file: Any) -> Saved:
    def arrays(group: Any) -> list[np.ndarray]:
        return [np.asarray(group[_text(title)]) for title in group.attrs["weight_names"]]
    group = file if "layer_names" in file.attrs else file["model_weights"]
    return Saved({_text(name): arrays(group[_text(name)]) for name in group.attrs["layer_names"]},
                 {name: _text(file.attrs[name]) for name in ("model_config", "training_config") if name in file.attrs},
                 arrays(file["optimizer_weights"]) if "optimizer_weights" in file else ())


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _read_arrays(file: Any) -> Saved:
    titles = [title.split("/", 2) for title in file.files]
    weights: dict[str, list[np.ndarray]] = {}
    for place, number, name in sorted((parts for parts in titles if len(parts) == 3), key=lambda p: (int(p[0]), int(p[1]))):
        weights.setdefault(name, []).append(file[f"{place}/{number}/{name}"])
    return Saved(weights, {parts[0]: str(file[parts[0]]) for parts in titles if len(parts) == 1},
                 [file[f"optimizer/{number}"] for number in range(sum(len(parts) == 2 for parts in titles))])
