"""What a task does in a step, on hand-made spans: the parts, how they add up, and whom waiting is charged to."""

from __future__ import annotations

import numpy as np
import pytest

from tests.viz.scenarios import Plant, run, task
from workbench.core.trace import Journal, Span
from workbench.viz.accounting import REMEMBERED, Accounting
from workbench.viz.ledger import Ledger, Root
from workbench.viz.names import Names
from workbench.viz.replicas import regular
from workbench.viz.slices import drain
from workbench.viz.step_view import StepTimes
from workbench.viz.stretches import WAIT, WORK, Stretches, Told
from workbench.viz.verdict import judge
from workbench.viz.waiting import Grid, Part, painted

pytestmark = pytest.mark.tiny
W0, W1, W2, PS = "/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2", "/job:ps/task:0"


def span(kind: str, task: str, start: float, end: float, step: int = 0, **more) -> Span:
    name, thread = more.pop("name", kind), more.pop("thread", 0)
    return Span(kind, name, task, "", thread, start, end, step, **{"executable": "s_0", **more})


def message(source: str, target: str, tensor: str = "x") -> str:
    return f"0|{tensor}|{source}/device:CPU:0|{target}/device:CPU:0|"


def accounts(spans, everything=True):
    accounting = Accounting()
    accounting.feed(spans)
    accounting.settle(everything)
    return [step.accounts for step in accounting.steps]


def test_the_parts_of_a_step_add_up_and_overlapping_time_counts_once():
    spans = [span("segment", W0, 0, 4), span("op", W0, 1, 2), span("send", W0, 3, 6, message=message(W0, W1)),
             span("queue", W0, 6, 7, name="q", detail="queue_dequeue"), span("segment", W0, 10, 12), span("step", W0, 0, 12)]
    (step,) = accounts([s for s in spans if s.kind != "op"])
    account = step[W0]
    assert (account.work, account.transfer, account.input, account.wait, account.uncovered) == (6, 2, 1, 0, 3)
    assert account.whole == 12 and account.inputs == {"q": 1.0}


@pytest.mark.parametrize(("timed", "thread", "work", "transfer"), [(False, 0, 6, 4), (True, 0, 6, 4), (False, 1, 10, 0)])
def test_a_thread_that_sends_does_not_work_meanwhile_another_does(timed, thread, work, transfer):
    """A send copies, or waits until somebody takes it; where operations are timed it is one of them."""
    sends = [(2, 5), (6, 7)]
    spans = [span("segment", W0, 0, 10), *(span("send", W0, start, end, thread=thread, message=message(W0, W1, f"x{start}"))
                                           for start, end in sends)]
    if timed:
        spans += [span("op", W0, start, end, detail=kind) for start, end, kind in
                  [(0, 2, "matmul"), (2, 5, "send"), (5, 6, "matmul"), (6, 7, "send"), (7, 10, "matmul")]]
    spans += [span("segment", W1, 0, 1), span("segment", PS, 9, 10)]
    (step,) = accounts(spans)
    assert (step[W0].work, step[W0].transfer) == (work, transfer)


def test_a_receive_waits_until_its_message_is_sent_and_transfers_from_then_on():
    key = message(W1, W0)
    (step,) = accounts([span("recv", W0, 0, 10, message=key), span("segment", W1, 0, 6), span("send", W1, 6, 6.5, message=key)])
    assert step[W0].transfer == 4 and step[W0].waits == {Root(W1, "work"): 6.0}
    assert step[W0].links == {f"{W1}|{W0}": 4.0}


def test_waiting_is_charged_to_the_end_of_the_chain():
    first, second = message(W1, PS), message(PS, W0)
    (step,) = accounts([
        span("recv", W0, 0, 10, message=second),
        span("recv", PS, 0, 8, message=first), span("segment", PS, 8, 9), span("send", PS, 9, 9.5, message=second),
        span("segment", W1, 0, 7), span("send", W1, 7, 7.5, message=first)])
    assert step[W0].waits == pytest.approx({Root(W1, "work"): 7, Root(f"{W1}|{PS}", "transfer"): 1, Root(PS, "work"): 1})


def test_two_who_wait_for_each_other_do_not_hang():
    spans = [span("recv", W0, 0, 4, message=message(W1, W0)), span("recv", W1, 0, 4, message=message(W0, W1))]
    (step,) = accounts(spans)
    assert step[W0].wait == step[W1].wait == 4


def test_who_is_done_waits_for_the_last_one_until_the_step_ends():
    (step,) = accounts([span("segment", W0, 0, 2), span("segment", W1, 0, 9)])
    assert step[W0].waits == {Root(W1, "work"): 7.0} and step[W1].wait == 0


