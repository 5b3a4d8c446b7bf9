"""What a random call is made of: numbers that follow from a seed, and the call itself."""
from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ANY", "FLOATS", "NUMBERS", "Call", "Draw"]

FLOATS = ("float32", "float32", "float64", "float16")
NUMBERS = (*FLOATS, "int32", "int64", "uint8", "int8", "int16", "complex64")
ANY = (*NUMBERS, "bool", "string")
WORDS = (b"a", b"bc", b"", b"1.5", b"x y", b"ABC def")


class Call(NamedTuple):
    """`program(tf, *tensors)` gives a tensor or a list; `text` says which call it is, its first word the operation."""

    text: str
    arrays: tuple[Any, ...]
    program: Callable[..., Any]


class Draw:
    """Choices that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self.random, self._numbers = random.Random(seed), np.random.default_rng(seed)

    def one(self, *of: Any) -> Any:
        return self.random.choice(of)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def shape(self, rank: int | None = None, empty: float = 0.05) -> tuple[int, ...]:
        rank = self.random.randrange(5) if rank is None else rank
        return tuple(0 if self.chance(empty) else self.one(1, 2, 3, 3, 4) for _ in range(rank))

    def array(self, shape: Sequence[int], dtype: str) -> Any:
        count = int(np.prod(shape))
        if dtype == "string":
            return np.array([self.one(*WORDS) for _ in range(count)], object).reshape(shape)
        if dtype == "bool":
            return self._numbers.random(shape) < 0.5
        if dtype.startswith("complex"):
            return (self._numbers.standard_normal(shape) + 1j * self._numbers.standard_normal(shape)).astype(dtype)
        if dtype.startswith("float"):
            return np.round(self._numbers.standard_normal(shape) * 2, 2).astype(dtype)
        return self._numbers.integers(0 if dtype[0] == "u" else -5, 6, shape).astype(dtype)

    def ints(self, low: int, high: int, shape: Sequence[int], *dtypes: str) -> Any:
        """Whole numbers from `low` to below `high`, int32 or int64."""
        return self._numbers.integers(low, high, shape).astype(self.one(*(dtypes or ("int32", "int64"))))

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        found = list(items)
        self.random.shuffle(found)
        return found

    def axis(self, rank: int) -> int:
        """An axis, counted from the front or the end, now and then none that there is."""
        return rank + self.one(0, 2) if not rank or self.chance(0.06) else self.random.randrange(-rank, rank)

    def axes(self, rank: int) -> Any:
        """None, one axis, or several from the front on."""
        if not rank or self.chance(0.25):
            return None
        if self.chance(0.4):
            return self.axis(rank)
        return sorted(self.random.sample(range(rank), self.random.randrange(1, rank + 1)))

    def fitting(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts with `shape`, nearly always."""
        found = [1 if self.chance(0.3) else d for d in shape]
        if found and self.chance(0.04):
            found[-1] = 7
        return tuple(found[self.random.randrange(len(found) + 1) if self.chance(0.3) else 0:])
