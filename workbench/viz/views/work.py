"""The topic "work": the verdict, and where a median step of each task goes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from workbench.viz.schema import StragglerView
from workbench.viz.views.base import View, view
from workbench.viz.work_view import work_view

__all__ = ["Work"]


@view("work", StragglerView)
class Work(View):
    """Whole at every verdict: at most `work_view.ROWS` rows."""

    accounts = True

    _made: tuple[int, StragglerView | None] = (0, None)

    def version(self, params: Any) -> Hashable:
        return self.books.version

    def whole(self, params: Any) -> StragglerView | None:
        if self._made[0] != self.books.version:
            self._made = self.books.version, work_view(self.books.summary)
        return self._made[1]
