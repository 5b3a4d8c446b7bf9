"""The journal's status: whose step number it is, and until when."""
from __future__ import annotations

import gc

import pytest

from workbench import errors
from workbench.core.trace import Journal, Span, spans_of
from workbench.settings import settings

pytestmark = pytest.mark.tiny


def test_a_session_s_numbers_are_shown_until_a_training_loop_counts():
    journal = Journal(capacity=10)
    journal.set_status(session="first", step=12)
    assert journal.status.step == 12
    journal.count(3, 20)
    journal.set_status(state="running", step=13, session="first")
    assert (journal.status.state, journal.status.step, journal.status.of) == ("running", 3, 20)


def test_another_session_begins_without_a_training_loop():
    journal = Journal(capacity=10)
    journal.set_status(session="first")
    journal.count(20, 20)
    journal.set_status(session="second", step=1)
    assert (journal.status.step, journal.status.of, journal.status.counted) == (1, 0, False)
    journal.count(5, 9, session="first")
    assert journal.status.step == 1


def test_the_current_status_knows_the_newest_step_of_its_session():
    journal = Journal(capacity=10)
    journal.set_status(session="first", step=4)
    journal.ran = ("first", 9)
    assert journal.status.step == 4 and journal.current().step == 9
    journal.ran = ("second", 30)
    assert journal.current().step == 4
    journal.count(2)
    journal.ran = ("first", 10)
    assert journal.current().step == 2


def test_states_are_appended_with_what_they_are_in_and_forget_it_with_the_next():
    journal = Journal(capacity=10)
    journal.set_status(state="rewriting", session="s", what="fold", part=1, parts=3)
    journal.set_status(part=2, what="cse")
    journal.set_status(step=4)
    journal.set_status(state="running")
    states = journal.states_since()[2]
    said = [(s.state, s.what, s.part) for s in states]
    assert said == [("rewriting", "fold", 1), ("rewriting", "cse", 2), ("running", "", 0)]
    assert journal.status.since == states[-1].time and states[-1].run == "s"


def test_a_failure_says_task_cause_and_fix():
    journal = Journal(capacity=10)
    journal.task("/job:worker/task:2", "lost", "tcp://one:1", "worker:2 was lost: process ended", "start a new one")
    assert [t.task for t in journal.status.lost] == ["/job:worker/task:2"]
    journal.fail("s", 7, errors.AbortedError("step 7: /job:worker/task:2 was lost; start a new cluster"))
    status = journal.status
    assert (status.state, status.step, status.task) == ("failed", 7, "/job:worker/task:2")
    assert (status.cause, status.fix) == ("worker:2 was lost: process ended", "start a new one")      # as every view says it
    journal.fail("s", 8, errors.AbortedError("step 8: /job:worker/task:23 closed its connection; try again"))
    assert (journal.status.task, journal.status.cause) == ("", "step 8: /job:worker/task:23 closed its connection")
    journal.fail("s", 9, errors.InvalidArgumentError("add: shapes at /job:worker/task:2 differ; give it others"))
    assert (journal.status.task, journal.status.fix) == ("/job:worker/task:2", "give it others")
    journal.task("/job:worker/task:2", "joined", "tcp://one:1")
    assert journal.status.lost == ()


def test_losses_while_training_is_brought_back_are_no_news_and_ask_for_nothing():
    journal, loss = Journal(capacity=10), errors.AbortedError("step 7: /job:worker/task:2 was lost; start a new cluster")
    journal.set_status(state="recovering", session="s", what="opening the tasks anew")
    journal.fail("s", 7, loss)      # another thread's
    journal.task("/job:worker/task:2", "lost", "tcp://one:1", "worker:2 was lost", "start a new one")
    assert (journal.status.state, journal.status.what, journal.status.fix) == ("recovering", "opening the tasks anew", "")
    assert [(one.cause, one.fix) for one in journal.status.lost] == [("worker:2 was lost", "")]
    journal.fail("s", 7, loss, final=True)
    assert (journal.status.state, journal.status.cause, journal.status.fix) == ("failed", "worker:2 was lost",
                                                                              "start a new cluster")


def test_a_loss_that_its_peers_noticed_before_the_chief_is_the_failure():
    one, two = "/job:worker/task:1", "/job:worker/task:11"
    journal = Journal(capacity=10)
    journal.fail("s", 7, errors.AbortedError(f"step 7: /job:ps/task:0 lost its connection to {one} (reset); died"))
    assert journal.status.cause.startswith("step 7: /job:ps/task:0 lost its connection")
    journal.task("/job:worker/task:3", "lost", "", "worker:3 was lost", "replace it")      # of another failure
    assert journal.status.cause.startswith("step 7")
    journal.task(one, "lost", "", "worker:1 was lost (process ended)", "start a new one")
    status = journal.status
    assert (status.state, status.step, status.task) == ("failed", 7, one)
    assert (status.cause, status.fix) == ("worker:1 was lost (process ended)", "start a new one")
    journal.fail("s", 8, errors.InvalidArgumentError(f"add: shapes at {two} differ; give it others"))
    journal.task(two, "lost", "", "worker:11 was lost", "start a new one")
    assert journal.status.cause == f"add: shapes at {two} differ"      # that it was lost later is another matter


def test_a_step_that_was_cancelled_is_stopped_not_failed():
    journal = Journal(capacity=10)
    journal.fail("s", 7, errors.CancelledError("Session.run: stopped by the user; run again to go on"))
    assert journal.status.state == "stopped"


