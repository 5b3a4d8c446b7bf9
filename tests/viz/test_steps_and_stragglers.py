"""Step times and who holds the others up, on hand-made spans."""

from __future__ import annotations

import pytest

from tests.viz import fixtures
from workbench.core.trace import Span
from workbench.viz.step_view import StepTimes
from workbench.viz.straggler_view import StragglerModel
from workbench.viz.trace_view import splits

pytestmark = pytest.mark.tiny
W0, W1, PS = "/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0"


def step(task: str, number: int, start: float, seconds: float, session: str = "s") -> Span:
    return Span("step", session, task, "", 0, start, start + seconds, number)


def ranking(spans):
    model = StragglerModel()
    model.feed(spans)
    return {row.task: row for row in model.view().rows}


def times(spans, session: str = ""):
    model = StepTimes()
    model.feed(spans)
    return {task.task: task for task in model.view(session).tasks}


def test_median_and_tail_in_milliseconds():
    view = times([step(W0, i, i, 0.010 if i < 18 else 0.030) for i in range(20)])[W0]
    assert view.median == pytest.approx(10) and view.p95 == pytest.approx(30) and view.count == 20
    assert view.steps == list(range(20))


def test_tasks_without_step_spans_are_measured_by_what_they_did():
    spans = [Span("recv", "x", PS, "", 0, 1.0, 1.002, 7), Span("segment", "s", PS, "", 0, 1.004, 1.006, 7)]
    assert times(spans)[PS].times == pytest.approx([6.0])


def test_steps_are_in_the_order_in_which_they_ended_and_say_when():
    model = StepTimes(origin=100.0)
    model.feed([step(W0, 1, 100.0, 0.50), step(W0, 2, 100.0, 0.25), step(W1, 3, 101.0, 0.50)])
    first, second = model.view().tasks
    assert first.steps == [2, 1] and first.ends == [0.25, 0.5] and first.times == [250.0, 500.0]
    assert second.ends == [1.5]


def test_all_tasks_are_shown_from_the_moment_from_which_all_are_remembered():
    model = StepTimes(window=10)
    model.feed([step(W0, i, 0.1 * i, 0.05) for i in range(100)] + [step(W1, i, i, 0.5) for i in range(10)])
    model.feed([step("/job:localhost/task:0", 0, 0.0, 0.1)])
    busy, rare, idle = (model.view().tasks[i] for i in (1, 2, 0))
    assert busy.steps == list(range(90, 100)) and busy.count == 100
    assert rare.steps == [9] and rare.count == 10 and rare.median == 500.0
    assert idle.steps == [0], "what ended long ago is still shown, alone"


def test_a_step_seen_by_one_worker_only_does_not_outweigh_what_all_took_part_in():
    spans = []
    for number in range(10):
        spans.append(step(W0, number, number, 0.100))
        spans += [Span("segment", "a", task, "", 0, number, number + 0.02, number) for task in (W0, W1)]
    view = times(spans)
    assert view[W0].median == pytest.approx(20) and view[W1].median == pytest.approx(20)


def test_sessions_are_told_apart():
    spans = [step(W0, i, i, 0.01, "old") for i in range(5)] + [step(W0, i, 9 + i, 0.02, "new") for i in range(3)]
    assert times(spans)[W0].count == 3 and times(spans, "old")[W0].count == 5


def test_spans_that_have_not_ended_and_spans_outside_steps_do_not_count():
    assert times([Span("step", "s", W0, "", 0, 5.0, 1.0, 0), Span("compile", "c", W0, "", 0, 0, 1, -1)]) == {}
    assert ranking([Span("segment", "s", W0, "", 0, 5.0, 1.0, 0)]) == {}


def test_late_batches_neither_push_out_new_steps_nor_come_back_as_halves():
    first = [Span("segment", "a", W0, "", 0, i, i + 0.010, i) for i in range(100)]
    late = [Span("recv", "x", W0, "", 0, i, i + 0.020, i) for i in range(100)]
    row = ranking(first + late)[W0]
    assert row.median_ms == pytest.approx(10)


def test_the_straggler_of_synchronous_steps_costs_what_would_be_saved_without_it():
    rows = ranking(fixtures.build(30, slow=2.0).spans_since()[2])
    slow, quick = rows[W1], rows[W0]
    assert slow.slowdown > 1.5 and 0.3 < slow.share < 0.6 and quick.share == 0
    assert slow.why.startswith("Its own work takes") and "median of its peers" in slow.why
    assert quick.why.endswith("for the other worker.") and "Waits" in quick.why


def test_equal_workers_cost_nothing_noticeable():
    rows = ranking(fixtures.build(30).spans_since()[2])
    assert all(row.share < 0.1 for row in rows.values())
    assert "Waits" in rows[fixtures.TASKS[0]].why and "worker:" in rows[fixtures.TASKS[0]].why


def test_asynchronous_replicas_hold_nobody_up_but_steps_are_missing():
    spans, numbers = [], iter(range(10_000))
    for task, seconds, count in ((W0, 0.010, 40), (W1, 0.010, 40), ("/job:worker/task:2", 0.040, 10)):
        spans += [step(task, next(numbers), i * seconds, seconds) for i in range(count)]
    rows = ranking(spans)
    assert rows["/job:worker/task:2"].share == pytest.approx(0.25) and rows[W0].share == 0


def test_one_task_is_compared_with_nobody():
    row = ranking([step(W0, i, i, 0.01) for i in range(3)])[W0]
    assert (row.slowdown, row.share, row.why) == (1.0, 0.0, "Works 10 ms of 10 ms.")


def test_a_split_counts_overlapping_time_once():
    spans = [
        Span("segment", "s", W0, "", 0, 0.0, 0.004, 1),
        Span("op", "o", W0, "", 0, 0.001, 0.002, 1),
        Span("send", "t", W0, "", 0, 0.003, 0.006, 1),
        Span("recv", "r", W0, "", 1, 0.0, 0.009, 1),
        Span("segment", "s", W0, "", 0, 0.010, 0.012, 1),
        Span("step", "x", W0, "", 0, -1.0, 1.0, 1),
    ]
    (row,) = splits(spans)
    assert [row.whole, row.work, row.transfer, row.wait, row.other] == pytest.approx([12, 6, 2, 3, 1])
    assert splits([]) == []
