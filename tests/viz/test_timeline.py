"""The topic "timeline": rows, marks, arrows and critical path of any recorded step, bounded whatever was recorded."""

from __future__ import annotations

import json
import random
import time

import pytest

from tests.viz import fixtures
from tests.viz.scenarios import MS, Plant, run, task
from workbench.core.rings import Rows
from workbench.core.trace import Journal, Span
from workbench.viz.accounting import Accounting
from workbench.viz.batch import Batch
from workbench.viz.books import books_of
from workbench.viz.hub import Hub, hub_of
from workbench.viz.reader import Shared
from workbench.viz.step_index import StepIndex
from workbench.viz.views.timeline import Timeline, TimelineParameters, TimelineView
from workbench.widgets.wire import pack

pytestmark = pytest.mark.tiny
PS, SLOW = task("ps", 0), task("worker", 2)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.viz.views.timeline.SETTLED", 0.0)


def shown(hub: Hub, **params: object) -> TimelineView:
    """What a page with these parameters gets."""
    got: list = []
    watcher = hub.watcher()
    watcher.watch({"timeline": params})
    hub.look()
    watcher.take(0.0, got.append)
    assert got[0].faults == {}
    data, buffers = pack(got[0])
    assert len(json.dumps(data)) + sum(map(len, buffers)) <= 64_000
    view = got[0].topics["timeline"]
    assert isinstance(view, TimelineView)
    return view


def journal_of(spans: list[Span]) -> Journal:
    journal = Journal(capacity=1_000_000)
    journal.origin = 0.0
    journal.enabled = True
    for span in spans:
        journal.span(span)
    return journal


def tracks(view: TimelineView, kind: str) -> set[tuple[str, str]]:
    """(task, track) of the rows that have marks of this kind."""
    return {(view.lanes[int(row)].task, view.lanes[int(row)].track)
            for row, code in zip(view.lane, view.kind, strict=True) if view.kinds[int(code)] == kind}


def test_the_newest_complete_step_with_all_tasks():
    view = shown(hub_of(journal_of(run(Plant(workers=3, servers=1, steps=10, work={SLOW: 3.0})))))
    assert (view.run, view.step, view.oldest, view.newest) == ("session_0", 9, 0, 9)
    assert [lane.label for lane in view.lanes[:4]] == ["ps:0 CPU:0", "ps:0 transfers", "ps:0 waiting", "worker:0 CPU:0"]
    assert view.lane_count == len(view.lanes) == 4 * 3 and len({lane.color for lane in view.lanes}) == 4
    tasks = {lane.task for lane in view.lanes}
    assert tracks(view, "work") == {(one, "work") for one in tasks}
    assert tracks(view, "transfer") == {(one, "transfer") for one in tasks}
    assert tracks(view, "wait") == {(one, "wait") for one in tasks}      # for gradients; who is done, for the end of the step
    assert all(0 <= begin <= until <= view.length + 1e-6 for begin, until in zip(view.begin, view.until, strict=True))


def test_what_is_followed_is_a_step_that_the_verdict_speaks_of_not_one_that_fills_its_queue():
    train = [Span(kind, "work", PS, "", 0, at * 0.05, at * 0.05 + 0.04, 2 * at, executable="session_0_0")
             for at in range(10) for kind in ("segment", "step")]
    fill = [Span(kind, "put", PS, "", 1, at * 0.05 + 0.045, at * 0.05 + 0.046, 2 * at + 1, executable="session_0_1")
            for at in range(10) for kind in ("segment", "step")]
    journal = journal_of(sorted([*train, *fill], key=lambda span: span.end))
    journal.set_status(session="session_0")
    hub = hub_of(journal)
    view = shown(hub)
    assert [row.median_ms for row in hub.whole("work").rows] == [pytest.approx(40.0)]
    assert (view.step, round(view.length)) == (18, 40) and shown(hub, step=19).step == 19


