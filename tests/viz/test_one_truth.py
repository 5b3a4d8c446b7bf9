"""Every view of a planted run names the same cause with the same number, and none raises an alarm where nothing is wrong."""
from __future__ import annotations

import contextlib
import html
import os
import statistics
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.viz.scenarios import SCENARIOS, Plant, record, run, task
from tests.viz.seen import Seen, line_of, longest, saved, worked
from workbench import errors
from workbench.cluster.dask.page import WorkbenchScheduler, summarise
from workbench.cluster.dask.reports import Reporter
from workbench.commands.screen import ROWS, picture
from workbench.train.progress import Progress
from workbench.viz.books import books_of
from workbench.viz.hub import hub_of
from workbench.viz.ledger import PARTS
from workbench.viz.lost import losses
from workbench.viz.palette import short_task
from workbench.viz.report import render_report
from workbench.viz.report_data import read
from workbench.viz.report_sections import stragglers
from workbench.viz.units import ms
from workbench.viz.verdict import NOTICEABLE
from workbench.widgets.live import LiveView

OF_A_TASK = ("worker", "server", "still")
NAMED = [scenario for scenario in SCENARIOS if scenario.kind in ("worker", "server")]


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda scenario: scenario.name)
def seen(request: pytest.FixtureRequest) -> Iterator[Seen]:
    yield Seen(request.param)


@pytest.fixture(scope="module", params=NAMED, ids=lambda scenario: scenario.name)
def named(request: pytest.FixtureRequest) -> Iterator[Seen]:
    yield Seen(request.param)


def test_the_headline_names_the_planted_cause(seen):
    verdict = seen.work.verdict
    assert (verdict.kind, verdict.subject) == (seen.scenario.kind, seen.scenario.subject)
    assert verdict.alarm == (verdict.cost >= NOTICEABLE) == (seen.scenario.kind != "even") and verdict.text
    assert bool(verdict.action) == verdict.alarm


def test_the_table_charges_whom_the_headline_names_and_nobody_else(seen):
    charged = [row.task for row in seen.work.rows if row.share >= NOTICEABLE]
    if seen.scenario.kind in OF_A_TASK:
        assert charged[0] == seen.scenario.subject and seen.row.share == pytest.approx(seen.work.verdict.cost, abs=1e-4)
        assert f"{100 * seen.row.share:.0f} %" in seen.work.verdict.text
    elif seen.scenario.kind == "servers":  # what they cost together, each of them
        assert set(charged) == set(seen.scenario.subject.split("|"))
        shares = [row.share for row in seen.work.rows if row.task in charged]
        assert shares == pytest.approx([seen.work.verdict.cost] * len(shares), abs=1e-4)
    else:
        assert charged == []
    for row in seen.work.rows:
        assert row.median_ms + row.transfer + row.input + row.wait + row.uncovered <= 1.1 * row.whole + 1e-3


def test_the_line_of_a_task_is_its_work(seen):
    rows = {row.task: row for row in seen.work.rows}
    lines = seen.hub.whole("steps").tasks
    assert lines
    for line in lines:
        assert line.median == pytest.approx(rows[line.task].median_ms, rel=0.1)
    if seen.scenario.kind == "worker":
        workers = [line for line in lines if "/job:worker" in line.task]
        assert max(workers, key=lambda line: line.median).task == seen.scenario.subject


def test_the_heat_of_the_graph_is_the_work_of_its_tasks(named):
    shown = {task: statistics.median(each) for task, each in named.heat().items()}
    assert shown[named.scenario.subject] == pytest.approx(named.row.median_ms, rel=0.1)
    if named.scenario.kind == "worker":
        assert max((task for task in shown if "/job:worker" in task), key=shown.__getitem__) == named.scenario.subject


def test_the_operations_of_a_task_take_the_time_that_it_works(named):
    shown = named.operations()
    assert shown[named.scenario.subject] == pytest.approx(named.row.median_ms, rel=0.1)
    if named.scenario.kind == "worker":
        assert max((task for task in shown if "/job:worker" in task), key=shown.__getitem__) == named.scenario.subject


def test_a_step_of_the_timeline_works_as_long_as_the_lines_say_and_is_longest_in_the_planted_cause(seen):
    view, (who, what) = seen.timeline(), longest(seen.timeline())
    subject, kind = seen.scenario.subject.split("|"), seen.scenario.kind
    took = {line.task: dict(zip(line.steps, line.times)).get(view.step) for line in seen.hub.whole("steps").tasks}
    if not seen.scenario.plant.asynchronous:      # there a server works for other steps meanwhile
        assert subject[0] not in took or worked(view)[subject[0]] == pytest.approx(took[subject[0]], rel=1e-3)
    if kind == "worker":
        assert (who, what) == (subject[0], "work") and worked(view)[who] == pytest.approx(took[who], rel=1e-3)
    elif kind in ("server", "servers"):
        assert who in subject
    elif kind in ("link", "still"):
        assert (who, what) == (subject[-1], {"link": "transfer", "still": "wait"}[kind])
    elif kind == "input" and subject != ["between steps"]:
        assert what == "wait" and f"the longest link is {subject[0]} (" in view.path


