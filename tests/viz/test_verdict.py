"""Planted causes and what the verdict says: the right culprit in each, and none where nothing is wrong."""
from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.viz.scenarios import SCENARIOS, Plant, run, task
from workbench.core.counter import StepCounter
from workbench.core.trace import Span
from workbench.viz import verdict
from workbench.viz.accounting import Accounting
from workbench.viz.batch import Batch
from workbench.viz.ledger import Root
from workbench.viz.palette import short_task
from workbench.viz.replicas import replicas
from workbench.viz.units import ms
from workbench.viz.verdict import ENOUGH, NOTICEABLE, Summary, judge
from workbench.viz.window import Window


@functools.cache
def judged(name: str) -> Summary:
    """What is said of a planted run."""
    accounting = Accounting()
    accounting.feed(run(next(scenario.plant for scenario in SCENARIOS if scenario.name == name)))
    accounting.settle(everything=True)
    return judge(accounting)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_the_planted_cause_is_named(scenario):
    verdict = judged(scenario.name).verdict
    assert (verdict.kind, verdict.subject) == (scenario.kind, scenario.subject), verdict
    assert verdict.alarm == (verdict.cost >= NOTICEABLE)


@pytest.mark.parametrize("block", [1, 3000, 1 << 20])
def test_whom_a_task_waits_for_most_is_found_in_all_of_its_steps_however_many_are_added_up_at_once(monkeypatch, block):
    monkeypatch.setattr("workbench.viz.window.BLOCK", block)
    accounting = Accounting()
    slow = {(task("ps", 0), task("worker", 5)): 9.0}
    accounting.feed(run(Plant(workers=8, steps=12, work={task("worker", 3): 2.0}, links=slow)))
    steps = accounting.settle(everything=True)
    window = Window([step.ledger for step in steps])
    counted = window.present.copy()
    counted[::2, window.place[task("worker", 1)]] = False
    counted[:, window.place[task("worker", 2)]] = False
    found = dict(zip(window.tasks, window.waits_for(counted)))
    for one in window.tasks:
        sums: Counter[Root] = Counter()
        for number, step in enumerate(steps):
            sums.update(step.accounts[one].waits if counted[number, window.place[one]] else {})
        assert found[one] == max(sums, key=lambda root: sums[root], default=None)
    assert found[task("worker", 1)].subject == task("worker", 3) and found[task("worker", 2)] is None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_the_verdict_is_the_same_where_links_that_cannot_be_the_worst_are_not_looked_at(scenario, monkeypatch):
    judged.cache_clear()
    seen = judged(scenario.name)
    links = verdict._links
    monkeypatch.setattr(verdict, "_links", lambda window, least: links(window))
    judged.cache_clear()
    assert judged(scenario.name) == seen


def test_no_link_takes_longer_than_the_longest_one_may():
    for scenario in SCENARIOS:
        accounting = Accounting()
        accounting.feed(run(scenario.plant))
        for step in accounting.settle(everything=True):
            assert step.ledger.held_up.seconds.max(initial=0.0) <= step.ledger.longest_link


def test_a_task_waits_for_its_own_links_not_for_itself():
    words: set[str] = set()
    for scenario in SCENARIOS:
        rows = judged(scenario.name).rows
        assert [row for row in rows if short_task(row.task) in row.waits_for] == [], scenario.name
        words |= {row.waits_for.rstrip("0123456789") for row in rows if "link" in row.waits_for}
    assert words == {"its link to ps:", "its link to worker:"}


@pytest.mark.parametrize("costs", [(0.0, 0.012, 0.03), (0.03, 0.012, 0.0)])
def test_tasks_that_cost_little_stand_in_the_order_of_their_names_however_much_that_is(costs):
    """Or rows would change their places with every verdict."""
    seconds = [1.0 - cost for cost in costs]
    accounting = Accounting()
    accounting.feed([Span("segment", "work", name, name, 0, float(step), step + took, step)
                     for step in range(10) for name, took in zip([task("worker", i) for i in range(3)], seconds)])
    accounting.settle(everything=True)
    rows = judge(accounting).rows
    assert any(row.cost for row in rows) and [row.task for row in rows] == [task("worker", i) for i in range(3)]


