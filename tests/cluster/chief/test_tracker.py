"""Steps as the chief tracks them, over scripted wires: when one fails it is over everywhere before anybody hears of it."""
from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cluster.wires import SESSION, Wire
from workbench import errors
from workbench.cluster.chief.backend import ClusterBackend
from workbench.cluster.chief.member import Member
from workbench.cluster.chief.steps import PendingStep
from workbench.cluster.chief.tracker import _WAITING, EPOCH, Tracker
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire import messages as m
from workbench.core.trace import Journal, Span

A, B = "/job:ps/task:0", "/job:worker/task:0"


class Scene:
    """A tracker with two tasks that say what the test makes them say."""

    def __init__(self, heartbeat: float = 20.0) -> None:
        self.members: dict[str, Member] = {}
        self.tracker = Tracker(SESSION, self.members, heartbeat, Journal())
        self.wires = {task: Wire(task) for task in (A, B)}
        for task, wire in self.wires.items():
            self.members[task] = Member(task, "tcp://x", wire, EPOCH, Journal(), self.tracker, ReceiverGroup("test"))
        self.tracker.add("h", (A, B))
        self.error: BaseException | None = None
        self.result: Any = None

    def begin(self, limit: float | None = None, feeds: Any = None, tasks: int = 2) -> threading.Thread:
        """Run a step on a thread of its own, as far as so many tasks have it."""
        arrived = threading.Semaphore(0)
        for wire in self.wires.values():
            wire.on_kept = lambda message: arrived.release() if type(message) in (m.RunStep, m.Abort) else None

        def run() -> None:
            try:
                self.result = self.tracker.run("h", None, feeds or {}, limit, False)
            except errors.Error as error:
                self.error = error
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        for _ in range(tasks):
            assert arrived.acquire(timeout=60)
        self.arrived = arrived
        return thread

    def open_again(self) -> None:
        """New tasks on the same wires, which have nothing yet."""
        for task, wire in self.wires.items():
            self.members[task] = Member(task, "tcp://y", wire, EPOCH, Journal(), self.tracker, ReceiverGroup("test"))

    def sent(self, task: str) -> list[str]:
        return [type(message).__name__ for _, message in self.wires[task].sent]


def failed(error: str = "OutOfRangeError", peer: str = "", over: bool = True) -> m.Failed:
    return m.Failed(error, "it is empty; stop", peer, over, "")


def test_the_user_hears_of_a_failure_when_the_step_is_over_everywhere():
    scene = Scene()
    thread = scene.begin()
    scene.wires[A].arrive(failed(), 1)
    assert scene.arrived.acquire(timeout=60)                   # B is told to end it
    assert scene.sent(A) == ["RunStep"] and scene.sent(B) == ["RunStep", "Abort"]
    assert thread.is_alive() and 1 in scene.tracker.pending
    scene.wires[B].arrive(m.Ended(), 1)
    thread.join(60)
    assert isinstance(scene.error, errors.OutOfRangeError) and scene.tracker.pending == {}


def test_a_stop_of_the_user_ends_steps_in_flight_everywhere():
    scene = Scene()
    thread = scene.begin()
    scene.tracker.cancel()
    for task in (A, B):
        assert scene.arrived.acquire(timeout=60)
        assert scene.sent(task) == ["RunStep", "Abort"]
        scene.wires[task].arrive(m.Ended(), 1)
    thread.join(60)
    assert isinstance(scene.error, errors.CancelledError) and "stopped by the user" in scene.error.message


def test_an_answer_on_its_way_counts_as_the_end():
    scene = Scene()
    thread = scene.begin()
    scene.wires[A].arrive(failed(), 1)
    scene.wires[B].arrive(m.Done(0.1, []), 1)
    thread.join(60)
    assert isinstance(scene.error, errors.OutOfRangeError)


def test_an_answer_that_comes_twice_before_its_caller_wakes_is_one_answer():
    """A chief that was stopped takes in at once what came meanwhile; it raised, and the connection was lost."""
    pending = PendingStep(1, "h", (A, B))
    for tasks in ((A, B), (B,), (A, B)):
        pending.done({task: [] for task in tasks})
    assert pending.wait(0.0) and pending.error is None


def test_a_task_that_does_not_end_a_step_is_lost():
    scene = Scene(heartbeat=0.05)
    thread = scene.begin(limit=0.0)
    thread.join(60)
    assert isinstance(scene.error, errors.DeadlineExceededError)
    for task in (A, B):
        assert "step 1 was aborted and still runs there after 0.05 s" in str(scene.members[task].lost)
    with pytest.raises(errors.UnavailableError, match=f"{A} at tcp://x is lost"):
        scene.tracker.run("h", None, {}, None, False)


