"""What can run at the same time does: kernels that meet each other prove it, no clock is asked."""
from __future__ import annotations

import contextlib
import gc
import itertools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.openmp import openmp_threads
from tests.threadless import without_threads
from workbench import errors
from workbench.core.compile.instance import Instance
from workbench.core.graph.build import ops
from workbench.core.kernels.threads import set_threads
from workbench.core.run import crew as crews
from workbench.core.run.crew import Crew, Hands
from workbench.train.config import RunOptions

pytestmark = pytest.mark.usefixtures("graph")
PATIENCE = 60.0     # seconds until a meeting that never happens fails the test


class Meeting:
    """Kernels that call `join` leave it together, or break it."""

    def __init__(self) -> None:
        self.barrier, self.threads = threading.Barrier(2), set[int]()

    def join(self, x: Any) -> Any:
        self.threads.add(threading.get_ident())
        self.barrier.wait(PATIENCE)
        return x + 0


hooks: dict[int, Callable[[Any], Any]] = {}
numbers = itertools.count()


@wb.op("x[...] -> [...]", types="T -> T", stateful=True)
def hooked(x: Any, *, hook: int) -> Any:
    """What the test's function number `hook` makes of `x`."""
    return hooks[hook](x)


def through(kernel: Callable[[Any], Any], x: Any) -> Any:
    """An operation that calls `kernel`, of which the engine cannot know how long it takes."""
    number = next(numbers)
    hooks[number] = kernel
    return ops.hooked(x, hook=number)


def openmp_number(x: Any) -> Any:
    return np.full_like(x, openmp_threads())


def test_two_devices_compute_at_the_same_time():
    met = Meeting()
    x = wb.placeholder("float32", [2])
    with wb.device("/cpu:0"):
        a = through(met.join, x)
    with wb.device("/cpu:1"):
        b = through(met.join, x + 1.0)
    with wb.Session(devices=2) as s:
        for _ in range(3):
            found = s.run([a, b], {x: [1, 2]})
            assert [v.tolist() for v in found] == [[1, 2], [2, 3]]
    assert len(met.threads) >= 2


def test_independent_heavy_segments_of_one_device_compute_at_the_same_time():
    met = Meeting()
    q, r = (wb.FIFOQueue(4, ["float32"], shapes=[[]]) for _ in range(2))
    a, b = (through(met.join, queue.dequeue() * 2.0) for queue in (q, r))
    fill = [q.enqueue([wb.constant(1.0)]), r.enqueue([wb.constant(2.0)])]
    with wb.Session() as s:
        for _ in range(3):
            s.run(fill)
            assert s.run([a, b]) == [2.0, 4.0]
    assert threading.get_ident() in met.threads and len(met.threads) >= 2


def test_a_producer_and_a_consumer_compute_at_the_same_time():
    """The consumer works on element 1 while the producer makes element 2: neither runs on the other's thread."""
    met = Meeting()
    x = wb.placeholder("float32", [])
    q = wb.FIFOQueue(8, ["float32"], shapes=[[]])
    put = q.enqueue([through(met.join, x)])
    first = q.enqueue([x])
    taken = through(met.join, q.dequeue())
    with wb.Session() as s:
        s.run(first, {x: 0.0})
        found = []
        consumer = threading.Thread(target=lambda: found.extend(float(s.run(taken)) for _ in range(4)))
        consumer.start()
        for i in range(1, 5):
            s.run(put, {x: i})
        consumer.join(PATIENCE)
        assert found == [0.0, 1.0, 2.0, 3.0] and met.threads >= {threading.get_ident(), consumer.ident}


