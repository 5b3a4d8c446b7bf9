"""What a picture costs the kernel, counted in calls of functions: what is done for each span is done by columns."""
from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.panel_update import step
from tests.ui.records import large
from workbench.core.rings import Rows
from workbench.core.run.gate import gate
from workbench.core.trace import Journal, Span
from workbench.viz import blame, books, verdict
from workbench.viz.accounting import Accounting
from workbench.viz.batch import Batch
from workbench.viz.books import ACCOUNTS, Sample
from workbench.viz.graph_view import GraphPicture
from workbench.viz.hub import Hub, Watcher, hub_of
from workbench.viz.ledger import look
from workbench.viz.names import Names, found, ranked
from workbench.viz.node_view import LISTED
from workbench.viz.schema import NodeDetails, Picture, plain
from workbench.viz.step_index import StepIndex
from workbench.viz.step_view import StepTimes
from workbench.viz.verdict import judge
from workbench.viz.views.timeline import TimelineParameters
from workbench.viz.window import Window
from workbench.viz.work_view import ROWS, work_view
from workbench.widgets.peer import Peer
from workbench.widgets.wire import pack

WORKERS = 252
TASKS = WORKERS + 4


def calls(work: Callable[[], object]) -> int:
    """Functions that `work` calls, those in C included."""
    count = 0

    def heard(frame: Any, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def recorded(steps: int) -> list[list[Span]]:
    """The spans of each of some steps of many tasks."""
    random.seed(5)
    found = []
    for number in range(steps):
        journal = Journal(capacity=10_000)
        journal.enabled = True
        step(journal, number, 0.05 * number, WORKERS)
        found.append(journal.spans_since(0)[2])
    return found


def test_one_more_step_and_its_verdict_cost_few_calls_however_many_spans_it_has():
    """After the first ones, which everything is new to."""
    accounting, steps = Accounting(), recorded(12)
    for spans in steps[:-1]:
        accounting.feed(spans)
        accounting.settle(everything=True)
        judge(accounting)
    accounting.feed(steps[-1])
    assert calls(lambda: accounting.settle(everything=True)) < 0.75 * len(steps[-1])
    assert calls(lambda: judge(accounting)) < 10 * TASKS


def test_links_are_not_looked_at_where_another_suspect_costs_more_than_any_may(monkeypatch):
    looked, accounting = list[int](), Accounting()
    monkeypatch.setattr(verdict, "look", lambda steps: (looked.append(len(steps)), look(steps))[1])
    for spans in recorded(4):
        accounting.feed(spans)
        accounting.settle(everything=True)
    assert judge(accounting).verdict.kind == "input" and not looked  # 10 ms between two steps, 4 at most on one link
    verdict._links(Window([step.ledger for step in accounting.steps]))
    assert looked == [4]


def lone(steps: int) -> Accounting:
    """Steps of a task that is alone, one after the other."""
    accounting, task = Accounting(), "/job:localhost/task:0"
    accounting.feed([Span("step", "session_0", task, f"{task}/device:CPU:0", 0, i, i + 0.5, i, executable="session_0_1")
                     for i in range(steps)])
    return accounting


def test_the_steps_of_a_sample_and_of_its_time_are_found_without_comparing_each_with_each():
    few, many = (calls(lambda steps=steps: lone(steps).settle(everything=True, accounts=steps // 4)) for steps in (500, 1000))
    assert many < 2.1 * few


def test_of_short_steps_of_few_tasks_a_verdict_accounts_for_few():
    """Each costs what it costs, however few tasks it has."""
    accounting = lone(300)
    accounting.settle(everything=True, accounts=ACCOUNTS)
    assert 8 <= accounting.count <= 20


def test_the_verdict_on_a_task_that_is_alone_looks_for_no_messages():
    accounting = lone(40)
    accounting.settle(everything=True)
    judge(accounting)
    accounting.feed([Span("step", "session_0", "/job:localhost/task:0", "", 0, 40.0, 40.5, 40, executable="session_0_1")])
    accounting.settle(everything=True)
    assert calls(lambda: judge(accounting)) < 1_200


def test_the_first_verdict_loads_no_part_of_numpy_besides():
    """`np.unique` alone loads masked arrays, which takes as long as ten updates."""
    program = "\n".join((
        "import sys", "from tests.viz.test_update_costs import Accounting, judge, recorded", "accounting = Accounting()",
        "before = set(sys.modules)", "for spans in recorded(3):", "    accounting.feed(spans)",
        "accounting.settle(everything=True)", "judge(accounting)",
        "print(*sorted({name for name in set(sys.modules) - before if name.startswith('numpy')}))"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_travels_is_packed_by_its_records_not_by_each_of_their_fields():
    hub, _watcher = drawing(recorded(6))
    picture = hub.whole("timeline")
    assert len(picture.lanes) == 40 and calls(lambda: pack(picture)) < 24 * len(picture.lanes)


def test_spans_are_taken_in_by_their_steps_not_one_by_one():
    """By whoever finds them again, and by whoever accounts for them."""
    index, sample, accounting = StepIndex(100), Sample(), Accounting()

    def take(spans: list[Span]) -> None:
        batch = Batch(spans)
        index.take(batch, 0, 0.0)
        accounting.take(batch, sample.of(batch, "session_0", sparing=False))
    few, many = recorded(2), recorded(2)
    take([span for one in few for span in one])
    assert accounting.waiting == 2 and [step.number for step in index.of("session_0")] == [0, 1]
    assert calls(lambda: take([span for one in many for span in one])) < 0.1 * len(many[0])


def test_what_a_step_says_of_who_holds_it_up_is_found_once_however_many_verdicts_look_at_it(monkeypatch):
    found, accounting = list[int](), Accounting()
    find = blame._blame
    monkeypatch.setattr(blame, "_blame", lambda *given: (found.append(1), find(*given))[1])
    for spans in recorded(5):
        accounting.feed(spans)
        accounting.settle(everything=True)
        judge(accounting)
    assert len(found) == 5


def drawing(steps: list[list[Span]]) -> tuple[Hub, Watcher]:
    """The hub of a journal that holds these steps, and somebody who watches its timeline."""
    journal = Journal(capacity=100_000)
    journal.enabled = True
    hub = hub_of(journal)
    watcher = hub.watcher()
    watcher.watch({"timeline": None})
    for now, one in enumerate(steps):
        for span in one:
            journal.span(span)
        hub.look(float(now))
    hub.look(9.0)  # no more of the last step will come
    return hub, watcher


def test_the_picture_of_a_step_costs_few_calls_however_many_spans_it_has():
    """Not one for each of what the picture leaves out."""
    spans = recorded(6)
    hub, _watcher = drawing(spans)
    hub.whole("timeline", TimelineParameters(step=4))  # whose places are all new
    seen = []
    assert calls(lambda: seen.append(hub.whole("timeline"))) < 0.9 * len(spans[-1])
    assert seen[0].step == 5 and len(seen[0].lanes) == 40 and seen[0].lane_count > TASKS


def test_the_columns_of_a_step_are_read_once_for_its_account_and_its_picture(monkeypatch):
    *before, last = recorded(6)
    for name, much in (("JUDGED", 0.0), ("ACCOUNTS", 10_000), ("SAMPLED", 1e9), ("SLICE", 100.0)):
        monkeypatch.setattr(books, name, much)  # every step is accounted for at once
    hub, _watcher = drawing(before)
    read, column = Counter[str](), Batch._column
    monkeypatch.setattr(Batch, "_column", lambda batch, name: (read.update([name] if batch.rows[0] == last[0] else []),
                                                               column(batch, name))[1])
    for span in last:
        hub.journal.span(span)
    hub.journal.task(last[0].task, "joined")
    hub.journal.merge(last[0].task, [], until=1.0)  # no more of it will come
    hub.look(20.0)
    assert hub.whole("timeline").step == 5 and hub._books.steps_since(0)[1][-1].number == 5
    assert [read[name] for name in ("start", "end", "kind", "task", "step", "thread", "message")] == 7 * [1]


def test_a_part_of_a_batch_says_what_its_spans_say_alone():
    spans = [span for one in recorded(2) for span in one]
    rng = np.random.default_rng(6)
    for part in (0.0, 0.5, 1.0):  # of the messages that keep both ends
        batch = Batch(spans)
        sends = (batch.senders[batch.came[span.message]] if span.message else -1 for span in spans)
        assert any(place >= 0 for place in sends)
        which = np.array([(span.kind in ("send", "recv") and rng.random() < part) or span.kind == "segment" for span in spans])
        made, alone = batch.only(which), Batch([span for span, kept in zip(spans, which.tolist()) if kept])
        assert made.senders.tolist() == alone.senders.tolist()
        assert made.start.tolist() == alone.start.tolist() and made.rows == alone.rows
    halves = [batch.of(piece) for piece in batch.pieces]
    assert [half.rows for half in halves] == recorded(2) and halves[0] is batch.of(batch.pieces[0])


def test_the_course_of_steps_costs_few_calls_for_tasks_that_it_does_not_show():
    accounting, times = Accounting(), StepTimes()
    for spans in recorded(3):
        accounting.feed(spans)
        accounting.settle(everything=True)
    first, *others = accounting.steps
    times.feed([first])  # which all tasks are new to
    assert calls(lambda: times.feed(others)) < TASKS
    executables, seen = {step.executable for step in accounting.steps}, []
    assert calls(lambda: seen.append(times.view(executables, tasks=1))) < TASKS
    assert len(seen[0].view.tasks) == 1 and seen[0].view.more == TASKS - 1


def test_the_rows_that_travel_cost_few_calls_each():
    accounting = Accounting()
    for spans in recorded(3):
        accounting.feed(spans)
        accounting.settle(everything=True)
    summary, seen = judge(accounting), []
    assert calls(lambda: seen.append(work_view(summary))) < 40 * ROWS
    assert len(seen[0].rows) == ROWS and seen[0].more == TASKS - ROWS


def test_columns_of_texts_and_numbers_are_looked_up_and_sorted_all_at_once():
    rng = np.random.default_rng(3)
    for count in (0, 1, 2, 1000):
        codes = rng.integers(-50, 1 << 40, count) * rng.integers(0, 2, count)
        keys, places = ranked(codes)
        expected = np.unique(codes, return_inverse=True)
        assert keys.tolist() == expected[0].tolist() and places.tolist() == expected[1].tolist()
        texts = [f"task {code % 7}" for code in codes.tolist()]
        numbers = {f"task {i}": 3 * i for i in range(7)}
        assert found(numbers, texts).tolist() == [numbers[text] for text in texts]
        assert calls(lambda texts=texts, numbers=numbers: found(numbers, texts)) < 12


def test_links_that_are_known_cost_few_calls_and_keep_their_numbers():
    names, rng = Names(), np.random.default_rng(4)
    tasks = names.column([f"task {i}" for i in range(60)])
    for count in (0, 1, 500, 1000):
        sources, targets = rng.choice(tasks, (2, count))
        seen = names.links(sources, targets)
        assert [names.texts[link] for link in seen.tolist()] == [
            f"task {source}|task {target}" for source, target in zip(sources.tolist(), targets.tolist())]
        before = len(names.texts)
        again = []
        assert calls(lambda ends=(sources, targets), again=again: again.append(names.links(*ends))) < 30
        assert again[0].tolist() == seen.tolist() and len(names.texts) == before


def test_a_turn_that_is_not_due_asks_for_the_state_alone():
    hub, _watcher = drawing(recorded(3))
    for number in range(WORKERS):
        hub.journal.task(f"/job:worker/task:{number}", "joined")
    hub.look()
    assert calls(hub.turn) < 40
    hub.journal.set_status(state="compiling", what="fusing")
    hub.turn()
    assert hub.state == hub.said["state"] == "compiling" and hub.said["what"] == "fusing"


class Line:
    """Bytes that a comm would write, and those that it would only send."""

    def __init__(self) -> None:
        self.sent = 0

    def send(self, data: Any, *, buffers: list[bytes]) -> None:
        self.sent += len(json.dumps(data)) + sum(map(len, buffers))


def test_what_a_page_is_told_is_written_as_json_once(monkeypatch):
    """Not to be weighed and again to be sent, and what has not changed of the status not at all."""
    steps, line, written, dumps = recorded(6), Line(), list[int](), json.dumps
    hub, _watcher = drawing(steps[:3])
    peer = Peer(line, hub, gate, answered=True)
    peer.watcher.watch({"timeline": None})
    hub.journal.set_status(state="running", tasks=tuple(f"/job:worker/task:{i}" for i in range(WORKERS)))
    monkeypatch.setattr(json, "dumps", lambda *given, **how: (text := dumps(*given, **how), written.append(len(text)))[0])
    for number, spans in enumerate(steps[3:]):
        for span in spans:
            hub.journal.span(span)
        later = time.perf_counter() + 10.0 * number
        hub.look(later)
        hub.look(later + 5.0)  # no more of the step will come
        line.sent, written[:] = 0, []
        peer.serve(later)
        assert line.sent > 5_000
    assert sum(written) < 0.35 * line.sent, "the status of the first one was new; columns are no JSON"


def test_the_picture_of_a_step_reads_no_spans_of_later_ones(monkeypatch):
    spans, read = recorded(6), list[int]()
    hub, _watcher = drawing(spans)
    between = Rows.between
    monkeypatch.setattr(Rows, "between", lambda *given: read.append(len(found := between(*given))) or found)
    assert hub.whole("timeline", TimelineParameters(step=1)).step == 1
    assert 0 < sum(read) <= len(spans[1])


def test_what_is_known_of_a_scope_costs_few_calls_however_many_operations_it_holds():
    picture = GraphPicture(large(9_000))
    [stack] = [id for id, scope in picture.tree.scopes.items() if scope.kind == "stack" and scope.parent == ""][:1]
    picture.details(stack)      # the first one numbers the types
    found: list[NodeDetails | None] = []
    assert calls(lambda: found.append(picture.details(stack))) < 1_500
    assert found[0] is not None and "4,455 operations" in found[0].facts[0].value
    assert [link.id for link in found[0].inputs] == ["images"] and len(found[0].outputs) == LISTED


def test_opening_a_scope_costs_what_is_drawn_not_what_the_graph_holds():
    few, many = (GraphPicture(large(operations)) for operations in (1_800, 9_000))
    costs = []
    for picture in (few, many):
        picture.view()
        for id in ("mixed_0", next(one for one, scope in picture.tree.scopes.items() if scope.kind == "stack")):
            picture.expand(id)      # what is found once
            picture.view()
        picture.expand("mixed_1")
        view = picture.view()
        picture.collapse("mixed_1")
        picture.expand("mixed_1")
        costs.append(calls(picture.view) / len(view.nodes))
        assert calls(lambda view=view: plain(Picture(view.nodes, view.edges, view.devices, []))) < 30 * len(view.nodes)
    assert costs[1] < 1.3 * costs[0], costs


def test_only_steps_that_are_accounted_for_are_taken_apart(monkeypatch):
    accounting, apart = Accounting(), list[int]()
    task = "/job:localhost/task:0"
    accounting.feed([Span("step", "s", task, "", 0, float(n), n + 0.5, n, executable="s_0") for n in range(100)])
    monkeypatch.setattr("workbench.viz.accounting.Batch", lambda rows: (apart.append(len(rows)), Batch(rows))[1])
    made = accounting.settle(everything=True, accounts=16)
    assert [step.number for step in made] == [49, 99] and len(apart) == 2
