"""The topic "series": loss, accuracy and every other recorded value; what travels are the new points."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from workbench.core.trace import Journal
from workbench.viz.books import Books
from workbench.viz.reader import Reader, Shared
from workbench.viz.schema import SeriesView
from workbench.viz.series_view import SeriesModel
from workbench.viz.views.base import View, view

__all__ = ["AT_ONCE", "Curves"]

AT_ONCE = 3000  # points in one update, and one series more; the rest comes with the next


@view("series", SeriesView)
class Curves(View):
    """Taken in although nobody watches: it costs little, and what is thinned in time is not lost."""

    always = True

    def __init__(self, journal: Journal, books: Books, shared: Shared) -> None:
        super().__init__(journal, books, shared)
        self._points = Reader(journal.points_since)
        self.readers = (self._points,)
        self._model = SeriesModel()
        self._version = 0

    def advance(self, now: float) -> None:
        self._version += self._model.feed(self._points.new())

    def version(self, params: Any) -> Hashable:
        return self._version

    def whole(self, params: Any) -> SeriesView | None:
        return self._model.view() if self._version else None

    def delta(self, sent: Any, params: Any) -> tuple[SeriesView | None, Any]:
        version, had = sent or (0, {})
        if version == self._version:
            return None, sent
        view, has, budget = SeriesView([], self._model.names()), dict(had), AT_ONCE
        for name in view.names:
            place = self._model.place(name)
            if has.get(name) != place and budget > 0:
                series = self._model.since(name, has.get(name))
                view.series.append(replace(series, values=list(series.values)))
                has[name] = place
                budget -= len(series.values)
        told = all(has.get(name) == self._model.place(name) for name in view.names)
        return view, (self._version if told else version, has)
