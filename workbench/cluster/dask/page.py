"""Our page in the Dask scheduler's dashboard: work, transfer and waiting per task, fed by the chief."""
from __future__ import annotations

import functools
import logging
import textwrap
from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from workbench.core.trace import Span, TaskRecord
from workbench.viz.lost import losses
from workbench.viz.palette import color_of, device_order, short_task
from workbench.viz.verdict import Row

__all__ = ["PAGE", "ROUTE", "TOPIC", "WorkbenchScheduler", "bar", "row"]

logger = logging.getLogger("workbench")

TOPIC = "workbench"
ROUTE = "/individual-workbench-step-times"       # the prefix makes Dask's Jupyter extension list it
PAGE = "workbench"                               # the same in the dashboard's own menu
_ROWS = 5000
_WINDOW = 60.0                                   # seconds after which a task that no longer steps is left out
_PARTS = ("work", "transfer", "input", "wait", "uncovered")
# as in every view: the colours of a step's parts, a pattern each; what says which task it is stands at the axis
_WORDS = ["works", "transfers", "waits for input", "waits for others", "is not recorded"]
_INKS = ["#2b7bba", "#f0c494", "#c6c0d6", "#ffffff", "#bdbdbd"]
_HATCHED = ["#2b7bba", "#e08214", "#8073ac", "#616161", "#bdbdbd"]
_HATCHES = ["blank", "vertical_line", "dot", "right_diagonal_line", "blank"]
_COLUMNS = ("task", "worker", *_PARTS, "cost", "waits_for", "color")
_TITLE = "What each task's step consists of"
_LINE = 90                                       # characters of the headline in a line
_REFRESH = 500                                   # milliseconds
# where Dask's menu takes two lines
_BELOW_MENU = "@media (max-width: 1100px) { :host { top: 44px; height: calc(100% - 44px) !important; } }"


def bar(task: str, worker: str, span: Span, wall: float) -> dict[str, Any]:
    """What a task did, for Dask's task stream, where its Dask worker's other work is: one part of one step. `wall` is what
    wall-clock time is ahead of the span's."""
    action = "transfer" if span.kind == "send" else "compute"
    return {"key": f"{short_task(task)} {'sends' if action == 'transfer' else 'works'}-{span.step}", "worker": worker,
            "thread": span.thread, "status": "OK", "type": b"", "nbytes": span.nbytes,
            "startstops": [{"action": action, "start": span.start + wall, "stop": span.end + wall}]}


def row(session: str, of: Row, worker: str, time: float) -> dict[str, Any]:
    """What a task's steps consist of, in milliseconds; `time` is wall-clock seconds."""
    return {"session": session, "task": of.task, "worker": worker, "time": time, "work": of.work, "transfer": of.transfer,
            "input": of.input, "wait": of.wait, "uncovered": of.uncovered, "cost": of.cost, "waits_for": of.waits_for}


