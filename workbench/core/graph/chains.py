"""Immutable lists that share their tails: what a value of dtype variant is."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["EMPTY", "Chain", "chain"]


class Chain:
    """A list that shares its tail: `head` was pushed last, `rest` is the list before. Push and pop cost O(1).

    `jump` is a list further down, so that any element is found in O(log n) (Myers, An applicative random-access stack,
    1983).

    Gradients of lists are lists counted from the head: missing elements, None or beyond the end, are zeros.
    """

    __slots__ = ("head", "jump", "length", "rest")

    def __init__(self, head: Any, rest: Chain | None) -> None:
        self.head, self.rest = head, rest
        self.length: int = 0 if rest is None else rest.length + 1
        self.jump: Chain = self
        if rest is not None:
            over = rest.jump
            self.jump = over.jump if rest.length - over.length == over.length - over.jump.length else rest

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        """Elements, the newest first."""
        at = self
        while at.rest is not None:
            yield at.head
            at = at.rest

    def __repr__(self) -> str:
        return f"<Chain of {self.length}>"


EMPTY = Chain(None, None)


def chain(elements: Sequence[Any]) -> Chain:
    """The list into which `elements` were pushed in order."""
    result = EMPTY
    for element in elements:
        result = Chain(element, result)
    return result
