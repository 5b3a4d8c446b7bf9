"""Defects planted in the protocol's code: each makes a simulated training fail, or the simulation would prove little."""
from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.sim.test_simulation import silence  # noqa: F401
from tests.sim.training import train
from workbench import errors
from workbench.cluster.chief.steps import PendingStep
from workbench.cluster.chief.tracker import Tracker
from workbench.cluster.task.links import Links
from workbench.cluster.task.relays import Relays
from workbench.cluster.task.steps import Steps
from workbench.cluster.task.task import Task
from workbench.cluster.wire import messages as m
from workbench.core.state.accumulators import Accumulator
from workbench.core.state.clocks import Clocks
from workbench.core.state.datasets import DatasetIterator
from workbench.core.state.pushes import Pushes
from workbench.core.state.queues import Queue
from workbench.core.state.retries import Ledger, Try
from workbench.core.state.tokens import Tokens
from workbench.train.sessions import recovery
from workbench.train.sessions.recovery import Attempts, Begin, Damaged, Lost, Recovery, Reopened, Restored

SEEDS, FAULTS = 400, 8
Patch = Callable[..., None]


def no_fence(patch: Patch) -> None:
    """A task says that an aborted step is over while its kernels run."""
    abort = Steps.abort
    patch(Steps, "abort", lambda self, step, awaited: abort(self, step, awaited)._replace(runs=False))


def not_awaited(patch: Patch) -> None:
    """The user hears of a failure before the tasks have said that they are through."""
    abort = Tracker._abort
    patch(Tracker, "_abort", lambda self, pending, members, error: (abort(self, pending, members, error),
                                                                    pending.missing.clear()))


def no_abort(patch: Patch) -> None:
    """The chief does not tell the others that a step has failed."""
    patch(Tracker, "_abort", lambda self, pending, members, error: None)


def links_lost_in_silence(patch: Patch) -> None:
    """A task ends its own steps when a connection breaks, and tells nobody of those that have not begun."""
    patch(Tracker, "on_link_lost", lambda self, member, peer, why: None)


def losses_of_the_replaced(patch: Patch) -> None:
    """The end of an old connection is taken for that of the task that came in its place."""
    on_lost = Tracker.on_lost
    patch(Tracker, "on_lost", lambda self, member, error: on_lost(self, self.members[member.task], error))


def stale_gradients(patch: Patch) -> None:
    """A gradient that was computed for a round that is over counts in the next."""
    apply = Accumulator.apply
    patch(Accumulator, "apply", lambda self, step, *gradient, worker="": apply(
        self, max(step, self.global_step), *gradient, worker=worker))


def no_dedupe(patch: Patch) -> None:
    """The gradient of a step that was aborted between two servers and tried again counts twice."""
    apply = Accumulator.apply
    patch(Accumulator, "apply", lambda self, step, *gradient, worker="": apply(self, step, *gradient))


def stale_tokens(patch: Patch) -> None:
    """Whoever had a token gets it again, and computes for the bin."""
    take = Tokens.take
    patch(Tokens, "take", lambda self, newer_than, done, fail: take(self, newer_than - 1, done, fail))


def forgotten_steps(patch: Patch) -> None:
    """A new step says that all before it are over."""
    encode = m.encode

    def forgetting(message: m.Message, *rest: Any) -> Any:
        return encode(dataclasses.replace(message, live=()) if type(message) is m.RunStep else message, *rest)
    patch(m, "encode", forgetting)


def late_answers(patch: Patch) -> None:
    """An answer that comes after the step has failed makes it a success."""
    done = PendingStep.done

    def late(self: PendingStep, fetches: Any) -> None:
        done(self, fetches)
        if self.secondary and not self.missing:
            self.error, self.secondary = None, False
    patch(PendingStep, "done", late)


def doubled_orders(patch: Patch) -> None:
    """The same order twice runs a step twice."""
    begin = Steps.begin

    def once_more(self: Steps, step: int, live: tuple[int, ...], active: Any) -> Any:
        found = begin(self, step, live, active)
        if found is not True or step in self._answered:
            return found
        with self._lock:
            self._active[step] = active
            return self._table(step)
    patch(Steps, "begin", once_more)


def silent_relays(patch: Patch) -> None:
    """Who cannot pass a step on, or say that it is done with one, tells nobody."""
    post = Links.post

    def posted(self: Links, target: str, buffers: Any, kept: Any = None) -> None:
        with contextlib.suppress(errors.UnavailableError):
            post(self, target, buffers, kept)
    patch(Links, "post", posted)


def relays_that_remember(patch: Patch) -> None:
    """A task that passed a step on waits for the others also when the step has failed."""
    patch(Relays, "drop", lambda self, step: None)


def no_silence(patch: Patch) -> None:
    """A task whose chief is gone, or has given it up, lives for ever."""
    patch(Task, "tick", lambda self, seconds: True)
    patch(Task, "close", lambda self: None)


def unready_handles(patch: Patch) -> None:
    """After a loss, steps go to tasks that do not have their programs yet."""
    def members_of(self: Tracker, handle: str) -> Any:
        return {task: self.member(task) for task in self.handles[handle]}
    patch(Tracker, "members_of", members_of)


