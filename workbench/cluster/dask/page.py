"""Our page in the Dask scheduler's dashboard: step time per task, fed by small batches from the chief."""
from __future__ import annotations

import functools
import logging
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

__all__ = ["ROUTE", "TOPIC", "WorkbenchScheduler", "row"]

logger = logging.getLogger("workbench")

TOPIC = "workbench"
ROUTE = "/individual-workbench-step-times"       # the prefix makes Dask's Jupyter extension list it
_ROWS = 5000
_WINDOW = 60.0                                   # seconds of rows that a bar summarises
_STRAGGLER = 1.5                                 # times the median task of its job; servers and workers are no peers
_COLUMNS = ("task", "worker", "median", "p95", "steps", "ratio", "color")
_REFRESH = 500                                   # milliseconds


def row(session: str, task: str, worker: str, time: float, times: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """What one task did since the last report: `times` are (step, seconds), `time` is wall-clock seconds."""
    seconds = sorted(value for _, value in times)
    return {"session": session, "task": task, "worker": worker, "time": time, "step": max(step for step, _ in times),
            "count": len(seconds), "median": statistics.median(seconds), "p95": seconds[int(0.95 * (len(seconds) - 1))]}


class WorkbenchScheduler(SchedulerPlugin):
    """Collects the rows, shows the page, and keeps adaptive scaling away from workers that hold variables."""

    name = "workbench-scheduler"
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        self.rows: deque[dict[str, Any]] = deque(maxlen=_ROWS)
        self.members: dict[str, list[str]] = {}
        self.count = 0
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
            if not msg["members"]:
                self.members.pop(str(msg["session"]))
        for one in msg.get("rows", ()):
            self.rows.append(one)
            self.count += 1

    def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
        taken = {address for addresses in self.members.values() for address in addresses}
        return [worker for worker in workers if worker.address not in taken]

    def table(self) -> dict[str, list[Any]]:
        """Columns of the chart: per task median and p95 step time (ms) over the last minute, and straggler ratio."""
        return summarise(self.rows)


def summarise(rows: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """One line per task of the newest rows; milliseconds; red where a task takes 1.5 times the median of its job."""
    kept = list(rows)
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    if not kept:
        return columns
    since = max(one["time"] for one in kept) - _WINDOW
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in kept:
        if one["time"] >= since:
            groups.setdefault((one["session"], one["task"]), []).append(one)
    several = len({session for session, _ in groups}) > 1
    medians = {key: statistics.median(one["median"] for one in group) for key, group in groups.items()}
    jobs: dict[tuple[str, str], list[float]] = {}
    for (session, task), median in medians.items():
        jobs.setdefault((session, _job(task)), []).append(median)
    for (session, task), group in sorted(groups.items(), reverse=True):
        typical = statistics.median_low(jobs[session, _job(task)])
        ratio = medians[session, task] / typical if typical else 1.0
        values = (f"{task} ({session[:4]})" if several else task, group[-1]["worker"], 1e3 * medians[session, task],
                  1e3 * statistics.median(one["p95"] for one in group), sum(one["count"] for one in group), ratio,
                  "#d62728" if ratio > _STRAGGLER else "#1f77b4")
        for name, value in zip(_COLUMNS, values):
            columns[name].append(value)
    return columns


def _job(task: str) -> str:
    return task.partition("/task:")[0]


# the page: everything below runs in the scheduler and needs bokeh

class _StepTimes:
    def __init__(self, scheduler: Any) -> None:
        from bokeh.models import ColumnDataSource, DataRange1d, FactorRange, HoverTool
        from bokeh.plotting import figure

        self._plugin = scheduler.workbench
        self._seen = -1
        self.source = ColumnDataSource(dict(self._plugin.table()))
        self.tasks = FactorRange()
        self.span = DataRange1d(start=0)
        self.root = figure(title="Step time per task: median (bar) and 95th percentile (dot), last minute; "
                                 f"red: over {_STRAGGLER} × the median of its job",
                           y_range=self.tasks, x_range=self.span, x_axis_label="step time (ms)", sizing_mode="stretch_both",
                           tools="save")
        self.root.hbar(y="task", right="median", height=0.7, fill_color="color", line_color=None, source=self.source)
        self.root.scatter(x="p95", y="task", size=8, color="black", source=self.source)
        self.root.add_tools(HoverTool(tooltips=[
            ("task", "@task"), ("Dask worker", "@worker"), ("median", "@median{0.000} ms"), ("p95", "@p95{0.000} ms"),
            ("steps", "@steps"), ("of its job's median", "@ratio{0.00}")]))

    def update(self) -> None:
        if self._plugin.count == self._seen:
            return
        self._seen = self._plugin.count
        table = self._plugin.table()
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
    context = ApplicationContext(Application(page), url=ROUTE)
    context._loop = IOLoop.current()
    server._applications[ROUTE] = context      # type: ignore[index]
    server.add_handlers(r".*", _patterns(server._prefix + ROUTE, context))
    context.run_load_hook()
    plots = variables["plots"]
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
