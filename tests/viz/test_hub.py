"""The hub: one look for all who watch, what each has not heard, and that a page which merges it has the whole picture."""

from __future__ import annotations

import itertools
import json
import random
import time
from typing import Any

import pytest

from tests.viz import fixtures
from workbench import errors
from workbench.core.run.knob import Knob
from workbench.core.trace import GraphRecord, Journal, NodeRecord, Span
from workbench.viz import views
from workbench.viz.batch import Batch
from workbench.viz.books import Sample, books_of
from workbench.viz.hub import Hub, Watcher, hub_of
from workbench.viz.schema import Answer, Update, plain
from workbench.viz.trace_view import op_totals
from workbench.widgets.wire import pack, size

pytestmark = pytest.mark.tiny
ALL = {"graph": {}, "steps": {}, "series": {}, "work": {}}


@pytest.fixture
def journal() -> Journal:
    """A run of a minute ago."""
    journal = Journal(capacity=200_000)
    journal.origin -= 60.0
    return fixtures.build(20, slow=1.8, journal=journal)


def test_the_step_under_way_is_no_step_of_half_the_work(monkeypatch):
    """Who begins to look at a run finds a step of which not all have told yet."""
    monkeypatch.setattr("workbench.viz.accounting.SETTLED", 1000.0)
    journal = fixtures.build(20)
    newest, worker = max(span.end for span in journal.spans_since()[2]), fixtures.TASKS[2]
    journal.span(Span("segment", "forward", worker, worker, 0, newest, newest + 1e-4, 20, executable="session_0"))
    page = Page(hub_of(journal))
    assert page.look().topics["work"].rows and max(page.lines[worker]["steps"]) == 19


class Page:
    """What a page does: watches, merges, and remembers what it was sent."""

    def __init__(self, hub: Hub, **topics: Any) -> None:
        self.hub = hub
        self.watcher: Watcher = hub.watcher()
        self.watcher.watch(topics or ALL)
        self.updates: list[Update] = []
        self.status: dict[str, Any] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        self.curves: dict[str, dict[str, Any]] = {}
        self.now = 0.0

    def take(self, seconds: float = 0.1) -> Update | None:
        """The next update, `seconds` after the one before."""
        self.now += seconds
        before = len(self.updates)
        self.watcher.take(self.now, self.updates.append)
        if len(self.updates) == before:
            return None
        update = self.updates[-1]
        self.status |= update.status
        self._merge(update)
        return update

    def look(self, seconds: float = 0.1) -> Update | None:
        self.hub.look()
        return self.take(seconds)

    def _merge(self, update: Update) -> None:
        if "steps" in update.topics:
            view = update.topics["steps"]
            self.lines = {t.task: _joined(self.lines.get(t.task), plain(t), ("times", "steps", "ends"), view.window)
                          for t in view.tasks}
        for one in update.topics["series"].series if "series" in update.topics else []:
            self.curves[one.name] = _joined(self.curves.get(one.name), plain(one), ("steps", "values"), 1 << 30)