def test_a_long_initialisation_is_no_replica_and_hides_none():
    """Not even when all steps after it took no tenth of its time."""
    who = task("ps", 0)
    long = [Span(kind, "session_0", who, f"{who}/device:CPU:0", 0, -1000.0, -1.0, 0, executable="session_0_0")
            for kind in ("segment", "step")]
    accounting = Accounting()
    accounting.feed([*long, *run(Plant(work={task("worker", 1): 2.0}))])
    accounting.settle(everything=True)
    assert {step.executable for step in accounting.steps} == {"session_0_0", "session_0_1"}
    assert judge(accounting).verdict.subject == task("worker", 1)


@pytest.mark.parametrize("times", [0.4, 0.9])
def test_what_a_worker_runs_between_the_steps_is_no_replica(times):
    """An evaluation after each twentieth step, all of which are recorded, but of the steps themselves one in ten: they are seen
    half as often. Nor is the other part of a step that is run in two."""
    slow, other = task("worker", 1), task("worker", 0)
    spans = run(Plant(workers=2, work={slow: 2.0}, steps=200, between=40e-3))
    seen = [span for span in spans if span.step % 10 == 0]
    ends = {span.step: span.end for span in spans if span.step % 20 == 19}
    aside = [Span(kind, kind, who, f"{who}/device:CPU:0", 0, end, end + took, 1000 + step, executable="session_0_2")
             for step, end in ends.items()
             for who, took in ((other, times * 10e-3), (task("ps", 0), 1e-4)) for kind in ("op", "segment", "step")]
    accounting = Accounting()
    accounting.feed([*seen, *aside])
    accounting.settle(everything=True)
    summary = judge(accounting)
    costs = {row.task: row.cost for row in summary.rows}
    assert costs[other] < NOTICEABLE < costs[slow], summary


def test_of_two_executables_on_one_worker_the_one_that_takes_most_of_all_the_time_is_the_step():
    """Not of the newest steps of each alone, of which there are as many of one as of the other."""
    accounting, slow = Accounting(), task("worker", 1)
    spans = run(Plant(workers=2, work={slow: 2.0}, steps=150, between=30e-3))
    ends = {span.step: span.end for span in spans if span.step % 3 == 2}
    other = [Span(kind, kind, task("worker", 0), "", 0, end, end + 25e-3, 1000 + step, executable="session_0_2")
             for step, end in ends.items() for kind in ("op", "segment", "step")]
    accounting.feed([*spans, *other])
    accounting.settle(everything=True)
    assert {step.executable for step in accounting.steps} == {"session_0_1", "session_0_2"}
    assert [group[0].executable for group in replicas(list(accounting.steps))] == ["session_0_1"]


def test_of_many_short_steps_few_are_accounted_for_and_of_an_evaluation_beside_them_no_more():
    """Of what ends often only so much is accounted for, and of what ends seldom at least one: that says nothing of how often
    they ran."""
    slow = task("worker", 1)
    spans = run(Plant(workers=2, work={slow: 2.0}, steps=200, between=5e-3))
    long = 8 * max(span.end - span.start for span in spans if span.kind == "step")
    ends = {span.step: span.end for span in spans if span.step % 40 == 39}
    aside = [Span(kind, kind, task("worker", 0), "", 0, end, end + long, 1000 + step, executable="session_0_2")
             for step, end in ends.items() for kind in ("op", "segment", "step")]
    accounting = Accounting()
    accounting.feed([*spans, *aside])
    accounting.settle(everything=True, accounts=32)
    assert {step.executable for step in accounting.steps} == {"session_0_1", "session_0_2"} and len(accounting.steps) < 12
    assert [group[0].executable for group in replicas(list(accounting.steps))] == ["session_0_1"]
    assert {row.task for row in judge(accounting).rows} >= {slow, task("worker", 0)}


def sparse(*replicas: tuple[int, float, Sequence[int]]) -> list[Span]:
    """Of workers that step each for itself: (worker, seconds of a step, numbers of those that are recorded)."""
    return [Span(kind, "a", task("worker", worker), f"{task('worker', worker)}/device:CPU:0", 0, number * 5e-3,
                 number * 5e-3 + took, number, executable=f"session_0_{worker}")
            for worker, took, numbers in replicas for number in numbers for kind in ("op", "segment", "step")]


def counted_as(**steps: int) -> StepCounter:
    counter = StepCounter()
    for name, count in steps.items():
        counter.of(name).steps += count
    counter.look(10.0)
    return counter


def test_replicas_that_ran_as_often_are_judged_however_few_steps_of_one_were_recorded():
    accounting = Accounting()
    accounting.feed(sparse((0, 5e-3, [40, 70]), (1, 5e-3, [1, 2, 3, 4, 50, 60, 61, 62, 80, 90, 91, 92])))
    accounting.settle(everything=True)
    found = judge(accounting, counter=counted_as(session_0_0=50, session_0_1=50))
    assert {row.task for row in found.rows} == {task("worker", 0), task("worker", 1)}


