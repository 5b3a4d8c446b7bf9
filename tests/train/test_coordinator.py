"""Coordinators and queue runners: threads stop together, errors come out, the rest of the input is not lost."""
from __future__ import annotations

import contextlib
import sys
import threading

import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.run.gate import gate

pytestmark = pytest.mark.usefixtures("graph")


def test_threads_stop_together():
    coordinator, stopped = wb.train.Coordinator(), []

    def wait() -> None:
        assert coordinator.wait_for_stop(30)
        stopped.append(1)
    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        coordinator.register_thread(thread)
        thread.start()
    assert not coordinator.should_stop()
    coordinator.request_stop()
    coordinator.join()
    assert coordinator.should_stop() and len(stopped) == 3 and coordinator.joined
    coordinator.clear_stop()
    assert not coordinator.should_stop() and not coordinator.joined
    try:
        raise ValueError("as sys gives it")
    except ValueError:
        coordinator.request_stop(sys.exc_info())
    with pytest.raises(ValueError, match="as sys gives it"):
        coordinator.join([])


def test_the_first_error_comes_out_of_join():
    coordinator = wb.train.Coordinator()

    def fail() -> None:
        with coordinator.stop_on_exception():
            raise errors.DataLossError("reader: file is damaged; copy it again")
    thread = threading.Thread(target=fail)
    thread.start()
    with pytest.raises(errors.DataLossError, match="file is damaged"):
        coordinator.join([thread])
    with pytest.raises(ValueError, match="later"):      # who joins it no more would never hear of it
        coordinator.request_stop(ValueError("later"))
    coordinator.request_stop()
    with pytest.raises(errors.DataLossError):
        coordinator.raise_requested_exception()


def test_the_end_of_the_input_is_no_error():
    coordinator = wb.train.Coordinator()
    with coordinator.stop_on_exception():
        raise errors.OutOfRangeError("queue: the end")
    coordinator.join([])
    assert coordinator.should_stop()


def test_a_thread_that_does_not_stop_is_named():
    coordinator, release = wb.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=release.wait, name="stubborn", daemon=True)
    thread.start()
    coordinator.request_stop()
    with pytest.raises(errors.DeadlineExceededError, match=r"Coordinator.join: stubborn did not stop within 0.01 s") as caught:
        coordinator.join([thread], stop_grace_period_secs=0.01)
    assert isinstance(caught.value, RuntimeError) and "threads still running" in str(caught.value)
    release.set()
    thread.join()


def test_a_runner_feeds_a_queue_until_the_source_ends_and_then_closes_it():
    source, sink = wb.FIFOQueue(20, wb.int32, [()]), wb.FIFOQueue(2, wb.int32, [()])
    fill = source.enqueue_many([list(range(10))])
    end = source.close()
    wb.train.add_queue_runner(wb.train.QueueRunner(sink, [sink.enqueue(source.dequeue())] * 2))
    take = sink.dequeue()
    with wb.Session() as session:
        session.run(fill)
        session.run(end)
        coordinator = wb.train.Coordinator()
        threads = wb.train.start_queue_runners(session, coordinator)
        seen = []
        with pytest.raises(errors.OutOfRangeError):
            while True:
                seen.append(int(session.run(take)))
        coordinator.request_stop()
        coordinator.join(threads)
    assert sorted(seen) == list(range(10))


def test_stopping_frees_runners_that_wait_for_room():
    queue = wb.FIFOQueue(1, wb.int32, [()])
    runner = wb.train.QueueRunner(queue, [queue.enqueue(1)])
    with wb.Session() as session:
        coordinator = wb.train.Coordinator()
        threads = runner.create_threads(session, coordinator, start=True)
        assert int(session.run(queue.dequeue())) == 1
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=30)
    assert runner.exceptions_raised == []


def test_a_runner_that_was_stopped_works_in_the_next_session():
    """A notebook cell that is run again: the second time the input ends, and the queue must close."""
    source, sink = wb.FIFOQueue(20, wb.int32, [()]), wb.FIFOQueue(20, wb.int32, [()])
    fill, end, take = source.enqueue_many([[1, 2]]), source.close(), sink.dequeue()
    runner = wb.train.QueueRunner(sink, [sink.enqueue(source.dequeue())])
    with wb.Session() as session:
        coordinator = wb.train.Coordinator()
        coordinator.request_stop()
        coordinator.join(runner.create_threads(session, coordinator, start=True))
    seen: list[int] = []

    def consume() -> None:
        with contextlib.suppress(errors.OutOfRangeError):
            while True:
                seen.append(int(session.run(take)))

    with wb.Session() as session:
        session.run(fill)
        session.run(end)
        coordinator = wb.train.Coordinator()
        threads = runner.create_threads(session, coordinator, start=True)
        consumer = threading.Thread(target=consume, daemon=True)
        consumer.start()
        consumer.join(60)
        assert not consumer.is_alive() and seen == [1, 2]
        coordinator.request_stop()
        coordinator.join(threads)