def _joined(before: dict[str, Any] | None, news: dict[str, Any], columns: tuple[str, ...], window: int) -> dict[str, Any]:
    if not news["fresh"] and before is not None:
        for name in columns:
            news[name] = [*before[name], *news[name]][-window:]
    return {**news, "fresh": True}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are accounted for at once."""
    monkeypatch.setattr("workbench.viz.books.JUDGED", 0.0)
    monkeypatch.setattr("workbench.viz.books.SLICE", float("inf"))
    monkeypatch.setattr("workbench.viz.accounting.SETTLED", 0.0)


def test_the_first_update_holds_everything(journal):
    page = Page(hub_of(journal))
    update = page.look()
    assert update.seq == 1 and update.faults == {}
    assert json.loads(json.dumps(plain(update), allow_nan=False))["kind"] == "update"
    assert page.status["state"] == "running" and page.status["tasks"] == list(fixtures.TASKS)
    assert [task.task for task in update.topics["steps"].tasks] == list(fixtures.TASKS)
    assert update.topics["series"].names == ["loss", "accuracy"]
    assert update.topics["work"].rows[0].task == "/job:worker/task:1"
    graph = update.topics["graph"]
    times = dict(zip([node.id for node in graph.picture.nodes], graph.times, strict=True))
    assert times["softmax/matmul"] > times["softmax/add"] > 0


def test_nothing_new_is_silence_then_a_heartbeat(journal):
    page = Page(hub_of(journal))
    page.look()
    assert page.look() is None
    beat = page.look(1.0)
    assert beat.topics == {} and beat.seq == 2 and set(beat.status) <= {"seconds"}


def test_only_what_changed_travels(journal):
    page = Page(hub_of(journal))
    page.look()
    journal.point("loss", 20, 0.5)
    update = page.look()
    assert list(update.topics) == ["series"]
    (loss,) = update.topics["series"].series
    assert (loss.fresh, list(loss.steps), loss.values, loss.count) == (False, [20], [0.5], 21)
    journal.set_status(what="saving")
    update = page.look()
    assert update.topics == {} and update.status["what"] == "saving" and "tasks" not in update.status


def test_the_merged_deltas_are_the_whole_picture(journal, hurried):
    hub = hub_of(journal)
    pages, now = [Page(hub), Page(hub)], journal.origin + 1
    for number in range(20, 400):
        now = fixtures.write_step(journal, number, now + (30.0 if number == 200 else 0.0))
        hub.look()
        pages[0].take()
        if number % 37 == 0:      # a slow page sees fewer updates, the newest
            pages[1].take()
    for page in pages:
        page.look()
        assert page.lines == {task.task: plain(task) for task in hub.whole("steps").tasks}
        assert page.curves == {one.name: plain(one) for one in hub.whole("series").series}
    assert [round(cut.end - cut.start) for cut in hub.whole("steps").cuts] == [30]
    appended = [task for update in pages[0].updates[5:] if "steps" in update.topics for task in update.topics["steps"].tasks]
    assert appended and not any(task.fresh for task in appended) and max(len(task.times) for task in appended) < 5


def test_a_series_that_is_thinned_comes_whole_again(journal):
    page = Page(hub_of(journal), series={})
    for step in range(20, 3000):
        journal.point("loss", step, float(step))
        if step % 100 == 0:
            page.look()
    page.look()
    assert page.curves["loss"] == plain(page.hub.whole("series").series[0]) and page.curves["loss"]["count"] == 3000


def test_many_series_come_in_several_updates(journal):
    page = Page(hub_of(journal), series={})
    for name in range(40):
        for step in range(1500):
            journal.point(f"norm/{name}", step, float(step))
    sizes = []
    while (update := page.look()) is not None:
        data, buffers = pack(update)
        sizes.append(len(json.dumps(data)) + sum(map(len, buffers)))
    assert len(page.curves) == 42 and len(sizes) > 5 and max(sizes) <= 64_000


def test_an_update_is_small_whatever_the_graph_and_however_many_tasks(hurried):
    journal = Journal(capacity=100_000)
    journal.enabled = True
    journal.graph(fixtures.dense_graph(40, key="s_0"))
    tasks = [f"/job:worker/task:{i}" for i in range(256)]
    for number in range(60):
        for task in tasks:
            journal.span(Span("segment", "work", task, task, 0, number, number + 0.5, number, executable="s_0"))
    page = Page(hub_of(journal))
    data, buffers = pack(page.look())
    assert len(json.dumps(data)) + sum(map(len, buffers)) <= 64_000
    assert {"graph", "steps", "work"} <= set(page.updates[0].topics)
    everyone = Watcher(hub_of(journal), weighed)      # folded rows, opened
    everyone.watch({"steps": {"tasks": 256}})
    said = []
    everyone.take(1.0, said.append)
    assert len(said[0].topics["steps"].tasks) == 256 and weighed(said[0]) <= 64_000
    everyone.watch({"steps": {"tasks": 32}})
    everyone.take(2.0, said.append)
    assert len(said[1].topics["steps"].tasks) == 32 and all(task.fresh for task in said[1].topics["steps"].tasks)


def weighed(update: Update) -> int:
    return size(pack(update))


def test_topics_that_are_too_large_together_come_one_after_the_other(journal, monkeypatch):
    whole = Page(hub_of(journal))
    whole.look()
    monkeypatch.setattr("workbench.viz.hub.LARGEST", weighed(whole.updates[0]) - 1)
    page = Page(whole.hub)
    page.watcher = whole.hub.watcher(weigh=weighed)
    page.watcher.watch(ALL)
    first, second = page.look(), page.look()
    assert first is not None and second is not None and first.faults == second.faults == {}
    assert [*first.topics, *second.topics] == ["steps", "series", "work", "graph"] and len(first.topics) > 1
    assert page.look() is None
    assert page.lines == whole.lines and page.curves == whole.curves


def test_a_topic_that_is_too_large_alone_is_refused_with_words_and_the_others_live_on(journal, monkeypatch):
    hub = hub_of(journal)
    page = Page(hub)
    page.watcher = hub.watcher(weigh=weighed)
    monkeypatch.setattr("workbench.viz.hub.LARGEST", 9000)
    long = [f"{i:03d}{'n' * 2000}" for i in range(40)]
    rng = random.Random(1)
    names = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=1000)) + name[:3] for name in long]
    nodes = tuple(NodeRecord(name, "add", device=fixtures.DEVICES[0]) for name in names)
    journal.graph(GraphRecord("session_1", "placed", nodes))
    journal.set_status(session="session")
    page.watcher.watch(ALL)
    updates = [update for _ in range(6) if (update := page.look()) is not None]
    assert {topic for update in updates for topic in update.topics} == set(ALL) - {"graph"}
    assert all(weighed(update) <= 9000 + 1500 for update in updates)
    said = [update.faults["graph"] for update in updates if "graph" in update.faults]
    assert len(said) == 1 and "an update holds 9,000; close scopes" in said[0]
    monkeypatch.setattr("workbench.viz.hub.LARGEST", 64_000)
    fixtures.write_step(journal, 20, journal.origin + 5)
    journal.graph(fixtures.mnist_graph("session_2"))
    journal.set_status(session="session_2")
    page.watcher.watch({**ALL, "graph": {"key": "session_2"}})
    hub._views["graph"]._next = 0.0
    update = page.look()
    assert update is not None and update.faults == {"graph": ""} and update.topics["graph"].key == "session_2"


class Clock:
    """Time that passes when it is told to; whoever asks for its own costs ten milliseconds."""

    def __init__(self) -> None:
        self.now, self.worked = time.perf_counter(), 0.0

    def perf_counter(self) -> float:
        return self.now

    def thread_time(self) -> float:
        self.worked += 0.01
        return self.worked


def test_a_verdict_that_costs_much_is_still_at_most_a_second_old(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("workbench.viz.books.time", clock)
    monkeypatch.setattr("workbench.viz.accounting.SETTLED", 0.0)
    journal, made = Journal(capacity=100_000), []
    journal.enabled = True
    books = books_of(journal)
    for number in range(100):
        for i in range(8):
            task = f"/job:worker/task:{i}"
            journal.span(Span("segment", "work", task, task, 0, clock.now, clock.now + 0.05, number, executable="s_0"))
        clock.now += 0.1
        books.advance()
        if not made or books.version > made[-1][1]:
            made.append((clock.now, books.version))
    assert len(made) > 8 and max(later - one for (one, _), (later, _) in itertools.pairwise(made[1:])) <= 1.0 + 1e-6


def test_a_verdict_over_many_tasks_is_made_in_slices(monkeypatch):
    monkeypatch.setattr("workbench.viz.books.JUDGED", 0.0)
    monkeypatch.setattr("workbench.viz.books.SLICE", 0.0)
    monkeypatch.setattr("workbench.viz.books.PACE", float("inf"))
    monkeypatch.setattr("workbench.viz.accounting.SETTLED", 0.0)
    journal = Journal(capacity=100_000)
    journal.enabled = True
    tasks = [f"/job:worker/task:{i}" for i in range(64)]

    def write(number: int) -> None:
        for task in tasks:
            journal.span(Span("segment", "work", task, task, 0, number, number + 0.5, number, executable="s_0"))
    page = Page(hub_of(journal), work={})
    for number in range(9):
        write(number)
    assert len(page.look().topics["work"].rows) == 64      # the first one at once
    write(9)
    looks = 0
    while (update := page.look()) is None or "work" not in update.topics:
        looks += 1
    assert looks > 10


def test_a_step_is_sampled_with_all_of_its_spans_or_not_at_all(monkeypatch):
    monkeypatch.setattr("workbench.viz.books.SAMPLED", 40)
    sample, whole, taken = Sample(), {}, {}
    spans = [Span("op", "x", f"/job:worker/task:{task}", "", 0, 0.0, 1.0, step, executable="s_0")
             for step in range(400) for task in range(4)]
    later = spans[3::7]      # spans of one step come in several batches
    early = [one for one in spans if one not in set(later)]
    for batch in (*(early[i : i + 300] for i in range(0, len(early), 300)), later, spans[:40]):
        for piece in sample.of(Batch(batch), "s", True):
            taken[piece.step] = taken.get(piece.step, 0) + len(piece.places)
        for span in batch:
            whole[span.step] = whole.get(span.step, 0) + 1
    assert 10 < len(taken) < 300 and all(whole[step] == count for step, count in taken.items())
    assert len(sample.of(Batch(spans[:40]), "another run", True)) == 10


def test_a_training_that_begins_is_sampled_anew_however_much_the_one_before_it_left():
    def batch(numbers: range, each: int) -> Batch:
        return Batch([Span("op", "x", f"/job:worker/task:{i}", "", 0, float(number), number + 0.5, number, executable="s_0")
                      for number in numbers for i in range(each)])
    sample = Sample()
    for first in range(0, 100, 10):
        sample.of(batch(range(first, first + 10), 400), "s", True, 0.1)
    assert len(sample.of(batch(range(100, 120), 4), "s", True, 0.5, 110.0)) < 10 + 10, "only of the new one"
    taken = {piece.step for piece in sample.of(batch(range(100, 130), 4), "s", True, 0.5, 110.0)}
    assert taken >= set(range(110, 130)) and len(taken & set(range(100, 110))) < 5


def test_one_step_in_so_many_stays_so_however_long_a_run_of_many_tasks_goes_on():
    """A step of 256 tasks alone is more than what an update may take: that must not thin out the sample again and again."""
    sample, taken = Sample(), set()
    tasks = [f"/job:worker/task:{i}" for i in range(1500)]
    for step in range(0, 1200, 2):
        batch = [Span("op", "x", task, "", 0, 0.0, 1.0, number, executable="s_0")
                 for number in (step, step + 1) for task in tasks]
        taken |= {piece.step for piece in sample.of(Batch(batch), "s", True)}
    ordered = sorted(taken)
    assert len(taken) < 300 and max(b - a for a, b in itertools.pairwise(ordered[20:])) < 40 and ordered[-1] > 1150


def test_of_many_short_steps_a_sample_has_few_although_each_has_one_span():
    sample, task = Sample(), "/job:localhost/task:0"
    for first in range(0, 6000, 100):
        came = [Span("step", "s", task, "", 0, 0.0, 1.0, number, executable="s_0") for number in range(first, first + 100)]
        taken = len(sample.of(Batch(came), "s", True))
    assert 0 < taken <= 25


def test_what_nobody_watches_is_not_read(journal):
    hub = hub_of(journal)
    page = Page(hub, work={})
    page.look()
    page.watcher.watch({})
    before = journal.spans_since(0)[0]
    for number in range(20, 40):
        fixtures.write_step(journal, number, journal.origin + number)
    hub.look()
    assert hub._books.spans.cursor == before and page.take(1.0).topics == {}
    assert hub.status()["records_lost"] == 0


def test_steps_that_somebody_else_had_accounted_for_reach_the_views(journal, hurried):
    """Terminal and Dask's page read the same books, also between two looks of the hub."""
    hub, books = hub_of(journal), books_of(journal)
    page, now = Page(hub), journal.origin + 1
    for number in range(20, 60):
        now = fixtures.write_step(journal, number, now, slow=1.8)
        books.advance()
        if number % 3 == 0:
            page.look()
    page.look()
    assert hub._books is books and books.summary.verdict.subject == "/job:worker/task:1"
    assert all(task["count"] == 60 for task in page.lines.values()) and len(page.lines) == 4


