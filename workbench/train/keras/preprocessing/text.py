"""Texts: cut into words, which are numbered by how often they occur."""
from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench import errors

__all__ = ["Tokenizer", "hashing_trick", "one_hot", "text_to_word_sequence"]

_MARKS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def text_to_word_sequence(text: str, filters: str = _MARKS, lower: bool = True, split: str = " ") -> list[str]:
    """The words of a text between `split` and the characters of `filters`, in lower case unless told otherwise."""
    text = text.lower() if lower else text
    return [word for word in text.translate({ord(mark): split for mark in filters}).split(split) if word]


def hashing_trick(text: str, n: int, hash_function: Any = None, filters: str = _MARKS, lower: bool = True,
                  split: str = " ") -> list[int]:
    """A number from 1 to n - 1 for each word, by "md5", by a function, or by Python's hash, which differs between processes."""
    number: Callable[[str], int] = hash_function or hash
    if hash_function == "md5":
        number = lambda word: int(hashlib.md5(word.encode()).hexdigest(), 16)  # noqa: E731
    return [number(word) % (n - 1) + 1 for word in text_to_word_sequence(text, filters, lower, split)]


def one_hot(text: str, n: int, filters: str = _MARKS, lower: bool = True, split: str = " ") -> list[int]:
    """hashing_trick by Python's hash."""
    return hashing_trick(text, n, None, filters, lower, split)


class Tokenizer:
    """Numbers words, or characters with `char_level`, from 1 on by how often they occur in texts; 0 is no word.

    With `num_words` those with smaller numbers alone are kept. After `fit_on_texts` it has word_index, word_counts,
    word_docs (in how many texts), index_docs (the same by number) and document_count.
    """

    def __init__(self, num_words: int | None = None, filters: str = _MARKS, lower: bool = True, split: str = " ",
                 char_level: bool = False) -> None:
        self.num_words, self.filters, self.lower, self.split, self.char_level = num_words, filters, lower, split, char_level
        self.word_counts: Counter[str] = Counter()
        self.word_docs: Counter[str] = Counter()
        self.word_index: dict[str, int] = {}
        self.index_docs: dict[int, int] = {}
        self.document_count = 0

    def _words(self, text: Any) -> Sequence[str]:
        return text if self.char_level else text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Iterable[Any]) -> None:
        """Count words, those of earlier calls too, and number them."""
        self.document_count = 0
        for text in texts:
            self.document_count += 1
            words = self._words(text)
            self.word_counts.update(words)
            self.word_docs.update(set(words))
        ordered = [word for word, _ in self.word_counts.most_common()]
        self.word_index = {word: number for number, word in enumerate(ordered, 1)}
        self.index_docs = {self.word_index[word]: count for word, count in self.word_docs.items()}

    def fit_on_sequences(self, sequences: Sequence[Sequence[int]]) -> None:
        """Count in how many sequences each number is."""
        self.document_count = len(sequences)
        self.index_docs = dict(Counter(number for one in sequences for number in set(one)))

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        """The numbers of the words of each text that have one."""
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        """The same, one after the other."""
        for text in texts:
            found = [self.word_index.get(word) for word in self._words(text)]
            yield [number for number in found if number is not None and not (self.num_words and number >= self.num_words)]

    def texts_to_matrix(self, texts: Iterable[Any], mode: str = "binary") -> np.ndarray:
        """sequences_to_matrix of the texts."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences: Sequence[Sequence[int]], mode: str = "binary") -> np.ndarray:
        """A row [numbers] for each sequence: "binary" 1 for those in it, "count", "freq" (shares), or "tfidf".

        InvalidArgumentError for another mode, and before a fit that is needed.
        """
        if mode not in ("binary", "count", "freq", "tfidf"):
            raise errors.InvalidArgumentError(f"Tokenizer: Unknown vectorization mode: {mode!r}; use 'binary', 'count', "
                                              "'freq' or 'tfidf'")
        if not self.num_words and not self.word_index:
            raise errors.InvalidArgumentError("Tokenizer: the width is not known; Specify a dimension (num_words argument), or "
                                              "fit on some text data first")
        if mode == "tfidf" and not self.document_count:
            raise errors.InvalidArgumentError("Tokenizer: no texts are counted; Fit the Tokenizer on some data before using "
                                              "tfidf mode")
        width = self.num_words or len(self.word_index) + 1
        counts = np.zeros((len(sequences), width))
        for row, one in enumerate(sequences):
            np.add.at(counts[row], [number for number in one if number < width], 1)
        if mode == "count":
            return counts
        if mode == "binary":
            return np.minimum(counts, 1)
        if mode == "freq":
            return counts / np.maximum([[len(one)] for one in sequences], 1)
        rarity = np.log(1 + self.document_count / (1 + np.array([self.index_docs.get(number, 0) for number in range(width)])))
        found: np.ndarray = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * rarity
        return found