@pytest.mark.parametrize(("full", "followed"), [(7, 7), (-1, 9)])
def test_of_steps_of_which_some_were_only_measured_one_that_was_recorded_in_full_is_followed(full: int, followed: int):
    """A slow step is recorded by its length alone where it was not chosen: there is nothing to draw of it."""
    steps = [Span("step", "session_0", PS, "", 0, float(at), at + 0.5, at, executable="session_0_0") for at in range(10)]
    part = Span("op", "matmul", PS, "", 0, full + 0.1, full + 0.4, full, executable="session_0_0")
    view = shown(hub_of(journal_of(sorted([part, *steps], key=lambda span: span.end)[full < 0:])))
    assert (view.step, len(view.lane)) == (followed, int(full >= 0))


def test_what_a_task_does_in_the_timeline_is_what_it_does_in_its_account():
    """A timed step has its operations and the segments that they are in: each moment counts once; who is done waits."""
    spans = run(Plant(workers=3, servers=1, steps=4, work={SLOW: 3.0}))
    assert {"op", "segment"} <= {span.kind for span in spans}
    view, accounting = shown(hub_of(journal_of(spans)), step=2), Accounting()
    accounting.feed(spans)
    accounts = next(step.accounts for step in accounting.settle(everything=True) if step.number == 2)
    for who, account in accounts.items():
        waits = [("wait", account.wait)] if who != PS else []      # which waits for several messages at a time, a mark each
        for kind, seconds in (("work", account.work), *waits):
            own = [busy for row, code, busy in zip(view.lane, view.kind, view.busy, strict=True)
                   if view.lanes[int(row)].task == who and view.kinds[int(code)] == kind]
            assert sum(own) == pytest.approx(1e3 * seconds, abs=1e-6), (who, kind)


def test_what_sends_in_the_middle_of_its_work_is_drawn_as_transfer_meanwhile():
    device = f"{SLOW}/device:CPU:0"
    spans = [Span(kind, kind, SLOW, device, 7, start, end, 3, executable="session_0_0")
             for kind, start, end in (("segment", 0.0, 1.0), ("send", 0.2, 0.5))]
    view = shown(hub_of(journal_of(spans)))
    drawn = [(view.kinds[int(kind)], view.begin[i], view.until[i]) for i, kind in enumerate(view.kind)]
    assert drawn == [("work", 0, pytest.approx(200)), ("work", pytest.approx(500), 1000),
                     ("transfer", pytest.approx(200), pytest.approx(500))]


def test_the_slow_worker_is_the_critical_path():
    view = shown(hub_of(journal_of(run(Plant(workers=3, servers=1, steps=10, work={SLOW: 3.0})))))
    length = [u - b for b, u in zip(view.path_begin, view.path_until, strict=True)]
    longest = view.path_lane[length.index(max(length))]
    assert view.lanes[longest].task == SLOW and view.lanes[longest].track == "work"
    assert " work, " in view.path and view.path_begin == sorted(view.path_begin)


def test_the_path_lies_on_the_thread_that_it_goes_through_and_threads_are_counted():
    device, busy = f"{PS}/device:CPU:0", 139630530987712      # as systems number them
    spans = [Span("segment", name, PS, device, thread, start, end, 3, executable="session_0_0")
             for name, thread, start, end in (("short", 0, 0.0, 0.1), ("long", busy, 0.1, 0.9), ("end", 0, 0.9, 1.0))]
    view = shown(hub_of(journal_of(spans)))
    assert [lane.label for lane in view.lanes] == ["ps:0 CPU:0 thread 1", "ps:0 CPU:0 thread 2"]
    assert list(view.path_lane) == [0, 1, 0] and [view.names[i] for i in view.path_name] == ["short", "long", "end"]


def test_every_message_is_an_arrow_forward_in_time():
    view = shown(hub_of(journal_of(run(Plant(workers=3, servers=1, steps=4)))))
    ends = {(view.lanes[a].task, view.lanes[b].task) for a, b in zip(view.arrow_source, view.arrow_target, strict=True)}
    workers = [task("worker", i) for i in range(3)]
    assert ends == {(PS, w) for w in workers} | {(w, PS) for w in workers} and view.arrows_left_out == 0
    assert all(a <= b for a, b in zip(view.arrow_begin, view.arrow_until, strict=True))