def test_eight_pages_read_the_journal_once(journal):
    hub = hub_of(journal)
    reads = []
    since = journal.spans_since
    hub._shared._since = lambda cursor: reads.append(cursor) or since(cursor)
    pages = [Page(hub, work={}, steps={}) for _ in range(8)]
    hub.look()
    assert all(page.take().topics["work"] is pages[0].updates[0].topics["work"] for page in pages)
    assert len(reads) == 1


def test_eight_pages_that_have_the_same_are_told_one_picture(journal):
    """Made once, whatever is new since they were told last, and so packed once (`widgets/test_peer.py`)."""
    hub = hub_of(journal)
    pages = [Page(hub, work={}, steps={}, series={}, operations={}, timeline={}, graph={}) for _ in range(8)]
    for number in range(20, 23):
        fixtures.write_step(journal, number, journal.origin + number)
        hub.look(time.perf_counter() + number)
        told = [page.take(float(number)).topics for page in pages]
        assert told[0] and all(list(each) == list(told[0]) for each in told)
        assert all(each[topic] is record for each in told for topic, record in told[0].items())


def test_the_journal_is_read_on_a_beat_and_at_once_where_somebody_asks_or_the_state_is_another(journal, monkeypatch):
    clock = Clock()
    clock.now = float(int(clock.now))      # whole, and eighths of a second: sums of tenths lie beside a beat now and then
    monkeypatch.setattr("workbench.viz.hub.time", clock)
    hub, looks = hub_of(journal), []
    journal.set_status(state="running", session="session_0")
    page, look = Page(hub, work={}), hub.look
    monkeypatch.setattr(hub, "look", lambda now: (looks.append(clock.now), look(now)))

    def turns(count: int) -> list[float]:
        looks.clear()
        for _ in range(count):
            clock.now += 0.125      # no sum of these is rounded
            hub.turn()
        return list(looks)
    began = clock.now
    assert turns(1) == [began + 0.125]
    assert turns(15) == [began + 0.625, began + 1.125, began + 1.625]
    page.watcher.watch({"steps": {}})
    assert len(turns(2)) == 1
    journal.set_status(state="failed")
    assert len(turns(1)) == 1 and hub.said["state"] == "failed" and not turns(1)
    journal.set_status(step=7, counted=True)
    assert not turns(1) and hub.said["step"] == 7
    monkeypatch.setattr(type(hub._books), "judging", True)      # a verdict is in work: whoever waits for it gets it soon,
    assert len(turns(10)) == 10
    page.watcher.watch({"series": {}})
    assert len(turns(11)) == 3      # and where nobody does it stays where it is