def test_what_ran_seldom_is_no_replica_though_all_of_it_is_recorded():
    """And of what runs elsewhere, which nobody here counts, as much counts as was seen."""
    accounting = Accounting()
    accounting.feed(sparse((0, 9e-3, range(5, 100, 10)), (1, 5e-3, [1, 30, 60])))
    accounting.settle(everything=True)
    counters = {True: counted_as(session_0_0=10, session_0_1=400), False: counted_as(other=9), None: None}
    rows = {known: {row.task for row in judge(accounting, counter=counter).rows} for known, counter in counters.items()}
    assert rows == {True: {task("worker", 1)}, False: rows[None], None: {task("worker", 0), task("worker", 1)}}


def test_an_evaluation_is_no_step_of_a_training_of_which_nothing_is_known_yet():
    """Then what was known before it began is what there is."""
    accounting = Accounting()
    accounting.feed(sparse((1, 3e-3, range(0, 100, 5)), (0, 4e-3, [203, 280])))
    accounting.settle(everything=True)
    counter = counted_as(session_0_0=2, session_0_1=150)
    since = 200 * 5e-3
    assert [row.task for row in judge(accounting, since=since, counter=counter).rows] == [task("worker", 1)]
    assert [row.task for row in judge(accounting, since=since).rows] == [task("worker", 0)]


@pytest.mark.parametrize("steps", [ENOUGH - 1, ENOUGH])
def test_the_steps_that_begin_a_program_are_no_verdict_on_it(steps):
    """Between an initialisation and the next long seconds may pass in which nothing is wrong."""
    accounting = Accounting()
    accounting.feed(run(Plant(between=0.4, steps=steps)))
    accounting.settle(everything=True)
    summary = judge(accounting)
    assert (summary.verdict.kind, summary.verdict.alarm) == (("unknown", False) if steps < ENOUGH else ("input", True))
    assert summary.rows


@pytest.mark.parametrize("recorded", [1, 5])
@pytest.mark.parametrize("stride", [1, 4, 16])
def test_what_passes_between_two_steps_is_the_same_in_headline_and_table_however_few_steps_are_known(recorded, stride):
    """One step in `recorded` leaves records, as of short ones; one in `stride` of these is accounted for."""
    accounting, between = Accounting(), 6e-3
    batch = Batch([span for span in run(Plant(between=between, steps=40 * stride * recorded)) if span.step % recorded == 0])
    accounting.take(batch, [piece for piece in batch.pieces if piece.step % (stride * recorded) == 0])
    whole = statistics.fmean(step.whole for step in accounting.settle(everything=True))
    summary = judge(accounting)
    assert summary.verdict.cost == pytest.approx(between / (between + whole), rel=0.05)
    assert summary.step == pytest.approx(1e3 * (between + whole), rel=0.05)
    for row in summary.rows:
        assert (row.input, row.whole) == pytest.approx((1e3 * between, 1e3 * (between + whole)), rel=0.05)
        assert f"waits {ms(row.input)} for input" in row.why


def test_an_input_that_few_steps_wait_for_costs_all_of_them_little():
    """Eight of forty wait five times as long as a step works: of 36, without the longest, four do."""
    accounting, who = Accounting(), task("worker", 0)
    for step in range(40):
        wait = 0.05 if step % 5 == 0 else 0.0
        parts = [("queue", 0.0, wait, "queue_dequeue"), ("op", wait, wait + 0.01, "matmul"), ("step", 0.0, wait + 0.01, "")]
        accounting.feed([Span(kind, kind, who, "", 0, step + start, step + end, 1000 * step, detail=detail, executable="s_0")
                         for kind, start, end, detail in parts if end])
    accounting.settle(everything=True)
    verdict = judge(accounting).verdict
    assert verdict.kind == "input" and verdict.cost == pytest.approx(4 * 0.05 / (36 * 0.01 + 4 * 0.05))


def test_many_servers_that_are_busy_alike_are_counted_not_listed():
    accounting = Accounting()
    accounting.feed(run(Plant(servers=6, work={task("ps", i): 20.0 for i in range(6)})))
    accounting.settle(everything=True)
    verdict = judge(accounting).verdict
    assert verdict.kind == "servers" and verdict.subject == "|".join(task("ps", i) for i in range(6))
    assert verdict.text.startswith("All 6 parameter servers cost ")
