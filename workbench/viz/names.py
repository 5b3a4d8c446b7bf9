"""Texts as numbers, so that columns can hold them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Names"]


@dataclass(slots=True)
class Names:
    """Each text has the number of its place in `texts`."""

    texts: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

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