class WorkbenchScheduler(SchedulerPlugin):
    """Collects the rows, shows the page, and keeps adaptive scaling away from workers that hold variables."""

    name = "workbench-scheduler"
    idempotent = True

    def __init__(self) -> None:
        self.rows: deque[dict[str, Any]] = deque(maxlen=_ROWS)
        self.members: dict[str, list[str]] = {}      # session -> Dask workers that hold its tasks
        self.owners: dict[str, str] = {}             # session -> Dask's name of the client that drives it
        self.lost: dict[str, dict[str, str]] = {}    # session -> task that is lost -> why, and what to do
        self.broken: dict[str, list[str]] = {}       # session -> of each series that is no finite number, what to do
        self.count, self.verdict = 0, ""
        self._plugins: Mapping[str, Any] = {}        # the scheduler's others

    async def start(self, scheduler: Any) -> None:
        self._plugins = scheduler.plugins
        scheduler.workbench = self
        try:
            added = _add_page(scheduler)
            why = "the dashboard is off"
        except Exception as error:               # bokeh missing or changed: training goes on without the page
            added, why = False, f"{type(error).__name__}: {error}"
        if not added:
            logger.info("workbench: no step-time page in the Dask dashboard (%s)", why)

    def log_event(self, topic: str, msg: Any) -> None:
        if topic != TOPIC or not isinstance(msg, dict):
            return
        if "members" in msg:
            self.members[str(msg["session"])] = list(msg["members"])
            self.owners[str(msg["session"])] = str(msg.get("client", ""))
            if not msg["members"]:
                self._release(str(msg["session"]))
        if "lost" in msg:
            self.lost[str(msg["session"])] = dict(msg["lost"])
            self.broken[str(msg["session"])] = list(msg.get("broken", ()))
            self.count += 1
        self.verdict = str(msg.get("verdict", self.verdict))
        for one in msg.get("rows", ()):
            self.rows.append(one)
            self.count += 1
        stream = self._plugins.get("task-stream") if "stream" in msg else None
        if stream is not None:      # somebody has opened a page that shows it
            for one in msg["stream"]:
                stream.transition(one["key"], "processing", "memory", **{k: v for k, v in one.items() if k != "key"})

    def remove_client(self, scheduler: Any, client: str) -> None:
        """A chief is gone without a word; its tasks end by themselves and nothing needs their workers any more."""
        for session in [session for session, owner in self.owners.items() if owner == client]:
            self._release(session)

    def _release(self, session: str) -> None:
        self.members.pop(session, None)
        self.owners.pop(session, None)
        self.lost.pop(session, None)
        self.broken.pop(session, None)

    def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
        taken = {address for addresses in self.members.values() for address in addresses}
        return [worker for worker in workers if worker.address not in taken]

    def table(self) -> dict[str, list[Any]]:
        """Columns of the chart: the newest account of each task, milliseconds per step."""
        return summarise(self.rows, self.lost)

    def headline(self) -> str:
        """Who is lost and what is no number, why and what to do; else the verdict."""
        gone = [TaskRecord(0.0, task, "lost", cause=why) for lost in self.lost.values() for task, why in lost.items()]
        words = [*(one for each in self.broken.values() for one in each), *(f"{cause}." for cause, _ in losses(gone))]
        return " ".join(words) or self.verdict or _TITLE


def summarise(rows: Iterable[dict[str, Any]], lost: Mapping[str, Mapping[str, str]] = MappingProxyType({})
              ) -> dict[str, list[Any]]:
    """One line, in its own colour, for each task: the newest row of the last minute, and that it is lost where `lost` (session
    -> task -> why) says so."""
    kept = list(rows)
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    since = max((one["time"] for one in kept), default=0.0) - _WINDOW
    gone = {(session, task) for session, tasks in lost.items() for task in tasks}
    placed = (((one["session"], one["task"]), one) for one in kept)
    newest = {place: one for place, one in placed if one["time"] >= since or place in gone}
    for session, task in gone - newest.keys():      # it was lost before its first account
        newest[session, task] = {**dict.fromkeys(_PARTS, 0.0), "worker": "", "cost": 0.0, "waits_for": ""}
    several = len({session for session, _ in newest}) > 1
    for (session, task), one in sorted(newest.items(), key=lambda item: (item[0][0], device_order(item[0][1])), reverse=True):
        name = f"{short_task(task)}{' lost' if (session, task) in gone else ''}{f' ({session[:4]})' if several else ''}"
        shown = {**one, "task": name, "color": color_of(task)}
        for name in _COLUMNS:
            columns[name].append(shown[name])
    return columns


# the page: everything below runs in the scheduler and needs bokeh

