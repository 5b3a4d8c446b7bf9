"""When tasks are asked what they recorded, and with it how old what a page shows becomes, on a clock of the test's own."""
from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace

import pytest

from workbench.cluster.chief.beat import Beat
from workbench.cluster.chief.sampling import _RARELY, _RECORD_SECONDS, _SHARE
from workbench.cluster.task.account import Account
from workbench.cluster.task.engines import SPANS
from workbench.cluster.task.steps import Active, Steps
from workbench.core.pace import Pace
from workbench.core.trace import Journal, Span
from workbench.viz.books import books_of
from workbench.viz.hub import RATE, hub_of

WORK = itertools.count(0.0, 0.01)
TASKS = [f"/job:worker/task:{i}" for i in range(4)]
MODULES = ("cluster.chief.beat", "cluster.task.account", "viz.hub", "viz.books", "viz.accounting", "viz.views.timeline")


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    times = SimpleNamespace(perf_counter=lambda: clock.now, monotonic=lambda: clock.now, thread_time=lambda: next(WORK))
    for module in MODULES:
        monkeypatch.setattr(f"workbench.{module}.time", times)
    return clock


def asked(clock, beat: Beat, recorded: list[float], seconds: float) -> list[float]:
    """When tasks are asked within so many seconds, steps that are recorded ending at `recorded`."""
    began, times, ends = clock.now, [], iter([*recorded, float("inf")])
    end = next(ends)
    while clock.now < began + seconds:
        clock.now += 0.01
        if clock.now >= began + end:
            beat.ended()
            end = next(ends)
        if beat.due <= clock.now + 1e-9:
            times.append(round(clock.now - began, 2))
            beat.asking()
    return times


def test_tasks_are_asked_twice_a_second_while_nothing_is_recorded_or_much_is(clock):
    assert asked(clock, Beat(), [], 2.05) == [0.5, 1.0, 1.5, 2.0]
    often = [0.05 * i for i in range(1, 41)]
    assert asked(clock, Beat(), often, 2.05)[1:] == pytest.approx([1.0, 1.5, 2.0], abs=0.3)
    assert len(asked(clock, Beat(), often, 2.05)) <= 5


def test_after_a_step_that_is_recorded_rarely_tasks_are_asked_as_soon_as_they_can_tell_of_it(clock):
    ends = [0.55 * i for i in range(1, 20)]
    times = asked(clock, Beat(), ends, 10.0)[2:]
    assert all(min(abs(time - 0.12 - end) for end in ends) < 0.02 for time in times)
    assert min(later - one for one, later in itertools.pairwise(times)) >= 0.3


def test_a_process_that_slept_has_not_waited_for_its_tasks(clock):
    beat = Beat()
    clock.now += 0.25
    assert beat.asking() == pytest.approx(0.5)
    clock.now += 60.0
    assert beat.asking() < 2.0


def test_who_waits_hears_of_a_step_and_of_the_end(clock):
    beat, times = Beat(), []

    def waiting() -> None:
        while beat.wait():
            times.append(clock.now)
            beat.asking()
    waiter = threading.Thread(target=waiting)
    clock.now += 0.45
    beat.ended()      # it is to be asked for at once: what it waited for lies behind it
    clock.now += 0.5
    waiter.start()
    beat.end()
    waiter.join(60)
    assert not waiter.is_alive() and beat.wait() is False


class Program:
    """Tasks that step together; of their steps as many are recorded as of a cluster whose recording is dear."""

    def __init__(self, clock, step: float, cost: float) -> None:
        self.clock, self.long, self.beat = clock, step, Beat()
        self.journal, self.pace = Journal(capacity=50_000), Pace(_SHARE, 1, _RECORD_SECONDS, _RARELY)
        self.journal.enabled = True
        self.steps, self.sent = {task: Steps() for task in TASKS}, []
        self.accounts = {task: Account(task, self.steps[task], lambda message, task=task: self.sent.append((task, message)))
                         for task in TASKS}
        for task in TASKS:
            self.journal.task(task, "joined")
        self.number, self.ends = 0, float("-inf")
        self._cost = cost

    def goes_on(self) -> None:
        """A hundredth of a second later."""
        now = self.clock.now = round(self.clock.now + 0.01, 6)
        for task, batch in self.sent:
            self.journal.merge(task, batch.spans, 0.0, 0.0, batch.lost, batch.until)
        self.sent.clear()
        if now >= self.ends:
            self._next(now)
        if self.beat.due <= now:
            self.beat.asking()
            for account in self.accounts.values():
                account.ship()

    def _next(self, now: float) -> None:
        for i, task in enumerate(TASKS if self.number else ()):
            active, *_ = self.steps[task].done(self.number)
            if active.trace >= SPANS:
                self.accounts[task].journal.span(Span("segment", "work", task, task, 0, active.started, now - 0.001 * (i + 1),
                                                      self.number, executable="session_0_0"))
            self.accounts[task].ended(self.number, active, None)
        if self.number and active.trace >= SPANS:
            self.beat.ended()
        recorded = now >= self.pace.due
        if recorded:
            self.pace.paid(now, self._cost)
        self.number, self.ends = self.number + 1, now + self.long
        for task in TASKS:
            self.steps[task].begin(self.number, (), Active(now + 0.001, "session_0_0", SPANS if recorded else 0))


@pytest.mark.parametrize("begins", [0.0, 0.13, 0.31])
@pytest.mark.parametrize(("step", "cost"), [(0.01, 1.0), (0.05, 1.0), (0.12, 1.0), (0.2, 1.0), (0.05, 1e-3), (0.05, 1.5e-3),
                                            (0.05, 3e-3)])
def test_what_is_shown_of_a_large_cluster_is_at_most_a_second_old(clock, step: float, cost: float, begins: float):
    """Of steps that are recorded twice a second, from the end of the newest one that is shown until the next one is."""
    clock.now += begins
    program = Program(clock, step, cost)
    program.journal.set_status(state="running", session="session_0")
    hub, books = hub_of(program.journal), books_of(program.journal)
    watcher = hub.watcher()
    watcher.watch({"steps": {}, "work": {}})
    lines = judged = float("-inf")
    oldest = 0.0
    for turn in range(1500):
        program.goes_on()
        if turn % round(100 / RATE) == 0:
            hub.turn()
            if turn > 300:      # just before the next is shown
                oldest = max(oldest, clock.now - lines, clock.now - judged)
            steps = hub.whole("steps")
            if steps and steps.tasks:
                lines = program.journal.origin + max(task.ends[-1] for task in steps.tasks)
            judged = books.summary.until
    print(f"steps of {step} s, {cost} s to take one in: {oldest:.2f} s old")
    assert oldest <= 1.0
