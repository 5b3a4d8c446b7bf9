"""What sessions say of themselves: every state from building to failed, and where a long step is."""
from __future__ import annotations

import contextlib
import re
import threading
from functools import partial

import numpy as np
import pytest

import workbench as wb
from tests.control_c import control_c
from tests.core.compile.test_plan import CPU, plan_of
from workbench import errors
from workbench.core.compile.instance import Instance
from workbench.core.run.where import place_of
from workbench.core.state.container import Container
from workbench.core.trace import journal
from workbench.train.patience import wait_until


def states(run):
    return [s.state for s in journal.states_since()[2] if s.run == run]


def test_a_session_says_what_it_does_until_its_first_step():
    with wb.Graph().as_default(), wb.Session() as session:
        session.run(wb.exp(wb.placeholder("float32", [2], name="x")), {"x:0": np.zeros(2, np.float32)})
        said = states(session.name)
    assert [s for i, s in enumerate(said) if i == 0 or said[i - 1] != s] == [
        "ready", "building", "rewriting", "compiling", "ready", "running"]


def test_a_step_that_fails_says_cause_and_fix_and_at_which_operation():
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.placeholder("float32", [None, None], name="x")
        with pytest.raises(errors.Error):
            session.run(wb.matmul(x, x, name="product"), {x: np.zeros((2, 3), np.float32)})
        status = journal.current()
    assert status.what == "product"
    assert status.state == "failed" and "matmul" in status.cause and status.session == session.name


def test_the_end_of_the_data_is_no_failure():
    with wb.Graph().as_default(), wb.Session() as session:
        queue = wb.FIFOQueue(1, ["float32"], [[]])
        session.run(queue.close())
        with pytest.raises(errors.OutOfRangeError):
            session.run(queue.dequeue())
        assert "failed" not in states(session.name)


@contextlib.contextmanager
def endless(instance):
    """The number of a thread in which `instance` runs until the block ends."""
    def run():
        with pytest.raises(errors.CancelledError):
            instance.run()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread.ident
    finally:
        instance.cancelled.set()
        thread.join()


def test_a_thread_in_a_long_step_says_which_operation_it_is_in():
    with wb.Graph().as_default():
        loop = wb.while_loop(lambda i: wb.less(i, 1.0), lambda i: wb.multiply(i, 0.5), [0.5], name="endless")
        instance = Instance(plan_of(loop), Container(), CPU)
    found = set()
    with endless(instance) as thread:
        while not any(re.fullmatch(r"endless/.*, iteration [\d,]{4,} of endless", name) for name in found):
            found.add(place_of(thread))
    assert place_of(threading.get_ident()) == ""


def test_the_loops_around_a_long_step_are_counted_from_the_outermost():
    with wb.Graph().as_default():
        def rows(i):
            return [wb.while_loop(lambda j: wb.less(j, 1.0), lambda j: wb.multiply(j, 0.5), [0.5], name="columns")]
        loop = wb.while_loop(lambda i: wb.less(i, 1.0), rows, [0.5], name="rows")
        instance = Instance(plan_of(loop), Container(), CPU)
    found = ""
    with endless(instance) as thread:
        while "columns" not in found.partition(",")[2]:
            found = place_of(thread)
    assert re.search(r", iteration 1 of rows, iteration [\d,]+ of rows/body/columns$", found), found


def test_an_error_in_a_loop_says_its_iteration():
    with wb.Graph().as_default(), wb.Session() as session:
        loop = wb.while_loop(lambda i: i < 10, lambda i: wb.identity(i + 1 // wb.cast(i < 4, "int32")), [0], name="counting")
        with pytest.raises(errors.Error) as found:
            session.run(loop)
    assert found.value.__notes__ == ["in iteration 5 of counting"]


def waiting(what):
    """The status once it says that it waits."""
    while (status := journal.current()).state != "waiting":
        threading.Event().wait(0.01)
    assert status.what == what and status.state == "waiting"
    return status


def test_a_step_that_waits_for_a_queue_says_so():
    with wb.Graph().as_default(), wb.Session() as session:
        queue = wb.FIFOQueue(1, ["float32"], [[]], name="batches")
        taken = queue.dequeue()
        thread = threading.Thread(target=lambda: session.run(taken))
        thread.start()
        status = waiting(f"for {taken.op.name}")
        session.run(queue.enqueue(1.0))
        thread.join()
        assert status.session == session.name and journal.current().state in ("running", "ready")


def test_whoever_waits_for_another_process_says_for_what():
    gone = threading.Event()
    thread = threading.Thread(target=wait_until, args=(gone.is_set, 60.0, 0.01), kwargs={"what": "for the chief"})
    with wb.Graph().as_default(), wb.Session():
        thread.start()
        waiting("for the chief")
        gone.set()
        thread.join()
        assert journal.current().state == "ready"


def test_of_two_sessions_that_take_turns_the_status_has_the_tasks_of_the_one_that_runs():
    with wb.Graph().as_default() as graph:
        value = wb.constant(1.0) + 1.0
    with wb.Session(graph=graph, devices=1) as first, wb.Session(graph=graph) as second:
        journal.set_status(tasks=("/job:worker/task:0",))      # as a session on a cluster says
        assert journal.status.session == second.name
        first.run(value)
        assert (journal.status.session, journal.status.tasks) == (first.name, ("/job:localhost/task:0",))


def test_compiling_says_how_far_it_is():
    with wb.Graph().as_default(), wb.Session() as session:
        value = wb.placeholder("float32", [2], name="x")
        for _ in range(600):
            value = wb.sin(value)
        session.run(value, {"x:0": np.zeros(2, np.float32)})
        parts = [(s.part, s.parts) for s in journal.states_since()[2] if s.run == session.name and s.state == "compiling"]
    assert parts[0] == (0, 0) and parts[1][0] == 500 and parts[1][1] > 600


def test_control_c_names_the_loop_and_how_far_it_was():
    with wb.Graph().as_default(), wb.Session() as session:
        limit = wb.placeholder("float32", [])
        loop = wb.while_loop(lambda i: wb.less(i, limit), lambda i: wb.multiply(i, 0.5), [0.5], name="endless")
        session.run(loop, {limit: 0.0})      # compiled before
        inside = partial(place_of, threading.get_ident())
        with pytest.raises(KeyboardInterrupt) as found, control_c(when=lambda: "iteration" in inside()):
            session.run(loop, {limit: 1.0})
    [note] = found.value.__notes__
    assert re.fullmatch(r"in iteration [\d,]+ of endless", note) and not journal.tellers
