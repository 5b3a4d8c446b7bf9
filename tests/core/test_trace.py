"""The journal's status: whose step number it is, and until when."""
from __future__ import annotations

import pytest

from workbench.core.trace import Journal

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
