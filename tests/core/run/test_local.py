"""Steps in this process: instances are kept, failures and interrupts leave nothing behind, closing frees who waits."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from tests.control_c import control_c
from workbench import errors
from workbench.core.run.driver import StepRun
from workbench.core.run.local import _Direct, _Threads

pytestmark = pytest.mark.usefixtures("graph")


def runner(session: wb.Session):
    return list(session.plans)[-1].runner


def test_one_segment_runs_directly_and_keeps_its_instance():
    x = wb.placeholder("float32", [3])
    y = wb.exp(x)
    with wb.Session() as s:
        for _ in range(3):
            s.run(y, {x: [1, 2, 3]})
        direct = runner(s)
        pool, = direct.pools
        assert isinstance(direct, _Direct) and pool.idle <= 2
        taken, other = pool.take(), pool.take()
        assert taken is not other
        pool.give(taken)
        assert pool.take() is taken


def test_an_instance_whose_step_failed_is_not_used_again_and_its_memory_is():
    x = wb.placeholder("int32", [64])
    y = wb.reduce_sum(wb.floordiv(wb.constant(6), x) + 1)
    with wb.Session() as s:
        assert s.run(y, {x: [2] * 64}) == 4 * 64
        pool, = runner(s).pools
        before, sizes = pool.take(), s.backend.arenas.sizes()
        pool.give(before)
        with pytest.raises(errors.InvalidArgumentError):
            s.run(y, {x: [0] * 64})
        assert s.run(y, {x: [3] * 64}) == 3 * 64
        after = pool.take()
        assert after is not before and (not sizes or after.arena is before.arena)


@pytest.mark.parametrize("fails", ["/cpu:0", "/cpu:1"])
def test_a_failure_on_one_device_ends_the_step_everywhere(fails):
    x = wb.placeholder("int32", [], name="x")
    other = "/cpu:1" if fails == "/cpu:0" else "/cpu:0"
    with wb.device(fails):
        bad = wb.floordiv(x, x, name="bad")
    with wb.device(other):
        y = bad + 1
    with wb.device(fails):
        z = y * 2
    before = set(threading.enumerate())
    with wb.Session(devices=2) as s:
        assert isinstance(s.run(z, {x: 5}).item(), int) and isinstance(runner(s), _Threads)
        with pytest.raises(errors.InvalidArgumentError, match="floordiv: integer division by zero"):
            s.run(z, {x: 0})
        assert s.run(z, {x: 5}) == 4
    assert set(threading.enumerate()) <= before


def test_a_value_that_two_devices_use_is_not_shared_memory():
    v = wb.Variable(np.zeros(4, np.float32))
    read = wb.identity(v.read_value())
    with wb.device("/cpu:1"), wb.control_dependencies([wb.assign_add(v, wb.ones([4]))]):
        later = read + 0.0 * wb.reduce_sum(read)
    with wb.Session(devices=2) as s:
        s.run(v.initializer)
        assert s.run(later).tolist() in ([0, 0, 0, 0], [1, 1, 1, 1])
        assert s.run(v).tolist() == [1, 1, 1, 1]


def waiting(session: wb.Session, fetch) -> tuple[threading.Thread, list[BaseException]]:
    """A thread that waits in a step until it ends; its error arrives in the list."""
    faults: list[BaseException] = []
    entered = threading.Event()

    def work() -> None:
        entered.set()
        try:
            session.run(fetch)
        except errors.Error as error:
            faults.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(60)
    return thread, faults


def test_control_c_ends_a_step_that_waits_for_a_queue_and_loses_nothing():
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]])
    taken, put = q.dequeue(), q.enqueue([wb.constant(3.0)])
    with wb.Session() as s:
        for _ in range(2):      # first what is interrupted is compiled
            s.run(put)
            assert s.run(taken) == 3.0
            with pytest.raises(KeyboardInterrupt), control_c():
                s.run(taken)
        s.run(put)
        assert s.run(taken) == 3.0


def test_control_c_while_the_parts_of_a_step_start_leaves_no_attempt_behind(monkeypatch):
    """Device 1 waits in its queue already when the part of device 2 is to start."""
    with wb.device("/cpu:1"):
        queue = wb.FIFOQueue(4, ["float32"], shapes=[[]])
        taken = queue.dequeue() + 1.0
    with wb.device("/cpu:2"):
        doubled = taken * 2.0
    with wb.device("/cpu:0"):
        y = doubled + 1.0
    start = StepRun.start

    def interrupted(run: StepRun) -> None:
        if run.instance.device.name.endswith("2"):
            raise KeyboardInterrupt
        start(run)

    with wb.Session(devices=3) as s:
        with monkeypatch.context() as once:
            once.setattr(StepRun, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                s.run(y)
        s.run(queue.enqueue([wb.constant(1.0)]))
        assert int(s.run(queue.size())) == 1 and float(s.run(y)) == 5.0


def test_closing_a_queue_frees_a_step_that_waits():
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]])
    taken, close = q.dequeue(), q.close()
    with wb.Session() as s:
        thread, faults = waiting(s, taken)
        s.run(close)
        thread.join(60)
        assert [type(f) for f in faults] == [errors.OutOfRangeError]


def test_closing_the_session_frees_a_step_that_waits():
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]])
    size, taken = q.size(), q.dequeue()
    s = wb.Session()
    s.run(size)
    with wb.Session(graph=s.graph):
        thread, faults = waiting(s, taken)
        while thread.is_alive() and not faults:
            s.backend.close()
            thread.join(0.05)
    assert len(faults) == 1 and isinstance(faults[0], errors.Error)


def test_producer_and_consumer_in_threads_of_one_session():
    q = wb.FIFOQueue(2, ["float32"], shapes=[[]])
    x = wb.placeholder("float32", [])
    put, taken = q.enqueue([x * 2.0]), q.dequeue()
    with wb.Session() as s:
        producer = threading.Thread(target=lambda: [s.run(put, {x: i}) for i in range(20)])
        producer.start()
        assert [float(s.run(taken)) for _ in range(20)] == [2.0 * i for i in range(20)]
        producer.join()
