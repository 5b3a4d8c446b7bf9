"""The live view of this process in one widget: graph, step times, loss, status, and buttons to pause and stop."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets

from workbench.core.run.gate import Gate
from workbench.core.trace import Journal, journal
from workbench.viz.live import LiveModel
from workbench.widgets.base import reply_at_once
from workbench.widgets.graph import GraphWidget
from workbench.widgets.series import LossWidget
from workbench.widgets.source import RATE, Source
from workbench.widgets.steps import StepTimesWidget

__all__ = ["LiveView"]

_BUSY = ("running", "paused", "building", "rewriting", "compiling", "waiting", "recovering")
_WORDS = {"empty": "Nothing ran yet"}


class LiveView(ipywidgets.VBox):
    """Shows what the journal records while it is recorded; the last expression of a cell is enough to display it.

    A thread of its own asks for changes at most `rate` times a second; training never waits for it. When a run ends,
    and when the view is closed, a picture of it is left in the notebook for readers without a kernel.
    """

    def __init__(self, source: Journal | None = None, gate: Gate | None = None, rate: float = RATE) -> None:
        self._model = LiveModel(source or journal, gate)
        self.graph = GraphWidget(self._ask)
        self.steps = StepTimesWidget()
        self.series = LossWidget()
        self.status = ipywidgets.HTML(layout={"flex": "1 1 260px"})
        self.buttons = {
            name: self._button(name, icon, tip)
            for name, icon, tip in (
                ("pause", "pause", "Hold before the next step"),
                ("resume", "play", "Go on"),
                ("stop", "stop", "End the run before its next step"),
            )
        }
        self._display: Any = None
        self._state = ""
        self._second = ""
        super().__init__([self._header(), self.graph, self._charts()], layout={"width": "100%"})
        for widget in self._members():
            reply_at_once(widget)
        self._source = Source(self._model, self._receive, rate)
        self._source.start()

    def _header(self) -> ipywidgets.HBox:
        buttons = ipywidgets.HBox(list(self.buttons.values()), layout={"flex": "0 0 auto"})  # they wrap together
        return ipywidgets.HBox([self.status, buttons], layout={"flex_flow": "row wrap", "align_items": "center"})

    def _charts(self) -> ipywidgets.HBox:
        for chart in (self.steps, self.series):
            chart.layout = {"flex": "1 1 320px", "min_width": "0"}
        return ipywidgets.HBox([self.steps, self.series], layout={"flex_flow": "row wrap", "grid_gap": "18px"})

    def _members(self) -> list[ipywidgets.Widget]:
        return [self.graph, self.steps, self.series, self.status, *self.buttons.values()]

    def _button(self, name: str, icon: str, tooltip: str) -> ipywidgets.Button:
        button = ipywidgets.Button(
            description=name.capitalize(), icon=icon, tooltip=tooltip, disabled=True, layout={"width": "auto"}
        )
        button.on_click(lambda _: self._ask(name))
        return button

    def _ask(self, name: str, argument: str | None = None) -> None:
        """A command from the page, on whichever thread it came; the gate is shut before this returns."""
        self._model.command(name, argument)
        self._source.poke()

    # the source's thread
    def _receive(self, frame: dict[str, Any]) -> None:
        for widget, part in ((self.graph, "graph"), (self.steps, "steps"), (self.series, "series")):
            if frame[part] is not None:
                widget.show(frame[part])
        self._show_status(frame)
        state = frame["status"]["state"]
        ended = self._state in _BUSY and state not in _BUSY
        self._state = state
        if ended:
            self._refresh(self._bundle())

    def _show_status(self, frame: dict[str, Any]) -> None:
        status, lost = frame["status"], frame["status"]["records_lost"]
        facts = [f"<b>{_WORDS.get(status['state'], html.escape(status['state'].capitalize()))}</b>"]
        of = f" of {status['of']:,}" if status["of"] else ""
        facts += [f"step {status['step']:,}{of}"] if status["state"] != "empty" else []
        facts += [html.escape(status[name]) for name in ("what", "cause", "fix") if status[name]]
        facts += [html.escape(f"{task['cause']}. {task['fix']}") for task in status["lost"]]
        facts += [f"{lost:,} records were lost to the journal's bound"] if lost else []
        if frame["stragglers"] is not None:
            verdict = frame["stragglers"]["verdict"]
            self._second = " ".join(filter(None, (verdict["text"], verdict["action"])))
        words = " · ".join(facts)
        self.status.value = (
            f'<div role="status" style="line-height:1.45">{words}<br><small>{html.escape(self._second)}</small></div>'
        )
        busy = status["state"] in _BUSY
        for name, on in (
            ("pause", busy and status["state"] != "paused"),
            ("resume", status["state"] == "paused"),
            ("stop", busy),
        ):
            self.buttons[name].disabled = not on

    # the notebook
    def _ipython_display_(self) -> None:
        from IPython.display import display

        data, metadata = self._bundle()
        self._display = display(data, metadata=metadata, raw=True, display_id=True)

    def _bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget and, beside it, what it shows now."""
        data, metadata = super()._repr_mimebundle_(), {}
        if isinstance(data, tuple):
            data, metadata = data
        picture = self.static_html()
        return {**data, **({"text/html": picture} if picture else {})}, metadata

    def static_html(self) -> str:
        """Graph and charts as HTML without scripts; "" before there is anything to see."""
        parts = [widget.static_html() for widget in (self.graph, self.steps, self.series)]
        return f"<div>{self.status.value}</div>" + "".join(parts) if any(parts) else ""

    def _refresh(self, bundle: tuple[dict[str, Any], dict[str, Any]]) -> None:
        if self._display is not None:
            data, metadata = bundle
            self._display.update(data, metadata=metadata, raw=True)

    @property
    def running(self) -> bool:
        """Is the thread alive?"""
        return self._source.running

    def close(self) -> None:
        """End the thread and the widgets; the picture stays in the notebook. Closing twice is fine."""
        source = getattr(self, "_source", None)
        if source is not None and self.comm is not None:
            source.stop()
            picture = self.static_html()
            if picture:
                self._refresh(({"text/html": picture, "text/plain": "workbench live view (closed)"}, {}))
            for widget in self._members():
                widget.close()
        super().close()
