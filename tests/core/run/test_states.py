"""What sessions say of themselves: every state from building to failed, and where a long step is."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from tests.core.compile.test_plan import CPU, plan_of
from workbench import errors
from workbench.core.compile.instance import Instance
from workbench.core.run.where import operation_of
from workbench.core.state.variables import Container
from workbench.core.trace import journal


def states(run):
    return [s.state for s in journal.states_since()[2] if s.run == run]


def test_a_session_says_what_it_does_until_its_first_step():
    with wb.Graph().as_default(), wb.Session() as session:
        session.run(wb.exp(wb.placeholder("float32", [2], name="x")), {"x:0": np.zeros(2, np.float32)})
        said = states(session.name)
    assert [s for i, s in enumerate(said) if i == 0 or said[i - 1] != s] == [
        "ready", "building", "rewriting", "compiling", "ready", "running"]


def test_a_step_that_fails_says_cause_and_fix():
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.placeholder("float32", [None, None], name="x")
        with pytest.raises(errors.Error):
            session.run(wb.matmul(x, x), {x: np.zeros((2, 3), np.float32)})
        status = journal.current()
    assert status.state == "failed" and "matmul" in status.cause and status.session == session.name


def test_the_end_of_the_data_is_no_failure():
    with wb.Graph().as_default(), wb.Session() as session:
        queue = wb.FIFOQueue(1, ["float32"], [[]])
        session.run(queue.close())
        with pytest.raises(errors.OutOfRangeError):
            session.run(queue.dequeue())
        assert "failed" not in states(session.name)


def test_a_thread_in_a_long_step_says_which_operation_it_is_in():
    with wb.Graph().as_default():
        loop = wb.while_loop(lambda i: wb.less(i, 1.0), lambda i: wb.multiply(i, 0.5), [0.5], name="endless")
        instance = Instance(plan_of(loop), Container(), CPU)

    def endless():
        with pytest.raises(errors.CancelledError):
            instance.run()
    thread = threading.Thread(target=endless)
    thread.start()
    found = set()
    while not any(name.startswith("endless/") for name in found):
        found.add(operation_of(thread.ident))
    instance.cancelled.set()
    thread.join()
    assert operation_of(threading.get_ident()) == ""
