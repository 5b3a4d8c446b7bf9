"""Commands of a page: carried out at once, or refused with a reason."""

from __future__ import annotations

import threading

import pytest

from tests.viz import fixtures
from workbench import errors
from workbench.core.run.gate import Gate
from workbench.core.run.knob import Knob
from workbench.core.trace import Journal
from workbench.widgets.commands import carry_out

pytestmark = pytest.mark.tiny


@pytest.fixture
def journal() -> Journal:
    return fixtures.build(3)


def test_pause_resume_and_stop_reach_the_gate_at_once(journal):
    gate = Gate(journal)
    carry_out("pause", "session", journal, gate)
    assert gate.closed and journal.status.state == "paused"
    carry_out("resume", "", journal, gate)
    assert not gate.closed and journal.status.state == "running"
    carry_out("stop", "session", journal, gate)
    with pytest.raises(errors.CancelledError):
        gate.enter()
    assert journal.status.state == "stopped"


def test_another_run_is_not_touched(journal):
    gate = Gate(journal)
    with pytest.raises(errors.FailedPreconditionError, match="stop: session_4 is over, session is what runs now; look"):
        carry_out("stop", "session_4", journal, gate)
    assert not gate.closed


@pytest.mark.parametrize("command", ["pause", "stop", "resume"])
def test_where_nothing_runs_this_is_said_and_the_next_run_is_not_ended(journal, command):
    journal.inside.clear()
    journal.set_status(state="finished")
    gate = Gate(journal)
    with pytest.raises(errors.FailedPreconditionError, match=f"{command}: nothing is (running|paused); start a step"):
        carry_out(command, "", journal, gate)
    assert not gate.closed


def test_an_unknown_command_is_refused_by_name(journal):
    with pytest.raises(errors.InvalidArgumentError, match="'explode' is not one of watch, ack, pause, resume, stop, turn"):
        carry_out("explode", "", journal, Gate(journal))


def test_a_knob_is_turned_whatever_runs_and_one_that_is_closed_is_named(journal):
    taken: list[list[float]] = []
    came = threading.Event()
    knob = Knob("brake", ["a", "b"], lambda values: (taken.append(values), came.set()), journal=journal)
    carry_out("turn", "another run", journal, Gate(journal), {"knob": "brake", "part": "b", "value": 7})
    assert came.wait(60) and taken == [[0, 7]]
    for argument, message in ((({"knob": "brake", "part": "c", "value": 7}), "no part 'c'; it has a, b"),
                              (({"knob": "brake", "part": "b", "value": 101}), "101; it goes from 0 to 100 in steps of 1"),
                              (({"knob": "brake", "part": "b"}), "turned to None; it goes")):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            carry_out("turn", "", journal, Gate(journal), argument)
    knob.close()
    with pytest.raises(errors.FailedPreconditionError, match="turn: there is no knob 'brake' any more; make it again"):
        carry_out("turn", "", journal, Gate(journal), {"knob": "brake", "part": "b", "value": 7})