def test_an_error_of_a_runner_stops_everybody():
    queue, x = wb.FIFOQueue(1, wb.float32, [()]), wb.placeholder(wb.float32, [])
    runner = wb.train.QueueRunner(queue, [queue.enqueue(x)])
    with wb.Session() as session:
        coordinator = wb.train.Coordinator()
        threads = runner.create_threads(session, coordinator, start=True)
        with pytest.raises(errors.InvalidArgumentError, match="placeholder"):
            coordinator.join(threads)
    assert len(runner.exceptions_raised) == 1


def test_a_runner_needs_something_to_run():
    with pytest.raises(errors.InvalidArgumentError, match="QueueRunner: there are 0 enqueue operations"):
        wb.train.QueueRunner(wb.FIFOQueue(1, wb.int32), [])


def test_only_the_end_of_the_input_ends_a_runner_quietly_while_nothing_stops():
    queue = wb.FIFOQueue(1, "float32", [()])
    runner, coordinator = wb.train.QueueRunner(queue, [queue.enqueue(1.0)]), wb.train.Coordinator()
    assert runner.queue_closed_exception_types == (errors.OutOfRangeError,)
    with wb.Session() as session:
        threads = runner.create_threads(session, coordinator, start=True)
        session.run(runner.cancel_op)
        with pytest.raises(errors.CancelledError):
            coordinator.join(threads)


def test_a_runner_starts_its_threads_once_for_each_session():
    queue = wb.FIFOQueue(10, "float32", [()])
    runner = wb.train.QueueRunner(queue, [queue.enqueue(1.0)])
    with wb.Session() as one, wb.Session() as two:
        assert len(runner.create_threads(one)) == 1 and runner.create_threads(one) == []
        assert len(runner.create_threads(two)) == 1


def test_runners_are_started_in_sessions_alone():
    with pytest.raises(TypeError, match=r"sess must be a `tf\.Session` object, but it is 'no session'"):
        wb.train.start_queue_runners("no session")
    wb.constant(1.0)
    with wb.train.MonitoredTrainingSession() as session:
        assert wb.train.start_queue_runners(session) == []


@pytest.mark.parametrize("waiting", [False, True], ids=["before its next step", "in a step that waits"])
def test_a_stop_that_a_runner_meets_stops_its_coordinator_and_is_no_end_of_the_input(waiting):
    queue = wb.FIFOQueue(2 if waiting else 1 << 20, wb.int32, [()])
    runner, coordinator = wb.train.QueueRunner(queue, [queue.enqueue(7)]), wb.train.Coordinator()
    size = queue.size()
    with wb.Session() as session:
        threads = runner.create_threads(session, coordinator, start=True)
        eventually(lambda: session.run(size) >= 2)
        gate.stop()
        assert coordinator.wait_for_stop(60)
        with pytest.raises(errors.StoppedError, match="stopped by the user; run again to go on"):
            coordinator.join(threads)
        assert not gate.closed and [type(error) for error in runner.exceptions_raised] == [errors.StoppedError]


@pytest.mark.parametrize("capacity", [1, 1 << 20], ids=["which waits for room", "which is between two steps"])
def test_a_runner_without_a_coordinator_leaves_a_stop_to_what_it_helps(capacity):
    queue = wb.FIFOQueue(capacity, wb.int32, [()])
    runner, never = wb.train.QueueRunner(queue, [queue.enqueue(7)]), wb.FIFOQueue(1, wb.int32, [()])
    wait, size, take = never.dequeue(), queue.size(), queue.dequeue()
    with wb.Session() as session:
        thread, = runner.create_threads(session, start=True)
        eventually(lambda: session.run(size) >= 1)
        gate.stop()
        with pytest.raises(errors.StoppedError):
            session.run(wait)                           # what the runner helps, before its step or in it
        assert not gate.closed and thread.is_alive()
        assert [session.run(take) for _ in range(3)] == [7, 7, 7]
        session.run(runner.cancel_op)
        thread.join(60)
        assert not thread.is_alive() and runner.exceptions_raised == []
