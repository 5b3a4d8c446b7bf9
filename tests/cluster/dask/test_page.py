"""Accounts of tasks reach the scheduler's page; without a dashboard nothing else changes."""
from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from bokeh.client import pull_session
from bokeh.models import ColumnDataSource, HBar, Title
from distributed import Client, LocalCluster
from distributed.diagnostics.task_stream import TaskStreamPlugin

from tests.cluster.cluster_engines import define
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.dask import page as dashboard
from workbench.core.trace import Span, journal
from workbench.viz.palette import color_of
from workbench.viz.verdict import Row

ROOT = Path(__file__).resolve().parents[3]


def make(task: str, work: float, time: float = 100.0, session: str = "aaaabbbb") -> dict:
    return dashboard.row(session, Row(task, work, 1.0, 0.0, 2.0, 0.25, work + 3.25, 0.5, "worker:1"), "tcp://w", time)


def test_rows_are_small_accounts():
    assert make("/job:ps/task:0", 4.0, 5.0, "s") == {
        "session": "s", "task": "/job:ps/task:0", "worker": "tcp://w", "time": 5.0, "work": 4.0, "transfer": 1.0,
        "input": 0.0, "wait": 2.0, "uncovered": 0.25, "cost": 0.5, "waits_for": "worker:1"}


def test_the_newest_account_of_each_task_counts_and_old_ones_are_forgotten():
    a, b, gone = (f"/job:worker/task:{i}" for i in (0, 1, 2))
    table = dashboard.summarise([make(gone, 9.0, time=10.0), make(a, 1.0), make(b, 2.0), make(a, 3.0, time=101.0)])
    assert table["task"] == ["worker:1", "worker:0"] and table["work"] == [2.0, 3.0] and table["waits_for"] == ["worker:1"] * 2
    assert dashboard.summarise([]) == {name: [] for name in table}
    assert dashboard.summarise([make("a", 1.0), make("a", 1.0, session="cccc")])["task"] == ["a (cccc)", "a (aaaa)"]


def test_tasks_have_the_colours_they_have_in_every_view():
    tasks = {"ps:0": "/job:ps/task:0", "worker:0": "/job:worker/task:0", "worker:1": "/job:worker/task:1"}
    table = dashboard.summarise([make(task, 1.0) for task in tasks.values()])
    assert dict(zip(table["task"], table["color"])) == {name: color_of(task) for name, task in tasks.items()}


def test_parts_of_a_step_have_the_colours_they_have_in_the_panel():
    sources = (ROOT / "labextension" / "src" / "kit" / "colour.ts").read_text(encoding="utf-8")
    work, *striped = [re.search(rf"{part}: '(#\w+)'", sources)[1] for part in ("work", "transfer", "input")]
    assert dashboard._INKS[0] == work and dashboard._HATCHED[1:3] == striped and len(set(dashboard._HATCHES)) == 4


def test_workers_with_tasks_are_not_scaled_away():
    plugin = dashboard.WorkbenchScheduler()
    one, two = SimpleNamespace(address="tcp://1"), SimpleNamespace(address="tcp://2")
    plugin.log_event("workbench", {"session": "s", "members": ["tcp://1"], "client": "mine"})
    assert plugin.valid_workers_downscaling(None, [one, two]) == [two]
    plugin.log_event("workbench", {"session": "s", "members": []})
    plugin.log_event("other", {"session": "s", "members": ["tcp://1"]})
    assert plugin.valid_workers_downscaling(None, [one, two]) == [one, two]
    plugin.log_event("workbench", {"session": "s", "members": ["tcp://1"], "client": "mine"})
    plugin.remove_client(None, "another")
    assert plugin.valid_workers_downscaling(None, [one, two]) == [two]
    plugin.remove_client(None, "mine")                  # killed: it could not say goodbye
    assert plugin.valid_workers_downscaling(None, [one, two]) == [one, two]