def test_a_topic_that_is_watched_again_comes_whole(journal):
    page = Page(hub_of(journal))
    page.look()
    page.watcher.watch({})
    page.take()
    page.watcher.watch({"series": {}})
    update = page.look()
    assert list(update.topics) == ["series"] and all(one.fresh for one in update.topics["series"].series)


def test_what_the_journal_lost_while_somebody_watched_is_said():
    journal = Journal(capacity=100)
    page = Page(hub_of(journal))
    page.look()
    for step in range(250):
        journal.point("loss", step, 1.0)
    page.look()
    assert page.status["records_lost"] == 150 and page.curves["loss"]["count"] == 100


def test_a_view_that_fails_says_so_and_leaves_the_others_live(journal, monkeypatch, caplog):
    hub = hub_of(journal)

    def broken(*_: Any) -> None:
        raise ValueError("no picture today")
    page = Page(hub)
    monkeypatch.setattr(hub._views["graph"], "delta", broken)
    update = page.look()
    assert update.faults == {"graph": "ValueError: no picture today"} and {"steps", "series", "work"} == set(update.topics)
    journal.point("loss", 20, 0.5)
    assert page.look().faults == {} and caplog.text.count("the view 'graph' could not be made") == 1
    page.watcher.watch({"series": {}})
    page.watcher.watch(ALL)      # who asks again gets another try
    update = page.look()
    assert update.faults == {"graph": ""} and "graph" in update.topics