def test_the_loss_of_a_task_is_the_end_of_its_steps():
    scene = Scene()
    thread = scene.begin()
    scene.wires[A].end(EOFError("gone"))
    assert scene.arrived.acquire(timeout=60)
    assert thread.is_alive()
    scene.wires[B].arrive(m.Ended(), 1)
    thread.join(60)
    assert scene.error.message.startswith(f"step 1: {A} at tcp://x was lost (EOFError: gone)")


@pytest.mark.parametrize("struck", ["task", "link"])
def test_a_step_whose_program_is_no_longer_wanted_still_ends_with_its_tasks(struck):
    """A session is closed while another thread runs a step of it."""
    scene = Scene()
    thread = scene.begin()
    scene.tracker.remove(("h",))
    if struck == "task":
        scene.wires[A].end(EOFError("gone"))
    else:
        scene.wires[A].arrive(m.LinkLost(B, "reset by peer"))
        assert scene.arrived.acquire(timeout=60)
        scene.wires[A].arrive(m.Ended(), 1)
    assert scene.arrived.acquire(timeout=60)
    scene.wires[B].arrive(m.Ended(), 1)
    thread.join(60)
    assert isinstance(scene.error, errors.AbortedError)


def test_who_asks_for_losses_hears_of_each_once_also_of_those_before():
    """Else whoever begins a moment too late waits for the dead."""
    scene, told = Scene(), []
    heard = threading.Semaphore(0)
    scene.wires[A].end(EOFError("gone"))
    scene.tracker.when_lost(lambda task: (told.append(task), heard.release()))
    assert heard.acquire(timeout=60) and told == [A]
    scene.wires[B].end(EOFError("gone"))
    scene.tracker.on_lost(scene.members[B], EOFError("again"))
    assert heard.acquire(timeout=60) and told == [A, B]


def test_a_session_that_was_closed_hears_of_no_loss():
    scene, told = Scene(), []
    heard = threading.Semaphore(0)
    backend = ClusterBackend(SimpleNamespace(tasks=(A, B), home=A, device_types={}, when_lost=scene.tracker.when_lost))
    backend.when_lost(lambda task: told.append("closed"))
    scene.tracker.when_lost(lambda task: (told.append(task), heard.release()))
    backend.close()
    scene.wires[A].end(EOFError("gone"))
    assert heard.acquire(timeout=60) and told == [A]
    assert len(scene.tracker._mourners) == 1


def test_a_lost_link_fails_the_steps_that_both_its_ends_have_a_part_in():
    """A sent and is done; B has not begun, so nobody but the chief knows that B will wait for ever."""
    scene = Scene()
    scene.tracker.add("alone", (B,))
    thread = scene.begin()
    scene.wires[A].arrive(m.Done(0.1, []), 1)
    scene.wires[B].arrive(m.LinkLost(A, "reset by peer"))
    assert scene.arrived.acquire(timeout=60)
    scene.wires[B].arrive(m.Ended(), 1)
    thread.join(60)
    assert scene.error.message == (f"step 1: {B} lost its connection to {A} at {scene.members[A].address} (reset by peer); "
                                   "that task's process may have died: run the step again, and if the task is lost, close "
                                   "this cluster, start a new one and restore the newest checkpoint")
    alone = threading.Thread(target=lambda: scene.tracker.run("alone", None, {}, 5, False), daemon=True)
    alone.start()
    assert scene.arrived.acquire(timeout=60)
    scene.wires[B].arrive(m.LinkLost(A, "reset by peer"))
    assert not scene.tracker.pending[2].error                  # A has no part in it
    scene.wires[B].arrive(m.Done(0.1, []), 2)
    alone.join(60)
    assert not alone.is_alive()


def test_the_cause_is_waited_for_as_long_as_a_task_that_may_be_lost_owes_its_last_word():
    """Beside load the chief may hear much later of a loss than the other tasks do."""
    scene = Scene()
    thread = scene.begin()
    scene.wires[B].arrive(failed("AbortedError", peer=A), 1)
    assert scene.arrived.acquire(timeout=60)                   # A is told to end the step
    scene.wires[A].end(EOFError("gone"))
    thread.join(60)
    assert scene.error.message.startswith(f"step 1: {A} at tcp://x was lost (EOFError: gone)")


