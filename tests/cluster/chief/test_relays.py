"""Which tasks hear of steps from other tasks, and that nothing goes wrong when those are not there any more."""
from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.cluster.chief.test_tracker import A, B, Scene, failed
from workbench import errors
from workbench.cluster.chief.backend import ClusterBackend
from workbench.cluster.chief.relays import reached
from workbench.cluster.wire import messages as m

PS0, PS1, WORKER0, WORKER1 = TASKS = ("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1")


class Registered:
    """Stands for a cluster: keeps who passes steps on to whom."""

    tasks, home = TASKS, WORKER0
    device_types: dict[str, str] = {}      # noqa: RUF012

    def register_all(self, handle: str, programs: Any, targets: Any, *, told: Any, relays: dict[str, str]) -> None:
        self.relays = relays

    def unregister(self, handles: Any) -> None:
        """Nothing is kept."""

    def next_step(self) -> int:
        return 1

    def run_step(self, handle: str, step: int, **options: Any) -> dict[str, list[Any]]:
        return {task: [np.float32(0)] * 4 for task in TASKS}

    def backend(self) -> ClusterBackend:
        return ClusterBackend(self)


def relays(fetches: Any, feeds: dict[Any, Any] | None = None) -> dict[str, str]:
    cluster = Registered()
    with wb.Session(cluster) as session:
        session.run(fetches, feeds)
    return cluster.relays


def workers(tensors: Sequence[Any], fed: Sequence[Any] = ()) -> list[Any]:
    """What each worker makes of all of them."""
    found = []
    for number, worker in enumerate((WORKER0, WORKER1)):
        with wb.device(worker):
            found.append(wb.add_n([wb.multiply(t, 2.0) for t in tensors] + list(fed[number:number + 1])))
    return found


def model(fed: Sequence[Any] = ()) -> tuple[list[Any], list[Any], Any]:
    """Two variables, what the workers make of them, and the operation that adds that to them."""
    parameters = []
    for server in (PS0, PS1):
        with wb.device(server):
            parameters.append(wb.Variable(np.float32(1)))
    made = workers(parameters, fed)
    return parameters, made, wb.group(*(parameter.assign_add(wb.add_n(made)).op for parameter in parameters))


pytestmark = pytest.mark.usefixtures("graph")


def test_workers_hear_of_a_step_from_the_servers_in_turn():
    assert relays(model()[2]) == {WORKER0: PS0, WORKER1: PS1}


def test_who_is_asked_for_values_answers_the_chief_and_passes_nothing_on():
    parameters, made, step = model()
    assert relays([step, made[0]]) == {WORKER1: PS0}
    assert relays([step, parameters[0]]) == {WORKER0: PS1, WORKER1: PS1}


def test_who_is_fed_hears_of_the_step_with_its_feed():
    batch = wb.placeholder("float32", [])
    assert relays(model([batch])[2], {batch: 1.0}) == {WORKER1: PS0}


def test_who_can_begin_at_once_is_not_kept_waiting():
    with wb.device(WORKER0):
        own = wb.Variable(np.float32(1))
    with wb.device(PS1):
        copied = wb.Variable(np.float32(1)).assign(own)
    assert set(relays(wb.group(model()[2], copied.op))) == {WORKER1}


def test_both_ends_are_connected():
    assert reached({PS0: [WORKER0], WORKER0: []}, {WORKER0: PS0, WORKER1: PS0}) == {
        PS0: [WORKER0, WORKER1], WORKER0: [PS0], WORKER1: [PS0]}


def relayed(limit: float | None = None, **options: Any) -> tuple[Scene, threading.Thread]:
    """A step in flight of which B hears from A."""
    scene = Scene(**options)
    scene.tracker.relay("h", {B: A})
    return scene, scene.begin(limit, tasks=1)


def test_one_answer_counts_for_all():
    scene, thread = relayed()
    order, = (message for _, message in scene.wires[A].sent)
    assert order.relay == (B,) and scene.sent(B) == []
    scene.wires[A].arrive(m.Through((A, B)), 1)
    thread.join(60)
    assert scene.error is None and scene.result == {A: [], B: []}


def test_who_is_late_must_be_known_where_there_is_a_limit():
    scene = Scene(heartbeat=0.05)
    scene.tracker.relay("h", {B: A})
    scene.begin(limit=0.0).join(60)
    assert scene.sent(A)[0] == scene.sent(B)[0] == "RunStep"


def test_a_task_that_is_fed_after_all_hears_of_the_step_from_the_chief():
    scene = Scene()
    scene.tracker.relay("h", {B: A})
    thread = scene.begin(feeds={B: {"0": np.float32(1)}})
    orders = [message for wire in scene.wires.values() for _, message in wire.sent]
    assert [order.relay for order in orders] == [(), ()] and orders[1].feeds == {"0": 1}
    for wire in scene.wires.values():
        wire.arrive(m.Done(0.1, []), 1)
    thread.join(60)
    assert scene.error is None


@pytest.mark.parametrize("strike", ["failure", "loss"])
def test_when_a_relay_fails_the_others_are_told_by_the_chief(strike):
    scene, thread = relayed()
    if strike == "failure":
        scene.wires[A].arrive(failed(), 1)
    else:
        scene.wires[A].end(EOFError("gone"))
    assert scene.arrived.acquire(timeout=60)
    assert scene.sent(B) == ["Abort"] and thread.is_alive()
    scene.wires[B].arrive(m.Ended(), 1)
    thread.join(60)
    assert isinstance(scene.error, errors.OutOfRangeError if strike == "failure" else errors.AbortedError)


def test_programs_are_forgotten_when_steps_that_are_passed_on_are_over():
    scene, thread = relayed()
    scene.tracker.remove(["h"])
    assert "Unregister" not in scene.sent(A) + scene.sent(B)      # it would overtake the step on its way to B
    scene.wires[A].arrive(m.Through((A, B)), 1)
    thread.join(60)
    assert scene.error is None
    assert scene.sent(A) == ["RunStep", "Unregister"] and scene.sent(B) == ["Unregister"]
