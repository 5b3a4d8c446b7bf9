"""One number of threads governs every compute library."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from tests.openmp import openmp_threads
from workbench.core.kernels import threads
from workbench.core.kernels.onednn_api import Argument, load
from workbench.core.kernels.onednn_cost import seconds
from workbench.core.kernels.onednn_desc import contiguous
from workbench.core.kernels.onednn_format import primitive
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.errors import InvalidArgumentError
from workbench.settings import settings

pytestmark = [pytest.mark.named, pytest.mark.portable]


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = settings.threads
    yield
    settings.threads = before
    threads.set_threads(0)
    threads._current.clear()


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


def test_one_setting_reaches_blas_and_openmp() -> None:
    assert threads.set_threads(1) == 1 == threads.get_threads()
    assert blas_threads() == {1} and openmp_threads() == 1


def test_who_sets_the_number_again_gets_it_whatever_kernels_set_meanwhile() -> None:
    threads.set_threads(2)
    library = load()
    if library is not None:
        library.openmp(1)      # as a kernel for one thread does
    threads.set_threads(2)
    assert openmp_threads() == (2 if library is not None else 0)


def test_zero_follows_the_settings() -> None:
    settings.threads = 1
    assert threads.set_threads(0) == 1
    settings.threads = 0
    assert threads.set_threads(0) == threads._cores()


@pytest.mark.parametrize("asked, wanted", [("1", 1), ("1,4", 1), ("4096", None), ("", None), ("all", None)])
def test_openmp_s_own_variable_is_an_upper_bound(asked: str, wanted: int | None,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    threads._cores.cache_clear()
    try:
        assert threads._cores() == (wanted or len(os.sched_getaffinity(0)))
    finally:
        threads._cores.cache_clear()


def test_a_new_thread_adopts_the_number() -> None:
    threads.set_threads(1)
    seen: list[int] = []

    def work() -> None:
        threads.adopt_threads()
        seen.append(openmp_threads())
    worker = threading.Thread(target=work)
    worker.start()
    worker.join(30)
    assert seen == [1]


def test_small_work_is_not_shared() -> None:
    threads.set_threads(2)
    assert [threads.threads_for(seconds) for seconds in (1e-6, 0.99 * threads.SERIAL, threads.SERIAL, 1.0)] == [1, 1, 2, 2]
    threads.set_threads(1)
    assert threads.threads_for(1.0) == 1


@pytest.mark.parametrize("family, shapes, wanted", [
    ("matmul", [(100, 784), (784, 10), (100, 10)], 1), ("matmul", [(128, 784), (784, 512), (128, 512)], 2),
    ("inner_product_forward", [(20, 512), (2048, 512), (20, 2048)], 2), ("binary", [(128, 512)] * 3, 1),
    ("convolution_forward", [(64, 1, 28, 28), (32, 1, 5, 5), (32,), (64, 32, 28, 28)], 2),
    ("convolution_forward", [(1, 3, 8, 8), (4, 3, 3, 3), (1, 4, 8, 8)], 1), ("eltwise_forward", [(1 << 20,)] * 2, 2)])
def test_what_is_small_follows_from_the_shapes(family: str, shapes: list[tuple[int, ...]], wanted: int) -> None:
    threads.set_threads(2)
    assert threads.threads_for(seconds(family, shapes)) == wanted


def test_a_kernel_brings_its_number_to_a_thread_that_adopted_nothing() -> None:
    """Device threads, loops and users' threads run kernels too."""
    threads.set_threads(1)
    big = contiguous((512, 512), (0, 1))
    made = primitive("matmul", big, big, None, big)
    assert made is not None and made.threads == 1
    builder = Builder(2, 1)
    builder.step(made, {Argument.SOURCE: Place(0), Argument.WEIGHTS: Place(1), Argument.OUTPUT: builder.output()})
    kernel, scratch = builder.program()((False,) * 3), np.empty(builder.scratch(), np.uint8)
    square, seen = np.ones((512, 512), np.float32), []

    def work() -> None:
        kernel(square, square, np.empty_like(square), *([scratch] if scratch.size else []))
        seen.append(openmp_threads())
    worker = threading.Thread(target=work)
    worker.start()
    worker.join(60)
    assert seen == [1]


STEP = """
import os, numpy as np, workbench as wb
def tasks(): return len(os.listdir("/proc/self/task"))
x, y_ = wb.placeholder("float32", [100, 784]), wb.placeholder("float32", [100, 10])
w, b = wb.Variable(wb.zeros([784, WIDTH])), wb.Variable(wb.zeros([WIDTH]))
out = wb.Variable(wb.zeros([WIDTH, 10]))
y = wb.nn.softmax(wb.matmul(wb.matmul(x, w) + b, out))
step = wb.train.GradientDescentOptimizer(0.5).minimize(wb.reduce_mean(-wb.reduce_sum(y_ * wb.log(y), axis=1)))
session = wb.Session()
session.run(wb.global_variables_initializer())
feed = {x: np.ones((100, 784), np.float32), y_: np.ones((100, 10), np.float32)}
before = tasks()
for _ in range(3): session.run(step, feed)
print(tasks() - before)
"""


@pytest.mark.once
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the threads that Linux lists")
@pytest.mark.parametrize("width, more", [(10, 0), (2048, 2)])
def test_a_small_step_wakes_no_thread_and_a_large_one_does(width: int, more: int) -> None:
    """The slide's step stays on its thread, whatever OpenMP could use; a product that is worth it is shared by three."""
    made = subprocess.run([sys.executable, "-c", STEP.replace("WIDTH", str(width))], text=True, check=True, timeout=300,
                          capture_output=True, env={**os.environ, "WB_THREADS": "3", "WB_LIBRARIES": "onednn"})
    assert int(made.stdout) == more


def test_negative_number_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="set_threads: threads is -1, expected 0 or more; 0 means"):
        threads.set_threads(-1)


FORKED = """
import os, signal, sys
import numpy as np
import workbench as wb

a, x = wb.placeholder("float32", [1000, 1000]), np.ones((1000, 1000), np.float32)
fetch = {"fused": wb.tanh(a) * wb.exp(a), "softmax": wb.nn.softmax(a), "product": wb.matmul(a, a)}[sys.argv[1]]
session = wb.Session()
session.run(fetch, {a: x})
child = os.fork()
if child == 0:
    signal.alarm(60)
    session.run(fetch, {a: x})
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
@pytest.mark.parametrize("work", ["fused", "softmax", "product"])
def test_a_forked_child_computes_with_threads_of_its_own(work):
    """The team of the parent's threads is not among what a child gets: it would wait for them for ever."""
    subprocess.run([sys.executable, "-c", FORKED, work], check=True, timeout=300,
                   env={**os.environ, "WB_THREADS": "2", "WB_LIBRARIES": "onednn,llvm"})


FIRST = """
import sys, threading
from workbench.core.kernels import onednn_api
sys.setswitchinterval(1e-6)
together, found = threading.Barrier(8), []
def first():
    together.wait(60)
    found.append(onednn_api.load())
crowd = [threading.Thread(target=first) for _ in range(8)]
for one in crowd:
    one.start()
for one in crowd:
    one.join(60)
print(len(found), len(set(map(id, found))), None in found)
"""


def test_threads_that_come_first_at_once_share_one_engine() -> None:
    """What is made for one engine is refused by the stream of another, in every step from then on."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["8", "1", "False"], done.stdout + done.stderr
