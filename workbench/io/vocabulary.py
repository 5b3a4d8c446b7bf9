"""Text to numbers before training: vocabularies, documents as rows of word numbers or bytes."""
from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from workbench import errors

__all__ = ["ByteProcessor", "CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]

_TOKEN = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)
_FORMAT = "workbench vocabulary 1"


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each document; capitals within a word begin a new one."""
    for document in iterator:
        yield _TOKEN.findall(document)


class CategoricalVocabulary:
    """Categories numbered in the order in which they appear; 0 is the unknown one."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown, self._frozen = unknown_token, False
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._counts: Counter[Any] = Counter()

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """From here on, new categories are unknown (or, with False, get numbers again)."""
        self._frozen = freeze

    def get(self, category: Any) -> int:
        """The number of a category; a new one unless frozen."""
        if category not in self._mapping:
            if self._frozen:
                return 0
            self._mapping[category] = len(self._mapping)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Count a category `count` times, for trim()."""
        if self.get(category) > 0:
            self._counts[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep categories seen more than `min_frequency` (and less than `max_frequency`) times, numbered from the most
        frequent one down."""
        ordered = sorted(sorted(self._counts.items(), key=lambda item: (isinstance(item[0], str), item[0])),
                         key=lambda item: item[1], reverse=True)
        kept = [(name, count) for name, count in ordered
                if count > min_frequency and not 0 < max_frequency <= count]
        self._mapping = {self._unknown: 0, **{name: number for number, (name, _) in enumerate(kept, 1)}}
        self._counts = Counter(dict(kept))

    def reverse(self, class_id: int) -> Any:
        """The category of a number. InvalidArgumentError when there is none."""
        if not 0 <= class_id < len(self._mapping):
            raise errors.InvalidArgumentError(f"CategoricalVocabulary: there is no category {class_id}; there are "
                                              f"{len(self._mapping)}")
        return list(self._mapping)[class_id]


class VocabularyProcessor:
    """Documents (strings) to int64 arrays of `max_document_length` word numbers, cut or filled up with 0.

    Words seen `min_frequency` times or less are unknown (0). `tokenizer_fn` maps documents to lists of words.
    """

    def __init__(self, max_document_length: int, min_frequency: int = 0, vocabulary: CategoricalVocabulary | None = None,
                 tokenizer_fn: Callable[[Iterable[str]], Iterable[list[str]]] | None = None) -> None:
        if max_document_length < 1:
            raise errors.InvalidArgumentError(f"VocabularyProcessor: max_document_length is {max_document_length}; use 1 or "
                                              "more")
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learn the words of the documents; later ones are unknown."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray[Any, Any]]:
        """The word numbers of each document, one after the other."""
        for words in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for place, word in enumerate(words[:self.max_document_length]):
                row[place] = self.vocabulary_.get(word)
            yield row

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[np.ndarray[Any, Any]]:
        """fit, then transform: pass a list, not a generator."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """Documents from word numbers, words joined by spaces."""
        for row in documents:
            yield " ".join(str(self.vocabulary_.reverse(int(number))) for number in row)

    def save(self, filename: Any) -> None:
        """Write lengths and words as JSON; the tokenizer is not kept."""
        words = {str(word): self.vocabulary_._counts.get(word, 0) for word in self.vocabulary_._mapping}
        with open(os.fsdecode(filename), "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "max_document_length": self.max_document_length,
                       "min_frequency": self.min_frequency, "words": list(words.items())}, file, ensure_ascii=False)

    @classmethod
    def restore(cls, filename: Any) -> VocabularyProcessor:
        """What save() wrote. NotFoundError when it is missing, DataLossError for another file."""
        path = os.fsdecode(filename)
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if found["format"] != _FORMAT:
                raise ValueError(found["format"])
            made = cls(found["max_document_length"], found["min_frequency"])
            (unknown, _), *words = found["words"]
        except FileNotFoundError:
            raise errors.NotFoundError(f"VocabularyProcessor: {path!r} does not exist; check the path") from None
        except (ValueError, KeyError, TypeError) as error:
            raise errors.DataLossError(f"VocabularyProcessor: {path!r} is not a saved vocabulary ({error}); pass what save() "
                                       "wrote") from None
        made.vocabulary_ = CategoricalVocabulary(unknown)
        for word, count in words:
            made.vocabulary_.add(word, count)
        made.vocabulary_.freeze()
        return made


class ByteProcessor:
    """Documents (strings or bytes) to uint8 arrays of their first `max_document_length` bytes, filled up with 0."""

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> ByteProcessor:
        """There is nothing to learn."""
        return self

    def transform(self, x: Iterable[str | bytes]) -> Iterator[np.ndarray[Any, Any]]:
        """The bytes (UTF-8) of each document, one after the other."""
        for document in x:
            data = (document.encode("utf-8") if isinstance(document, str) else document)[:self.max_document_length]
            yield np.pad(np.frombuffer(data, np.uint8), (0, self.max_document_length - len(data)))

    def fit_transform(self, x: Iterable[str | bytes]) -> Iterator[np.ndarray[Any, Any]]:
        """transform."""
        return self.transform(x)

    def reverse(self, x: Iterable[Any]) -> Iterator[str]:
        """Documents from bytes, without the zeros at their end."""
        for row in x:
            yield np.trim_zeros(np.asarray(row, np.uint8), "b").tobytes().decode("utf-8")
