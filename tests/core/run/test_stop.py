"""Stop ends what runs, wherever it is: before a step, and in a loop that would go on forever."""
from __future__ import annotations

import threading
import time

import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.run.gate import Gate, gate
from workbench.core.trace import Journal, journal


def forever(devices: int) -> tuple[wb.Session, wb.Tensor]:
    graph = wb.Graph()
    with graph.as_default():
        loop = wb.while_loop(lambda i: i >= 0.0, lambda i: wb.tanh(i) * 0.5 + 1.0, [wb.constant(1.0)])
        total = loop + 1.0
        if devices > 1:
            with wb.device("/device:CPU:1"):
                total = total * 2.0
    return wb.Session(graph=graph, devices=devices), total


@pytest.mark.parametrize("devices", [1, 2])
def test_an_endless_loop_is_stopped_and_the_session_stays_usable(devices, monkeypatch):
    monkeypatch.setattr(journal, "enabled", True)
    session, total = forever(devices)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            session.run(total)
        except BaseException as error:
            raised.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    eventually(lambda: any(inside[0] == session.name for inside in list(journal.inside.values())))
    gate.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert isinstance(raised[0], errors.CancelledError) and "stopped by the user; run again to go on" in str(raised[0])
    assert not gate.closed and journal.status.state == "stopped"
    with session:
        with session.graph.as_default():
            other = wb.constant(2.0) * 3.0
        assert session.run(other) == 6.0      # nothing of the stop is left


def test_a_stop_that_a_step_met_cancels_nothing_later():
    gate, cancelled = Gate(Journal(capacity=1)), []

    class Runner:
        def cancel(self) -> None:
            cancelled.append(1)
    runner = Runner()
    gate.member(runner)
    gate.stop()
    with pytest.raises(errors.CancelledError):
        gate.enter()
    gate._cancel()
    assert not cancelled
    gate.stop()
    gate._cancel()
    assert cancelled == [1]
    gate.resume()
    assert isinstance(gate.ended(errors.CancelledError("x")), errors.CancelledError) and not gate.stopped


def test_other_errors_are_not_taken_for_a_stop():
    gate = Gate(Journal(capacity=1))
    gate.stop()
    failed = errors.InvalidArgumentError("no")
    assert gate.ended(failed) is failed and gate.stopped
    gate.resume()


def test_while_a_run_is_held_the_status_says_paused_whoever_speaks():
    """A step that was under way when Pause came says afterwards that it runs; the panel offered Pause again, and no Resume."""
    journal = Journal(capacity=1)
    gate = Gate(journal)
    journal.set_status(state="running")
    gate.pause()
    gate.say(state="running", step=7)
    assert journal.status.state == "paused"
    journal.set_status(state="running")      # by somebody who asked the gate before it was shut
    held = threading.Thread(target=gate.enter, daemon=True)
    held.start()
    until = time.monotonic() + 30
    while journal.status.state != "paused" and time.monotonic() < until:
        held.join(0.01)
    assert journal.status.state == "paused" and held.is_alive()
    gate.resume()
    held.join(30)
    assert not held.is_alive() and journal.status.state == "running"
    gate.say(state="ready")
    assert journal.status.state == "ready"