def test_a_server_that_serves_another_replica_is_working_for_who_waits():
    mine, theirs = message(PS, W0), message(W1, PS)
    other = [Span("segment", "apply", PS, "", 0, 2, 6, 1, executable="s_1"),
             Span("segment", "c", W1, "", 0, 0, 2, 1, theirs, executable="s_1")]
    found = accounts([span("recv", W0, 0, 8, message=mine), span("send", PS, 7, 7.5, message=mine), *other])
    step = next(step for step in found if W0 in step)
    assert step[W0].waits[Root(PS, "work")] == 4


def test_turns_that_were_summed_up_are_work():
    spans = [span("segment", W0, 0, 1), span("segment", W0, 1, 9, turns=1000, total=6.0, longest=0.1), span("step", W0, 0, 10)]
    (step,) = accounts([*spans, span("recv", W0, 9, 10, message=message(W1, W0))])
    assert step[W0].work == 7.0 and step[W0].uncovered == pytest.approx(2.0)


def test_a_step_of_one_task_with_nothing_but_its_length_is_work_of_several_is_unknown():
    assert accounts([span("step", W0, 0, 3)])[0][W0].work == 3
    assert accounts([span("step", W0, 0, 3), span("step", W1, 0, 3)]) == []


def test_what_a_task_alone_did_while_another_step_looked_for_a_cause_counts_in_its_own_step_too():
    """What a step is told by its spans is found once, whoever asks first: here the step that waits and ends before it."""
    waiting = [span("recv", W0, 0, 6, message=message(W1, W0)), span("segment", W1, 0, 5)]
    alone = [span("segment", W2, 1, 4, 1), span("segment", W2, 6, 7, 1), span("step", W2, 1, 8, 1)]
    (together,) = accounts(alone)
    found = accounts(waiting + alone)
    assert found[1][W2] == together[W2] and (together[W2].work, together[W2].uncovered) == (4, 3)


def test_steps_that_a_task_told_nothing_of_because_it_died_are_left_out():
    """More of them than are kept: or who died would be in no table."""
    accounting = Accounting(kept=5)
    accounting.feed(span("segment", task, step, step + 0.5, step) for step in range(30) for task in (W0, W1)
                    if task == W0 or step < 20)
    made = accounting.settle(everything=True)
    assert [step.number for step in made] == list(range(20)) and all(step.accounts.keys() == {W0, W1} for step in made)


def test_long_steps_that_only_the_slow_one_tells_of_count():
    spans = [span("segment", task, step, step + 0.5, step) for step in range(30) for task in (W0, PS)
             if task == W0 or step % 10 == 0]
    assert len(accounts(spans)) == 30


def test_spans_that_have_not_ended_and_spans_outside_steps_do_not_count():
    assert accounts([span("segment", W0, 5.0, 1.0), span("compile", W0, 0, 1, step=-1)]) == []


def test_runs_with_equal_numbers_are_told_apart():
    spans = [Span("step", "a", W0, "", 0, 0, 1, 0, executable="a_0"), Span("step", "b", W0, "", 0, 5, 7, 0, executable="b_0")]
    accounting = Accounting()
    accounting.feed(spans)
    accounting.settle(everything=True)
    assert [(s.run, s.whole) for s in accounting.steps] == [("a", 1), ("b", 2)]
    assert judge(accounting, "a").step == 1000 and judge(accounting, "b").step == 2000


def test_a_step_is_accounted_when_its_spans_have_had_time_to_come():
    accounting = Accounting()
    accounting.feed([span("segment", W0, 0, 1)])
    assert accounting.settle() == [] and accounting.waiting == 1
    accounting.feed([span("recv", W0, 1, 2, message=message(W1, W0)), span("segment", W0, 5, 6, step=1)])
    (step,) = accounting.settle()
    assert step.accounts[W0].whole == 2


def joined(*tasks: str) -> Journal:
    """A journal to which these tell."""
    journal = Journal()
    for who in tasks:
        journal.task(who, "joined")
    return journal


def test_a_step_counts_as_soon_as_all_tasks_have_told_until_its_end_and_later_where_one_does_not():
    """The tasks tell twice a second, on clocks of their own; the books look at what has come ten times a second."""
    journal = joined(W0, W1)
    accounting, cursor, seen = Accounting(), 0, {}
    for tenth in range(60):
        now = tenth / 10
        if tenth % 5 == 0:
            for who, ahead in ((W0, 100.0), (W1, -3.0)):
                if who == W1 and now > 4.0:
                    continue      # it says nothing any more
                ended = [span("segment", who, ahead + n, ahead + n + 0.05, step=int(2 * n))
                         for n in (now - 0.5, now) if n >= 0 and n + 0.05 <= now]
                journal.merge(who, ended, ahead, 1e-3, until=ahead + now)
        cursor, _, spans = journal.spans_since(cursor)
        accounting.feed(spans)
        seen.update((step.number, now - step.end) for step in accounting.settle(told=journal.told))
    assert set(seen) == set(range(8)) and all(0.44 < late < 0.46 for late in seen.values())
    journal.task(W1, "lost")
    assert journal.told == pytest.approx(5.5)      # nobody waits for the lost one
    journal.merge(W1, [span("segment", W1, 0.0, 0.5, step=99)], -3.0, 1e-3, until=1.5)      # was under way
    assert journal.told == pytest.approx(5.5) and journal.spans_since(cursor)[2][-1].step == 99
    journal.task(W1, "joined")      # again, so it is to tell
    assert journal.told == float("-inf")
    journal.merge(W1, [], 2.0, until=7.25)
    assert journal.told == pytest.approx(5.25)