def test_unknown_topics_and_parameters_are_refused_by_name(journal):
    page = Page(hub_of(journal))
    for topics, words in (({"weather": {}}, "watch: 'weather' is not a topic; there are graph, "),
                          ({"graph": {"depth": 3}}, "watch: 'graph' has no parameter 'depth'; it has key, opened, closed"),
                          ({"graph": {"opened": "loss"}}, "watch: opened of 'graph' is 'loss'; it must be like"),
                          ({"graph": 7}, "watch: the parameters of 'graph' are 7; give them by name"),
                          ({"work": {"rows": 3}}, "watch: 'work' has no parameter 'rows'; it has none")):
        with pytest.raises(errors.InvalidArgumentError, match=words):
            page.watcher.watch(topics)
    assert set(page.watcher.topics) == set(ALL)


def test_every_page_has_scopes_of_its_own(journal):
    hub = hub_of(journal)
    one, other = Page(hub, graph={"opened": ["gradients"]}), Page(hub, graph={})
    ids = [{node.id for node in page.look().topics["graph"].picture.nodes} for page in (one, other)]
    assert "gradients/matmul" in ids[0] and "gradients" in ids[1]
    one.watcher.watch({"graph": {"closed": ["gradients", "no such scope"]}})
    assert "gradients" in {node.id for node in one.look().topics["graph"].picture.nodes}
    assert other.look() is None
    one.watcher.watch({"graph": {"opened": ["gradients"]}})
    one.look()
    journal.graph(fixtures.mnist_graph())      # the next stage of the same graph
    hub.look()
    assert "gradients/matmul" in hub.whole("graph", one.watcher.topics["graph"]).dot