class _StepTimes:
    def __init__(self, scheduler: Any) -> None:
        from bokeh.models import ColumnDataSource, DataRange1d, FactorRange, HoverTool, InlineStyleSheet
        from bokeh.plotting import figure

        self._plugin = scheduler.workbench
        self._seen = -1
        self.source = ColumnDataSource(dict(self._plugin.table()))
        self.tasks = FactorRange()
        self.span = DataRange1d(start=0)
        self.root = figure(title=" ", y_range=self.tasks, x_range=self.span,
                           x_axis_label="milliseconds of a step", sizing_mode="stretch_both", tools="save",
                           stylesheets=[InlineStyleSheet(css=_BELOW_MENU)])
        self.root.hbar_stack(_PARTS, y="task", height=0.7, fill_color=_INKS, line_color=_INKS, source=self.source,
                             hatch_pattern=_HATCHES, hatch_color=_HATCHED, hatch_scale=8.0, legend_label=_WORDS)
        self.root.scatter(x=0, y="task", marker="square", size=14, fill_color="color", line_color="white", source=self.source)
        self.root.legend.orientation, self.root.legend.spacing = "horizontal", 12
        self.root.add_layout(self.root.legend[0], "above")      # within the picture it would cover the lowest bar
        self.root.add_tools(HoverTool(tooltips=[
            ("task", "@task"), ("Dask worker", "@worker"), *((part, f"@{part}{{0.000}} ms") for part in _PARTS),
            ("waits most for", "@waits_for"), ("costs the others", "@cost{0 %} of a step")]))

    def update(self) -> None:
        if self._plugin.count == self._seen:
            return
        self._seen = self._plugin.count
        table = self._plugin.table()
        title: Any = self.root.title
        title.text = textwrap.fill(self._plugin.headline(), _LINE)
        title.text_color = "#c62828" if any(self._plugin.lost.values()) else "#444444"
        if list(self.tasks.factors) != table["task"]:
            self.tasks.factors = table["task"]
        self.source.data = dict(table)


def _document(scheduler: Any, extra: dict[str, Any], document: Any) -> None:
    from distributed.dashboard.components import add_periodic_callback
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env

    chart = _StepTimes(scheduler)
    chart.update()
    document.title = "Workbench: step times"
    add_periodic_callback(document, chart, _REFRESH)
    document.add_root(chart.root)
    document.template = env.get_template("simple.html")
    document.template_variables.update(extra)
    document.theme = BOKEH_THEME


def _add_page(scheduler: Any) -> bool:
    """Add a document to the dashboard of a running scheduler; False when there is no dashboard.

    NOTE: Dask has no interface for this (dask/distributed #2790), so it goes through bokeh's private tables.
    """
    from bokeh.application import Application
    from bokeh.application.handlers.function import FunctionHandler
    from bokeh.server.contexts import ApplicationContext
    from bokeh.server.tornado import BokehTornado
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop

    server = next((app for app in scheduler.http_application.applications if isinstance(app, BokehTornado)), None)
    if server is None:
        return False
    variables = template_variables(scheduler)
    extra = {"prefix": server._prefix.rstrip("/") + "/", **variables}
    page = FunctionHandler(functools.partial(_document, scheduler, extra))
    for route in (ROUTE, f"/{PAGE}"):
        context = ApplicationContext(Application(page), url=route)
        context._loop = IOLoop.current()
        server._applications[route] = context      # type: ignore[index]
        server.add_handlers(r".*", _patterns(server._prefix + route, context))
        context.run_load_hook()
    plots = variables["plots"]
    if PAGE not in variables["pages"]:
        variables["pages"].append(PAGE)
    if not any(plot["url"] == ROUTE.strip("/") for plot in plots):
        plots.append({"url": ROUTE.strip("/"), "name": "Workbench Step Times"})
        plots.sort(key=lambda plot: plot["name"])
    return True


def _patterns(url: str, context: Any) -> list[tuple[str, Any, dict[str, Any]]]:
    from bokeh.server.urls import per_app_patterns
    from bokeh.server.views.ws import WSHandler

    socket = url + next(pattern[0] for pattern in per_app_patterns if pattern[0].endswith("/ws"))
    found = []
    for pattern in per_app_patterns:
        options: dict[str, Any] = {"application_context": context, "bokeh_websocket_path": socket}
        if issubclass(pattern[1], WSHandler):
            options.update(compression_level=None, mem_level=None)
        found.append((url + pattern[0], pattern[1], options))
    return found
