"""Helpers around models: classes as vectors, rows of norm one, batches by number."""
from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from workbench import errors
from workbench.train.keras.progress import Progbar
from workbench.train.keras.registry import CustomObjectScope, Kind, custom_object_scope, described, get_custom_objects

__all__ = ["CustomObjectScope", "Progbar", "Sequence", "custom_object_scope", "deserialize_keras_object", "get_custom_objects",
           "has_arg", "normalize", "serialize_keras_object", "to_categorical"]

serialize_keras_object = described


def has_arg(fn: Any, name: str, accept_all: bool = False) -> bool:
    """Does a function take an argument of this name; with `accept_all` also where it takes any?"""
    taken = inspect.signature(fn).parameters
    if accept_all and any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return True
    return name in taken and taken[name].kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def deserialize_keras_object(identifier: Any, module_objects: Any = None, custom_objects: Any = None,
                             printable_module_name: str = "object") -> Any:
    """The object that a name or a configuration describes, looked for among the given ones. InvalidArgumentError for others."""
    return Kind(printable_module_name, aliases=module_objects).deserialize(identifier, custom_objects)


def to_categorical(y: Any, num_classes: int | None = None) -> np.ndarray:
    """Numbers of classes [n] as rows [n, num_classes] with a 1 at the number. InvalidArgumentError for numbers outside."""
    numbers = np.asarray(y, int).ravel()
    count = int(num_classes or (numbers.max() + 1 if numbers.size else 0))
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise errors.InvalidArgumentError(f"to_categorical: the classes are {numbers.min()} to {numbers.max()}, but "
                                          f"num_classes is {count}; number them from 0")
    return np.eye(count)[numbers]


def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray:
    """`x` divided by its norms along `axis`; what is 0 stays so."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    return np.asarray(x) / np.expand_dims(np.where(norms == 0, 1, norms), axis)


class Sequence:
    """Base of batches that are read by number: a subclass defines __getitem__ and __len__."""

    def __getitem__(self, index: int) -> Any:
        raise errors.UnimplementedError(f"{type(self).__name__}: __getitem__(index) is missing; define it")

    def __len__(self) -> int:
        raise errors.UnimplementedError(f"{type(self).__name__}: __len__() is missing; define it")

    def on_epoch_end(self) -> None:
        """After each epoch, to change the order."""