def no_marker_wait(patch: Patch) -> None:
    """A checkpoint does not wait for the pushes that are under way."""
    def settle(self: Pushes, cut: Any, done: Callable[[], None]) -> Callable[[], None]:
        done()
        return lambda: None
    patch(Pushes, "settle", settle)


def unheld_pushes(patch: Patch) -> None:
    """Pushes begin while a checkpoint is taken."""
    begin = Pushes.begin

    def freely(self: Pushes, *push: Any) -> Callable[[], None]:
        held, self.held = self.held, False
        undo = begin(self, *push)
        self.held = held
        return undo
    patch(Pushes, "begin", freely)


def untold_pushes(patch: Patch) -> None:
    """A server waits for what began on itself, and not for what began on another."""
    settle = Pushes.settle
    patch(Pushes, "settle", lambda self, cut, done: settle(self, {
        worker: number for worker, number in cut.items() if worker in self.newest}, done))


def mixed_moments(patch: Patch) -> None:
    """A checkpoint is begun before a loss and read of the servers that were opened anew after it."""
    release = Pushes.release
    patch(Pushes, "release", lambda self: (release(self), True)[1])


def no_bound(patch: Patch) -> None:
    """A replica goes further ahead than is allowed."""
    wait = Clocks.wait
    patch(Clocks, "wait", lambda self, worker, staleness, *rest: wait(self, worker, staleness + 2, *rest))


def forgotten_positions(patch: Patch) -> None:
    """Data begin at the start when training goes on."""
    patch(DatasetIterator, "resume", lambda self, position: None)


def forgotten_elements(patch: Patch) -> None:
    """What waited in a queue is gone when training goes on."""
    patch(Queue, "set_state", lambda self, found, reopen=False: None)


def guests_stay(patch: Patch) -> None:
    """Who evaluates a replica's part joins in its place, and is waited for."""
    patch(Clocks, "_end", lambda self, worker: None)


def mistaken_lives(patch: Patch) -> None:
    """A driver that connects again is taken for one that was started again, whose earlier steps nobody tries again."""
    begin = Ledger.begin
    patch(Ledger, "begin", lambda self, of, step, cancel: begin(self, of._replace(incarnation=step), step, cancel))


def forgotten_tries(patch: Patch) -> None:
    """What a step did is forgotten when another begins, though it may be tried again."""
    begin = Ledger.begin
    patch(Ledger, "begin", lambda self, of, step, cancel: begin(self, of._replace(live=()), step, cancel))


def unkept_results(patch: Patch) -> None:
    """An element that a step took before it was cut off is lost to its next try."""
    waits = Try.waits
    patch(Try, "waits", lambda self, name, begin, done: begin(done) if name == "get" else waits(self, name, begin, done))


def stale_checkpoints(patch: Patch) -> None:
    """Training goes on from the oldest checkpoint."""
    handle = Recovery.handle
    patch(Recovery, "handle", lambda self, event: handle(
        self, Reopened(event.checkpoints[::-1]) if isinstance(event, Reopened) else event))


def damage_ends_it(patch: Patch) -> None:
    """A damaged checkpoint is passed over for initial values."""
    handle = Recovery.handle
    patch(Recovery, "handle", lambda self, event: Begin() if isinstance(event, Damaged) else handle(self, event))


def no_second_attempt(patch: Patch) -> None:
    """A loss while training is brought back counts as brought back."""
    perform = recovery._perform
    patch(recovery, "_perform", lambda one, event, hands: Restored() if isinstance(event, Lost) and one.losses else perform(
        one, event, hands))


def everybody_brings_back(patch: Patch) -> None:
    """Each thread that lost a task has all opened anew, whoever has done so since."""
    bring_back = Attempts.bring_back
    patch(Attempts, "bring_back", lambda self, mark, loss, how: bring_back(
        self, dataclasses.replace(mark, generation=self._generation()), loss, how))


PLANTED = {
    "async": {not_awaited: 4, no_fence: 321, no_abort: 0, links_lost_in_silence: 10, losses_of_the_replaced: 7,
              forgotten_steps: 0, late_answers: 31, doubled_orders: 0, no_silence: 3, silent_relays: 192,
              relays_that_remember: 0},
    "sync": {stale_gradients: 1, no_dedupe: 46, stale_tokens: 0, unready_handles: 1, forgotten_positions: 0,
             forgotten_elements: 0, stale_checkpoints: 0, damage_ends_it: 51},
    "bounded": {no_marker_wait: 0, unheld_pushes: 0, untold_pushes: 0, mixed_moments: 35,
                no_bound: 0, guests_stay: 123, everybody_brings_back: 0,
                no_second_attempt: 177},
    "alone": {mistaken_lives: 0, forgotten_tries: 0, unkept_results: 0}}
"""Mode -> defect -> the seed to begin with: the first to find it when this was written, so that none is tried in vain."""


@pytest.mark.parametrize("mode, plant", [(mode, plant) for mode, plants in PLANTED.items() for plant in plants],
                         ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_defect_is_found(mode, plant, monkeypatch):
    plant(monkeypatch.setattr)
    begin = PLANTED[mode][plant]
    for seed in (*range(begin, SEEDS), *range(begin)):
        try:
            train(mode, seed, FAULTS)
        except AssertionError as found:
            assert f"python -m tests.sim {mode} {seed} {FAULTS}" in str(found)
            return
    pytest.fail(f"{plant.__doc__} Nobody noticed in {SEEDS} trainings")