def test_a_step_under_way_elsewhere_is_not_settled_before_its_task_has_told():
    journal, accounting = joined(W0, W1), Accounting()
    accounting.feed([span("segment", who, n / 5, n / 5 + 0.1, step=n) for n in range(3) for who in (W0, W1)])
    journal.merge(W0, [], until=10.0)
    journal.merge(W1, [], until=0.4)      # the last step began then, and goes on
    assert [step.number for step in accounting.settle(told=journal.told)] == [0, 1]
    journal.merge(W1, [], until=0.0)      # more comes
    assert accounting.settle(told=journal.told) == []
    journal.merge(W1, [], until=3.0)
    assert [step.number for step in accounting.settle(told=journal.told)] == [2]


def looked_at(workers: int) -> tuple[int, int]:
    """(pieces of time, spans) of a step in which all wait for one server, and it for each of them."""
    names, server = Names(), task("ps", 0)
    who = [names.number(task("worker", i)) for i in range(workers)]
    ps, late = names.number(server), [1e-3 * i for i in range(workers)]
    rows = [row for i, one in zip(late, who) for row in (
        (one, 0, 1 + i, WAIT, ps), (one, 1 + i, 5 + i, WORK, one), (one, 5 + i, 10, WAIT, ps))]
    rows += [(ps, 0, 1, WORK, ps), *((ps, 1, 5 + i, WAIT, one) for i, one in zip(late, who)), (ps, 9, 10, WORK, ps)]
    own = Stretches(*map(np.array, zip(*rows)))
    nothing, tasks = np.zeros(len(who) + 1), np.array([*who, ps])
    grid = Grid([Part(0.0, 10.0, tasks, own, Told(own, tasks, nothing, nothing))], names)
    drain(grid.follow())
    first = drain(grid.fill())[0].accounts[task("worker", 0)]
    assert first.wait == pytest.approx(6) and first.waits[Root(server, "work")] == pytest.approx(2)
    return grid.looked, len(rows)


def test_following_who_waits_for_whom_looks_at_what_happened_not_at_every_moment_of_every_task():
    for workers in (16, 256):
        looked, spans = looked_at(workers)
        assert looked < 12 * spans, workers      # cells of all tasks at all moments would be 3 * workers * spans


def test_of_stretches_upon_each_other_the_last_one_counts():
    """As painting one after the other shows it."""
    random = np.random.default_rng(3)
    for count in (1, 2, 7, 64, 333):
        firsts, lasts = np.sort(random.integers(0, count + 1, (2, 3 * count)), 0)
        plain = np.full(count, -1)
        for number, (first, last) in enumerate(zip(firsts.tolist(), lasts.tolist())):
            plain[first:last] = number
        assert painted(firsts, lasts, count).tolist() == plain.tolist()
    assert painted(np.empty(0, np.int64), np.empty(0, np.int64), 3).tolist() == [-1, -1, -1]


def test_each_step_is_taken_apart_once_however_many_verdicts_look_at_it(monkeypatch):
    made = []
    begin = Ledger.__init__
    monkeypatch.setattr(Ledger, "__init__", lambda self, *columns: (made.append(1), begin(self, *columns))[1])
    accounting = Accounting()
    for number in range(20):
        accounting.feed([span("segment", who, number, number + 0.5, step=number) for who in (W0, W1)])
        accounting.settle(everything=True)
        judge(accounting)
    assert len(made) == 20


def test_memory_is_bounded_however_long_the_run():
    accounting = Accounting(kept=10)
    for number in range(5000):
        accounting.feed([span("segment", W0, number, number + 1, step=number)])
    accounting.settle(everything=True)
    assert len(accounting.steps) == 10 and accounting.waiting == 0
    for number in range(3):
        accounting.feed([span("op", W0, number, number + 1, step=6000 + number)] * REMEMBERED)
        accounting.settle(everything=True)
    assert sum(len(step.rows) for step in accounting._past) <= 2 * REMEMBERED


