"""Sequences of numbers: filled up to one length, and pairs of neighbours to learn from."""
from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors

__all__ = ["make_sampling_table", "pad_sequences", "skipgrams"]


def pad_sequences(sequences: Sequence[Sequence[Any]], maxlen: int | None = None, dtype: Any = "int32", padding: str = "pre",
                  truncating: str = "pre", value: float = 0.0) -> np.ndarray:
    """Sequences as rows [n, maxlen, …]: shorter ones with `value` before them, or behind with padding="post".

    Longer ones lose their beginning, or their end with truncating="post". InvalidArgumentError for other words, for what
    is no list of sequences, and for rows of different shapes.
    """
    for name, word in (("padding", padding), ("truncating", truncating)):
        if word not in ("pre", "post"):
            raise errors.InvalidArgumentError(f"pad_sequences: {name} type {word!r} not understood; use 'pre' or 'post'")
    if not hasattr(sequences, "__len__") or not all(hasattr(one, "__len__") for one in sequences):
        raise errors.InvalidArgumentError("pad_sequences: `sequences` must be a list of iterables; pass a list of lists")
    width = max(map(len, sequences), default=0) if maxlen is None else maxlen
    shape = next((np.shape(one)[1:] for one in sequences if len(one)), ())
    rows = np.full((len(sequences), width, *shape), value).astype(dtype)
    for place, one in enumerate(sequences):
        cut = np.asarray(one[max(len(one) - width, 0):] if truncating == "pre" else one[:width], dtype)
        if len(cut) and cut.shape[1:] != shape:
            raise errors.InvalidArgumentError(f"pad_sequences: Shape of sample {cut.shape[1:]} of sequence at position {place} "
                                              f"is different from expected shape {shape}; give all elements one shape")
        if len(cut):
            rows[place, slice(len(cut)) if padding == "post" else slice(width - len(cut), None)] = cut
    return rows


def make_sampling_table(size: int, sampling_factor: float = 1e-5) -> np.ndarray:
    """How likely a word of each rank by frequency is kept, where frequencies follow Zipf's law, as word2vec samples."""
    rank = np.arange(size)
    rank[:1] = 1
    rarity = rank * (np.log(rank) + 0.577) + 0.5 - 1 / (12.0 * rank)
    table: np.ndarray = np.minimum(1.0, np.sqrt(sampling_factor * rarity))
    return table


def skipgrams(sequence: Sequence[int], vocabulary_size: int, window_size: int = 4, negative_samples: float = 1.0,
              shuffle: bool = True, categorical: bool = False, sampling_table: Any = None,
              seed: int | None = None) -> tuple[list[list[int]], list[Any]]:
    """(pairs [word, neighbour], labels): 1 for neighbours within the window, 0 for words with random others.

    The word 0 is none. `sampling_table` says how likely a word is used; draws come from Python's `random`.
    """
    pairs: list[list[int]] = []
    for place, word in enumerate(sequence):
        if not word or (sampling_table is not None and sampling_table[word] < random.random()):
            continue
        near = range(max(0, place - window_size), min(len(sequence), place + window_size + 1))
        pairs += [[word, sequence[other]] for other in near if other != place and sequence[other]]
    true, false = ([0, 1], [1, 0]) if categorical else (1, 0)
    labels: list[Any] = [true] * len(pairs)
    wanted = int(len(pairs) * negative_samples)
    if wanted > 0:
        words = [word for word, _ in pairs]
        random.shuffle(words)
        pairs += [[words[number % len(words)], random.randint(1, vocabulary_size - 1)] for number in range(wanted)]
        labels += [false] * wanted
    if shuffle:
        seed = random.randint(0, 10 ** 7) if seed is None else seed
        for both in (pairs, labels):
            random.seed(seed)
            random.shuffle(both)
    return pairs, labels
