"""A task that is killed while a cluster trains: every view marks it, with cause and what to do."""
from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.ui.conftest import PATIENCE, Lab

pytestmark = [pytest.mark.browser, pytest.mark.cluster]

BEGIN = """
import json, os, signal, threading, time
import workbench as wb
cluster = wb.Cluster(ps=1, worker=2)
with wb.Graph().as_default() as graph:
    with wb.device("/job:ps/task:0"):
        weights = wb.Variable(wb.fill([128, 128], 0.001), name="weights")
    sums = []
    for i in range(2):
        with wb.device(f"/job:worker/task:{i}"), wb.name_scope(f"replica_{i}"):
            sums.append(wb.reduce_sum(wb.matmul(weights, weights)))
    with wb.device("/job:ps/task:0"):
        total = sums[0] + sums[1]
        step = weights.assign_add(wb.fill([128, 128], 1e-9) * total)
    begin = wb.global_variables_initializer()
session = wb.Session(cluster, graph=graph)
session.run(begin)
why = []

def train():
    try:
        while True:
            session.run(step.op)
    except wb.errors.Error as error:
        why.append(error)
training = threading.Thread(target=train, daemon=True)
training.start()
print("training", "now")
"""
KILL = """
def told():
    return max((span.step for span in wb.journal.spans_since()[2] if span.task == "/job:worker/task:1"), default=0)
for _ in range(5):      # of most steps that others tell of: tasks tell twice a second, and one that dies keeps the rest
    before = told()
    while told() == before:
        pass
began = time.time()
os.kill(cluster.pids["/job:worker/task:1"], signal.SIGKILL)
training.join()
print("died:", type(why[0]).__name__)
"""
OTHERS = """
from rich.console import Console
from workbench.commands.screen import picture
from workbench.train.progress import Progress
from workbench.viz.books import books_of
from workbench.viz.report import render_report

def table(dask_scheduler):
    plugin = dask_scheduler.workbench
    return plugin.table()["task"], plugin.headline()
terminal = Console(width=200, force_terminal=False)
with terminal.capture() as caught:
    terminal.print(picture("run", Progress(1, 2), 1.0, books_of(wb.journal).summary, wb.journal.current()))
while "was lost" not in cluster.client.run_on_scheduler(table)[1]:      # reports come twice a second
    pass
tasks, headline = cluster.client.run_on_scheduler(table)
print("VIEWS" + json.dumps({"terminal": caught.get(), "report": render_report(wb.journal, "run", {}), "cluster": repr(cluster),
                            "page": headline, "rows": tasks}))
"""
TROUBLE = "(document.querySelector('.wb-Trouble')?.textContent ?? '')"
WHEN = f"""began => new Promise(resolve => {{
    const marks = {{
        trouble: () => {TROUBLE}.includes('worker:1 was lost') || {TROUBLE}.includes('/job:worker/task:1 was lost'),
        status: () => document.querySelector('.wb-Status button')?.dataset.state === 'failed',
        table: () => !!document.querySelector('.wb-Stragglers tbody tr.wb-mod-lost'),
        chart: () => !!document.querySelector('.wb-Steps .wb-Legend li.wb-mod-lost'),
        graph: () => !!document.querySelector('.wb-Graph .wb-Legend li.wb-mod-lost')
    }};
    const seen = {{}};
    const look = () => {{
        for (const [view, marked] of Object.entries(marks)) {{
            seen[view] ??= marked() ? Date.now() / 1000 : undefined;
        }}
        Object.keys(marks).every(view => seen[view]) ? resolve(seen) : setTimeout(look, 10);
    }};
    look();
}})"""


def test_a_killed_worker_is_marked_in_every_view(lab: Lab, notebook: Callable[..., str],
                                                 record_property: Callable[[str, object], None]) -> None:
    lab.open(notebook(BEGIN, KILL, "print('BEGAN', began)", OTHERS, "session.close(); cluster.close()"))
    lab.open_panel()
    lab.run_cell(0)
    lab.panel_state("running")
    for what in (".wb-Stragglers tbody tr th:has-text('worker:1')", ".wb-Steps .wb-Legend li[title$='task:1']",
                 ".wb-Graph .wb-Legend li:has-text('worker:1')"):
        lab.page.wait_for_selector(what)
    lab.run_cell(1)
    seen = lab.promised(WHEN)
    lab.panel_state("failed")
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('died: ')")
    lab.picture("lost")
    trouble = lab.page.evaluate(f"() => {TROUBLE}")
    assert "its worker process died or cannot be reached" in trouble and "restore the newest checkpoint" in trouble
    assert trouble.count(" was lost (") == 1      # the run failed by it: told once
    assert "worker:1 lost" in lab.page.locator(".wb-Stragglers tr.wb-mod-lost th").inner_text()
    lab.page.locator(".wb-Tabs-bar button", has_text="Timeline").click()
    lab.page.wait_for_selector(".wb-Timeline canvas[aria-label^='Lost: worker:1.']")
    lab.picture("lost-timeline")
    lab.page.locator(".wb-Tabs-bar button", has_text="Operations").click()
    marked = lab.page.locator(".wb-Operations table:last-of-type .wb-mod-lost")
    marked.wait_for()
    assert marked.all_inner_texts() == ["worker:1 CPU:0 lost"]
    lab.picture("lost-operations")
    lab.run_cell(2)
    began = float(output(lab, "BEGAN"))
    record_property("seconds", {view: round(moment - began, 2) for view, moment in seen.items()})
    print("seconds until marked:", {view: round(moment - began, 2) for view, moment in seen.items()})
    lab.run_cell(3)
    views = json.loads(output(lab, "VIEWS"))
    for view in ("terminal", "report", "page"):
        assert "/job:worker/task:1 was lost (" in views[view], view
    assert "worker:1 lost" in views["report"] and "worker:1 lost" in views["terminal"]
    assert "worker:1 lost" in views["rows"]
    assert "(lost)" in views["cluster"]
    lab.run_cell(4)
    assert lab.errors == []


def output(lab: Lab, mark: str) -> str:
    """What a cell printed behind `mark`."""
    lab.page.wait_for_function("""mark => [...document.querySelectorAll('.jp-OutputArea-output')]
        .some(node => node.textContent.startsWith(mark))""", arg=mark, timeout=PATIENCE)
    return str(lab.page.evaluate("""mark => [...document.querySelectorAll('.jp-OutputArea-output')]
        .find(node => node.textContent.startsWith(mark)).textContent.slice(mark.length)""", mark)).strip()
