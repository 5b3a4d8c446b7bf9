"""What a program gives a model to train on, as lists of arrays that fit its inputs and outputs."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import bare

__all__ = ["batches", "fitted", "means", "parts", "rows", "spread", "taken", "weights_of"]


def spread(what: str, given: Any, names: Sequence[str]) -> list[Any]:
    """One value for each name: from a dictionary by name, a list in order, or the same for all.

    InvalidArgumentError for unknown names or another number.
    """
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise errors.InvalidArgumentError(f"keras: {what} names {', '.join(unknown)}, but the names are "
                                              f"{', '.join(names)}; Unknown entry in the dictionary")
        return [given.get(name) for name in names]
    if isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise errors.InvalidArgumentError(f"keras: {what} has {len(given)} entries for {len(names)} ({', '.join(names)}); "
                                              "give one for each")
        return list(given)
    return [given] * len(names)


def fitted(what: str, data: Any, names: Sequence[str], shapes: Sequence[Any]) -> list[np.ndarray]:
    """`data` (an array, a list or a dictionary of them) as a list of arrays of these static shapes; vectors become columns.

    InvalidArgumentError naming the input where number, rank or a dimension does not fit.
    """
    if isinstance(data, Mapping):
        missing = [name for name in names if name not in data]
        if missing:
            raise errors.InvalidArgumentError(f"keras: No data provided for {missing[0]!r} of the model's {what}; the "
                                              f"dictionary has {', '.join(map(str, data))}")
        found = [_array(what, data[name]) for name in names]
    elif isinstance(data, (list, tuple)) and len(names) == 1 and not (len(data) == 1 and np.ndim(data[0]) > 0):
        found = [_array(what, data)]
    else:
        found = [_array(what, one) for one in (data if isinstance(data, (list, tuple)) else [data])]
    if len(found) != len(names):
        raise errors.InvalidArgumentError(f"keras: the model's {what} are {len(names)} arrays ({', '.join(names)}), but "
                                          f"{len(found)} were given; the list of Numpy arrays must be as long")
    return [_one(what, name, array, shape) for name, array, shape in zip(names, found, shapes)]


def _array(what: str, value: Any) -> np.ndarray:
    return np.asarray(bare(value, f"keras: the model's {what}"))


def _one(what: str, name: str, array: np.ndarray, shape: Any) -> np.ndarray:
    if array.ndim == 1:
        array = array[:, None]
    if shape is None or (array.ndim == len(shape) and all(d in (None, n) for d, n in list(zip(shape, array.shape))[1:])):
        return array
    raise errors.InvalidArgumentError(f"keras: Error when checking model {what}: expected {name} to have shape {tuple(shape)} "
                                      f"but got array with shape {array.shape}; the first is the batch")


def rows(*groups: Sequence[np.ndarray]) -> int:
    """The number of rows that all arrays have. InvalidArgumentError where they differ."""
    found = sorted({len(array) for group in groups for array in group})
    if len(found) > 1:
        raise errors.InvalidArgumentError("keras: All input arrays and target arrays should have the same number of samples; "
                                          f"found {', '.join(map(str, found))}")
    return found[0] if found else 0


def weights_of(names: Sequence[str], targets: Sequence[np.ndarray], ranks: Sequence[Any], sample_weight: Any,
               class_weight: Any) -> list[np.ndarray]:
    """A weight for each row of each output (of rank 2: for each of its time steps): those given, times those of its class, ones
    by default."""
    given = spread("sample_weight", sample_weight if not isinstance(sample_weight, np.ndarray) else [sample_weight], names)
    if class_weight is None or not any(isinstance(one, Mapping) for one in class_weight.values()):
        classes = [class_weight] * len(names) if isinstance(class_weight, Mapping) else [None] * len(names)
    else:
        classes = spread("class_weight", class_weight, names)
    return [_row_weights(*one) for one in zip(names, targets, ranks, given, classes)]


def _row_weights(name: str, target: np.ndarray, rank: int, given: Any, by_class: Any) -> np.ndarray:
    weights = np.ones(target.shape[:rank], "float32") if given is None else np.asarray(
        bare(given, f"keras: sample_weight of {name}"), "float32")
    if weights.ndim > target.ndim or weights.shape != target.shape[:weights.ndim]:
        raise errors.InvalidArgumentError(f"keras: Found a sample_weight array of shape {weights.shape} for {name}, whose "
                                          f"targets have shape {target.shape}; give one weight for each row")
    if weights.ndim != rank:
        raise errors.InvalidArgumentError(f"keras: sample_weight of {name} has shape {weights.shape} but rank {rank} is "
                                          "needed; compile with sample_weight_mode=\"temporal\" for a weight for each time "
                                          "step, and without it for one for each row")
    if by_class:
        numbers = target.argmax(-1) if target.shape[-1] > 1 else target.reshape(len(target)).astype(int)
        missing = sorted(set(np.unique(numbers).tolist()) - set(by_class))
        if missing:
            raise errors.InvalidArgumentError(f"keras: `class_weight` must contain all classes in the data; {missing[0]} is in "
                                              f"{name} but not there")
        weights = weights * np.array([by_class[number] for number in numbers.tolist()], "float32")
    return weights


def batches(count: int, size: int) -> Iterator[tuple[int, int]]:
    """(first, end) of each batch of at most `size` of `count` rows."""
    return ((first, min(first + size, count)) for first in range(0, count, size))


def taken(arrays: Sequence[np.ndarray], chosen: Any) -> list[np.ndarray]:
    """These rows of each array."""
    return [array[chosen] for array in arrays]


def parts(arrays: Sequence[np.ndarray], size: int) -> Iterator[list[np.ndarray]]:
    """The rows of all arrays in batches of at most `size`."""
    return (taken(arrays, slice(*edges)) for edges in batches(rows(arrays), size))


def means(run: Callable[[list[np.ndarray]], Sequence[Any]], batches: Iterable[list[np.ndarray]]) -> list[float]:
    """What `run` measures of batches: the mean by their numbers of rows."""
    total: Any = 0.0
    count = 0
    for batch in batches:
        total = total + len(batch[0]) * np.asarray(run(batch), "float64")
        count += len(batch[0])
    return [float(one) for one in np.atleast_1d(total / max(count, 1))]