def test_a_queue_runner_fetches_ahead_while_training_computes():
    met = Meeting()
    q = wb.FIFOQueue(2, ["float32"], shapes=[[]])
    runner = wb.train.QueueRunner(q, [q.enqueue([through(met.join, wb.constant(1.0))])])
    trained = through(met.join, q.dequeue())
    with wb.Session() as s:
        s.run(q.enqueue([wb.constant(1.0)]))
        stop = wb.train.Coordinator()
        threads = runner.create_threads(s, stop, daemon=True, start=True)
        assert [float(s.run(trained)) for _ in range(3)] == [1.0] * 3
        met.barrier.abort()
        stop.request_stop()
        s.run(q.close(cancel_pending_enqueues=True))
        with contextlib.suppress(errors.Error):      # the runner's last meeting was called off
            stop.join(threads)
        assert not any(thread.is_alive() for thread in threads)


def test_iterations_of_a_loop_do_not_run_one_segment_twice_at_once():
    """Its buffers are bound: the second waits for its turn."""
    inside, most = [0], [0]

    def counted(x: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        result = np.exp(np.zeros((200, 200))).sum() * 0 + x
        inside[0] -= 1
        return result.astype(x.dtype)
    n = wb.placeholder("int32", [])
    y = wb.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + through(counted, wb.cast(i, "float32"))), [0, 0.0],
                      parallel_iterations=8)[1]
    with wb.Session(lower_all=True) as s:
        assert s.run(y, {n: 20}) == sum(range(20)) and most == [1]


@pytest.mark.parametrize("threads", [1, 2])
def test_every_thread_that_runs_kernels_keeps_to_the_number_of_threads(threads):
    met = Meeting()
    x = wb.placeholder("int32", [])
    found = []
    for i in range(2):
        with wb.device(f"/cpu:{i}"):
            found.append(through(openmp_number, through(met.join, x)))
    before = set_threads(threads)
    try:
        with wb.Session(devices=2) as s:
            assert s.run(found, {x: 0}) == [before, before]
    finally:
        set_threads()


def test_a_failure_waits_for_the_kernels_beside_it():
    """When a step has failed nothing of it runs any more."""
    started, left = threading.Event(), threading.Event()

    def slow(x: Any) -> Any:
        started.set()
        for _ in range(50):
            np.exp(np.zeros((300, 300)))
        left.set()
        return x + 0

    def bad(x: Any) -> Any:
        started.wait(PATIENCE)
        raise ValueError("no")
    x = wb.placeholder("float32", [])
    with wb.device("/cpu:1"):
        a = through(slow, x)
    with wb.device("/cpu:0"):
        b = through(bad, x)
    with wb.Session(devices=2) as s:
        with pytest.raises(errors.InvalidArgumentError, match="no"):
            s.run([a, b], {x: 1.0})
        assert left.is_set()


def test_a_session_that_was_closed_or_left_has_no_threads():
    before = set(threading.enumerate())
    for close in (True, False):
        met = Meeting()
        x = wb.placeholder("float32", [])
        found = []
        for i in range(2):
            with wb.device(f"/cpu:{i}"):
                found.append(through(met.join, x))
        s = wb.Session(devices=2)
        s.run(found, {x: 1.0})
        if close:
            s.close()
        else:
            crew = s.backend.crew
            del s
            gc.collect()
            crew.close()      # ends at once: it was told already
    assert set(threading.enumerate()) <= before


# memory

def test_plans_that_run_one_after_the_other_use_the_same_memory():
    x = wb.placeholder("float32", [64, 64])
    y = wb.matmul(wb.tanh(wb.matmul(x, x)), x)
    with wb.Session() as s:
        feed = {x: np.eye(64, dtype=np.float32)}
        for fetch in (wb.reduce_sum(y), wb.reduce_max(y), wb.reduce_mean(wb.exp(y))):
            s.run(fetch, feed)
            s.run(fetch, feed, options=RunOptions(trace_level=RunOptions.FULL_TRACE))
        assert len(s.backend.arenas.sizes()) <= 2