def test_the_page_says_of_this_run_what_each_view_says(seen):
    assert line_of(seen) in saved(), "run: python -m tests.viz.seen"


def test_the_terminal_says_the_same(seen):
    with open(os.devnull, "w") as nowhere:
        console = Console(width=240, record=True, file=nowhere)
        console.print(picture("a run", Progress(3, 10), 1.0, seen.hub._books.summary, seen.journal.current()))
        text = console.export_text()
    assert seen.work.verdict.text in text and seen.work.verdict.action in text
    for row in seen.hub._books.summary.rows[:ROWS]:      # of more tasks those that cost most
        assert f"{row.work:8.2f} ms" in next(line for line in text.splitlines() if line.startswith(f"{short_task(row.task)}  "))


def test_dask_s_page_says_the_same(seen):
    page = WorkbenchScheduler()
    reporter = Reporter(SimpleNamespace(id="client"), 1, 1.0, seen.journal)
    reporter._addresses = {row.task: "tcp://a:1" for row in seen.hub._books.summary.rows}
    reporter._tell = lambda message: page.log_event("workbench", message)
    taken = seen.journal.taking
    reporter.summary()
    assert seen.journal.taking > taken      # so that steps are recorded no more often than accounts of them pay
    table = summarise(page.rows)
    shown = {name: tuple(table[part][at] for part in PARTS[:5]) for at, name in enumerate(table["task"])}
    rows = seen.hub._books.summary.rows
    assert shown == {short_task(row.task): tuple(getattr(row, part) for part in PARTS[:5]) for row in rows}
    assert page.verdict == seen.work.verdict.text
    reporter.summary()      # no other verdict, nothing to tell
    assert len(page.rows) == len(shown)


def test_a_task_that_was_lost_before_it_told_of_most_steps_has_a_row_everywhere_without_numbers():
    journal, gone = record(Plant(workers=2, servers=1)), task("worker", 2)
    journal.set_status(tasks=(*journal.status.tasks, gone))
    hub = hub_of(journal)
    watcher = hub.watcher()
    watcher.watch({"work": {}})
    hub.look()
    before = hub.whole("work")
    journal.task(gone, "lost", cause=f"{gone} was lost")
    journal.task("/job:another/task:0", "lost", cause="of another session")
    hub.look()
    first, *others = hub.whole("work").rows
    assert (first.task, first.why) == (gone, "Was lost before it had told of most steps.") and others == before.rows
    assert hub.whole("work").verdict == before.verdict
    with open(os.devnull, "w") as nowhere:
        console = Console(width=240, record=True, file=nowhere)
        console.print(picture("a run", Progress(3, 10), 1.0, hub._books.summary, journal.current()))
        (line,) = [line for line in console.export_text().splitlines() if line.startswith("worker:2 lost")]
    assert line.split(maxsplit=3)[2:] == ["–", first.why]
    assert [row.task for row in read(journal).summary.rows] == [gone, *(row.task for row in others)]
    in_report = stragglers(read(journal)).partition("worker:2 lost")[2].partition("</tr>")[0]
    assert in_report.count("–") == 4      # works, transfers, waits, for whom
    journal.task(gone, "joined")
    hub.look()
    assert hub.whole("work").rows == before.rows


def test_a_training_is_judged_by_its_own_steps_as_soon_as_one_is_known(monkeypatch):
    """Those of the one before it, which was slowed, are more, and took longer."""
    at_once = {"books.JUDGED": 0.0, "books.SLICE": float("inf"), "accounting.SETTLED": 0.0}
    for name, value in at_once.items():
        monkeypatch.setattr(f"workbench.viz.{name}", value)
    journal, slow = record(Plant(workers=2, servers=1, work={task("worker", 1): 3.0})), task("worker", 1)
    books = books_of(journal)
    books.advance()
    assert books.summary.verdict.subject == read(journal).summary.verdict.subject == slow
    journal.count(0, 100, begins=True)
    books.advance()
    assert books.summary.verdict.subject == read(journal).summary.verdict.subject == slow      # nothing newer is known
    for span in run(Plant(workers=2, servers=1, steps=12)):
        journal.span(span._replace(start=journal.begun + span.start, end=journal.begun + span.end, step=span.step + 1000))
    books.advance()
    for summary in (books.summary, read(journal).summary):
        assert (summary.verdict.kind, max(row.cost for row in summary.rows) < NOTICEABLE) == ("even", True), summary.verdict
        assert all(row.whole < 8 for row in summary.rows)


