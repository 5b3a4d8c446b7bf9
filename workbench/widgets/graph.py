"""The dataflow graph as a live drawing: hue is the device, strength the time, scopes open and close."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import traitlets

from workbench import errors
from workbench.viz.picture import graph_picture, picture
from workbench.viz.schema import DeviceColor
from workbench.viz.svg import to_svg
from workbench.widgets.base import Widget, read

__all__ = ["GraphWidget"]

DEADLINE = 15.0  # seconds for one layout
REMEMBERED = 24  # drawings kept, so that opening and closing a scope again costs nothing


class GraphWidget(Widget):
    """Draws what `show` is given. The layout runs in a process of its own, beside training; new timings only recolour.

    `ask(command, argument)` is called with "expand" or "collapse" and a scope when someone clicks one or presses Enter.
    """

    _esm = read("chart.js", "graph.js")
    _css = read("theme.css", "graph.css")
    svg = traitlets.Unicode("").tag(sync=True)
    nodes: traitlets.List[Any] = traitlets.List().tag(sync=True)
    devices: traitlets.List[Any] = traitlets.List().tag(sync=True)
    values = traitlets.Bytes(b"").tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)

    def __init__(self, ask: Callable[[str, str], None] | None = None, **options: Any) -> None:
        self._ask = ask
        self._drawn: OrderedDict[str, str] = OrderedDict()
        super().__init__(**options)
        self.on_msg(self._heard)

    def show(self, view: dict[str, Any]) -> None:
        """Show a `schema.GraphView` as JSON. A layout that fails leaves the old drawing and says so in the note."""
        nodes = view["nodes"]
        times = np.asarray([view["stats"].get(node["id"], np.nan) for node in nodes], dtype="<f4").tobytes()
        try:
            drawing, note = self._draw(view["dot"]), view.get("note", "")
        except errors.Error as failed:
            self.note = failed.message
            return
        with self.hold_sync():
            self.svg, self.nodes, self.devices, self.values, self.note = drawing, nodes, view["devices"], times, note

    def _draw(self, dot: str) -> str:
        if dot not in self._drawn:
            self._drawn[dot] = to_svg(dot, DEADLINE)
            if len(self._drawn) > REMEMBERED:
                self._drawn.popitem(last=False)
        return self._drawn[dot]

    def _heard(self, widget: Any, content: Any, buffers: Any) -> None:
        """A message from the page, on whichever thread it came; anything else than a known command is ignored."""
        if isinstance(content, dict) and content.get("command") in ("expand", "collapse") and self._ask is not None:
            self._ask(content["command"], str(content.get("argument", "")))

    def static_html(self) -> str:
        if not self.svg:
            return ""
        return picture(graph_picture(self.svg, [DeviceColor(**d) for d in self.devices]))
