"""Beside busy processes kernels keep to one thread each, with the same bits; alone they share the cores."""
from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import workbench as wb
from tests.openmp import openmp_threads
from workbench.core.kernels import crowd as crowds
from workbench.core.kernels import threads
from workbench.core.kernels.crowd import Crowd, crowd
from workbench.core.kernels.onednn_format import available
from workbench.core.kernels.options import KernelOptions
from workbench.settings import settings

pytestmark = pytest.mark.named


class Machine:
    """Two cores, on which this process and others work as much as they are told."""

    def __init__(self) -> None:
        self.now = self.busy = self.own = self.wanted = 0.0
        self.crowd = Crowd(lambda: self.busy, lambda: self.own, lambda: self.wanted, lambda: self.now)
        self.crowd.look()

    def goes_on(self, own: float, others: float, seconds: float = 0.3, at_work: float = 1.0) -> bool:
        self.now += seconds
        self.wanted += at_work * seconds
        self.own += own * seconds
        self.busy += (own + others) * seconds
        self.crowd.look()
        return self.crowd.taken > 0


def test_others_are_near_while_they_use_a_part_of_a_core() -> None:
    machine = Machine()
    assert not machine.goes_on(own=2.0, others=0.0) and not machine.goes_on(own=1.0, others=0.4)
    assert machine.goes_on(own=1.3, others=0.7)
    assert machine.goes_on(own=1.0, others=1.0) and machine.goes_on(own=1.0, others=0.4)      # they rest, and are there
    assert not machine.goes_on(own=1.0, others=0.2) and not machine.goes_on(own=1.0, others=0.4)


@pytest.mark.parametrize(("cores", "others", "left"), [
    (2, 0.0, 2), (2, 0.67, 1), (2, 2.0, 1), (1, 1.0, 1), (3, 1.0, 2), (4, 1.0, 3), (4, 2.0, 2), (16, 1.0, 12), (16, 4.2, 12),
    (16, 4.6, 8), (16, 15.9, 1)])
def test_the_cores_that_others_use_are_left_alone(cores: int, others: float, left: int) -> None:
    machine = Machine()
    machine.goes_on(own=1.0, others=others)
    assert machine.crowd.leaves(cores) == left
    machine.goes_on(own=1.0, others=0.0)
    assert machine.crowd.leaves(cores) == cores


def test_too_early_is_no_look_and_who_worked_while_we_rested_is_no_matter() -> None:
    machine = Machine()
    assert not machine.goes_on(own=1.0, others=2.0, seconds=0.1)
    assert not machine.goes_on(own=0.1, others=1.9, seconds=60.0, at_work=0.1) and not machine.goes_on(own=2.0, others=0.0)
    assert machine.goes_on(own=0.2, others=1.8)      # many others
    assert machine.goes_on(own=0.1, others=0.0, seconds=60.0, at_work=0.1) and not machine.goes_on(own=2.0, others=0.0)


def test_what_another_thread_found_is_not_compared() -> None:
    machine = Machine()
    machine.now, machine.busy, machine.wanted = 0.3, 0.6, 0.3
    looking = threading.Thread(target=machine.crowd.look)
    looking.start()
    looking.join()
    assert not machine.crowd.taken and not machine.goes_on(own=1.0, others=1.0) and machine.goes_on(own=1.0, others=1.0)


def test_where_no_system_tells_nobody_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds.os, "sched_getaffinity", lambda pid: {4711})
    assert crowds.busy_seconds() is None
    silent = Crowd(lambda: None)
    for _ in range(3):
        silent.look()
    assert not silent.taken


@pytest.mark.skipif(crowds.busy_seconds() is None, reason="needs /proc/stat")
def test_a_busy_process_is_seen() -> None:
    fresh, until = Crowd(), time.monotonic() + 30
    burning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        while not fresh.taken and time.monotonic() < until:
            fresh.look()
        assert fresh.taken
    finally:
        burning.kill()
        burning.wait()


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process of two cores that nobody told a number of threads, and a crowd that is as near as it is told."""
    monkeypatch.setattr(settings, "threads", 0)
    monkeypatch.setattr(threads, "_cores", lambda: 2)
    monkeypatch.setattr(crowd, "_next", float("inf"))
    threads.set_threads(0)
    yield
    monkeypatch.undo()
    threads.set_threads(0)
    threads._current.clear()


def product(rows: int, depth: int, columns: int) -> list[wb.Tensor]:
    rng = np.random.default_rng(0)
    a, b = (wb.Variable(rng.random(shape, np.float32)) for shape in ((rows, depth), (depth, columns)))
    y = wb.matmul(a, b)
    return [y, *wb.gradients(wb.sin(y), [a, b])]


def convolution(size: int) -> list[wb.Tensor]:
    rng = np.random.default_rng(0)
    x, w = (wb.Variable(rng.random(shape, np.float32)) for shape in ((8, 28, 28, 32), (size, size, 32, 64)))
    y = wb.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
    return [y, *wb.gradients(wb.sin(y), [x, w])]


SHARED: list[Callable[[], list[wb.Tensor]]] = [
    lambda: product(128, 784, 512), lambda: product(400, 512, 3000), lambda: convolution(5), lambda: convolution(3),
    lambda: convolution(1)]


def run(session: wb.Session, results: list[wb.Tensor], near: bool) -> list[bytes]:
    crowd.taken = int(near)
    return [value.tobytes() for value in session.run(results)]


@pytest.mark.skipif(not available(), reason="needs oneDNN")
@pytest.mark.parametrize("made", SHARED)
def test_one_thread_gives_the_bits_that_two_give(made: Callable[[], list[wb.Tensor]], pair: None) -> None:
    with wb.Graph().as_default():
        results = made()
        with wb.Session(kernels=KernelOptions(("onednn", "llvm"))) as session:
            session.run(wb.global_variables_initializer())
            first, alone, again = run(session, results, False), run(session, results, True), run(session, results, False)
    assert first == alone == again


@pytest.mark.skipif(not available(), reason="needs oneDNN")
def test_a_product_keeps_to_one_thread_in_a_crowd_unless_a_number_was_asked_for(pair: None) -> None:
    with wb.Graph().as_default():
        y = wb.matmul(wb.Variable(wb.ones([256, 512])), wb.Variable(wb.ones([512, 512])))
        with wb.Session(kernels=KernelOptions(("onednn",))) as session:
            session.run(wb.global_variables_initializer())
            for near in (False, True, False):
                run(session, [y], near)
                assert openmp_threads() == (1 if near else 2)
            threads.set_threads(2)
            run(session, [y], True)
            assert openmp_threads() == 2 and not crowd.taken
