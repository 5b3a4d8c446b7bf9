"""The live view of this process in a cell: the page of the panel, for any notebook, and a picture that stays."""

from __future__ import annotations

import html
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from workbench import errors
from workbench.core.run.gate import Gate
from workbench.core.run.gate import gate as process_gate
from workbench.core.trace import Journal, journal
from workbench.viz.hub import RATE, hub_of
from workbench.viz.kit import kit
from workbench.viz.lost import losses
from workbench.viz.picture import graph_picture, picture, series_picture, steps_picture
from workbench.viz.svg import to_plain, to_svg
from workbench.widgets.base import reply_at_once
from workbench.widgets.commands import IDLE
from workbench.widgets.peer import Peer

__all__ = ["LiveView"]

DEADLINE = 15.0  # seconds for one layout
_STILL = ("graph", "steps", "series", "work")  # topics of the picture that stays


class _To:
    """Carries messages to one of the pages that show a widget: all of them hear everything."""

    def __init__(self, view: LiveView, page: str) -> None:
        self._view, self._page = view, page

    def send(self, data: Any, *, buffers: Sequence[bytes]) -> None:
        self._view.send({"page": self._page, "said": data}, list(buffers))


class LiveView(anywidget.AnyWidget):
    """Shows what the journal records while it is recorded; the last expression of a cell is enough to display it.

    The journal's hub calls it when there is news, at most `rate` times a second; training never waits for it, and where
    no cell that shows it is in sight it costs nothing but a heartbeat. When a run ends, and when the view is closed, a
    picture of it is left in the notebook for readers without a kernel.
    """

    _esm, _css = kit("kit.js"), kit("kit.css")
    name = traitlets.Unicode().tag(sync=True)

    def __init__(self, source: Journal | None = None, gate: Gate | None = None, rate: float = RATE) -> None:
        self._hub = hub_of(source or journal)
        self._period, self._served = 1.0 / min(rate, RATE), 0.0
        self._display: Any = None
        self._state = ""
        self._drawn = ("", "")  # the newest drawing: DOT text and SVG
        self._serving = threading.RLock()
        self.running = False  # does it follow the journal?
        super().__init__(name=uuid.uuid4().hex, layout={"width": "100%"})
        self._gate = gate or process_gate
        self._peers: dict[str, Peer] = {}  # by the name that each page gives itself
        self.on_msg(self._heard)
        reply_at_once(self)
        self._hub.attach(self)
        self.running = True

    def _heard(self, widget: Any, content: Any, buffers: Any) -> None:
        """A message from a page, on whichever thread it came; a layout takes a thread of its own."""
        if not isinstance(content, dict) or not isinstance(content.get("page"), str):
            return
        page, command = content["page"], content.get("command")
        if command == "layout":
            dot = str(content.get("argument"))
            threading.Thread(target=self._lay_out, args=(page, content.get("id"), dot), daemon=True).start()
        elif command == "ack" and page not in self._peers:  # it slept for so long that it was forgotten
            self.send({"page": page, "kind": "again"})
        else:
            peer = self._peers.get(page) or Peer(_To(self, page), self._hub, self._gate, answered=False)
            self._peers[page] = peer
            peer.heard(content)

    def _lay_out(self, page: str, number: Any, dot: str) -> None:
        answer = {"page": page, "kind": "layout", "id": number, "plain": "", "error": ""}
        try:
            answer["plain"] = to_plain(dot, DEADLINE)
        except errors.Error as failed:
            answer["error"] = failed.message
        self.send(answer)

    # the hub's thread
    def serve(self, now: float) -> None:
        """Send what changed."""
        with self._serving:
            if self.running and now - self._served >= self._period:
                self._served = now
                for page, peer in self._peers.copy().items():
                    if peer.lost(now):
                        del self._peers[page]
                    elif peer.ready(now):
                        peer.serve(now)
                state = self._hub.state
                ended = self._state not in ("", *IDLE) and state in IDLE
                self._state = state
                if ended:
                    self._refresh(self._bundle())

    # the notebook
    def _ipython_display_(self) -> None:
        from IPython.display import display

        data, metadata = self._bundle()
        self._display = display(data, metadata=metadata, raw=True, display_id=True)

    def _bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget and, beside it, what it shows now."""
        bundle = super()._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        still = self.static_html()
        return {**data, **({"text/html": still} if still else {})}, metadata

    def static_html(self) -> str:
        """State, verdict, graph and charts as HTML without scripts; "" before there is anything to see."""
        watcher = self._hub.watcher()  # what no page watches is not up to date
        watcher.watch(dict.fromkeys(_STILL))
        self._hub.look()
        graph, steps, series = (self._hub.whole(topic) for topic in ("graph", "steps", "series"))
        parts = [graph_picture(self._drawing(graph.dot), graph.devices)] if graph is not None else []
        parts += [steps_picture(steps)] if steps is not None and steps.tasks else []
        parts += [series_picture(series)] if series is not None and series.series else []
        return f"{self._words()}{picture(*parts)}" if parts else ""

    def _drawing(self, dot: str) -> str:
        """The drawing of the graph; a layout that fails leaves a sentence."""
        if self._drawn[0] != dot:
            try:
                self._drawn = dot, to_svg(dot, DEADLINE)
            except errors.Error as failed:
                self._drawn = dot, f"<p>{html.escape(failed.message)}</p>"
        return self._drawn[1]

    def _words(self) -> str:
        """State and verdict."""
        status, work = self._hub.status(), self._hub.whole("work")
        of = f" of {status['of']:,}" if status["of"] else ""
        done = f"{status['step']:,}{of} steps" if status["counted"] else f"step {status['step']:,}"
        facts = [done, *(status[name] for name in ("what", "cause", "fix") if status[name])]
        facts += [f"{fact} {fix}" for fact, fix in status["broken"]]
        facts += [f"{cause}. {fix}" for cause, fix in losses(self._hub.journal.current().lost, status["cause"])]
        verdict = " ".join(filter(None, (work.verdict.text, work.verdict.action))) if work is not None else ""
        state = html.escape(status["state"].capitalize())
        return f"<div><b>{state}</b> · {html.escape(' · '.join(facts))}<br><small>{html.escape(verdict)}</small></div>"

    def _refresh(self, bundle: tuple[dict[str, Any], dict[str, Any]]) -> None:
        if self._display is not None:
            data, metadata = bundle
            self._display.update(data, metadata=metadata, raw=True)

    def close(self) -> None:
        """Stop following and close the widget; the picture stays in the notebook. Closing twice is fine."""
        if getattr(self, "running", False) and self.comm is not None:
            with self._serving:  # what is being sent is sent to its end
                self.running = False
            self._hub.detach(self)
            still = self.static_html()
            if still:
                self._refresh(({"text/html": still, "text/plain": "workbench live view (closed)"}, {}))
        super().close()