def test_links_have_rows_of_their_own_where_they_are_asked_for():
    link = (PS, SLOW)
    hub = hub_of(journal_of(run(Plant(workers=3, servers=2, steps=10, links={link: 20.0}))))
    view, plain = shown(hub, links=1, rows=100), shown(hub, rows=100)
    labels = [lane.label for lane in view.lanes]
    assert labels[:5] == ["ps:0 CPU:0", "ps:0 transfers", "ps:0 from worker:0", "ps:0 from worker:1", "ps:0 from worker:2"]
    assert [label for label in labels if label.startswith("worker:2")] == [
        "worker:2 CPU:0", "worker:2 transfers", "worker:2 from ps:0", "worker:2 from ps:1", "worker:2 waiting"]
    assert view.lane_count == plain.lane_count + 2 * 3 * 2      # of each pair of a server and a worker, both ways

    def transferred(one: TimelineView) -> dict[str, float]:
        sums: dict[str, float] = {}
        for row, kind, busy in zip(one.lane, one.kind, one.busy, strict=True):
            if one.kinds[int(kind)] == "transfer":
                sums[one.lanes[int(row)].label] = sums.get(one.lanes[int(row)].label, 0.0) + busy
        return sums
    took = transferred(view)
    assert max(took, key=took.__getitem__) == "worker:2 from ps:0"
    assert took["worker:2 from ps:0"] > 10 * took["worker:2 from ps:1"]
    assert sum(took.values()) == pytest.approx(sum(transferred(plain).values()), rel=0.05)      # some lie upon each other there
    ends = {(view.lanes[int(a)].label, view.lanes[int(b)].label) for a, b in zip(view.arrow_source, view.arrow_target,
                                                                                 strict=True)}
    assert ("ps:0 transfers", "worker:2 from ps:0") in ends and len(ends) == 12
    path = max(zip(view.path_lane, view.path_begin, view.path_until, strict=True), key=lambda one: one[2] - one[1])
    assert view.lanes[int(path[0])].label == "worker:2 from ps:0"


def test_any_recorded_step_can_be_picked_and_the_next_when_it_is_not():
    hub = hub_of(journal_of(run(Plant(workers=2, servers=1, steps=30))))
    assert shown(hub, step=7).step == 7
    assert shown(hub, step=1000).step == 29


def test_a_stretch_of_time_may_reach_beyond_the_step():
    hub = hub_of(journal_of(run(Plant(workers=2, servers=1, steps=30))))
    one = shown(hub, step=10)
    wide = shown(hub, step=10, start=-3 * one.length, end=4 * one.length)
    assert (wide.start, wide.end) == (pytest.approx(-3 * one.length), pytest.approx(4 * one.length))
    assert sum(wide.count) > 4 * sum(one.count) and min(wide.begin) < 0 < one.length < max(wide.until)
    narrow = shown(hub, step=10, start=0.0, end=one.length / 10)
    assert 0 < sum(narrow.count) < sum(one.count)


def test_rows_stay_while_somebody_moves_through_a_step():
    """Nothing jumps under the hands, and what is selected are the same rows: also those that do nothing in the stretch."""
    hub = hub_of(journal_of(run(Plant(workers=3, servers=1, steps=12, work={SLOW: 3.0}))))
    whole = shown(hub, step=7)
    assert {lane.task for lane in whole.lanes} == {PS, *(task("worker", i) for i in range(3))}
    for start, end in ((0.5, 0.6), (0.0, 0.05), (0.2, 0.9), (0.9, 1.1), (-0.5, 0.1), (-1.0, 2.0), (300.0, 400.0)):
        part = shown(hub, step=7, start=start * whole.length, end=end * whole.length)
        assert part.lanes == whole.lanes and part.lane_count == len(whole.lanes)
        assert tracks(part, "work") <= tracks(whole, "work") and (part.path_lane, part.path) == (whole.path_lane, whole.path)