def test_each_stage_can_be_shown_with_what_it_did():
    journal = Journal()
    journal.enabled = True
    for record in fixtures.stages():
        journal.graph(record)
    page = Page(hub_of(journal), graph={})
    newest = page.look().topics["graph"]
    assert [stage.name for stage in newest.stages] == ["built", "fold", "algebra", "cse", "placed"]
    assert newest.stage == -1 and newest.rewrite == "" and not any(newest.picture.marks)
    page.watcher.watch({"graph": {"stage": 1, "before": 1, "opened": ["gradients"]}})
    before = page.look().topics["graph"]
    assert before.stage == 1 and before.rewrite.startswith("Removed 1 operation") and before.stages is None
    marked = {node.id: mark for node, mark in zip(before.picture.nodes, before.picture.marks) if mark}
    assert marked == {"gradients/ones": 3, "gradients/neg": 2}
    page.watcher.watch({"graph": {"stage": 1, "opened": ["gradients"]}})
    assert "gradients/ones" not in {node.id for node in page.look().topics["graph"].picture.nodes}
    page.watcher.watch({"graph": {"stage": 77}})
    assert page.look().topics["graph"].stage == -1      # there is no such stage


def test_only_times_travel_while_the_picture_holds(journal):
    page = Page(hub_of(journal), graph={})
    page.look()
    fixtures.write_step(journal, 20, journal.origin + 5)
    graph = page.look().topics["graph"]
    assert graph.picture is None and graph.graphs is None and max(t for t in graph.times if t is not None) > 0