def test_a_lost_task_is_marked_with_cause_and_fix_however_old_its_account():
    plugin = dashboard.WorkbenchScheduler()
    plugin.verdict = "even"
    dead, alive, silent = (f"/job:worker/task:{i}" for i in range(3))
    plugin.rows += [make(dead, 9.0, time=10.0), make(alive, 1.0)]
    plugin.log_event("workbench", {"session": "aaaabbbb", "lost": {dead: "It died. Restart it.", silent: ""}})
    table = plugin.table()
    assert table["task"] == ["worker:2 lost", "worker:1", "worker:0 lost"] and table["work"] == [0.0, 1.0, 9.0]
    assert table["color"] == [color_of(silent), color_of(alive), color_of(dead)] and plugin.count == 1
    assert plugin.headline().strip() == "It died. Restart it."
    plugin.log_event("workbench", {"session": "aaaabbbb", "lost": {one: f"{one} died. Restart it." for one in (dead, alive)}})
    assert plugin.headline() == f"{dead} died. Restart it. The same happened to worker:1."
    plugin.log_event("workbench", {"session": "aaaabbbb", "lost": {}})
    assert plugin.headline() == "even"


def test_steps_stand_in_dask_s_task_stream():
    stream = TaskStreamPlugin(None, maxlen=10)
    plugin = dashboard.WorkbenchScheduler()
    plugin._plugins = {"task-stream": stream}
    span = Span("segment", "segment_0", "/job:worker/task:1", "", 3, 2.0, 2.5, 7)
    bars = [dashboard.bar(span.task, "tcp://w", one, 100.0) for one in (span, span._replace(kind="send"))]
    plugin.log_event("workbench", {"stream": bars})
    drawn = stream.rectangles(0)
    assert drawn["name"] == ["worker:1 works", "transfer-worker:1 sends"] and drawn["worker"] == ["tcp://w"] * 2
    assert drawn["duration"] == [500.0] * 2 and drawn["start"] == [102_250.0] * 2


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:There is no current event loop:DeprecationWarning")     # Bokeh's client, Python ≥ 3.12
def test_the_page_shows_the_tasks_of_a_running_cluster():
    with (LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address="127.0.0.1:0",
                       host="127.0.0.1") as local, Client(local) as client):
        client.run(define)
        with Cluster(client, 1, 1, engine="echo") as cluster:
            cluster.register_all("h", dict.fromkeys(cluster.tasks, b"exchange"), {})
            plugin = local.scheduler.workbench
            while len(plugin.table()["task"]) < 2:       # rows come twice a second; the timeout bounds this
                cluster.run_step("h")
            assert plugin.table()["task"] == ["worker:0", "ps:0"]
            assert plugin.members == {f"{cluster.session:016x}": list(cluster.addresses.values())}
            root = client.dashboard_link.removesuffix("/status")
            assert journal.status.page == root + dashboard.ROUTE      # where the panel leads
            listed = json.load(urllib.request.urlopen(root + "/individual-plots.json"))
            assert listed["Individual Workbench Step Times"] == dashboard.ROUTE
            page = urllib.request.urlopen(f"{root}/{dashboard.PAGE}").read().decode()
            assert '<a href="workbench">Workbench</a>' in page
            status = urllib.request.urlopen(f"{root}/status").read().decode()      # Dask's own page leads there
            assert '<a href="workbench">Workbench</a>' in status
            session = pull_session(url=root + dashboard.ROUTE)
            try:
                stream = local.scheduler.plugins["task-stream"]      # the status page that was asked for shows it
                while not any(one["key"].startswith("worker:0 ") for one in list(stream.buffer)):
                    cluster.run_step("h")
                assert session.document.title == "Workbench: step times"
                headline = session.document.select_one({"type": Title}).text
                assert headline.split() and max(map(len, headline.splitlines())) <= dashboard._LINE
                shown = session.document.select_one({"type": ColumnDataSource}).data
                assert list(shown["task"]) == list(plugin.table()["task"]) and min(shown["work"]) >= 0
                assert {one.fill_color.value for one in session.document.select({"type": HBar})} == set(dashboard._INKS)
            finally:
                session.close()
        assert journal.status.page == ""
