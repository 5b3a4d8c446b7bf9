"""Ctrl-C during a step: heard wherever it strikes, raised when the step has ended, and once only."""
from __future__ import annotations

import functools
import gc
import signal
import threading

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.run.interrupts import interruptible


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("options", [{"lower_all": True}, {"devices": 2}], ids=str)
def test_an_interrupt_that_strikes_the_garbage_collector_is_heard(options):
    """Python prints and forgets what a callback of the collector raises."""
    with wb.Graph().as_default():
        limit, v = wb.placeholder("float32", []), wb.Variable(1.0)

        def body(i):
            with wb.device("/cpu:1" if "devices" in options else None):
                return i + 1.0
        loop, add = wb.while_loop(lambda i: i < limit, body, [wb.constant(0.0)]), wb.assign_add(v, 1.0)
        session = wb.Session(**options)
        session.run(v.initializer)
    assert session.run(loop, {limit: 3.0}) == 3.0
    main, usual, struck = threading.get_ident(), signal.getsignal(signal.SIGINT), []

    def collected(phase: str, facts: dict[str, int]) -> None:
        if not struck and threading.get_ident() == main and signal.getsignal(signal.SIGINT) is not usual:      # in the step
            struck.append(phase)
            press()
    before = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(10)      # a loop frees what it makes: by itself it may never reach the thousands that Python waits for
    try:
        with pytest.raises(KeyboardInterrupt):
            session.run(loop, {limit: np.inf})
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)
    assert struck and session.run(add) == 2.0


def test_the_exception_comes_when_the_block_has_ended():
    before, stopped, seen = signal.getsignal(signal.SIGINT), threading.Event(), []
    with pytest.raises(KeyboardInterrupt), interruptible(stopped.set):
        press()
        assert stopped.wait(30)
        seen.append("the rest of the block")
    assert seen and signal.getsignal(signal.SIGINT) is before


def test_the_error_of_the_stopped_step_is_not_shown_but_others_are():
    with pytest.raises(KeyboardInterrupt), interruptible(lambda: None):
        press()
        raise errors.CancelledError("step: it was stopped")
    with pytest.raises(errors.AbortedError), interruptible(lambda: None):
        raise errors.AbortedError("step: a task was lost")


def test_a_second_interrupt_raises_at_once():
    before, seen = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), interruptible(lambda: None):
        press()
        seen.append("after the first")
        press()
        seen.append("after the second")
    assert seen == ["after the first"] and signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_does_not_raise_decides():
    heard, stopped = [], []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with interruptible(lambda: stopped.append(True)):
            press()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT] and not stopped


def test_other_threads_and_ignored_signals_are_left_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with interruptible(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [before, signal.SIG_IGN]


@pytest.mark.parametrize("make", [lambda f: f, lambda f: functools.partial(f), lambda f: Handler(f).hear, lambda f: Handler(f)],
                         ids=["function", "partial", "method", "object"])
@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_handler_raises_is_not_the_kernel_s(make, devices):
    """A program that is asked to end, or that waits no longer, hears of its own request and of no operation."""
    def handler(number: int, frame: object) -> None:
        raise SystemExit("asked to end")
    before = signal.signal(signal.SIGUSR1, make(handler))
    try:
        with wb.Graph().as_default(), wb.Session(devices=devices) as session:
            with wb.device(f"/cpu:{devices - 1}"):
                raised = wb.py_func(lambda: signal.raise_signal(signal.SIGUSR1), [], [])
            with pytest.raises(SystemExit, match="asked to end"):
                session.run(raised)
            assert session.run(wb.constant(1.0) + 1.0) == 2.0
    finally:
        signal.signal(signal.SIGUSR1, before)


class Handler:
    def __init__(self, function) -> None:
        self.hear = self.__call__
        self._function = function

    def __call__(self, number: int, frame: object) -> None:
        self._function(number, frame)


@wb.op("x[...] -> [...]", types="T -> T")
def leaves(x):
    """A kernel that asks its process to exit."""
    raise SystemExit(3)


@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize("options", [{}, {"devices": 2}], ids=str)
def test_a_kernel_that_asks_to_exit_is_named(options, constant):
    with wb.Graph().as_default(), wb.Session(**options) as session:
        x = wb.constant([1.0]) if constant else wb.placeholder("float32", [1])
        with wb.device(f"/cpu:{options.get('devices', 1) - 1}"):
            y = ops.leaves(x, name="mine")
        with pytest.raises(errors.InvalidArgumentError, match=r"leaves: SystemExit: 3; (.|\n)*operation: 'mine'"):
            session.run(y + 1.0, {} if constant else {x: [1.0]})