def test_close_ends_what_waits_for_the_end_of_a_step():
    scene = Scene()
    thread = scene.begin()
    scene.wires[A].arrive(failed(), 1)
    assert scene.arrived.acquire(timeout=60)
    scene.tracker.close()
    thread.join(60)
    assert isinstance(scene.error, errors.OutOfRangeError)


def test_an_unexpected_error_brings_its_traceback():
    scene = Scene()
    thread = scene.begin()
    scene.wires[A].arrive(m.Failed("ZeroDivisionError", "by zero", "", True, "Traceback: line 7"), 1)
    scene.wires[B].arrive(m.Done(0.1, []), 1)
    thread.join(60)
    assert scene.error.__notes__ == [f"raised in step 1 on {A} at tcp://x", "Traceback: line 7"]


def test_tasks_forget_what_nobody_uses():
    scene = Scene()
    scene.tracker.remove(["h", "unknown"])
    assert scene.wires[A].sent == scene.wires[B].sent == [(-1, m.Unregister(("h",)))]
    with pytest.raises(errors.NotFoundError, match="nothing is registered as 'h'"):
        scene.tracker.run("h", None, {}, None, False)


def test_a_failed_registration_is_taken_back_where_it_was_new():
    scene = Scene()
    scene.tracker.add("g", (A,))
    scene.tracker.withdraw("g", (A, B))
    assert scene.wires[A].sent == [] and scene.wires[B].sent == [(-1, m.Unregister(("g",)))]


def test_a_step_that_begins_between_a_loss_and_the_new_registration_is_aborted():
    """The new tasks do not know its program yet: who trains through losses must read that it was one, and try again."""
    scene = Scene()
    scene.tracker.begin_anew(SESSION + 1, errors.UnavailableError("Cluster: its tasks are opened anew"))
    scene.open_again()
    with pytest.raises(errors.AbortedError, match=r"^run_step: the tasks of 'h' were opened anew and are being prepared; "):
        scene.tracker.run("h", None, {}, 5, False)
    assert scene.sent(A) == scene.sent(B) == []
    scene.tracker.add("h", (A, B))
    thread = scene.begin()
    for wire in scene.wires.values():
        wire.arrive(m.Done(0.1, []), 2)
    thread.join(60)
    assert scene.error is None and scene.result == {A: [], B: []}


def test_the_same_order_twice_is_one_order():
    """Networks do not double what they carry, but whoever sends may not know what came through."""
    scene = Scene()
    thread = scene.begin()
    for _ in range(2):
        scene.wires[A].arrive(m.Done(0.1, []), 1)
    assert thread.is_alive()
    scene.wires[B].arrive(m.Done(0.1, []), 1)
    thread.join(60)
    assert scene.error is None


def test_steps_that_end_while_another_begins_disturb_nobody():
    """Sessions of several threads share a cluster: the steps that still run are counted while others take theirs out."""
    scene = Scene()
    tracker = scene.tracker

    class Later(int):
        """A step number; whoever compares with it finds that the other step has just ended."""
        def __gt__(self, other: object) -> bool:
            tracker.pending.pop(int(other), None)       # type: ignore[call-overload]
            return int.__gt__(self, other)              # type: ignore[operator]
    for number in (1, 2, 3):
        tracker.pending[number] = tracker.step_type(number, "h", (A, B), 0)
    tracker.post(tracker.step_type(Later(4), "h", (A, B), 0), tracker.route("h"), {}, True)
    for wire in scene.wires.values():
        (_, order), = wire.sent
        assert order.live == (1, 2, 3), "each was counted that ran when the counting began"


def test_a_step_that_takes_long_says_what_computes_else_for_whom_it_waits():
    scene = Scene()
    thread = scene.begin()
    [(_, says)] = scene.tracker._journal.tellers.values()
    assert says() == ("running", "")
    scene.wires[A].arrive(m.ClockReply(0.0, 0.0, 0.0, f"for {B}"))
    assert says() == ("waiting", "for worker:0")
    scene.wires[B].arrive(m.ClockReply(0.0, 0.0, 0.0, "in while/add, iteration 5 of while"))
    assert says() == ("running", "while/add, iteration 5 of while on worker:0")
    for _ in range(3):
        scene.members[B].probe()
    assert says() == ("waiting", "for worker:0, which does not answer")
    for task in (A, B):
        scene.wires[task].arrive(m.Done(0.1, []), 1)
    thread.join(60)
    assert not scene.tracker._journal.tellers


