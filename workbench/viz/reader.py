"""A reader's place in a journal: what is new, and what was lost to the journal's bound while it followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CATCH_UP", "Reader"]

CATCH_UP = 20_000  # spans that are read back when somebody begins to watch


class Reader:
    """Follows one kind of a journal's records (`spans_since`, …)."""

    def __init__(self, since: Callable[[int], tuple[int, int, list[Any]]], catch_up: int | None = None) -> None:
        self._since, self._catch_up = since, catch_up
        self.cursor = 0  # number of the next record
        self._following = False
        self.lost = 0

    def new(self) -> list[Any]:
        """The records since the last call; of those that nobody followed at most `catch_up`."""
        following, self._following = self._following, True
        self.cursor, lost, records = self._since(self.cursor)
        if following or self._catch_up is None:
            self.lost += lost
            return records
        return records[-self._catch_up:]

    def rest(self) -> None:
        """Nobody watches: what falls out of the journal meanwhile is lost to nobody."""
        self._following = False
