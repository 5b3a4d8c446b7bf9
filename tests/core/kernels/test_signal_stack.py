"""Signals that come while kernels compute: their handlers leave the stack of the kernels alone."""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

import pytest

from workbench.core.kernels.signal_stack import _DISABLED, _Own, _Stack, take_signal_stack

pytestmark = [pytest.mark.once, pytest.mark.skipif(sys.platform != "linux", reason="signal stacks are known on Linux alone")]

ALARMED = """
import signal
import numpy as np
import workbench as wb

rng = np.random.default_rng(0)
x, labels = wb.placeholder("float32", [None, 784]), wb.placeholder("int32", [None])
h = x
for a, b in ((784, 512), (512, 512), (512, 10)):
    h = wb.matmul(h, wb.Variable(rng.standard_normal((a, b)).astype("f") * 0.05)) + wb.Variable(np.zeros(b, "f"))
    h = wb.nn.relu(h) if b > 10 else h
loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h))
step = wb.train.GradientDescentOptimizer(0.01).minimize(loss)
calls = []
with wb.Session() as session:
    session.run(wb.global_variables_initializer())
    signal.signal(signal.SIGALRM, lambda number, frame: calls.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for count in range(33, 40):
        for _ in range(2):
            session.run(step, {x: np.full((count, 784), 0.5, "f"), labels: np.zeros(count, "i4")})
    signal.setitimer(signal.ITIMER_REAL, 0)
print(len(calls) > 9)
"""
"""Training of a network for batches of many sizes, beside an alarm each millisecond."""


def test_training_beside_alarms() -> None:
    """Without a stack for signals the process ends with a damaged heap. It is one of its own, since pytest's `faulthandler`
    gives pytest's main thread such a stack."""
    done = subprocess.run([sys.executable, "-c", ALARMED], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-2000:]
    assert "ignored" not in done.stderr      # an exception at the end of the process


def stack() -> _Stack:
    """The stack for signals of the calling thread, as the system says it."""
    found = _Stack()
    assert ctypes.CDLL(None).sigaltstack(None, ctypes.byref(found)) == 0
    return found


def test_each_thread_has_one_and_keeps_it() -> None:
    found = []

    def run() -> None:
        before = stack().flags
        take_signal_stack()
        first = stack()
        take_signal_stack()
        found.append((before, first.flags, first.size > 60_000, first.place == stack().place))
    for _ in range(3):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert found == [(_DISABLED, 0, True, True)] * 3


def test_one_that_is_there_stays() -> None:
    """That of `faulthandler`, for one."""
    found = []

    def run() -> None:
        room = ctypes.create_string_buffer(1 << 16)
        own = _Stack(ctypes.addressof(room), 0, len(room))
        assert ctypes.CDLL(None).sigaltstack(ctypes.byref(own), None) == 0
        take_signal_stack()
        found.append(stack().place == own.place)
        ctypes.CDLL(None).sigaltstack(ctypes.byref(_Stack(None, _DISABLED, 0)), None)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [True]


def test_a_child_that_is_forked_has_pages_of_its_own() -> None:
    """It keeps the stack: on shared pages handlers of both would write into each other's frames."""
    own = _Own()
    at = ctypes.addressof(own.memory)
    child = os.fork()
    if not child:
        ctypes.c_char.from_address(at).value = b"x"
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert ctypes.c_char.from_address(at).value == b"\0"
