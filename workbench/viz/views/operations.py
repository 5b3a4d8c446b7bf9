"""The topic "operations": which operations take the time, and what lies on which device."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.trace import GraphRecord, Journal
from workbench.viz.books import Books
from workbench.viz.graph_view import choose_graph
from workbench.viz.palette import color_of
from workbench.viz.placement_view import Placement, placement_view
from workbench.viz.reader import CATCH_UP, Reader, Shared
from workbench.viz.trace_view import OpTotal, OpTotals
from workbench.viz.views.base import View, view

__all__ = ["DevicePlacement", "OperationRow", "Operations", "OperationsView", "operations_view"]

ROWS = 40  # operations that travel, the most expensive ones
CALM = 1.0  # seconds between two tables, and at least
SPARING = 20.0  # times the cost of the last one


@dataclass(slots=True)
class OperationRow:
    """All recorded runs of one operation on one device."""

    name: str
    type: str
    device: str
    color: str
    runs: int
    median: float  # milliseconds
    longest: float
    share: float  # part of the time of all operations, 0..1, each run as long as the median one


@dataclass(slots=True)
class DevicePlacement:
    """What one device holds of the graph."""

    device: str
    color: str
    operations: int
    state_bytes: int  # of variables
    received_bytes: int  # in a step
    scopes: str  # for people


@dataclass(slots=True)
class OperationsView:
    """The topic "operations"."""

    rows: list[OperationRow]
    more: int  # operations that are not listed
    devices: list[DevicePlacement]
    crossing: int  # tensors that cross devices in each step
    unknown: int  # tensors of unknown size: bytes are lower bounds when there are any


def operations_view(totals: Sequence[OpTotal], placed: Placement) -> OperationsView:
    """The tables of these totals, the most expensive first, and of what lies where."""
    whole = sum(total.usual for total in totals) or 1.0
    rows = [OperationRow(t.name, t.type, t.device, color_of(t.device), t.count, t.median, t.longest, t.usual / whole)
            for t in totals[:ROWS]]
    devices = [DevicePlacement(r.device, color_of(r.device), r.operations, r.state_bytes, r.received_bytes, r.named)
               for r in placed.rows if r.device]
    return OperationsView(rows, len(totals) - len(rows), devices, placed.crossing, placed.unknown)


@view("operations", OperationsView)
class Operations(View):
    """Of the current session; a table a second, less often where it is expensive."""

    def __init__(self, journal: Journal, books: Books, shared: Shared) -> None:
        super().__init__(journal, books, shared)
        self._spans, self._records = Reader(shared.since, CATCH_UP), Reader(journal.graphs_since)
        self.readers = (self._spans, self._records)
        self._graphs: dict[str, GraphRecord] = {}
        self._session = ""
        self._totals = OpTotals()
        self._placed: tuple[GraphRecord | None, Placement] = (None, Placement([], 0, 0))
        self._next, self._seen = 0.0, 0
        self._version = 0
        self._made: OperationsView | None = None

    def advance(self, now: float) -> None:
        if self.journal.status.session != self._session:
            self._session, self._totals = self.journal.status.session, OpTotals()
        for record in self._records.new():
            if not record.split:
                self._graphs[record.key] = record
        for span in self.shared.batch(self._spans.new()).operations:
            self._totals.add(span)
        if now >= self._next:
            began = time.perf_counter()
            self._look()
            self._next = now + max(CALM, SPARING * (time.perf_counter() - began))

    def _look(self) -> None:
        graph = choose_graph(self._graphs.values(), self._session)
        if graph is self._placed[0] and self._totals.count == self._seen:
            return
        if graph is not None and graph is not self._placed[0]:
            self._placed = graph, placement_view(graph)
        self._seen = self._totals.count
        self._made = operations_view(self._totals.rows(), self._placed[1])
        self._version += 1

    def version(self, params: Any) -> Hashable:
        return self._version

    def whole(self, params: Any) -> OperationsView | None:
        return self._made