def test_a_session_runs_while_a_step_is_inside_it_however_long_and_is_ready_after():
    journal = Journal(capacity=10)
    journal.set_status(state="running", session="s")
    journal.inside[1] = ("s", 0, journal.origin - 3600)
    assert journal.current().state == "running" and journal.current().since == journal.origin - 3600
    del journal.inside[1]
    journal.ended = journal.origin - 10
    assert journal.current().state == "ready"
    journal.count(3, 10)
    assert journal.current().state == "running"      # a training loop says itself when it ends


def test_spans_between_two_numbers_are_those_of_them_that_are_kept():
    journal = Journal(capacity=4)
    journal.enabled = True
    for number in range(10):
        journal.span(Span("op", str(number), "t", "", 0, 0.0, 1.0, 0))

    def between(first: int, last: int) -> str:
        return "".join(span.name for span in spans_of(journal.rows_between(first, last)))
    assert [between(7, 8), between(6, 9), between(0, 6), between(8, 20)] == ["78", "6789", "6", "89"]
    assert between(0, 5) == between(8, 7) == between(10, 20) == ""


def test_spans_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(settings, "trace_bytes", 100_000)
    journal = Journal(capacity=1_000_000)
    for step in range(1000):
        journal.span(Span("op", "long name " * 100, "task", "", 0, 0.0, 1.0, step))
    cursor, lost, kept = journal.spans_since()
    assert journal.span_bytes <= 100_000 and cursor == 1000 and lost == 1000 - len(kept) and kept[-1].step == 999


def test_spans_come_and_go_in_blocks_and_none_is_lost_between_two():
    journal = Journal(capacity=1300)
    journal.enabled = True
    for number in range(3000):
        journal.span(Span("op", str(number), "t", "", 0, 0.0, 1.0, number))
        if number % 97 == 0 or number > 2900:
            oldest, asked = max(0, number - 1299), max(0, number - 1400)
            cursor, lost, kept = journal.spans_since(asked)
            assert cursor == number + 1 and lost == max(0, oldest - asked), number
            assert [span.step for span in kept] == list(range(max(oldest, asked), number + 1))


def test_the_garbage_collector_does_not_walk_spans():
    """Python's full collections would stop the program for a time that goes with them."""
    def objects(keeps: bool) -> int:
        journal.enabled = keeps
        for number in range(20_000):
            journal.span(Span("op", f"layer/{number}", "t", "", 0, number, number + 0.5, number))
        gc.collect()
        return len(gc.get_objects())
    journal = Journal(capacity=20_000)
    assert -200 < objects(False) - objects(True) < 200
    assert len(journal.spans_since()[2]) == 20_000


def test_the_spans_of_one_step_are_moved_by_one_offset():
    journal = Journal(capacity=10)
    journal.merge("t", [Span("op", "a", "t", "", 0, 110.0, 111.0, 5)], offset=100.0, error=0.01)
    journal.merge("t", [Span("op", "b", "t", "", 0, 111.0, 112.0, 5)], offset=100.001, error=0.01)      # within the errors
    journal.merge("t", [], offset=100.5, error=0.01)                     # a clock that was set
    journal.merge("t", [Span("op", "c", "t", "", 0, 120.0, 121.0, 6)], offset=100.5, error=0.01)
    assert [(s.start, s.end) for s in journal.spans_since()[2]] == [(10.0, 11.0), (11.0, 12.0), (19.5, 20.5)]
    assert [entry[1] for entry in journal.clock_table("t")] == [100.0, 100.5]


def test_a_task_that_joins_again_has_a_clock_of_its_own():
    journal = Journal(capacity=10)
    journal.merge("t", [], offset=100.0, error=0.01)
    journal.task("t", "joined")
    journal.merge("t", [Span("op", "a", "t", "", 0, 7.0, 8.0, 5)], offset=5.0, error=0.01)
    assert journal.spans_since()[2][0].start == 2.0 and journal.clock_offsets == {"t": (5.0, 0.01)}


def test_a_task_may_join_while_the_clocks_are_read():
    """Tasks say hello on threads of their own, and take the clock of the process before them away."""
    journal = Journal()
    for task in "ab":
        journal.merge(task, [], offset=0.5, error=0.01)

    class Joining:
        """A clock that is replaced while it is read."""
        @property
        def entries(self):
            journal.task("b", "joined")
            return [(1.0, 0.5, 0.01)]
    journal._clocks = {**journal._clocks, "a": Joining()}
    assert journal.clock_offsets["a"] == (0.5, 0.01)


def test_what_tasks_lost_is_counted():
    journal = Journal(capacity=10)
    journal.merge("t", [], lost=3)
    journal.merge("t", [], lost=4)
    assert journal.lost_elsewhere == {"t": 7}


def test_what_is_no_finite_number_is_said_with_its_first_step_until_it_is_one_again_or_another_session_begins():
    journal = Journal()
    journal.set_status(state="running", session="session_1")
    for step, value in enumerate((1.0, float("nan"), float("inf"), float("nan"))):
        journal.point("loss", step, value)
    journal.point("accuracy", 3, 0.5)
    assert journal.status.broken == (("loss", 1),)
    journal.point("loss", 4, 2.0)
    assert journal.status.broken == ()
    journal.point("loss", 5, float("nan"))
    journal.set_status(state="running", session="session_1")
    assert journal.status.broken == (("loss", 5),)
    journal.set_status(state="building", session="session_2")
    assert journal.status.broken == ()
