"""What a real cluster's run looks like to the views: every task's steps, every transfer's two ends, all devices."""
from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import workbench as wb
from tests.cluster import softmax
from tests.eventually import eventually
from workbench.cluster.chief import sampling
from workbench.cluster.chief.cluster import Cluster
from workbench.core.run.session import _OP_PERIOD
from workbench.core.trace import Journal, journal
from workbench.viz.accounting import Accounting
from workbench.viz.books import books_of
from workbench.viz.chrome import to_chrome
from workbench.viz.graph_view import choose_graph
from workbench.viz.hub import Hub
from workbench.viz.verdict import judge

pytestmark = pytest.mark.cluster

SERVERS = ["/job:ps/task:0", "/job:ps/task:1"]
WORKERS = ["/job:worker/task:0", "/job:worker/task:1"]
TASKS = SERVERS + WORKERS


@pytest.fixture(scope="module", params=["sync", "async"])
def run(client, request) -> Iterator[SimpleNamespace]:
    """The records of 50 steps, timed one by one so that the first is recorded operation by operation.

    `doubt`: the worst error of each task's clock among those by which spans were moved.
    """
    before = journal.enabled, journal.spans_since()[0], journal.graphs_since()[0]
    journal.enabled = True
    hub = Hub(journal)
    with Cluster(client, 2, 2) as cluster:
        script = softmax.build(WORKERS, SERVERS, request.param)
        with wb.Session(cluster, graph=script.graph) as session:
            began = time.monotonic()
            if request.param == "sync":
                script.train_sync(session, 50)
            else:
                session.run(script.init)
                for replica in script.start_async(session, 50):
                    replica.join(60)
                    assert not replica.is_alive() and replica.error is None
            took = time.monotonic() - began
            cluster.flush()
            watcher = hub.watcher()
            watcher.watch({"steps": {}, "work": {}})

            def accounted() -> bool:
                """Views account for what came a slice at a time, in look after look; until then they show the run before."""
                hub.look()
                shown = hub.whole("work").rows, hub.whole("steps").tasks
                return books_of(journal).summary.run == session.name and all({row.task for row in rows} == set(TASKS)
                                                                             for rows in shown)
            eventually(accounted)
        spans = [s for s in journal.spans_since(before[1])[2] if s.step >= 0]
        doubt = {task: max(error for _, _, error in journal.clock_table(task)) for task in TASKS}
        yield SimpleNamespace(spans=spans, graphs=journal.graphs_since(before[2])[2], doubt=doubt,
                              steps=hub.whole("steps"), work=hub.whole("work"), status=hub.status(),
                              session=session.name, lost=cluster.lost_spans, mode=request.param, took=took)
    journal.enabled = before[0]


def of(run: SimpleNamespace, kind: str) -> list:
    return [span for span in run.spans if span.kind == kind]


def test_every_task_records_its_own_share_of_a_step(run):
    steps = of(run, "step")
    assert {s.task for s in steps} == set(TASKS)
    assert {s.name for s in steps} == {run.session}
    assert max(Counter((s.task, s.step) for s in steps).values()) == 1
    assert run.lost == dict.fromkeys(TASKS, 0)
    whole = {(s.task, s.step): s for s in steps}
    for span in run.spans:
        if span.kind in ("segment", "recv", "send", "op"):
            step = whole[span.task, span.step]            # whatever happens, happens in a recorded step
            doubt = 2 * run.doubt[span.task]              # they may have come in batches of their own
            assert step.start - doubt <= span.start <= span.end <= step.end + doubt


def test_every_receive_has_its_send(run):
    sends, receives = of(run, "send"), of(run, "recv")
    assert {s.task for s in receives} == set(TASKS)
    sent = {s.message: s for s in sends}
    assert len(sent) == len(sends)
    assert len({s.message for s in receives}) == len(receives)
    assert sent.keys() == {s.message for s in receives}
    for end in receives:
        begin = sent[end.message]
        doubt = run.doubt[begin.task] + run.doubt[end.task]
        assert begin.start <= end.end + doubt
        assert (begin.step, begin.name, begin.nbytes) == (end.step, end.name, end.nbytes)
        assert end.message.split("|")[2:4] == [begin.device, end.device]


def test_operations_are_timed_in_the_same_step_on_all_tasks(run):
    timed = {s.step for s in of(run, "op")}
    threads = 1 if run.mode == "sync" else len(WORKERS)      # two may find at once that it is time
    assert 1 <= len(timed) <= threads * (run.took / _OP_PERIOD + 1)
    for step in timed:
        parts = {s.task for s in of(run, "step") if s.step == step}
        with_kernels = {s.task for s in of(run, "segment") if s.step == step and s.name != "empty"}
        assert with_kernels & {s.task for s in of(run, "op") if s.step == step} and with_kernels <= parts


