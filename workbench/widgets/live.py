"""The live view of this process in one widget: graph, step times, loss, status, and buttons to pause and stop."""

from __future__ import annotations

import html
import threading
from dataclasses import asdict
from typing import Any

import ipywidgets

from workbench import errors
from workbench.core.run.gate import Gate
from workbench.core.run.gate import gate as process_gate
from workbench.core.trace import Journal, journal
from workbench.viz.hub import RATE, hub_of
from workbench.viz.schema import GraphParameters
from workbench.widgets.base import reply_at_once
from workbench.widgets.commands import IDLE, carry_out
from workbench.widgets.graph import GraphWidget
from workbench.widgets.series import LossWidget
from workbench.widgets.steps import StepTimesWidget

__all__ = ["LiveView"]

_WORDS = {"empty": "Nothing ran yet"}


class LiveView(ipywidgets.VBox):
    """Shows what the journal records while it is recorded; the last expression of a cell is enough to display it.

    The journal's hub calls it when there is news, at most `rate` times a second; training never waits for it. When a run
    ends, and when the view is closed, a picture of it is left in the notebook for readers without a kernel.
    """

    def __init__(self, source: Journal | None = None, gate: Gate | None = None, rate: float = RATE) -> None:
        self._journal, self._gate = source or journal, gate or process_gate
        self._hub = hub_of(self._journal)
        self._watcher = self._hub.watcher()
        self._scopes = GraphParameters()
        self._shown: dict[str, Any] = {}  # topic -> version of what is shown
        self._period, self._served = 1.0 / min(rate, RATE), 0.0
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
        self._state = self._notice = ""
        self.running = False  # does it follow the journal?
        self._serving = threading.RLock()
        super().__init__([self._header(), self.graph, self._charts()], layout={"width": "100%"})
        for widget in self._members():
            reply_at_once(widget)
        self._watcher.watch(dict.fromkeys(("graph", "steps", "series", "work")))
        self._hub.attach(self)
        self.running = True

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
        if name in ("expand", "collapse"):
            self._scope(name == "expand", str(argument))
        else:
            try:
                carry_out(name, "", self._journal, self._gate)
            except errors.FailedPreconditionError as refused:
                self._notice = refused.message
        self._hub.wake()

    def _scope(self, opens: bool, scope: str) -> None:
        before = self._scopes
        opened = tuple(one for one in before.opened if one != scope) + ((scope,) if opens else ())
        closed = tuple(one for one in before.closed if one != scope) + (() if opens else (scope,))
        self._scopes = GraphParameters(before.key, opened, closed)

    # the hub's thread
    def serve(self, now: float) -> None:
        """Show what changed."""
        with self._serving:
            if self.running and now - self._served >= self._period:
                self._served = now
                self._serve()

    def _serve(self) -> None:
        for widget, topic, params in ((self.steps, "steps", None), (self.series, "series", None),
                                      (self.graph, "graph", self._scopes)):
            version = self._hub.version(topic, params)
            if version != self._shown.get(topic):
                self._shown[topic] = version
                whole = self._hub.whole(topic, params)
                if whole is not None:
                    widget.show(asdict(whole))
        status = self._hub.status()
        self._show_status(status)
        ended = self._state not in ("", *IDLE) and status["state"] in IDLE
        self._state = status["state"]
        if ended:
            self._refresh(self._bundle())

    def _show_status(self, status: dict[str, Any]) -> None:
        lost = status["records_lost"]
        facts = [f"<b>{_WORDS.get(status['state'], html.escape(status['state'].capitalize()))}</b>"]
        of = f" of {status['of']:,}" if status["of"] else ""
        facts += [f"step {status['step']:,}{of}"] if status["state"] != "empty" else []
        facts += [html.escape(status[name]) for name in ("what", "cause", "fix") if status[name]]
        facts += [html.escape(f"{task['cause']}. {task['fix']}") for task in status["lost"] if task["cause"]]
        facts += [f"{lost:,} records were lost to the journal's bound"] if lost else []
        facts += [html.escape(self._notice)] if self._notice else []
        self._notice = ""
        work = self._hub.whole("work")
        second = " ".join(filter(None, (work.verdict.text, work.verdict.action))) if work is not None else ""
        words = " · ".join(facts)
        self.status.value = (
            f'<div role="status" style="line-height:1.45">{words}<br><small>{html.escape(second)}</small></div>'
        )
        busy = status["state"] not in IDLE
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

    def close(self) -> None:
        """Stop following and close the widgets; the picture stays in the notebook. Closing twice is fine."""
        if getattr(self, "running", False) and self.comm is not None:
            with self._serving:      # what is being shown is shown to its end
                self.running = False
            self._hub.detach(self)
            picture = self.static_html()
            if picture:
                self._refresh(({"text/html": picture, "text/plain": "workbench live view (closed)"}, {}))
            for widget in self._members():
                widget.close()
        super().close()