def test_every_graph_of_the_run_can_be_shown(journal):
    page = Page(hub_of(journal), graph={})
    assert [one.key for one in page.look().topics["graph"].graphs] == ["session_0"]
    journal.graph(fixtures.dense_graph(2, key="session_7"))
    journal.graph(fixtures.dense_graph(1, key="session_8"))
    graph = page.look().topics["graph"]
    assert [one.key for one in graph.graphs] == ["session_7", "session_0", "session_8"] and graph.key == "session_7"
    assert graph.graphs[1].label.endswith(f"operations on ps:0, ps:1, worker:0 ({graph.graphs[1].key})")
    page.watcher.watch({"graph": {"key": "session_8"}})
    assert page.look().topics["graph"].key == "session_8"
    journal.graph(fixtures.dense_graph(3, key="session_9"))
    assert page.look().topics["graph"].key == "session_8"      # what was asked for stays


def test_times_are_those_of_the_graph_that_is_shown(journal, monkeypatch):
    monkeypatch.setattr("workbench.viz.views.graph.SPARING", 0.0)      # the new stage is taken at once
    page = Page(hub_of(journal), graph={})
    page.look()
    name, task = "softmax/matmul", fixtures.TASKS[2]
    journal.graph(fixtures.mnist_graph())
    before = page.look()
    journal.span(Span("op", name, task, task, 0, 1.0, 9.0, 3, executable="another_run_1"))
    assert page.look() is None, before


def test_a_new_session_is_shown_in_place_of_the_old_one(journal):
    page = Page(hub_of(journal), graph={})
    page.look()
    journal.graph(fixtures.dense_graph(2, key="next_0"))
    journal.set_status(session="next")
    assert page.look().topics["graph"].key == "next_0"


def test_the_page_of_a_cluster_is_offered_to_the_runs_that_use_it(journal):
    page = Page(hub_of(journal), work={})
    journal.set_status(page="http://scheduler:8787/workbench", tasks=("/job:ps/task:0", "/job:worker/task:0"))
    page.look()
    assert page.status["page"] == "http://scheduler:8787/workbench"
    journal.set_status(session="local", tasks=("/job:localhost/task:0",))
    page.look()
    assert page.status["page"] == ""
    journal.set_status(session="cluster", tasks=("/job:worker/task:0",))
    page.look()
    assert page.status["page"] == "http://scheduler:8787/workbench"


def test_a_verdict_of_before_training_was_brought_back_is_none_until_new_steps_come(journal, hurried):
    page = Page(hub_of(journal), work={})

    def told() -> tuple[str, int]:
        page.look()
        view = next(one.topics["work"] for one in reversed(page.updates) if "work" in one.topics)
        return view.verdict.text, len(view.rows)
    before, old = told(), ("Training is brought back; what is shown of its steps is of before.", 4)
    assert before == (before[0], 4) and "worker:1 costs" in before[0]
    journal.set_status(state="recovering", what="opening the tasks anew", part=1, parts=2)
    assert told() == old
    journal.set_status(state="running")
    assert told() == old
    now = time.perf_counter()
    for number in range(20, 40):
        now = fixtures.write_step(journal, number, now, slow=1.8)
    assert told()[0].startswith("worker:1 costs")


def test_the_step_is_the_newest_also_between_two_changes_of_the_status(journal):
    page = Page(hub_of(journal), work={})
    page.look()
    journal.ran = ("session", 40)
    page.look()
    assert page.status["step"] == 40
    journal.ran = ("another session", 99)
    page.look()
    assert page.status["step"] == 19


def test_a_training_loop_s_own_number_is_the_one_that_is_shown(journal):
    page = Page(hub_of(journal), work={})
    journal.count(7, 100)
    journal.ran = ("session", 40)
    journal.set_status(state="running", step=40)
    page.look()
    assert (page.status["state"], page.status["step"], page.status["of"]) == ("running", 7, 100)
    journal.set_status(session="next", state="ready")
    page.look()
    assert (page.status["step"], page.status["of"]) == (0, 0)