def test_who_moves_through_a_step_has_it_read_once_until_more_of_it_comes(monkeypatch):
    journal = journal_of(run(Plant(workers=3, servers=1, steps=6)))
    hub, read, between = hub_of(journal), list[int](), Rows.between
    views = [shown(hub, step=4, start=0.5 * i, end=0.5 * i + 4.0) for i in range(3)]
    fresh = [shown(hub_of(journal_of(journal.spans_since()[2])), step=4, start=0.5 * i, end=0.5 * i + 4.0) for i in range(3)]
    for view, alone in zip(views, fresh, strict=True):
        assert pack(view) == pack(alone), "as who looks there first sees it"
    watcher = hub.watcher()
    watcher.watch({"timeline": None})
    hub.look()
    monkeypatch.setattr(Rows, "between", lambda *given: read.append(len(found := between(*given))) or found)
    for i in range(5):
        assert hub.whole("timeline", TimelineParameters(step=4, start=0.2 * i, end=0.2 * i + 1.0)).length > 2.0
    assert read == []
    before = sum(hub.whole("timeline", TimelineParameters(step=4)).count)
    journal.span(next(span for span in journal.spans_since()[2] if span.step == 4 and span.kind in ("op", "send")))
    hub.look()
    assert sum(hub.whole("timeline", TimelineParameters(step=4)).count) == before + 1


