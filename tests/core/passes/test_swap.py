"""Values that wait on disk: the same bits, less memory; what stays; a file that is bounded, used again, never left behind."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import workbench as wb
from tests.core.test_recomputed import LAYERS, START, layer
from workbench import errors
from workbench.core.kernels.options import KernelOptions
from workbench.core.run.session import Session
from workbench.core.state.swapfile import SwapFile
from workbench.settings import settings

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "swap", tmp_path)
    return tmp_path


def deep(around=lambda function: function):
    """(the placeholder, loss and gradients) of layers built by what `around` makes of their function."""
    x = h = wb.placeholder("float32", list(START.shape), name="x")
    rng = np.random.default_rng(1)
    weights = [wb.Variable(rng.normal(0, 0.2, [64, 64]).astype(np.float32)) for _ in range(LAYERS)]
    build = around(layer)
    for weight in weights:
        h = build(h, weight)
    loss = wb.reduce_sum(wb.square(h))
    return x, [loss, *wb.gradients(loss, [x, *weights])]


def trained(around=lambda function: function, **options):
    """(values of two steps, the explanation)"""
    with wb.Graph().as_default():
        x, fetches = deep(around)
        with Session(**options) as session:
            session.run(wb.global_variables_initializer())
            values = [value for _ in range(2) for value in session.run(fetches, {x: START})]
            return values, session.explain(fetches, {x: START})


def files(pid="self"):
    """The swap files that a process has open."""
    found = []
    for each in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{each}"))
        except OSError:
            continue
    return [path for path in found if "workbench-swap-" in path or path.endswith("(deleted)")]


@pytest.mark.parametrize("libraries", [(), None], ids=["reference", "all"])
def test_gradients_have_the_same_bits_and_less_memory_is_needed(libraries):
    options = {"deterministic": True} if libraries is None else {"deterministic": True, "libraries": libraries}
    options = {"kernels": KernelOptions(**options), "disabled_passes": ["fuse"]}
    kept, free = trained(**options)
    found, explained = trained(wb.swap, **options)
    for one, two in zip(kept, found, strict=True):
        np.testing.assert_array_equal(one, two)
    [before], [after] = free.memory, explained.memory
    assert before.swapped == 0 and after.swapped > 0.5 * before.waiting > 0
    assert after.step < 0.6 * before.step, (after, before)
    assert f"{after.swapped:,} more on disk meanwhile" in str(explained) and "on disk" not in str(free)
    assert {row.type for row in explained.rows} >= {"swap_out", "swap_in"}


def test_fused_kernels_read_what_comes_back():
    kept, free = trained()
    found, explained = trained(wb.swap)
    for one, two in zip(kept, found, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=3e-6 * np.abs(one).max())
    assert explained.memory[0].step < 0.7 * free.memory[0].step


def test_a_scope_is_marked_after_it_was_built_and_used(graph):
    x = wb.placeholder("float64", [1000])
    with wb.name_scope("block"):
        y = wb.sin(wb.exp(x))
    z = wb.reduce_sum(wb.square(y) * wb.tanh(y))
    slope = wb.gradients(z, x)
    feed = {x: np.linspace(-1, 1, 1000)}
    with wb.Session() as session:
        kept = session.run(slope, feed)[0]
        assert session.explain(slope, feed).memory[0].swapped == 0
        wb.swap("block/")
        np.testing.assert_allclose(session.run(slope, feed)[0], kept, rtol=1e-13)
        assert session.explain(slope, feed).memory[0].swapped >= 8000


def test_what_is_fetched_fed_or_read_by_no_gradient_stays(graph):
    x = wb.placeholder("float64", [100])
    y = wb.swap(wb.sin)(x)
    z = wb.exp(y)
    slope = wb.gradients(z, x)[0]
    feed = {x: np.linspace(-1, 1, 100)}
    with wb.Session() as session:
        for fetches, fed in ((z, feed), ([slope, y], feed), (wb.gradients(z, y)[0], {**feed, y: np.ones(100)})):
            assert session.explain(fetches, fed).memory[0].swapped == 0
            session.run(fetches, fed)


def test_gradients_of_gradients_and_crossing_readers():
    """Many values, each read by several gradients: none waits for one that waits for it."""
    def third(around):
        with wb.Graph().as_default():
            x = wb.placeholder("float64", [50])
            function = around(lambda x: wb.sin(wb.square(x)) * wb.exp(wb.cos(x) * x) + wb.tanh(x) / (2.0 + wb.square(x)))
            found = [function(function(x))]
            for _ in range(2):
                found += around(wb.gradients)(found[-1], x)
            with wb.Session(disabled_passes=["fuse"], kernels=KernelOptions(libraries=())) as session:
                return session.run(found[1:], {x: np.linspace(0.1, 0.9, 50)})
    for one, two in zip(third(lambda function: function), third(wb.swap), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("lower_all", [False, True])
def test_loops_and_branches_keep_their_values(lower_all):
    def sloped(around):
        with wb.Graph().as_default():
            x = wb.placeholder("float64", [10])
            h = around(wb.sin)(x)
            h = wb.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, around(wb.exp)(wb.sin(h))), [0, h])[1]
            h = wb.cond(wb.reduce_sum(h) > 0, lambda: around(wb.tanh)(h), lambda: h)
            with wb.Session(lower_all=lower_all) as session:
                return session.run(wb.gradients(wb.square(h), x)[0], {x: np.linspace(0, 1, 10)})
    np.testing.assert_allclose(sloped(wb.swap), sloped(lambda function: function), rtol=1e-13)


def test_a_file_that_is_full_fails_the_step_alone_and_is_used_again(monkeypatch):
    monkeypatch.setattr(settings, "swap_bytes", 1 << 20)
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [None, 64])
        y = wb.swap(lambda h: wb.sin(wb.exp(h)))(x)
        slope = wb.gradients(wb.reduce_sum(wb.square(y)), x)[0]
        with Session() as session:
            with pytest.raises(errors.ResourceExhaustedError, match=r"swap: \d+ bytes of \S+ are needed but \d+ of the 1048576 "
                               "bytes of the file are taken; raise WB_SWAP_BYTES, or swap less"):
                session.run(slope, {x: np.ones([8192, 64])})
            sizes = set()
            for _ in range(5):
                session.run(slope, {x: np.ones([512, 64])})
                file = session.backend.container.of(SwapFile)["swap file"]
                sizes.add(file.size)
            assert len(sizes) == 1


def test_a_value_may_be_collected_while_another_is_given_its_place(tmp_path):
    """The interpreter collects whenever it likes, also inside of the file's lock."""
    file = SwapFile(tmp_path, 1 << 20)
    array = np.ones(1024, np.float32)
    held = [file.write(array, "one"), file.write(array, "two")]

    def collect():
        with file._lock:
            held.clear()
    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    both = file.write(np.arange(2048, dtype=np.float32), "both")
    assert (both.start, file.size) == (0, 8192) and both.read()[-1] == 2047
    file.close()