def test_a_loss_by_which_the_run_failed_is_told_once_everywhere():
    journal, gone = record(Plant(workers=2, servers=1)), task("worker", 1)
    journal.task(gone, "lost", cause=f"{gone} was lost (EOF); it cannot be reached", fix="Restart it.")
    journal.fail(journal.status.session, 7, errors.AbortedError(f"step 7: {gone} at tcp://a:1 was lost (EOF); close it"))
    view = LiveView(journal)
    with open(os.devnull, "w") as nowhere, contextlib.closing(view):
        console = Console(width=240, record=True, file=nowhere)
        console.print(picture("a run", Progress(3, 10), 1.0, books_of(journal).summary, journal.current()))
        for told in (console.export_text(), view._words(), render_report(journal, "a run", {}).partition("<main>")[0]):
            assert (told.count("was lost (EOF)"), told.count("Restart it.")) == (1, 1), told


def test_tasks_that_were_lost_alike_are_told_in_one_sentence_everywhere():
    journal, tasks = record(Plant(workers=9, servers=1)), [task("worker", i) for i in range(9)]
    for one in tasks:
        journal.task(one, "lost", cause=f"{one} was lost (EOF)", fix="Restart it.")
    journal.task("/job:ps/task:0", "lost", cause="/job:ps/task:0 was lost (killed)", fix="Restart it.")
    alike = "/job:worker/task:0 was lost (EOF). The same happened to worker:1, worker:2, worker:3 and 5 more"
    assert losses(journal.current().lost) == [(alike, "Restart it."), ("/job:ps/task:0 was lost (killed)", "Restart it.")]
    assert losses(journal.current().lost[:3], "step 3: /job:worker/task:0 was lost (EOF)") == [
        ("/job:worker/task:1 was lost (EOF). The same happened to worker:2", "Restart it.")]
    with open(os.devnull, "w") as nowhere, contextlib.closing(LiveView(journal)) as view:
        console = Console(width=240, record=True, file=nowhere)
        console.print(picture("a run", Progress(3, 10), 1.0, books_of(journal).summary, journal.current()))
        for told in (console.export_text(), view._words(), render_report(journal, "Lost", {}).partition("<main>")[0]):
            assert (told.count(alike), told.count("was lost (")) == (1, 2), told


def test_a_loss_that_is_no_number_in_a_loop_of_one_s_own_is_told_everywhere_until_it_is_one_again():
    journal = record(Plant(workers=2, servers=1))
    fact = "loss is no finite number since step 1,004."

    def told() -> list[str]:
        page = WorkbenchScheduler()
        reporter = Reporter(SimpleNamespace(id="client"), 1, 1.0, journal)
        reporter._tell = lambda message: page.log_event("workbench", message)
        reporter.summary()
        with open(os.devnull, "w") as nowhere, contextlib.closing(LiveView(journal)) as view:
            console = Console(width=240, record=True, file=nowhere)
            console.print(picture("a run", Progress(3, 10), 1.0, books_of(journal).summary, journal.current()))
            panel = " ".join(words for one in hub_of(journal).status()["broken"] for words in one)
            return [console.export_text(), view._words(), render_report(journal, "Lost", {}).partition("<main>")[0],
                    page.headline(), panel]
    for step, value in ((1003, 0.5), (1004, float("nan")), (1005, float("inf"))):
        journal.point("loss", step, value)
    assert [(one.count(fact), one.count("lower the learning rate")) for one in told()] == [(1, 1)] * 5
    journal.point("loss", 1006, 0.25)
    assert [one.count("no finite number") for one in told()] == [0] * 5


def test_the_report_says_the_same(seen):
    verdict = read(seen.journal).summary.verdict
    assert (verdict.kind, verdict.subject) == (seen.scenario.kind, seen.scenario.subject)
    assert verdict.cost == pytest.approx(seen.work.verdict.cost, abs=0.02)


@pytest.mark.parametrize("scenario", [SCENARIOS[0], SCENARIOS[5]], ids=lambda s: s.name)
def test_the_report_prints_the_verdict(scenario):
    found = Seen(scenario)
    text = html.unescape(render_report(found.journal, "a run", {}))
    assert found.work.verdict.text in text
    assert all(ms(row.median_ms) in text for row in found.work.rows)
