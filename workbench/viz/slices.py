"""Work that pauses now and then, so that no update of a screen takes long."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["Slices", "drain"]

T = TypeVar("T")
Slices = Generator[None, None, T]


def drain(work: Slices[T]) -> T:
    """The result of work that is done in slices, done at once."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