def test_every_view_has_the_same_account_of_each_task(run):
    accounting = Accounting(kept=10_000)
    accounting.feed(run.spans)
    accounting.settle(everything=True)
    rows = {row.task: row for row in judge(accounting, run.session, counter=journal.counter).rows}
    assert set(rows) == set(TASKS)
    for row in rows.values():
        # Nobody works all the time, but one may never wait: who gets its order last finds all that it needs there, and who
        # ends last waits for nobody afterwards. The time before its order came is in no span, so it is uncovered.
        assert row.work > 0 and row.wait + row.uncovered > 0
    for account in (a for step in accounting.steps for a in step.accounts.values()):
        parts = account.work + account.transfer + account.input + account.wait + account.uncovered
        assert parts == pytest.approx(account.whole)
    lines = {row.task: row for row in run.steps.tasks}
    shown = {row.task: row for row in run.work.rows}
    assert set(lines) == set(shown) == set(TASKS)
    assert len({row.device_color for row in lines.values()}) == 4
    assert run.work.verdict.text
    assert set(run.status["tasks"]) == set(TASKS)
    assert run.status["session"] == run.session


def test_the_trace_opens_in_perfetto_with_arrows(run):
    text = json.dumps(to_chrome(run.spans, journal), allow_nan=False)
    trace = json.loads(text)
    events = trace["traceEvents"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert len(names) == 4
    begins, ends = ({e["id"]: e for e in events if e["ph"] == phase} for phase in "sf")
    assert begins.keys() == ends.keys() and len(begins) == len(of(run, "recv"))
    assert any(begins[i]["pid"] != ends[i]["pid"] for i in begins)
    assert set(trace["otherData"]["clock_offsets_us"]) >= set(TASKS)


def test_the_placed_graph_names_the_devices_of_all_tasks(run):
    placed = [g for g in run.graphs if g.stage == "placed" and g.key.startswith(run.session)]
    assert {n.device for g in placed for n in g.nodes} == {f"{task}/device:CPU:0" for task in TASKS}
    shown = choose_graph(run.graphs, run.session)
    assert shown is not None and shown.stage == "placed"
    tasks = {n.device.partition("/device:")[0] for n in shown.nodes}
    assert tasks >= ({*SERVERS, *WORKERS} if run.mode == "sync" else set(SERVERS))


def test_a_long_step_is_recorded_even_if_it_was_not_chosen(client, monkeypatch):
    monkeypatch.setattr(sampling, "Pace", lambda *how: SimpleNamespace(due=math.inf))
    monkeypatch.setattr("workbench.core.run.session._OP_PERIOD", 1e9)
    records = Journal()
    with wb.Graph().as_default(), Cluster(client, 1, 1, journal=records) as cluster:
        with wb.device(WORKERS[0]):
            turns = wb.placeholder("int32", [])
            end = wb.while_loop(lambda i, x: i < turns, lambda i, x: (i + 1, wb.tanh(x)), [0, wb.ones([200, 200])])
        with wb.Session(cluster) as session:
            for count in (1, 5, 2000):
                session.run(end, {turns: count})
                cluster.flush()
                member, spans = cluster._members[WORKERS[0]], records.spans_since()[2]
                number = cluster.next_step() - 1
                newest = [s for s in spans if s.step == number and s.task == WORKERS[0]]
                if member.last_seconds > 0.02:
                    assert [s.kind for s in newest] == ["step"]
                    assert newest[0].end - newest[0].start == pytest.approx(member.last_seconds)
            assert member.last_seconds > 0.02            # 80 million hyperbolic tangents
            assert {s.kind for s in spans} == {"step"}


def test_transfers_between_devices_of_one_process_have_both_ends():
    cursor, before, journal.enabled = journal.spans_since()[0], journal.enabled, True
    try:
        with wb.Graph().as_default(), wb.Session(devices=2) as session:
            with wb.device("/cpu:0"):
                x = wb.placeholder("float32", [3])
                doubled = x * 2.0
            with wb.device("/cpu:1"):
                y = wb.tanh(doubled)
            for _ in range(3):
                session.run(y, {x: [1.0, 2.0, 3.0]})
    finally:
        journal.enabled = before
    spans = journal.spans_since(cursor)[2]
    sends, receives = ({s.message: s for s in spans if s.kind == kind} for kind in ("send", "recv"))
    assert len(sends) == 3 and sends.keys() == receives.keys()
    assert all(sends[m].start <= receives[m].end and sends[m].nbytes == 12 for m in sends)
