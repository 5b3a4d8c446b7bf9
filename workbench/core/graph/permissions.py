"""What may be done with a graph: everything, unless a program forbids additions, feeds or fetches."""
from __future__ import annotations

from typing import Any

__all__ = ["Permissions"]


class Permissions:
    """Tensors that are not fed; operations and tensors that are not fetched; an end of all additions."""

    def __init__(self) -> None:
        self.finalized = False
        self._unfed: set[Any] = set()
        self._unfetched: set[Any] = set()

    def prevent_feeding(self, tensor: Any) -> None:
        """From now on no step may be fed a value of `tensor`."""
        self._unfed.add(tensor)

    def is_feedable(self, tensor: Any) -> bool:
        """May a step be fed a value of `tensor`?"""
        return tensor not in self._unfed

    def prevent_fetching(self, op: Any) -> None:
        """From now on no step may ask for an operation, nor for its tensors."""
        self._unfetched.update([op, *getattr(op, "outputs", ())])

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """May a step ask for it?"""
        return tensor_or_op not in self._unfetched

    def finalize(self) -> None:
        """From now on additions raise FailedPreconditionError."""
        self.finalized = True

    def _unsafe_unfinalize(self) -> None:
        """Take `finalize` back: for who asked for it, once nobody else counts on it."""
        self.finalized = False
