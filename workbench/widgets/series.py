"""Loss, accuracy and other series as live charts."""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.viz.palette import COLORS
from workbench.viz.picture import picture, series_picture
from workbench.viz.schema import Series, SeriesView
from workbench.widgets.base import Widget, columns, read

__all__ = ["LossWidget"]


class LossWidget(Widget):
    """One chart per series, with its newest value. `show` may be called from any one thread."""

    _esm = read("chart.js", "series.js")
    _css = read("theme.css", "chart.css")
    meta = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)

    def show(self, view: dict[str, Any]) -> None:
        """Show a `schema.SeriesView` as JSON; one message, whatever it holds."""
        series = view["series"]
        lengths, data = columns(column for s in series for column in (s["steps"], s["values"]))
        facts = [{k: v for k, v in s.items() if k not in ("steps", "values")} for s in series]
        self._shown = view
        with self.hold_sync():
            self.meta = {"series": facts, "lengths": lengths, "color": COLORS[0]}
            self.data = data

    _shown: dict[str, Any] | None = None

    def static_html(self) -> str:
        if not self._shown or not self._shown["series"]:
            return ""
        return picture(series_picture(SeriesView([Series(**s) for s in self._shown["series"]])))