def test_an_answer_is_not_overtaken_by_an_older_status(journal):
    page = Page(hub_of(journal), work={})
    page.look()
    page.hub.look()
    journal.set_status(state="paused")
    answers: list[Answer] = []
    page.watcher.answer(Answer(1, True), answers.append)
    assert answers[0].status["state"] == "paused"
    later = page.take(1.0)
    assert later is not None and "state" not in later.status


def test_an_empty_journal_says_so_and_nothing_else():
    page = Page(hub_of(Journal(capacity=10)))
    update = page.look()
    assert page.status["state"] == "empty" and update.topics == {}


def test_knobs_are_told_whole_at_every_turn_and_that_they_are_gone():
    journal = Journal(capacity=10)
    page = Page(hub_of(journal), knobs={})
    assert page.look().topics == {} and page.look() is None
    knob = Knob("brake", ["/job:worker/task:0", "rest"], lambda values: None, most=10, step=0.5, journal=journal)
    (shown,) = page.look().topics["knobs"].knobs
    assert (shown.name, shown.most, shown.step, shown.fault) == ("brake", 10, 0.5, "")
    assert [(part.part, part.label, bool(part.color)) for part in shown.parts] == [
        ("/job:worker/task:0", "worker:0", True), ("rest", "rest", False)]
    knob.set([2.5, 0])
    (shown,) = page.look().topics["knobs"].knobs
    assert [(part.value, part.taken) for part in shown.parts] == [(2.5, True), (0, True)] and page.look() is None
    knob.close()
    assert page.look().topics["knobs"].knobs == [] and page.look() is None


def test_operations_and_devices_are_those_of_the_run_that_is_shown(journal, monkeypatch):
    monkeypatch.setattr("workbench.viz.views.operations.CALM", 0.0)
    monkeypatch.setattr("workbench.viz.views.operations.SPARING", 0.0)
    page = Page(hub_of(journal), operations={})
    view = page.look().topics["operations"]
    report = op_totals(journal.spans_since()[2])
    assert [(row.name, row.device, row.runs) for row in view.rows] == [(one.name, one.device, one.count) for one in report]
    assert sum(row.share for row in view.rows) == pytest.approx(1) and view.rows[0].median == pytest.approx(report[0].median)
    assert [one.operations for one in view.devices] == [4, 2, 16, 0] and view.crossing > 0
    assert "softmax" in view.devices[2].scopes
    assert page.look() is None, "nothing new is nothing to tell"
    fixtures.write_step(journal, 20, journal.origin + 1)
    assert page.look().topics["operations"].rows[0].runs == view.rows[0].runs + 1
    journal.set_status(session="another")
    fixtures.write_step(journal, 21, journal.origin + 2)
    assert page.look().topics["operations"].rows[0].runs == 1, "of another session nothing is added up"


def test_every_topic_is_one_file_and_part_of_the_contract():
    from workbench.viz.contract import text

    for topic, kind in views.VIEWS.items():
        assert kind.__module__.startswith("workbench.viz.views.") and f"  {topic}: {kind.record.__name__};" in text()


def test_where_tasks_elsewhere_tell_the_journal_is_read_when_all_have(monkeypatch):
    """Not just before: what is shown would be older by a beat."""
    clock = Clock()
    clock.now = float(int(clock.now))
    monkeypatch.setattr("workbench.viz.hub.time", clock)
    journal, looks, began = Journal(), [], clock.now
    tasks = [f"/job:worker/task:{i}" for i in range(2)]
    for task in tasks:
        journal.task(task, "joined")
    hub = hub_of(journal)
    page, look = Page(hub, work={}), hub.look
    monkeypatch.setattr(hub, "look", lambda now: (looks.append(round(8 * (clock.now - began))), look(now)))
    for turn in range(1, 41):      # eighths of a second
        clock.now += 0.125
        if turn <= 20 and turn % 5 < 2:      # one after the other, until the third second
            journal.merge(tasks[turn % 5], (), until=clock.now)
        hub.turn()
    assert page.watcher.topics
    assert looks == [1, 5, 8, 11, 16, 24, 28, 32, 36, 40], "soon each time that the second one has told; then on a beat"