def test_a_step_that_is_tried_again_says_so():
    """It is a new step, of the number of its first try; that one is live as long as somebody tries."""
    scene = Scene()
    scene.tracker.driver, scene.tracker.incarnation = "worker 1", 5
    wire = scene.wires[A]

    def answer(message: m.Message) -> None:
        if type(message) is m.RunStep:
            orders.append(message)
            for member in scene.members.values():
                scene.tracker.on_step(member, len(orders), m.Done(0.0, []))
    orders: list[m.RunStep] = []
    wire._on_send = answer
    tries = scene.tracker.tries()
    for counted in (True, False, True):
        with tries if counted else contextlib.nullcontext():
            scene.tracker.run("h", None, {}, 60, False)
    tries.over()
    scene.tracker.run("h", None, {}, 60, False)
    assert [(order.driver, order.incarnation, order.sequence, order.live) for order in orders] == [
        ("worker 1", 5, 1, ()), ("", 0, 0, (1,)), ("worker 1", 5, 1, (1,)), ("", 0, 0, ())]


def test_what_the_collector_tells_a_task_waits_for_no_lock():
    """A finalizer runs in any thread at any moment: while that thread asks or tells the task something itself."""
    scene = Scene()
    member = next(iter(scene.members.values()))
    wire, nested = member.connection, [m.Unregister(("second",))]
    wire.sent.clear()
    wire._on_send = lambda message: nested and member.post_soon(nested.pop(), -1)

    def collect() -> None:
        with member._lock:
            member.post_soon(m.Unregister(("first",)), -1)
    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert [message.handles for _, message in wire.sent] == [("first",), ("second",)]


def test_the_next_order_is_the_last_one_with_a_new_number():
    """But for what is not the same: steps in flight, feeds, what is recorded, whose try it is, the session."""
    scene = Scene()
    scene.tracker._journal.enabled = False
    wire = scene.wires[A]
    orders = [{}, {}, {A: {"0": np.float32(3)}}, {}]
    for number, feeds in enumerate(orders, 1):
        thread = scene.begin(feeds=feeds)
        for each in scene.wires.values():
            each.arrive(m.Done(0.1, []), number)
        thread.join(60)
    plain = m.RunStep("h", (), 0, {})
    assert wire.sent == [(1, plain), (2, plain), (3, m.RunStep("h", (), 0, {"0": 3})), (4, plain)]
    scene.tracker.pending[4] = scene.tracker.step_type(4, "h", (A, B), 0)
    later = scene.tracker.step_type(5, "h", (A, B), 2)
    scene.tracker.post(later, scene.tracker.route("h"), {}, True)
    del scene.tracker.pending[4]
    later.trace = 2
    scene.tracker.post(later, scene.tracker.route("h"), {}, True)
    later.sequence = 5
    scene.tracker.post(later, scene.tracker.route("h"), {}, True)
    assert [message for _, message in wire.sent[4:]] == [
        m.RunStep("h", (4,), 2, {}), m.RunStep("h", (), 2, {}), m.RunStep("h", (), 2, {}, "", 0, 5)]
    scene.tracker.begin_anew(SESSION + 1, errors.UnavailableError("they are opened anew"))
    scene.open_again()
    scene.tracker.add("h", (A, B))
    later.sequence = later.trace = 0
    scene.tracker.post(later, scene.tracker.route("h"), {}, True)
    assert wire.sessions == [SESSION] * 7 + [SESSION + 1]


def test_a_number_that_was_asked_for_is_not_over_before_its_step_begins():
    """Tasks drop what comes for earlier steps that a later one does not name."""
    scene = Scene()
    asked = scene.tracker.next_step()
    scene.begin()
    order, number = next((message, number) for number, message in scene.wires[A].sent if type(message) is m.RunStep)
    assert number == asked + 1 and order.live == (asked,)
    for _ in range(20):      # threads that end without a step give their numbers back
        later = threading.Thread(target=scene.tracker.next_step)
        later.start()
        later.join()
    assert asked in scene.tracker._asked.values() and len(scene.tracker._asked) <= _WAITING


def test_what_taking_in_spans_costs_is_measured_where_they_come():
    scene = Scene()
    member = scene.members[A]
    span = Span("op", "x", A, f"{A}/device:CPU:0", 1, 0.0, 1.0, 1)
    scene.wires[A].arrive(m.SpanBatch(3, 2.0, (span,) * 2000))
    assert member.lost_spans == 3 and len(member._journal.spans_since()[2]) == 2000
    assert 0 < member._journal.taking < 10