def test_the_course_of_work_is_that_of_regular_steps_of_all_replicas():
    accounting, times = Accounting(), StepTimes(origin=1.0)
    accounting.feed(run(Plant(asynchronous=True, steps=20)))
    accounting.feed([Span("segment", "init", W0, "", 0, 0.5, 0.9, 999, executable="session_0_9")])
    accounting.settle(everything=True)
    times.feed(accounting.steps)
    view = {task.task: task for task in times.view(sorted(regular(accounting, "session_0"))).view.tasks}
    assert {W0, W1, W2, PS} <= set(view) and all(4.5 < t < 5.5 for t in view[W0].times)
    assert list(view[W0].ends) == sorted(view[W0].ends) and view[W0].ends[0] > 0


def test_a_training_s_statistics_are_its_own_though_it_follows_another_at_once():
    accounting, times = Accounting(), StepTimes()
    accounting.feed([span("segment", W0, number, number + 0.8, step=number) for number in range(20)])
    times.feed(accounting.settle(everything=True), 0.0)
    [line] = times.view(["s_0"]).view.tasks
    assert (line.median, times.view(["s_0"]).view.cuts) == (pytest.approx(800), [])
    accounting.feed([span("segment", W0, number, number + 0.2, step=number) for number in range(20, 26)])
    times.feed(accounting.settle(everything=True), 19.9)
    course = times.view(["s_0"]).view
    assert [(cut.start, cut.end) for cut in course.cuts] == [(19.8, 20.0)]
    assert course.tasks[0].median == pytest.approx(200) and len(course.tasks[0].times) == 26


def test_with_many_tasks_a_view_holds_fewer_steps_of_each():
    accounting, times = Accounting(kept=100), StepTimes()
    tasks = [f"/job:worker/task:{i}" for i in range(256)]
    for number in range(40):
        accounting.feed([span("segment", task, number, number + 0.5, step=number) for task in tasks])
    accounting.settle(everything=True)
    times.feed(accounting.steps)
    few, all_of_them = (times.view(["s_0"], count).view for count in (32, 256))
    assert len(few.tasks) == 32 and few.more == 224 and sum(len(t.times) for t in few.tasks) <= 4000
    assert len(all_of_them.tasks) == 256 and all_of_them.more == 0 and sum(len(t.times) for t in all_of_them.tasks) <= 4000


def test_what_others_did_is_known_of_steps_that_are_told_of_late_and_one_may_take_no_time():
    accounting = Accounting()
    accounting.feed([span("segment", PS, 0, 12, executable="b_0"), span("segment", W1, 0, 1, executable="b_0")])
    accounting.settle(everything=True)
    accounting.feed([
        span("segment", W0, 1, 2), span("segment", W1, 1, 2), span("wait", W0, 2.5, 3, 1, detail=PS),
        span("op", W1, 2.5, 3, 1), span("segment", W0, 4, 4, 2), span("segment", W1, 4, 4, 2)])
    accounting.settle(everything=True)
    _, _, waits, short = accounting.steps
    assert waits.accounts[W0].waits == {Root(PS, "work"): 0.5}
    assert short.whole == 0 and short.accounts[W0].work == 0


def several(random: np.random.Generator) -> list[Span]:
    """Steps of one run, some of which overlap, in which each of some tasks does a bit of everything."""
    who, found, begin = [W0, W1, W2, PS], [], 0.0
    for number in range(10):
        tasks = [one for one in who if random.random() < 0.8] or who
        for one in tasks:
            other = who[random.integers(4)]
            times = begin + np.sort(random.random((8, 2)), 1)
            found += [span(kind, one, *at, number, **more) for at, (kind, more) in zip(times.tolist(), (
                ("segment", {}), ("wait", {"detail": other}), ("queue", {"name": "q"}), ("step", {}),
                ("segment", {"turns": 3, "total": 0.1}), ("queue", {"name": "feed", "detail": "queue_dequeue"}),
                ("send", {"message": f"{number}|{message(one, other)[2:]}"}),
                ("recv", {"message": f"{number}|{message(other, one)[2:]}"})))]
        begin += random.choice([0.7, 1.2])
    return found


def test_steps_that_are_accounted_for_together_say_what_each_says_alone(monkeypatch):
    for seed in range(5):
        spans, found = several(np.random.default_rng(seed)), []
        for together in (1, 1_000_000):
            monkeypatch.setattr("workbench.viz.accounting.TOGETHER", together)
            found.append(accounts(spans))
        assert len(found[0]) == len(found[1]) > 3
        for alone, together in zip(*found):
            assert alone.keys() == together.keys()
            for who in alone:
                for part in ("whole", "work", "transfer", "input", "wait", "uncovered", "pieces", "waits", "links", "inputs"):
                    assert getattr(together[who], part) == pytest.approx(getattr(alone[who], part), abs=1e-9), part