def test_a_queue_step_takes_the_same_instance_each_time(monkeypatch):
    made = []

    def counted(*arguments):
        made.append(Instance(*arguments))
        return made[-1]
    monkeypatch.setattr("workbench.core.run.pool.Instance", counted)
    q = wb.FIFOQueue(8, ["float32"], shapes=[[16, 16]])
    x = wb.placeholder("float32", [16, 16])
    put, y = q.enqueue([x]), wb.reduce_sum(wb.tanh(wb.matmul(q.dequeue(), wb.ones([16, 16]))))
    with wb.Session() as s:
        for _ in range(10):
            s.run(put, {x: np.ones((16, 16))})
            s.run(y)
        pools = [pool for plan in s.plans for pool in plan.runner.pools]
        assert len(pools) <= len(made) <= 2 * len(pools) < 10      # one for steps that are recorded, one for others
        assert sum(pool.idle for pool in pools) == len(made)


# hands

def test_work_beyond_the_cores_waits_for_a_free_thread():
    crew = Crew()
    hands = Hands(crew, 1)
    inside, most, done = [0], [0], []
    lock = threading.Lock()

    def work() -> Any:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        np.exp(np.zeros((300, 300)))
        with lock:
            inside[0] -= 1

        def tell() -> None:
            with lock:
                done.append(1)
                last = len(done) == 20
            if last:
                hands.end()
        return tell
    hands.serve(lambda: [hands.give(work) for _ in range(20)])
    assert len(done) == 20 and most[0] <= 2 and hands.rest(PATIENCE)
    crew.close()


def test_without_anybody_who_serves_a_visit_does_all_work():
    crew, done = Crew(), threading.Semaphore(0)
    hands = Hands(crew, 1)

    def work() -> Any:
        return done.release
    hands.visit(lambda count: [hands.give(work) for _ in range(count)], 50)
    for _ in range(50):
        assert done.acquire(timeout=PATIENCE)
    crew.close()


def test_a_crew_ends_in_its_time_however_many_threads_do_not(monkeypatch):
    """Each may be in a kernel that does not return; their times do not add up."""
    crew, goes_on, inside = Crew(), threading.Event(), threading.Semaphore(0)
    now, waited = [7.0], []

    def join(thread: threading.Thread, most: float) -> None:
        waited.append(most)
        now[0] += most

    def work() -> None:
        inside.release()
        goes_on.wait(PATIENCE)
    for _ in range(16):
        crew.start(work)
    for _ in range(16):
        assert inside.acquire(timeout=PATIENCE)
    with monkeypatch.context() as scripted:
        scripted.setattr(threading.Thread, "join", join)
        scripted.setattr(crews, "time", SimpleNamespace(monotonic=lambda: now[0]))
        crew.close(0.25)
    goes_on.set()
    assert waited == [0.25, *[0.0] * 15]
    crew.close()


def test_a_process_without_threads_computes_with_the_one_it_has():
    q, r = (wb.FIFOQueue(4, ["float32"], shapes=[[]]) for _ in range(2))
    threads = set[int]()

    def seen(value: Any) -> Any:
        threads.add(threading.get_ident())
        return value + 1
    both = [through(seen, queue.dequeue() * 2.0) for queue in (q, r)]
    with wb.Session() as session:
        session.run([q.enqueue([wb.constant(1.0)]), r.enqueue([wb.constant(2.0)])])
        with without_threads():
            assert session.run(both) == [3.0, 5.0]
    assert threads == {threading.get_ident()}


def test_work_for_which_nobody_serves_and_no_thread_can_be_started_is_told():
    crew, done = Crew(), threading.Semaphore(0)
    hands = Hands(crew, 2)
    with without_threads(), pytest.raises(errors.ResourceExhaustedError, match=r"^wb-crew: this process has no memory for"):
        hands.give(lambda: done.release)
    hands.give(lambda: done.release)
    assert done.acquire(timeout=PATIENCE) and hands.rest(PATIENCE)
    crew.close()
