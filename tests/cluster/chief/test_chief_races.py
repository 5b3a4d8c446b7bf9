"""What may happen to the chief at any moment: other threads, lost tasks, close() and Ctrl-C, each at its worst place."""
from __future__ import annotations

import asyncio
import threading
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cluster.chief.test_chief import everywhere
from tests.cluster.conftest import hosted, no_new_threads, our_threads, quiet
from tests.cluster.wires import SESSION, Told, Wire
from tests.eventually import eventually
from tests.interrupts import every_interrupt
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.chief.member import Member
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire import messages as m
from workbench.core.trace import Journal

pytestmark = pytest.mark.cluster


def once(cluster: Cluster, name: str, before: Any) -> None:
    """Call `before` when this method of the tracker, or of a part of it, is called next, then go on."""
    part, _, name = f"_tracker.{name}".rpartition(".")
    tracker = attrgetter(part)(cluster)
    method = getattr(tracker, name)

    def patched(*arguments: Any) -> Any:
        delattr(tracker, name)
        before()
        return method(*arguments)
    setattr(tracker, name, patched)


@pytest.mark.parametrize("place", ["sampling.level", "members_of", "post"])
def test_a_later_step_on_another_thread_may_overtake_at_any_place(echo, place):
    cluster = everywhere(echo(1, 1), b"exchange")
    once(cluster, place, lambda: cluster.run_step("h"))
    assert float(cluster.run_step("h", deadline=60)[cluster.tasks[0]][0][0]) == 1


@pytest.mark.parametrize("place", ["sampling.level", "members_of", "post"])
def test_a_task_lost_between_two_lines_of_a_step_fails_it(echo, place):
    cluster = everywhere(echo(1, 1), b"exchange")
    member = cluster._members[cluster.tasks[1]]

    def lose() -> None:
        member.connection.close()
        member.connection.join(60)

    once(cluster, place, lose)
    with pytest.raises((errors.UnavailableError, errors.AbortedError), match=f"{member.task} at .* lost"):
        cluster.run_step("h", deadline=60)
    assert cluster._tracker.pending == {}


@pytest.mark.parametrize("place", ["sampling.level", "members_of", "post"])
def test_close_between_two_lines_of_a_step_ends_it(echo, place):
    cluster = everywhere(echo(1, 1), b"exchange")
    once(cluster, place, cluster.close)
    with pytest.raises((errors.FailedPreconditionError, errors.CancelledError), match="closed; start a new one"):
        cluster.run_step("h", deadline=60)
    assert cluster._tracker.pending == {}


def test_ctrl_c_at_any_moment_of_a_step_leaves_the_cluster_usable(echo):
    cluster = everywhere(echo(1, 1), b"exchange")
    places = 0
    for _ in every_interrupt(lambda: cluster.run_step("h", deadline=60), "workbench/cluster/"):
        places += 1
        assert cluster._tracker.pending == {}
        assert float(cluster.run_step("h", deadline=60)[cluster.tasks[0]][0][0]) == 1
    assert places > 30
    assert quiet(cluster)


def test_ctrl_c_at_any_moment_of_a_registration_leaves_the_cluster_usable(echo):
    cluster = echo(1, 1)
    for number in every_interrupt(lambda: everywhere(cluster, b"exchange"), "cluster/chief/", "cluster/link/connection.py"):
        everywhere(cluster, b"exchange", f"after {number}")
        assert float(cluster.run_step(f"after {number}", deadline=60)[cluster.tasks[0]][0][0]) == 1
    assert all(member._requests == {} for member in cluster._members.values())


def test_what_ctrl_c_left_of_close_is_closed_by_the_next(client):
    before = our_threads()
    made: list[Cluster] = []

    def start_and_close() -> None:
        made[-1].close()

    made.append(Cluster(client, 1, 1, engine="echo"))
    for _ in every_interrupt(start_and_close, "cluster/chief/"):
        made[-1].close()
        no_new_threads(before)
        made.append(Cluster(client, 1, 1, engine="echo"))
    eventually(lambda: hosted(client) == 0)


def test_a_registration_that_fails_leaves_no_request_behind(echo):
    cluster = echo(1, 1)
    for _ in range(3):
        with pytest.raises(errors.InvalidArgumentError, match="a axis 1 is 3"):
            cluster.register_all("h", dict.fromkeys(cluster.tasks, b"bad"), {})
    assert all(member._requests == {} for member in cluster._members.values())


def test_the_answer_to_a_request_is_never_taken_for_that_of_a_step():
    """A refusal that comes after its deadline, while a step of whatever number runs."""
    wire, told = Wire(), []
    member = Member("/job:ps/task:0", "tcp://a", wire, 1, Journal(), Told(lambda *step: told.append(step)),
                    ReceiverGroup("test"))
    with pytest.raises(errors.DeadlineExceededError, match="no answer within 0 s"):
        member.ask(m.RegisterPartition("h", b"", {}, {}), 0)
    (number, _), = wire.sent
    wire.arrive(m.Refused("ShapeError", "a: 3 but 2; fix", ""), number)
    assert told == [] and wire.session == SESSION
    wire.arrive(m.Refused("InternalError", "it could not run", ""), 5)
    assert [(step, message.error) for _, step, message in told] == [(5, "InternalError")]


def test_the_chief_goes_on_when_the_event_loop_of_its_client_is_closed(echo, monkeypatch):
    """Steps need no Dask client; but the thread that watches the tasks must not end with it."""
    crashes: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    cluster = everywhere(echo(1, 1), b"exchange")
    dead, reported = asyncio.new_event_loop(), threading.Event()
    dead.close()
    report = cluster._place.reporter.summary
    cluster._place.reporter._client = SimpleNamespace(loop=SimpleNamespace(asyncio_loop=dead), id="mine")
    cluster.run_step("h")
    cluster._place.reporter.summary = lambda: (report(), reported.set())
    assert reported.wait(60)
    reported.clear()
    assert reported.wait(60) and crashes == []            # the watcher came by again
    assert float(cluster.run_step("h")[cluster.tasks[0]][0][0]) == 1
