"""Commands of a page: carried out at once, or refused with a reason."""

from __future__ import annotations

import pytest

from tests.viz import fixtures
from workbench import errors
from workbench.core.run.gate import Gate
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
    with pytest.raises(errors.InvalidArgumentError, match="command: 'explode' is not one of watch, ack, pause, resume, stop"):
        carry_out("explode", "", journal, Gate(journal))
