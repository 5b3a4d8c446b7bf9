"""Step times reach the scheduler's page; without a dashboard nothing else changes."""
from __future__ import annotations

import json
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from bokeh.client import pull_session
from bokeh.models import ColumnDataSource
from distributed import Client, LocalCluster

from tests.cluster.cluster_engines import define
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.dask import page as dashboard


def make(task: str, seconds: float, time: float = 100.0, session: str = "aaaabbbb") -> dict:
    return dashboard.row(session, task, "tcp://w", time, [(i, seconds) for i in range(10)])


def test_rows_are_small_summaries():
    got = dashboard.row("s", "/job:ps/task:0", "tcp://w", 5.0, [(i, i / 1000) for i in range(101)])
    assert got == {"session": "s", "task": "/job:ps/task:0", "worker": "tcp://w", "time": 5.0, "step": 100,
                   "count": 101, "median": 0.05, "p95": 0.095}


def test_stragglers_are_red_and_old_rows_forgotten():
    a, b, c = (f"/job:worker/task:{i}" for i in range(3))
    rows = [make(a, 0.001), make(b, 0.001), make(c, 0.002), make(a, 9.0, time=10.0)]
    table = dashboard.summarise(rows)
    assert table["task"] == [c, b, a] and table["color"] == ["#d62728", "#1f77b4", "#1f77b4"]
    np.testing.assert_allclose(table["median"], [2, 1, 1])
    assert dashboard.summarise([]) == {name: [] for name in table}
    assert dashboard.summarise([make("a", 1.0), make("a", 1.0, session="cccc")])["task"] == ["a (cccc)", "a (aaaa)"]


def test_servers_and_workers_are_no_peers():
    table = dashboard.summarise([make("/job:ps/task:0", 0.009), make("/job:worker/task:0", 0.001),
                                 make("/job:worker/task:1", 0.003)])
    assert table["ratio"] == [3.0, 1.0, 1.0] and table["color"] == ["#d62728", "#1f77b4", "#1f77b4"]


def test_workers_with_tasks_are_not_scaled_away():
    plugin = dashboard.WorkbenchScheduler()
    plugin.members, plugin.rows, plugin.count = {}, [], 0
    one, two = SimpleNamespace(address="tcp://1"), SimpleNamespace(address="tcp://2")
    plugin.log_event("workbench", {"session": "s", "members": ["tcp://1"]})
    assert plugin.valid_workers_downscaling(None, [one, two]) == [two]
    plugin.log_event("workbench", {"session": "s", "members": []})
    plugin.log_event("other", {"session": "s", "members": ["tcp://1"]})
    assert plugin.valid_workers_downscaling(None, [one, two]) == [one, two]


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
            assert plugin.table()["task"] == ["/job:worker/task:0", "/job:ps/task:0"]
            assert plugin.members == {f"{cluster.session:016x}": list(cluster.addresses.values())}
            root = client.dashboard_link.removesuffix("/status")
            listed = json.load(urllib.request.urlopen(root + "/individual-plots.json"))
            assert listed["Individual Workbench Step Times"] == dashboard.ROUTE
            page = urllib.request.urlopen(root + dashboard.ROUTE).read().decode()
            assert "workbench" in page
            session = pull_session(url=root + dashboard.ROUTE)
            try:
                assert session.document.title == "Workbench: step times"
                shown = session.document.select_one({"type": ColumnDataSource}).data
                assert list(shown["task"]) == list(plugin.table()["task"]) and min(shown["median"]) > 0
            finally:
                session.close()
