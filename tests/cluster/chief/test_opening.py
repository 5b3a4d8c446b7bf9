"""What is said while the tasks of a cluster start."""
from __future__ import annotations

import pytest

from workbench.cluster.chief.opening import starting
from workbench.core.trace import Journal


def said(journal: Journal) -> tuple[str, str, int, int]:
    status = journal.current()
    return status.state, status.what, status.part, status.parts


def test_every_view_hears_how_many_tasks_have_answered_and_then_what_was_said_before():
    journal = Journal()
    with starting(journal, 3) as told:
        assert said(journal) == ("starting", "tasks answered", 0, 3)
        told(2)
        assert said(journal) == ("starting", "tasks answered", 2, 3)
    assert said(journal) == ("empty", "", 0, 0)
    journal.fail("session_0", 4, ValueError("a loss"))
    with pytest.raises(OSError, match="no worker"), starting(journal, 3):
        raise OSError("no worker")
    assert said(journal)[0] == "failed" and journal.status.cause == "a loss"


def test_a_run_on_another_cluster_goes_on_saying_what_it_does():
    journal = Journal()
    journal.set_status(state="compiling", session="session_0", what="3 operations")
    with starting(journal, 3) as told:
        told(1)
        assert said(journal)[:2] == ("compiling", "3 operations")
    assert said(journal)[:2] == ("compiling", "3 operations")