def test_spans_that_are_too_many_or_kept_no_longer_are_counted(monkeypatch):
    spans = run(Plant(workers=2, servers=1, steps=30))
    whole = {"step": 0, "start": 0.0, "end": 1e3 * max(span.end for span in spans)}
    assert shown(hub_of(journal_of(spans)), **whole).spans_left_out == 0
    monkeypatch.setattr("workbench.viz.views.timeline.SPANS", 100)
    many = shown(hub_of(journal_of(spans)), **whole)
    assert many.spans_left_out >= len([span for span in spans if span.step >= 0]) - 101 > 0
    assert shown(hub_of(journal_of(spans)), step=29).spans_left_out == 0
    monkeypatch.undo()
    monkeypatch.setattr("workbench.viz.views.timeline.SETTLED", 0.0)
    journal = Journal(capacity=len(spans) // 2)
    journal.origin, journal.enabled = 0.0, True
    hub = hub_of(journal)
    for part in (spans[: len(spans) // 2], spans[len(spans) // 2 :]):
        for span in part:
            journal.span(span)
        shown(hub)
    assert shown(hub, **whole).spans_left_out >= len(spans) // 2 - 10


def test_the_followed_step_is_one_of_which_all_tasks_have_told_until_its_end(monkeypatch):
    monkeypatch.setattr("workbench.viz.views.timeline.SETTLED", 1000.0)
    journal = journal_of(run(Plant(workers=3, servers=1, steps=10)))
    ends = {number: max(span.end for span in journal.spans_since()[2] if span.step == number) for number in range(10)}
    model = Timeline(journal, books_of(journal), Shared(journal.rows_since))
    for who in (PS, SLOW):
        journal.task(who, "joined")
    for until, number in ((ends[4], 4), (ends[6] + 1e-6, 6)):
        for who in (PS, SLOW):
            journal.merge(who, [], until=until if who == SLOW else 1e6)
        model.shared.renew()
        model.advance(time.perf_counter())
        model._follow(time.perf_counter())
        assert model.whole(TimelineParameters()).step == number


def test_rows_that_cannot_be_seen_do_not_travel():
    hub = hub_of(journal_of(run(Plant(workers=64, servers=2, steps=3))))
    view = shown(hub, first=30, rows=12)
    assert (view.first, len(view.lanes), view.lane_count) == (30, 12, 66 * 3)
    assert set(view.lane) <= set(range(12)) and -1 in view.arrow_source


def test_the_rows_of_a_wanted_task_are_in_sight():
    hub = hub_of(journal_of(run(Plant(workers=64, servers=2, steps=3))))
    last = shown(hub, task=task("worker", 63), rows=12)
    assert last.lanes[-1].task == task("worker", 63) and last.first == 66 * 3 - 12
    assert shown(hub, task=task("worker", 7), rows=12).lanes[4].task == task("worker", 7)
    assert shown(hub, task=task("ps", 0), rows=12).first == 0
    small = hub_of(journal_of(run(Plant(workers=3, servers=1, steps=3))))
    assert shown(small, task=task("worker", 2), rows=12).first == 0     # all fit: all are shown
    assert shown(hub, task="/job:nobody/task:0", rows=12).first == 0


def test_what_is_narrower_than_a_pixel_is_drawn_together_and_nothing_is_lost():
    device = f"{SLOW}/device:CPU:0"
    spans = [Span("op", f"op{i}", SLOW, device, 0, i * 0.01 * MS, (i + 0.5) * 0.01 * MS, 0, executable="s_0")
             for i in range(50_000)]
    spans.append(Span("op", "long", SLOW, device, 0, 500 * MS, 600 * MS, 0, executable="s_0"))
    view = shown(hub_of(journal_of(spans)), pixels=1000)
    assert len(view.lane) <= 1200 and sum(view.count) == min(50_001, 20_000)
    assert sum(view.busy) == pytest.approx(100 + 0.005 * (sum(view.count) - 1), rel=1e-3)
    assert view.names[int(view.name[-1])] == "long" and view.count[-1] == 1


def test_a_late_span_of_a_picked_step_is_drawn_in_turn():
    journal = fixtures.build(5)
    hub = hub_of(journal)
    before = shown(hub, step=2)
    last = fixtures.TASKS[3]
    begin = journal.origin + before.origin + 0.002
    journal.span(Span("op", "late", last, f"{last}/device:cpu:0", 0, begin, begin + 0.001, 2))
    assert sum(shown(hub, step=2).count) == sum(before.count) + 1


def test_two_hundred_tasks_fit_in_an_update():
    view = shown(hub_of(journal_of(run(Plant(workers=250, servers=6, steps=2)))), rows=200)
    assert len(view.lanes) == 100 and view.lane_count == 256 * 3


@pytest.mark.parametrize(("bound", "many"), [(1_000_000, 6), (1, 1)])
def test_spans_of_steps_are_kept_within_a_bound_and_while_somebody_moves_through_them(monkeypatch, bound: int, many: int):
    """They may be ones that the journal has forgotten."""
    monkeypatch.setattr("workbench.viz.views.timeline.WHOLE", bound)
    hub = hub_of(journal_of(run(Plant(workers=4, servers=2, steps=8))))
    view, watchers = hub._views["timeline"], [hub.watcher()]

    def watch(**topics: object) -> None:
        watchers[0].watch(topics)
        hub.look()
        watchers[0].take(0.0, lambda update: None)
    for number in range(6):
        watch(timeline={"step": number})
    assert len(view._wholes) == many and all(len(whole) for whole, *_ in view._wholes.values())
    watch()
    assert not view._wholes and not view._views
    watch(timeline={"step": 3})
    assert view._wholes and view._views
    watchers.clear()
    assert hub.tick() is None and not view._wholes and not view._views


def test_nothing_recorded_is_nothing_to_show():
    hub = hub_of(Journal(capacity=10))
    assert hub.whole("timeline") is None


@pytest.mark.parametrize("shuffled", [False, True])
def test_steps_are_found_whether_their_spans_come_one_after_the_other_or_mixed(shuffled: bool):
    spans = [Span("op", "a", f"/job:worker/task:{i % 7}", "", 0, step + 0.01 * i, step + 0.01 * i + 0.005, step,
                  executable=f"session_{step % 2}_1") for step in range(20) for i in range(30)]
    spans += [Span("op", "late", "/job:ps/task:0", "", 0, 3.9, 3.95, 3, executable="session_1_1"),
              Span("compile", "outside", "/job:ps/task:0", "", 0, 0.0, 9.0, -1, executable="session_1_1")]
    if shuffled:
        random.Random(1).shuffle(spans)
    index = StepIndex(100)
    index.take(Batch(spans), 1000, 5.0)
    for step in range(20):
        own = [i for i, span in enumerate(spans) if span.step == step]
        found = index.at(f"session_{step % 2}", step)
        assert (found.number, found.first, found.last) == (step, 1000 + own[0], 1000 + own[-1])
        assert found.start == pytest.approx(step) and found.end == max(spans[i].end for i in own)
    assert [found.number for found in index.of("session_1")] == list(range(1, 20, 2))
    asked = [(before, index.at("session_1", number, before).number) for number in (0, 7, 8, 20) for before in (False, True)]
    assert asked == [(False, 1), (True, 1), (False, 7), (True, 7), (False, 9), (True, 7), (False, 19), (True, 19)]
    assert index.at("session_3", 1, before=True) is None
