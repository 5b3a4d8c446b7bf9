"""A training in the background as a live widget: how far, loss, rate, time left, and buttons to pause and stop."""

from __future__ import annotations

import html
import time
from typing import Any

import ipywidgets

from workbench import errors
from workbench.core.run.gate import gate
from workbench.core.trace import journal
from workbench.viz.hub import hub_of
from workbench.viz.schema import Series
from workbench.viz.units import span
from workbench.widgets.base import reply_at_once
from workbench.widgets.commands import carry_out
from workbench.widgets.peer import PACE

__all__ = ["TrainingView", "bundle"]

_POINTS = 80  # of the small curve
_WIDTH, _HEIGHT = 160, 28  # of it, pixels


class TrainingView(ipywidgets.VBox):
    """Follows a `workbench.train.sessions.background.Training` until it ends; the hub calls it, training never waits for it."""

    def __init__(self, training: Any) -> None:
        self._training = training
        self._hub = hub_of(journal)
        self._watcher = self._hub.watcher()
        self._began = time.monotonic()
        self._notice, self._served = "", 0.0
        self.bar = ipywidgets.FloatProgress(min=0.0, max=1.0, layout={"flex": "0 1 220px", "min_width": "80px"})
        self.facts = ipywidgets.HTML()
        self.pause = self._button("Pause", "pause", "Hold before the next step")
        self.stop = self._button("Stop", "stop", "End the training before its next step")
        self.pause.on_click(lambda _: self._ask("resume" if gate.closed else "pause"))
        self.stop.on_click(lambda _: self._ask("stop"))
        row = ipywidgets.HBox([self.bar, self.pause, self.stop], layout={"align_items": "center", "flex_flow": "row wrap"})
        super().__init__([row, self.facts])
        for widget in (self.pause, self.stop):
            reply_at_once(widget)
        self.show()
        if training.running:
            self._watcher.watch({"series": None})
            self._hub.attach(self)

    @staticmethod
    def _button(name: str, icon: str, tip: str) -> ipywidgets.Button:
        return ipywidgets.Button(description=name, icon=icon, tooltip=tip, layout={"width": "auto", "flex": "0 0 auto"})

    def _ask(self, command: str) -> None:
        """On whichever thread the click came; the gate has moved when this returns."""
        try:
            carry_out(command, "", journal, gate)
        except errors.FailedPreconditionError as refused:
            self._notice = refused.message
        self.show()

    def serve(self, now: float) -> None:
        """On the hub's thread, after each look at the journal; as often as pages hear of it, and of the end at once."""
        running = self._training.running
        if not running or now - self._served >= PACE:
            self._served = now
            self.show()
        if not running:
            self._watcher.watch({})
            self._hub.detach(self)

    def show(self) -> None:
        """What is true now."""
        now, running = self._training.progress, self._training.running
        self.bar.value = now.step / now.steps if now.steps else 0.0
        ended = "danger" if self._training.failed else "success" if now.step >= now.steps > 0 else "warning"
        self.bar.bar_style = "info" if running else ended
        self.facts.value = facts(self._training, time.monotonic() - self._began, self._notice)
        self.pause.description = "Resume" if running and gate.closed else "Pause"
        self.pause.icon = "play" if running and gate.closed else "pause"
        self.pause.disabled = self.stop.disabled = not running


def facts(training: Any, elapsed: float, notice: str = "") -> str:
    """HTML: state, step, rate, time left, loss with its curve, accuracy, each in one piece where the cell is narrow; below
    them, why it failed."""
    now = training.progress
    state = "paused" if training.running and gate.closed else training.state
    words = [f"<b>{state.capitalize()}</b>", f"{now.step:,} of {now.steps:,} steps" if now.steps else "no step yet"]
    rate = now.steps_per_second
    if training.running and rate:
        words += [f"{rate:.3g} steps/s", f"{span((now.steps - now.step) / rate)} left"]
    if now.loss is not None:
        words.append(f"loss {now.loss:.4g}{_curve()}")
    if now.accuracy is not None:
        words.append(f"accuracy {100 * now.accuracy:.1f} %")
    said = "".join(f'<span style="white-space:nowrap">{one}</span>' for one in words)
    below = "".join(f"<div>{html.escape(one)}</div>" for one in (training.failed, notice) if one)
    return f'<div style="display:flex;flex-wrap:wrap;align-items:center;gap:0 16px">{said}</div>{below}'


def _curve() -> str:
    """The recorded loss as a line of a few pixels; "" where nobody recorded one."""
    view = hub_of(journal).whole("series")
    loss = next((one for one in (view.series if view is not None else ()) if one.name == "loss"), None)
    points = _thinned(loss) if loss is not None else []
    if len(points) < 2:
        return ""
    low, high = min(points), max(points)
    scale = (_HEIGHT - 2) / (high - low) if high > low else 0.0
    across = _WIDTH / (len(points) - 1)
    line = " ".join(f"{i * across:.1f},{_HEIGHT - 1 - (value - low) * scale:.1f}" for i, value in enumerate(points))
    return (f' <svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="loss" style="vertical-align:middle">'
            f'<polyline points="{line}" fill="none" stroke="currentColor"/></svg>')


def _thinned(series: Series) -> list[float]:
    known = [value for value in series.values if value is not None]
    return known[:: max(1, len(known) // _POINTS)]


def bundle(training: Any) -> dict[str, Any]:
    """What a notebook shows of a training: the live widget, and beside it what is true now for readers without a kernel."""
    view = TrainingView(training)
    made = view._repr_mimebundle_()
    data = made[0] if isinstance(made, tuple) else made or {}
    return {**data, "text/html": f'<div class="wb-static">{view.facts.value}</div>', "text/plain": repr(training)}
