"""Strings and numbers as identifiers: their place in a vocabulary, hashed crosses of several features."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.ops.strings_text import farm

_MASK = 2**64 - 1


@lru_cache(maxsize=64)
def _places(vocabulary: tuple[Any, ...]) -> dict[Any, int]:
    found = {word: place for place, word in enumerate(vocabulary)}
    if len(found) != len(vocabulary):
        twice = next(word for place, word in enumerate(vocabulary) if found[word] != place)
        raise errors.InvalidArgumentError(f"vocabulary_index: {twice!r} stands twice in the vocabulary; leave one out")
    return found


@op("values[...] -> [...]", types="any -> int64", differentiable=False)
def vocabulary_index(values: Any, *, vocabulary: Any, default_value: int = -1, num_oov_buckets: int = 0) -> Any:
    """The place of each value (string or integer) in the tuple `vocabulary`. For others `default_value`, or one of
    `num_oov_buckets` numbers behind the vocabulary's by their hash."""
    places = _places(vocabulary)

    def place(value: Any) -> int:
        found = places.get(value)
        if found is not None:
            return found
        text = value if isinstance(value, bytes) else str(value).encode()
        return len(vocabulary) + farm(text) % num_oov_buckets if num_oov_buckets else default_value
    flat = [place(value) for value in np.asarray(values).ravel().tolist()]
    return np.array(flat, np.int64).reshape(np.shape(values))


def _joined(first: int, second: int) -> int:
    """One fingerprint of two: TensorFlow's FingerprintCat64."""
    multiplier = 0xC6A4A7935BD1E995

    def mixed(value: int) -> int:
        return value ^ (value >> 47)
    found = (first ^ multiplier) ^ (mixed(second * multiplier & _MASK) * multiplier & _MASK)
    found = mixed(found * multiplier & _MASK) * multiplier & _MASK
    return mixed(found)


def _crosses(inputs: Sequence[Any], attrs: Any) -> list[Shape]:
    return [Shape([None, 2]), Shape([None]), Shape([2])]


@op("*parts? -> [n,2] [n] [2]", types="any -> int64 int64 int64", shape=_crosses, differentiable=False)
def hashed_crosses(*parts: Any, num_buckets: int, hash_key: int) -> Any:
    """Each combination of one value from each sparse matrix, row by row, as a hash below `num_buckets`.

    `parts` are indices, values and shape of each matrix; the results are those of the matrix of hashes.
    """
    columns = [parts[i:i + 3] for i in range(0, len(parts), 3)]
    rows = int(columns[0][2][0])
    if any(int(shape[0]) != rows for _, _, shape in columns):
        counts = ", ".join(str(int(shape[0])) for _, _, shape in columns)
        raise errors.InvalidArgumentError(f"hashed_crosses: the features have {counts} rows; give each the same number")
    by_row: list[list[list[int]]] = [[[] for _ in columns] for _ in range(rows)]
    for number, (indices, values, _) in enumerate(columns):
        for row, value in zip(indices[:, 0].tolist(), values.tolist()):
            by_row[row][number].append(farm(value) if isinstance(value, bytes) else value & _MASK)
    places, found = [], []
    for row, features in enumerate(by_row):
        for column, combination in enumerate(itertools.product(*features)):
            hashed = hash_key
            for feature in combination:
                hashed = _joined(hashed, feature)
            places.append((row, column))
            found.append(hashed % num_buckets)
    width = max((column + 1 for _, column in places), default=0)
    return np.array(places, np.int64).reshape(-1, 2), np.array(found, np.int64), np.array([rows, width], np.int64)
