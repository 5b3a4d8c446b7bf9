"""Texts as numbers, so that columns can hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from struct import pack
from typing import Any

import numpy as np

__all__ = ["Names", "begins", "different", "found", "numbered", "packed", "ranked"]

_MANY = 1 << 31  # more than there are texts


@dataclass(slots=True)
class Names:
    """Each text has the number of its place in `texts`."""

    texts: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    _links: dict[int, int] = field(default_factory=dict)
    _linked: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (np.empty(0, np.int64),) * 2)  # these, ascending
    _other: tuple[Names | None, np.ndarray] = (None, np.empty(0, np.int64))
    _derived: dict[Callable[[str], str], np.ndarray] = field(default_factory=dict)

    def number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def column(self, texts: list[str]) -> np.ndarray:
        """The numbers of many texts that are few different ones."""
        if not self.numbers.keys() >= set(texts):
            # as they come: what is equal is ordered by number, in every process alike
            new = [text for text in dict.fromkeys(texts) if text not in self.numbers]
            self.numbers.update(zip(new, count(len(self.texts))))
            self.texts += new
        return found(self.numbers, texts)

    def taken(self, other: Names, numbers: np.ndarray) -> np.ndarray:
        """The numbers here of texts with these numbers in `other`, the same one mostly; each text is looked up once."""
        if self._other[0] is not other:
            self._other = other, np.empty(0, np.int64)
        table = self._other[1]
        if len(table) < len(other.texts):
            self._other = other, (table := np.append(table, np.full(len(other.texts) - len(table), -1)))
        if (new := table[numbers] < 0).any():
            once = list(dict.fromkeys(numbers[new].tolist()))  # as they come
            table[once] = self.column(list(map(other.texts.__getitem__, once)))
        return np.asarray(table[numbers])

    def links(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The links "source|target" between these; each text is made once."""
        pairs = sources * _MANY + targets
        known, numbers = self._linked
        at = np.searchsorted(known, pairs)
        if not len(known) or not (known.take(at, mode="clip") == pairs).all():
            for pair in set(pairs.tolist()) - self._links.keys():
                self._links[pair] = self.number("|".join(map(self.texts.__getitem__, divmod(pair, _MANY))))
            known, numbers = self._linked = _columns(sorted(self._links.items()))
            at = np.searchsorted(known, pairs)
        return np.asarray(numbers[at])

    def derived(self, of: Callable[[str], str], numbers: np.ndarray) -> np.ndarray:
        """The numbers of what `of` makes of these texts; each text is taken apart once."""
        known = self._derived.get(of, np.empty(0, np.int64))
        if len(known) < len(self.texts):
            known = self._derived[of] = np.append(known, np.full(len(self.texts) - len(known), -1))
        for number in set(numbers[known[numbers] < 0].tolist()):
            known[number] = self.number(of(self.texts[number]))
        return np.asarray(known[numbers])

    def sources(self, links: np.ndarray) -> np.ndarray:
        """The tasks that links lead from, "source|target"."""
        return self.derived(_source, links)


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def _source(link: str) -> str:
    return link.partition("|")[0]


def packed(values: Sequence[Any], dtype: type) -> np.ndarray:
    """Many numbers as an array that is only read, int64 or float64; half of what NumPy takes to look at each."""
    return np.frombuffer(pack(f"{len(values)}{'d' if dtype is np.float64 else 'q'}", *values), dtype)


def found(numbers: Mapping[Any, int], keys: Sequence[Any]) -> np.ndarray:
    """What many keys stand for in `numbers`; asked for all of them at once, a quarter of one call for each."""
    return packed(itemgetter(*keys, *keys[:1])(numbers)[:-1] if keys else (), np.int64)


def begins(codes: np.ndarray) -> np.ndarray:
    """The places where another one stands than before."""
    changed = np.ones(len(codes), bool)
    np.not_equal(codes[1:], codes[:-1], out=changed[1:])
    return changed.nonzero()[0]


def different(codes: np.ndarray) -> np.ndarray:
    """The different ones of many small numbers."""
    used = np.zeros(int(codes.max(initial=-1)) + 1, bool)
    used[codes] = True
    return used.nonzero()[0]


def numbered(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different ones of many small numbers, and the place of each among them."""
    used = np.zeros(int(codes.max(initial=-1)) + 1, bool)
    used[codes] = True
    return used.nonzero()[0], (np.cumsum(used) - 1)[codes]


def ranked(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `numbered`, of any numbers: as they come they mostly ascend in stretches, which a stable sort merges in a fraction of
    the time that NumPy takes otherwise."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    new = begins(ordered)
    first, ranks = np.zeros(len(codes), np.int64), np.empty(len(codes), np.int64)
    first[new[1:]] = 1
    ranks[order] = np.cumsum(first)
    return ordered[new], ranks
