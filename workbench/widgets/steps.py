"""Step times per task as a live chart."""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.viz.picture import picture, steps_picture
from workbench.viz.schema import StepView, TaskSteps
from workbench.widgets.base import Widget, columns, read

__all__ = ["StepTimesWidget"]


class StepTimesWidget(Widget):
    """One line per task; median and 95th percentile in the legend. `show` may be called from any one thread."""

    _esm = read("chart.js", "steps.js")
    _css = read("theme.css", "chart.css")
    meta = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)

    def show(self, view: dict[str, Any]) -> None:
        """Show a `schema.StepView` as JSON; one message, whatever it holds."""
        tasks = view["tasks"]
        lengths, data = columns(column for task in tasks for column in (task["ends"], task["times"]))
        facts = [{k: v for k, v in task.items() if k not in ("steps", "ends", "times")} for task in tasks]
        self._shown = view
        with self.hold_sync():
            self.meta = {"tasks": facts, "lengths": lengths}
            self.data = data

    _shown: dict[str, Any] | None = None

    def static_html(self) -> str:
        if not self._shown or not self._shown["tasks"]:
            return ""
        return picture(steps_picture(StepView([TaskSteps(**task) for task in self._shown["tasks"]])))
