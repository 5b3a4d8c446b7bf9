"""Beside busy processes kernels keep to one thread each, with the same bits; alone they share the cores."""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import workbench as wb
from tests.openmp import openmp_threads
from workbench import errors
from workbench.core.kernels import crowd as crowds
from workbench.core.kernels import onednn_format, openmp, threads
from workbench.core.kernels.crowd import Crowd, crowd
from workbench.core.kernels.onednn_api import Api
from workbench.core.kernels.onednn_format import available
from workbench.core.kernels.options import KernelOptions
from workbench.settings import settings

pytestmark = [pytest.mark.named, pytest.mark.portable]


class Machine:
    """Cores on which this process and others work, and its thread waits, as much as they are told."""

    def __init__(self, cores: int = 2) -> None:
        self.now = self.busy = self.own = self.ran = self.waited = 0.0
        self.crowd = Crowd(lambda: self.busy, lambda: self.own, lambda: (self.ran, self.waited), lambda: self.now,
                           lambda: cores)
        self.crowd.look()

    def goes_on(self, own: float, others: float, seconds: float = 0.3, at_work: float = 1.0, waited: float = 0.0) -> bool:
        self.now += seconds
        self.ran += (at_work - waited) * seconds
        self.waited += waited * seconds
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
    (2, 0.0, 2), (2, 0.67, 1), (2, 2.0, 2), (1, 1.0, 1), (3, 1.0, 2), (4, 1.0, 3), (4, 2.0, 2), (16, 1.0, 12), (16, 4.2, 12),
    (16, 4.6, 8), (16, 15.1, 1), (16, 15.9, 16)])
def test_the_cores_that_others_use_are_left_alone_unless_they_use_all(cores: int, others: float, left: int) -> None:
    machine = Machine(cores)
    machine.goes_on(own=1.0, others=others)
    assert machine.crowd.leaves(cores) == left
    machine.goes_on(own=1.0, others=0.0)
    assert machine.crowd.leaves(cores) == cores


@pytest.mark.parametrize("cores", [1, 2, 4, 16])
def test_who_waits_for_a_core_beside_others_takes_its_part_of_each_until_one_is_left(cores: int) -> None:
    machine = Machine(cores)
    shared = cores * cores / (cores + 1)      # of as many others as cores, beside one thread of ours
    machine.goes_on(own=1.0, others=cores - 1)
    assert machine.crowd.taken == cores - 1 and not machine.crowd.everywhere
    machine.goes_on(own=cores - shared, others=shared, waited=1 / (cores + 1))
    assert machine.crowd.everywhere == (1 / (cores + 1) > crowds.WAITED or shared > cores - 1 + crowds.CAME)
    machine.goes_on(own=0.1, others=cores - 0.1, waited=0.5)
    for _ in range(3):
        machine.goes_on(own=cores / 2, others=cores / 2, waited=0.5)
        assert machine.crowd.everywhere and machine.crowd.leaves(cores) == cores
    machine.goes_on(own=(cores + 1) / 2, others=(cores - 1) / 2, waited=0.5)
    assert machine.crowd.taken == cores - 1
    machine.goes_on(own=cores, others=0.0)
    assert not machine.crowd.taken


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
    monkeypatch.setattr(crowd, "taken", 0)
    monkeypatch.setattr(crowd, "cores", 2)
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


def places() -> list[set[int]]:
    """The cores that each of two threads of the calling thread's team may use."""
    found, member = openmp.runtime(), ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    assert found is not None
    seen: dict[int, set[int]] = {}
    function = member(lambda _: seen.update({found.number(): os.sched_getaffinity(0)}))
    found.parallel(ctypes.cast(function, ctypes.c_void_p), None, 2, 0)
    return [seen[number] for number in range(2)]


@pytest.mark.skipif(openmp.runtime() is None or crowds.core_count() < 2, reason="needs GNU OpenMP and two cores")
def test_threads_that_only_compute_are_bound_while_others_use_every_core_and_the_caller_never(pair: None) -> None:
    cores = os.sched_getaffinity(0)
    crowd.cores, crowd.taken = 2, 2
    for _ in range(2):
        threads.adopt_threads()
        assert threads.threads_now() == 2 and places() == [cores, {sorted(cores)[1]}]
    crowd.taken = 1
    threads.adopt_threads()
    assert threads.threads_now() == 1 and places() == [cores, cores]
    crowd.taken = 2
    threads.adopt_threads()
    threads.set_threads(2)      # who asks for a number is not bound
    assert places() == [cores, cores]


FORKED = """
import os
from tests.core.kernels.test_crowd import crowd, places, threads

crowd._next, crowd.cores, crowd.taken, threads._cores = float("inf"), 2, 2, lambda: 2
threads.adopt_threads()
if not (child := os.fork()):
    os._exit(0)
os.waitpid(child, 0)
threads.adopt_threads()
assert len(places()[1]) == 1, places()
"""


@pytest.mark.skipif(openmp.runtime() is None or crowds.core_count() < 2, reason="needs GNU OpenMP and two cores")
def test_who_forked_binds_the_threads_that_it_gets_then() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120, env={**os.environ, "WB_THREADS": "0"})


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


@pytest.mark.skipif(not available(), reason="needs oneDNN")
@pytest.mark.parametrize("error", [errors.UnimplementedError, errors.InternalError])
def test_kernels_for_all_threads_go_on_where_the_library_makes_none_for_fewer(
        pair: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[errors.Error]) -> None:
    """Their code is generated in the middle of a step, when others come to use the cores."""
    def refused(*_: object) -> None:
        raise error("no kernel")
    with wb.Graph().as_default(), wb.Session() as session:
        results = convolution(5)
        session.run(wb.global_variables_initializer())
        alone = run(session, results, False)
        monkeypatch.setattr(onednn_format, "_primitives", OrderedDict())
        monkeypatch.setattr(Api, "primitive", refused)
        assert run(session, results, True) == alone and "failed" not in caplog.text


@pytest.mark.usefixtures("pair", "graph")
def test_beside_others_code_is_generated_for_the_threads_that_run(monkeypatch):
    """A plan that is made there would otherwise generate that of its larger kernels twice before its first step ends."""
    monkeypatch.setattr(onednn_format, "_primitives", OrderedDict())
    results = product(128, 784, 500)

    def generated() -> set[int]:
        return {made.threads for made in onednn_format._primitives.values() if made is not None and made._pointer is not None}
    with wb.Session(kernels=KernelOptions(libraries=("onednn", "llvm"))) as session:
        session.run(wb.global_variables_initializer())
        near = run(session, results, True)
        assert generated() == {1}
        alone = run(session, results, False)
        assert generated() == {1, 2}
        assert run(session, results, True) == near and run(session, results, False) == alone
