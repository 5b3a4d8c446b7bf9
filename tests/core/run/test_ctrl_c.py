"""Ctrl-C at every place of a compile and of a step: the session works as before, and no attempt is left behind."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.interrupts import every_interrupt

pytestmark = pytest.mark.usefixtures("graph")


def test_a_compile_may_be_interrupted_anywhere():
    x = wb.placeholder("float32", [2], name="x")
    y = x * 2.0 + 1.0
    sessions: list[wb.Session] = []

    def first_step() -> None:
        sessions.append(wb.Session())
        sessions[-1].run(y, {x: [1, 2]})
    tried = 0
    for _ in every_interrupt(first_step, "core/run/plans.py", "core/run/prepare.py", "core/run/pool.py"):
        tried += 1
        if not sessions:      # it came while the session was made
            continue
        s = sessions.pop()
        assert s.run([y], {x: [1, 2]})[0].tolist() == [3, 5] and s.run(y, {x: [2, 3]}).tolist() == [5, 7]
        assert len(list(s.plans)) == 1
        s.close()
    assert tried > 20


def test_a_step_of_two_devices_may_be_interrupted_anywhere():
    """Whatever was taken from the queue was taken by a step that went through, or is still there."""
    q = wb.FIFOQueue(100, ["float32"], shapes=[[32, 32]])
    x = wb.placeholder("float32", [32, 32])
    put, size = q.enqueue([x]), q.size()
    with wb.device("/cpu:1"):
        a = wb.matmul(q.dequeue(), x)
    with wb.device("/cpu:0"):
        y = wb.reduce_sum(wb.tanh(a) + wb.matmul(x, x))
    feed = {x: np.zeros((32, 32), np.float32)}
    with wb.Session(devices=2) as s:
        s.run(put, feed)
        s.run(y, feed)
        tried = 0
        for _ in every_interrupt(lambda: (s.run(put, feed), s.run(y, feed)), "core/run/crew.py", "core/run/driver.py",
                                     "core/run/local.py"):
            tried += 1
            assert int(s.run(size)) in (0, 1)
            if int(s.run(size)) == 0:
                s.run(put, feed)
            assert float(s.run(y, feed)) == 0.0 and int(s.run(size)) == 0
        assert tried > 50