def test_the_file_has_no_name_and_is_gone_when_the_session_is(folder):
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [64])
        slope = wb.gradients(wb.square(wb.swap(wb.sin)(x)), x)
        before = len(files())
        with Session() as session:
            session.run(slope, {x: np.ones(64)})
            assert len(files()) == before + 1 and os.listdir(folder) == []
        assert len(files()) == before


def test_a_process_that_is_killed_leaves_nothing(folder):
    script = """
        import signal, numpy as np, workbench as wb
        x = wb.placeholder("float32", [64])
        slope = wb.gradients(wb.square(wb.swap(wb.sin)(x)), x)
        session = wb.Session()
        session.run(slope, {x: np.ones(64)})
        print("ready", flush=True)
        signal.pause()
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "WB_SWAP": str(folder)}) as process:
        assert process.stdout.readline() == "ready\n"
        assert any(str(folder) in path for path in files(process.pid))
        process.send_signal(signal.SIGKILL)
    assert os.listdir(folder) == []


def test_parts_of_the_file_are_joined_and_used_again(folder):
    file = SwapFile(folder, 1 << 20)
    arrays = [np.frombuffer(np.random.default_rng(i).bytes(n), "u1").view(kind) for i, (n, kind) in enumerate(
        [(8000, "f4"), (80, "f8"), (5000, "u1"), (12, "i4")])]
    held = [file.write(array, "mine") for array in [*arrays, np.zeros((0, 3)), np.array(2.5)]]
    for array, one in zip(arrays, held):
        assert one.read().tobytes() == array.tobytes() and one.read().dtype == array.dtype
    assert held[4].read().shape == (0, 3) and held[5].read() == 2.5
    size = file.size
    del one
    held.pop(1), held.pop(0)
    assert file.write(np.zeros(12000, "u1"), "mine").start == 0      # where both were
    held.clear()
    whole = file.write(np.zeros(size, "u1"), "mine")
    assert (whole.start, file.size) == (0, size)
    file.close()


def test_a_folder_that_cannot_be_written_is_named(folder):
    with pytest.raises(errors.FailedPreconditionError, match=r"there can be no file in .*absent .*; set WB_SWAP to a folder"):
        SwapFile(folder / "absent", 1)


def test_what_is_neither_function_nor_scope(graph):
    with pytest.raises(errors.NotFoundError, match="swap: no operation in the scope 'none'"):
        wb.swap("none")
    with pytest.raises(errors.InvalidArgumentError, match="swap: 3 is of int; pass a function, or a scope of names"):
        wb.swap(3)
