"""A reader's place in a journal: what is new, and what was lost to the journal's bound while it followed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from workbench.core.trace import Journal, Row
from workbench.viz.batch import Batch
from workbench.viz.names import Names

__all__ = ["CATCH_UP", "Reader", "Shared", "per_journal"]

CATCH_UP = 20_000  # spans that are read back when somebody begins to watch
Since = Callable[[int], tuple[int, int, list[Any]]]
T = TypeVar("T")


class Shared:
    """The spans of one journal for several readers: those that stand at one place get the same batch, until `renew`."""

    def __init__(self, since: Since) -> None:
        self._since = since
        self.names = Names()  # of the tasks of all batches
        self._known: dict[int, tuple[int, int, list[Row]]] = {}
        self._batches: dict[int, Batch] = {}

    def renew(self) -> None:
        """Look at the journal anew."""
        self._known.clear()
        self._batches.clear()

    def since(self, cursor: int) -> tuple[int, int, list[Row]]:
        if cursor not in self._known:
            self._known[cursor] = self._since(cursor)
        return self._known[cursor]

    def batch(self, rows: list[Row]) -> Batch:
        """The columns of what `since` gave."""
        found = self._batches.get(id(rows))
        if found is None or found.rows is not rows:
            found = self._batches[id(rows)] = Batch(rows, self.names)
        return found


class Reader:
    """Follows one kind of a journal's records (`rows_since`, …)."""

    def __init__(self, since: Since, catch_up: int | None = None) -> None:
        self._since, self._catch_up = since, catch_up
        self.cursor = 0  # number of the next record
        self._following = False
        self.lost = 0

    def new(self, since: Since | None = None) -> list[Any]:
        """The records since the last call, from `since` where somebody has read them already; of those that nobody
        followed at most `catch_up`."""
        following, self._following = self._following, True
        self.cursor, lost, records = (since or self._since)(self.cursor)
        if following or self._catch_up is None:
            self.lost += lost
            return records
        return records[-self._catch_up:]

    def rest(self) -> None:
        """Nobody watches: what falls out of the journal meanwhile is lost to nobody."""
        self._following = False


def per_journal(make: Callable[[Journal], T]) -> Callable[[Journal], T]:
    """journal -> what `make` makes of it, with its `journal`: one for all who hold it, made when the first one asks."""
    known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
    making = threading.Lock()

    def of(journal: Journal) -> T:
        with making:
            found = known.get(id(journal))
            if found is None or found.journal is not journal:
                found = known[id(journal)] = make(journal)
            return found
    return of
