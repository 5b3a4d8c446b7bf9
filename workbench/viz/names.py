"""Texts as numbers, so that columns can hold them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Names", "numbered"]


@dataclass(slots=True)
class Names:
    """Each text has the number of its place in `texts`."""

    texts: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    _links: dict[tuple[int, int], int] = field(default_factory=dict)
    _sources: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def column(self, texts: list[str]) -> np.ndarray:
        """The numbers of many texts that are few different ones."""
        for text in dict.fromkeys(texts):  # as they come: what is equal is ordered by number, in every process alike
            if text not in self.numbers:
                self.number(text)
        return np.fromiter(map(self.numbers.__getitem__, texts), np.int64, len(texts))

    def links(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The links "source|target" between these; each text is made once."""
        pairs = list(zip(sources.tolist(), targets.tolist()))
        for pair in set(pairs) - self._links.keys():
            self._links[pair] = self.number("|".join(map(self.texts.__getitem__, pair)))
        return np.fromiter(map(self._links.__getitem__, pairs), np.int64, len(pairs))

    def sources(self, links: np.ndarray) -> np.ndarray:
        """The tasks that links lead from, "source|target"; each text is taken apart once."""
        while len(self._sources) < len(self.texts):
            new = [self.number(text.partition("|")[0]) for text in self.texts[len(self._sources):]]
            self._sources = np.append(self._sources, new)
        return self._sources[links]


def numbered(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different ones of many small numbers, and the place of each among them."""
    used = np.zeros(int(codes.max(initial=-1)) + 1, bool)
    used[codes] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[codes]
